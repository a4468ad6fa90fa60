// SPDX-License-Identifier: Apache-2.0
// The environment report: its sections and lines, and that it explains what is missing or wrong.
#include "tests/support/catch.h"

#include <tenon/memory/env_report.h>
#include <tenon/streams/availability.h>
#include <tenon/version.h>

#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

using namespace tenon;
using tenon::testing::contains;

namespace {
// Every line with values that differ between machines cut off.
std::vector<std::string> skeleton(const std::string& report) {
  std::vector<std::string> lines;
  std::istringstream in(report);
  for (std::string line; std::getline(in, line);) {
    if (std::regex_search(line, std::regex("^  (reason|remedy|needs driver|kernel module|cuda:\\d+): "))) continue;
    lines.push_back(line.substr(0, line.find(':')));
  }
  return lines;
}
}  // namespace

TEST_CASE("the environment report has these sections and lines on every machine", "[env_report]") {
  const std::vector<std::string> expected = {"tenon " TENON_VERSION,
                                             "  compiler",
                                             "  build",
                                             "",
                                             "CPU",
                                             "  model",
                                             "  SIMD",
                                             "  threads",
                                             "  memory",
                                             "  huge pages",
                                             "",
                                             "CUDA",
                                             "  status",
                                             "  driver",
                                             "  runtime",
                                             "  architectures",
                                             "  devices",
                                             "",
                                             "Libraries",
                                             "  cuBLASLt",
                                             "  cuDNN",
                                             "  NCCL",
                                             "  NVRTC",
                                             "  CUPTI",
                                             "  oneDNN",
                                             "  OpenBLAS",
                                             "",
                                             "Allocator",
                                             "  settings",
                                             "",
                                             "Environment",
                                             "  CUDA_VISIBLE_DEVICES",
                                             "  CUDA_LAUNCH_BLOCKING",
                                             "  CUDA_MODULE_LOADING",
                                             "  TENON_ALLOC_CONF",
                                             "  TENON_NUM_THREADS",
                                             "  OMP_NUM_THREADS",
                                             "  OPENBLAS_CORETYPE",
                                             "  OPENBLAS_NUM_THREADS",
                                             "  LD_LIBRARY_PATH",
                                             "  NCCL_DEBUG"};
  const std::string report = env_report();
  INFO(report);
  CHECK(skeleton(report) == expected);
}

TEST_CASE("the report gives the reason and the remedy when CUDA is unavailable", "[env_report]") {
  const auto a = cuda::availability();
  const std::string report = env_report();
  CHECK(contains(report, std::string("  status: ") + cuda::name(a.status) + "\n"));
  if (a.status == cuda::CudaStatus::available) {
    CHECK_FALSE(contains(report, "  remedy: "));
    CHECK(contains(report, "  cuda:0: "));
  } else {
    CHECK(contains(report, "  reason: " + a.reason));
    CHECK(contains(report, "  remedy: " + a.remedy));
  }
}

TEST_CASE("the report shows variables as they are", "[env_report]") {
  const char* old = std::getenv("NCCL_DEBUG");
  const std::string saved = old ? old : "";
  setenv("NCCL_DEBUG", "INFO", 1);
  CHECK(contains(env_report(), "  NCCL_DEBUG: INFO\n"));
  setenv("NCCL_DEBUG", "", 1);
  CHECK(contains(env_report(), "  NCCL_DEBUG: empty\n"));
  unsetenv("NCCL_DEBUG");
  CHECK(contains(env_report(), "  NCCL_DEBUG: not set\n"));
  if (old) setenv("NCCL_DEBUG", saved.c_str(), 1);
}

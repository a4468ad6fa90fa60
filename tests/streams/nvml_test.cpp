// SPDX-License-Identifier: Apache-2.0
// The cards' state from the driver's management library: absent, and a made one. The library is opened once per process,
// so each case has a process of its own.
#include "tests/support/catch.h"

#include <tenon/memory/env_report.h>
#include <tenon/streams/availability.h>
#include <tenon/streams/nvml.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

using namespace tenon;
using tenon::testing::contains;

namespace {
std::filesystem::path program() { return std::filesystem::read_symlink("/proc/self/exe"); }

// Runs a hidden test of this program with TENON_NVML set.
bool passes(const std::string& library, const std::string& test) {
  const std::string command = "TENON_NVML='" + library + "' '" + program().string() + "' '" + test + "' >/dev/null";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
}  // namespace

TEST_CASE("nvml absent (child)", "[.][nvml_absent]") {
  const cuda::NvmlSnapshot s = cuda::nvml_snapshot();
  CHECK_FALSE(s.available);
  CHECK(contains(s.reason, "/nowhere/libnvidia-ml.so.1"));
  CHECK(s.devices.empty());
  CHECK(contains(env_report(), "NVML: unknown ("));
}
TEST_CASE("nvml made (child)", "[.][nvml_made]") {
  const cuda::NvmlSnapshot s = cuda::nvml_snapshot();
  CHECK(s.available);
  CHECK(s.driver == "580.65.06");
  REQUIRE(s.devices.size() == 2);
  const cuda::NvmlDevice& d = s.devices[0];
  CHECK(d.name == "Card 0");
  CHECK(d.pci_bus_id == "00000000:3B:00.0");
  CHECK(d.gpu_percent == 62);
  CHECK(d.memory_percent == 17);
  CHECK(d.temperature == 41);
  CHECK(d.memory_used == int64_t{10240} << 20);
  CHECK(d.power_watts > 312.3);
  CHECK(d.power_watts < 312.5);
  CHECK(d.sm_clock_mhz == 1755);
  CHECK(d.memory_clock_mhz == 2619);
  CHECK(d.throttle_reasons == 0x44);
  CHECK(d.throttling == "software power cap, hardware thermal slowdown");
  CHECK(cuda::nvml_line(d) ==
        "62 %, 41 C, 10240 of 81559 MiB, 312 of 700 W, 1755 of 1980 MHz, throttled by: software power cap, hardware "
        "thermal slowdown");
  const cuda::NvmlDevice& lost = s.devices[1];
  CHECK(lost.name == "Card 1");
  CHECK(lost.pci_bus_id.empty());
  CHECK(lost.temperature == -1);
  CHECK(lost.memory_used == -1);
  CHECK(cuda::nvml_line(lost) == "? %, ? C, ? of ? MiB, ? of ? W, ? of ? MHz, throttled by: ?");
  CHECK(contains(env_report(), "card 0: Card 0 at 00000000:3B:00.0, 62 %"));
}

TEST_CASE("without the management library everything is unknown, with the reason", "[nvml]") {
  CHECK(passes("/nowhere/libnvidia-ml.so.1", "[nvml_absent]"));
}
TEST_CASE("what the management library tells, and what a card does not", "[nvml]") {
  for (const char* folder : {"../lib", "lib", "../bin/lib"}) {
    const auto path = program().parent_path() / folder / "libtenon_fake_nvml.so";
    if (std::filesystem::exists(path)) {
      CHECK(passes(path.string(), "[nvml_made]"));
      return;
    }
  }
  FAIL("libtenon_fake_nvml.so is not beside the tests");
}
TEST_CASE("the management library of this machine", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const cuda::NvmlSnapshot s = cuda::nvml_snapshot();
  if (!s.available) TENON_SKIP(s.reason.c_str());
  REQUIRE(!s.devices.empty());
  CHECK(s.devices[0].memory_total > 0);
  CHECK(s.devices[0].temperature > 0);
}

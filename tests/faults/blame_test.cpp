// SPDX-License-Identifier: Apache-2.0
// Twenty faulty kernels on the GPU, each in a process of its own: blame mode names the operator, later calls quote it.
#include <tenon/streams/availability.h>

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/support/catch.h"

using tenon::testing::contains;

namespace {

std::string output_of(const std::string& argument, int& status) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "planted_kernels";
  const std::string command = "timeout 60 '" + program.string() + "' " + argument + " 2>&1";
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return text;
  for (char buffer[512]; std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe);) text.append(buffer, n);
  status = pclose(pipe);
  return text;
}

}  // namespace

TEST_CASE("blame on the GPU: the operator of at least 19 of 20 planted faults is named", "[cuda][fork][blame]") {
  TENON_REQUIRE_CUDA();
  int named = 0, faults = 0, quoted = 0;
  for (int number = 0; number < 20; ++number) {
    int status = -1;
    const std::string text = output_of(std::to_string(number), status);
    CAPTURE(number, text);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    CHECK_FALSE(contains(text, "op none"));  // the kernel did fault
    ++faults;
    const bool good = contains(text, "op planted\n");
    named += good;
    quoted += contains(text, "later planted\n");
    if (!good) std::printf("planted %d:\n%s\n", number, text.c_str());
    if (number == 19) CHECK(contains(text, "planted: a value must be above 64, got "));
  }
  std::printf("%d of %d planted faults named, %d quoted by the next call\n", named, faults, quoted);
  CHECK(named >= 19);
  CHECK(quoted >= 19);
}

TEST_CASE("blame on the GPU: what the ring and fences cost a launch", "[cuda][fork][blame]") {
  TENON_REQUIRE_CUDA();
  int status = -1;
  const std::string text = output_of("cost", status);
  std::printf("%s", text.c_str());
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

// SPDX-License-Identifier: Apache-2.0
// Many random programs in many orders: the allocator against its oracle, and tensors against the CPU.
#include <tenon/streams/availability.h>

#include "tests/sim/allocator_program.h"
#include "tests/sim/faulty_streams.h"
#include "tests/sim/tensor_program.h"
#include "tests/support/catch.h"

using namespace tenon::testing;

#ifdef __SANITIZE_ADDRESS__
// Events that a planted bug lost are no finding of LeakSanitizer's.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:tenon::testing::FaultyStreams\n";
}
#endif

TEST_CASE("sim schedules: the allocator keeps its promises", "[schedules]") {
  tenon::sim::configure({.devices = 1});
  const std::string found = first_violation<AllocatorProgram>(
      "sim_tests \"sim schedules: the allocator keeps its promises\"", uint64_t{seed()} << 20, 60000);
  INFO(found);
  CHECK(found.empty());
}

TEST_CASE("sim schedules: bugs of the streams, and mistakes of the program, show in tensors", "[schedules]") {
  tenon::sim::configure({.devices = 1, .memory_bytes = 34 << 20});
  const auto expect_found = [](const char* text) {
    uint64_t at = 0;
    const std::string found = first_violation<TensorProgram>("sim_tests", 1, 20000, &at);
    std::printf("%-60s %s\n", text, found.substr(0, found.find('\n')).c_str());
    CAPTURE(text);
    CHECK(!found.empty());
  };
  for (const StreamBugName& b : kStreamBugs) {
    // Shows in the simulated device's own pinned memory, which CUDA's replaces where there is a GPU.
    if (b.bug == StreamBug::stream_wait_returns && tenon::cuda::is_available()) continue;
    const FaultyStreams faulty(b.bug);
    expect_found(b.text);
  }
  TensorProgram::forget_record_stream = true;
  expect_found("the program forgets record_stream");
  TensorProgram::forget_record_stream = false;
  TensorProgram::forget_to_wait = true;
  expect_found("the program forgets to wait for another stream");
  TensorProgram::forget_to_wait = false;
  const FaultyStreams none(StreamBug::none);
  uint64_t at = 0;
  CHECK(first_violation<TensorProgram>("sim_tests", 1, 5000, &at) == "");
}

TEST_CASE("sim schedules: tensors equal the CPU's", "[schedules]") {
  tenon::sim::configure({.devices = 1, .memory_bytes = 34 << 20});
  const std::string found = first_violation<TensorProgram>("sim_tests \"sim schedules: tensors equal the CPU's\"",
                                                           uint64_t{seed()} << 20, 60000);
  INFO(found);
  CHECK(found.empty());
  tenon::sim::configure({});
}

// SPDX-License-Identifier: Apache-2.0
// Many random programs in many orders: the allocator against its oracle, and tensors against the CPU.
#include "tests/sim/allocator_program.h"
#include "tests/sim/tensor_program.h"
#include "tests/support/catch.h"

using namespace tenon::testing;

TEST_CASE("sim schedules: the allocator keeps its promises", "[schedules]") {
  tenon::sim::configure({.devices = 1});
  const std::string found = first_violation<AllocatorProgram>(
      "sim_tests \"sim schedules: the allocator keeps its promises\"", uint64_t{seed()} << 20, 60000);
  INFO(found);
  CHECK(found.empty());
}

TEST_CASE("sim schedules: tensors equal the CPU's", "[schedules]") {
  tenon::sim::configure({.devices = 1, .memory_bytes = 34 << 20});
  const std::string found = first_violation<TensorProgram>("sim_tests \"sim schedules: tensors equal the CPU's\"",
                                                           uint64_t{seed()} << 20, 60000);
  INFO(found);
  CHECK(found.empty());
  tenon::sim::configure({});
}

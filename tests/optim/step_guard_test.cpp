// SPDX-License-Identifier: Apache-2.0
// StepGuard on the simulated device, whose launches and waits are countable by hand, and on a GPU.
#include <tenon/autograd/autograd.h>
#include <tenon/memory/allocator.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/optim/optim.h>
#include <tenon/optim/step_guard.h>
#include <tenon/streams/sim.h>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
void check_guard(Device device) {
  Tensor w = ones({1000}, TensorOptions(device)).requires_grad_();
  optim::SGD optimizer({w}, {.lr = 0.5, .momentum = 0.5});
  const auto step = [&] {
    optimizer.zero_grad();
    (w * w).sum().backward();
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) step();  // warm: memory and state are there
  optim::StepGuard guard({.max_syncs = 0, .max_allocs = 0, .max_kernels = 20, .max_peak = 64 * 1024}, device);
  step();
  const optim::StepCosts costs = guard.costs();
  CHECK(costs.syncs == 0);
  CHECK(costs.kernels > 0);
  CHECK(costs.peak > 0);
  CHECK_NOTHROW(guard.check());
  // One more wait, one more segment, many more launches, much more memory: each is named.
  w.detach()[0].item<float>();
  CHECK(contains(error_of<optim::BudgetError>([&] { guard.check(); }), "1 waits for a device, at most 0 allowed"));
  CHECK_NOTHROW(guard.check());
  const Tensor large = empty({3, 1024, 1024, 32}, TensorOptions(device));
  const std::string text = error_of<optim::BudgetError>([&] { guard.check(); });
  CHECK(contains(text, "1 segments of memory asked for"));
  CHECK(contains(text, "bytes at the peak"));
  CHECK(!contains(text, "kernels"));
  for (int i = 0; i < 30; ++i) w.detach().add_(1);
  CHECK(contains(error_of<optim::BudgetError>([&] { guard.check(); }), "30 kernels launched, at most 20"));
}
}  // namespace

TEST_CASE("StepGuard counts what a step costs, on the simulated device") {
  sim::configure({.devices = 1, .seed = tenon::testing::seed()});
  if (contains(memory::allocator_settings(), "backend:direct"))
    return tenon::testing::note_skip("memory is not cached");
  check_guard(Device(kSim, 0));
}
TEST_CASE("StepGuard counts what a step costs, on a GPU", "[cuda]") {
  TENON_REQUIRE_CUDA();
  check_guard(Device(kCUDA, 0));
}

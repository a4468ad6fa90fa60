// SPDX-License-Identifier: Apache-2.0
// A throwing operator frees what it made: every allocation and every launch of operators and of a training step is made
// to fail once, on the simulated device with exact blocks, so that each allocation asks the device.
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace tenon;

namespace {

struct Work {
  const char* name;
  std::function<Tensor(const Tensor& a, const Tensor& b)> run;
};

// Makes call after call of one kind fail until the work gets through; returns the number of faults.
int every_fault(sim::CallKind kind, const std::function<void()>& work, std::string& problem) {
  const Device sim(kSim, 0);
  synchronize(sim);
  const int64_t before = memory::memory_allocated(sim);
  for (int n = 1; n < 500; ++n) {
    sim::clear_faults();
    // A device that is full stays full: the ladder's retries fail, too.
    sim::fail(kind, n, kind == sim::CallKind::allocate ? 3 : 1);
    bool thrown = false;
    try {
      work();
      synchronize(sim);
    } catch (const Error&) {
      thrown = true;
    }
    const int64_t faults = sim::counters().faults;
    sim::clear_faults();
    try {
      synchronize(sim);
    } catch (const Error&) {  // an error that surfaces late
    }
    if (const int64_t now = memory::memory_allocated(sim); now != before) {
      problem = "fault " + std::to_string(n) + " leaves " + std::to_string(now - before) + " bytes behind";
      return n;
    }
    if (!thrown) return faults > 0 ? n : n - 1;
  }
  problem = "the work never gets through";
  return 500;
}

}  // namespace

TEST_CASE("faults: an operator that fails at any allocation or launch leaves nothing behind, and works again") {
  const std::string settings = memory::allocator_settings();
  memory::set_allocator_settings("backend:direct");
  {
    const TensorOptions on = TensorOptions(Device(kSim, 0));
    const Tensor a = ones({6, 6}, on), b = full({6, 6}, 2.0, on);
    const Work works[] = {
        {"add", [](const Tensor& x, const Tensor& y) { return x + y; }},
        {"mul strided", [](const Tensor& x, const Tensor& y) { return x.t() * y.select(0, 1); }},
        {"matmul", [](const Tensor& x, const Tensor& y) { return x.matmul(y); }},
        {"sum", [](const Tensor& x, const Tensor&) { return x.sum(); }},
        {"mean over a dimension", [](const Tensor& x, const Tensor&) { return x.mean({1}); }},
        {"softmax", [](const Tensor& x, const Tensor&) { return x.softmax(1); }},
        {"contiguous", [](const Tensor& x, const Tensor&) { return x.t().contiguous(); }},
        {"cat",
         [](const Tensor& x, const Tensor& y) {
           return cat({x, y}, 0);
         }},
        {"to another dtype", [](const Tensor& x, const Tensor&) { return x.to(kFloat64); }},
        {"chain", [](const Tensor& x, const Tensor& y) { return ((x * y).exp() + 1.0).log().matmul(y).sum(); }},
    };
    for (const Work& work : works) {
      CAPTURE(work.name);
      for (const sim::CallKind kind : {sim::CallKind::allocate, sim::CallKind::launch}) {
        std::string problem;
        const int faults = every_fault(
            kind, [&] { work.run(a, b); }, problem);
        CHECK(problem == "");
        CHECK(faults > 0);
      }
    }
  }
  memory::set_allocator_settings(settings);
}

TEST_CASE("faults: a training step that fails anywhere leaves nothing behind") {
  const std::string settings = memory::allocator_settings();
  memory::set_allocator_settings("backend:direct");
  {
    const TensorOptions on = TensorOptions(Device(kSim, 0));
    Tensor w1 = full({5, 8}, 0.1, on), w2 = full({8, 2}, 0.2, on);
    const Tensor x = ones({4, 5}, on), y = zeros({4, 2}, on);
    w1.requires_grad_();
    w2.requires_grad_();
    const auto step = [&] {
      struct Clear {  // what the step has accumulated is the program's, not the failing operator's
        Tensor &a, &b;
        ~Clear() {
          a.set_grad({});
          b.set_grad({});
        }
      } clear{w1, w2};
      const Tensor error = x.matmul(w1).relu().matmul(w2) - y;
      (error * error).mean().backward();
    };
    for (const sim::CallKind kind : {sim::CallKind::allocate, sim::CallKind::launch}) {
      std::string problem;
      const int faults = every_fault(kind, step, problem);
      CHECK(problem == "");
      CHECK(faults > 5);
    }
  }
  memory::set_allocator_settings(settings);
}

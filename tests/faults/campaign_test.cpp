// SPDX-License-Identifier: Apache-2.0
// The campaign: in a program that uses streams, events, copies, callbacks, autograd and exclusive streams, every call to
// the device fails once, of each kind and of any, under several schedules; kernels break the device one after the other.
// Each time the error has a type, the memory is back, and the same program then gives what it gave before.
#include <tenon/streams/failure.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <cmath>
#include <optional>
#include <string>

#include "tests/support/catch.h"

using namespace tenon;

namespace {

const Device kSim0(kSim, 0), kSim1(kSim, 1);

struct Exclusive {
  Stream stream = Stream::create_exclusive(0, kSim0);
  ~Exclusive() {
    try {
      Stream::destroy_exclusive(stream);
    } catch (const Error&) {  // what the stream's work left: told elsewhere, too
    }
  }
};

// One number out of a bit of everything.
double program() {
  const TensorOptions on(kSim0);
  Tensor w = full({4, 4}, 0.25, on);
  w.requires_grad_();
  const Tensor host = full({4, 4}, 2.0);
  const Tensor x = host.to(kSim0);
  const Stream side = Stream::from_pool(0, kSim0);
  Event ready;
  ready.record(current_stream(kSim0));
  ready.wait(side);
  Tensor y;
  {
    const StreamGuard guard(side);
    y = x.matmul(x.add(1)).relu();
    x.record_stream(side);
  }
  current_stream(kSim0).wait_stream(side);
  y.record_stream(current_stream(kSim0));
  bool called = false;
  side.add_callback([&called] { called = true; });
  struct Wait {  // the callback's reference must not outlive it
    const Stream& stream;
    ~Wait() {
      try {
        stream.synchronize();
      } catch (const Error&) {
      }
    }
  } wait{side};
  {
    const Exclusive own;
    const StreamGuard guard(own.stream);
    own.stream.wait_stream(side);
    Tensor z = y.sum({0});
    own.stream.synchronize();
  }
  const Tensor there = y.to(kSim1);
  const Tensor loss = (x.matmul(w) - 1).mul(y).mean();
  loss.backward();
  double result = loss.item<float>() + w.grad().sum().item<float>() + there.cpu().max().item<float>();
  side.synchronize();
  (void)side.query();
  result += called ? 1 : 1000;
  synchronize(kSim0);
  synchronize(kSim1);
  return result;
}

sim::Options options(uint64_t seed, sim::Schedule schedule) {
  return {.devices = 2, .seed = seed, .schedule = schedule};
}

// What is wrong after a failure; empty: nothing. The devices start anew, which they only do without tensors.
std::string wrong_after(const sim::Options& o, double expected) {
  sim::clear_faults();
  for (const Device d : {kSim0, kSim1}) {
    if (const int64_t bytes = memory::memory_allocated(d); bytes != 0)
      return std::to_string(bytes) + " bytes of " + d.str() + " are left";
  }
  try {
    sim::configure(o);
    if (const double again = program(); again != expected) return "another result: " + std::to_string(again);
  } catch (const Error& e) {
    return std::string("does not run again: ") + e.what();
  }
  return {};
}

// Runs the program with what `plant` plants; 1: an error of a type for it came out, 0: it went through.
int attempt(const sim::Options& o, Function<void()> plant, double expected, std::string& problem) {
  sim::configure(o);
  plant();
  try {
    if (const double got = program(); got != expected) problem = "a wrong result without an error";
    return 0;
  } catch (const CudaError&) {
    return 1;
  } catch (const OutOfMemoryError&) {
    return 1;
  } catch (const std::exception& e) {
    problem = std::string("an error without a type of its own: ") + e.what();
    return 1;
  }
}

}  // namespace

TEST_CASE("campaign: every call of every kind fails once, with a typed error, and everything is back", "[faults]") {
  const std::string settings = memory::allocator_settings();
  memory::set_allocator_settings("backend:direct");
  int faults = 0, typed = 0;
  for (const sim::Schedule schedule : {sim::Schedule::eager, sim::Schedule::lazy, sim::Schedule::seeded}) {
    const sim::Options o = options(tenon::testing::seed(), schedule);
    sim::configure(o);
    const double expected = program();
    const sim::Counters plain = sim::counters();
    for (int kind = 0; kind < sim::kCallKinds; ++kind) {
      const auto which = static_cast<sim::CallKind>(kind);
      if (which == sim::CallKind::release) continue;
      for (int64_t n = 1; n <= plain.calls[kind]; ++n) {
        std::string problem;
        // A device that is full stays so: the ladder's retries fail, too.
        const int64_t count = which == sim::CallKind::allocate ? 3 : 1;
        typed += attempt(
            o, [&] { sim::fail(which, n, count); }, expected, problem);
        ++faults;
        if (problem.empty()) problem = wrong_after(o, expected);
        if (!problem.empty()) {
          CAPTURE(sim::name(which), n, static_cast<int>(schedule));
          CHECK(problem == "");
        }
      }
    }
  }
  CAPTURE(faults, typed);
  CHECK(faults > 150);
  CHECK(typed >= faults / 2);  // the others hit calls of the library's own that have a second way
  sim::configure({});
  memory::set_allocator_settings(settings);
}

TEST_CASE("campaign: whichever kernel breaks the device, one first cause is told, and it can start anew", "[faults]") {
  const std::string settings = memory::allocator_settings();
  memory::set_allocator_settings("backend:caching");
  for (const sim::Schedule schedule : {sim::Schedule::eager, sim::Schedule::lazy, sim::Schedule::seeded}) {
    const sim::Options o = options(tenon::testing::seed() + 1, schedule);
    sim::configure(o);
    const double expected = program();
    const int64_t kernels = sim::counters().calls[static_cast<int>(sim::CallKind::launch)];
    REQUIRE(kernels > 10);
    for (int64_t n = 1; n <= kernels; ++n) {
      CAPTURE(n, static_cast<int>(schedule));
      std::string problem;
      CHECK(attempt(
                o, [&] { sim::fault_kernel(n); }, expected, problem) == 1);
      CHECK((!device_failure(kSim0).empty() || !device_failure(kSim1).empty()));
      if (problem.empty()) problem = wrong_after(o, expected);
      CHECK(problem == "");
    }
  }
  sim::configure({});
  memory::set_allocator_settings(settings);
}

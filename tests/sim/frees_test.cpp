// SPDX-License-Identifier: Apache-2.0
// Giving memory back while work on it is queued: poisoned blocks, waiting that leaves errors where they are, frees inside
// callbacks and kernels, frees that cannot be waited for.
#include <tenon/memory/allocator.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <stdexcept>

#include "tests/support/catch.h"

using namespace tenon;

namespace {

const Device kSim0(kSim, 0);

// Settings for a scope.
struct Settings {
  explicit Settings(const char* conf) : before(memory::allocator_settings()) { memory::set_allocator_settings(conf); }
  ~Settings() { memory::set_allocator_settings(before); }
  std::string before;
};

}  // namespace

TEST_CASE("sim frees: poison goes behind the kernels that still read the block") {
  const Settings settings("poison_free:True");
  for (const auto schedule : {sim::Schedule::lazy, sim::Schedule::seeded, sim::Schedule::eager}) {
    for (uint64_t s = 0; s < 30; ++s) {
      const uint64_t seed = s + tenon::testing::seed();
      CAPTURE(seed);
      sim::configure({.devices = 1, .seed = seed, .schedule = schedule});
      Tensor x = ones({1000}, device(kSim0));
      const auto* at = static_cast<const unsigned char*>(x.data_ptr());
      const Tensor y = x.mul(2);
      x = Tensor();
      CHECK(y.sum().item<float>() == 2000.0f);
      synchronize(kSim0);
      CHECK(int{*at} == 0xDB);  // nobody has it yet, and whoever read it now would notice
    }
  }
}

TEST_CASE("sim frees: waiting for memory leaves the errors of queued work to the next wait") {
  for (const char* conf : {"backend:caching", "backend:direct"}) {
    CAPTURE(conf);
    const Settings settings(conf);
    sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
    {  // of a kernel
      Tensor x = ones({4, 4}, device(kSim0)), i = full({2}, 9, device(kSim0).dtype(kInt64));
      Tensor y = index_select(x, 0, i);
      x = i = y = Tensor();
      CHECK_THROWS_AS(synchronize(kSim0), IndexError);
      CHECK_NOTHROW(synchronize(kSim0));
    }
    {  // of a callback
      current_stream(kSim0).add_callback([] { throw std::runtime_error("mine"); });
      Tensor x = ones({4}, device(kSim0));
      x = Tensor();
      CHECK_THROWS_AS(synchronize(kSim0), std::runtime_error);
    }
    {  // of a stream whose event cannot be recorded
      const Stream side = Stream::from_pool(0, kSim0);
      Tensor x = empty({100}, device(kSim0));
      x.record_stream(side);
      raw_streams(kSim).launch(0, side.handle(), "bad", [] { throw IndexError("bad"); });
      sim::fail(sim::CallKind::record_event);
      x = Tensor();
      sim::clear_faults();
      CHECK_THROWS_AS(synchronize(kSim0), IndexError);
    }
    CHECK(memory::memory_allocated(kSim0) == 0);
  }
}

TEST_CASE("sim frees: a block freed in a host callback waits for the streams that use it") {
  for (const char* conf : {"backend:caching", "backend:direct"}) {
    const Settings settings(conf);
    for (uint64_t s = 0; s < 60; ++s) {
      const uint64_t seed = s + tenon::testing::seed();
      CAPTURE(conf, seed);
      sim::configure({.devices = 1, .seed = seed});
      const Stream side = Stream::from_pool(0, kSim0), other = Stream::from_pool(0, kSim0);
      Tensor batch = ones({1000}, device(kSim0)), sum;
      side.wait_stream(current_stream(kSim0));
      {
        const StreamGuard guard(side);
        sum = batch.mul(2).sum();
      }
      batch.record_stream(side);
      other.add_callback([b = std::move(batch)]() mutable { b = Tensor(); });
      for (int i = 0; i < 6; ++i) full({1000}, 100.0, device(kSim0));
      current_stream(kSim0).wait_stream(side);
      sum.record_stream(current_stream(kSim0));
      CHECK(sum.item<float>() == 2000.0f);
      synchronize(kSim0);
      sum = Tensor();
      memory::empty_cache(kSim0);
      CHECK(memory::memory_stats(kSim0).active == 0);
      CHECK(memory::memory_reserved(kSim0) == 0);
    }
  }
}

TEST_CASE("sim frees: a block whose streams can be neither marked nor waited for is kept until they can") {
  for (const char* conf : {"backend:caching", "backend:direct"}) {
    CAPTURE(conf);
    const Settings settings(conf);
    sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
    const Stream side = Stream::from_pool(0, kSim0);
    Tensor batch = ones({1000}, device(kSim0)), sum;
    const void* const at = batch.data_ptr();
    side.wait_stream(current_stream(kSim0));
    {
      const StreamGuard guard(side);
      sum = batch.mul(2).sum();
    }
    batch.record_stream(side);
    const int64_t before = memory::memory_stats(kSim0).active;
    sim::fail_any(1, 100);
    batch = Tensor();
    sim::fail_any(1, 100);
    CHECK(memory::memory_stats(kSim0).active == before);
    sim::clear_faults();
    CHECK(memory::memory_stats(kSim0).allocated < before);
    sim::fail(sim::CallKind::record_event, 1, 100);
    sim::fail(sim::CallKind::synchronize, 1, 100);
    const Tensor next = full({1000}, 100.0, device(kSim0));  // tries again, in vain
    CHECK(next.data_ptr() != at);
    sim::clear_faults();
    current_stream(kSim0).wait_stream(side);
    sum.record_stream(current_stream(kSim0));
    CHECK(sum.item<float>() == 2000.0f);
    memory::empty_cache(kSim0);
    const auto stats = memory::memory_stats(kSim0);
    CHECK(stats.active == stats.allocated);
  }
}

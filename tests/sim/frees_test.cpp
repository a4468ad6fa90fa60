// SPDX-License-Identifier: Apache-2.0
// Giving memory back while work on it is queued: poisoned blocks, waiting that leaves errors where they are, frees inside
// callbacks and kernels, frees that cannot be waited for.
#include <tenon/dispatch/kernel_call.h>
#include <tenon/memory/allocator.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

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

int64_t thousandfold(const Tensor& t) { return t.numel() * 1000; }

// With arguments that are gone when it returns.
template <class K>
int64_t call(const K& kernel) {
  const Tensor x = ones({4}, device(kSim0));
  return kernel(x);
}

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

TEST_CASE("sim frees: a kernel whose caller did not wait to the end owns all it needs") {
  sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
  const dispatch::KernelCall<int64_t(const Tensor&)> kernel(reinterpret_cast<dispatch::AnyFunction>(&thousandfold),
                                                            Backend::sim);
  CHECK(call(kernel) == 4000);
  sim::fail(sim::CallKind::synchronize);
  CHECK_THROWS_AS(call(kernel), CudaError);
  CHECK_NOTHROW(synchronize(kSim0));  // under AddressSanitizer it would show
  CHECK(call(kernel) == 4000);
}

TEST_CASE("sim frees: callbacks may use host memory, and get an error where a device would have to give memory") {
  sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
  empty({5 << 20}, device(kSim0));  // cached
  bool ran = false;
  current_stream(kSim0).add_callback([&ran] {
    CHECK_THROWS_AS(memory::allocate(kSim0, 50 << 20), DeviceError);
    CHECK_THROWS_AS(memory::empty_cache(kSim0), DeviceError);
    memory::memory_stats(kSim0);
    const auto p = memory::allocate(kCPU, 30 << 20);
    p.deleter(p.context);
    memory::empty_cache(kCPU);
    ran = true;
  });
  memory::empty_cache(kSim0);  // waits for the callback while it gives memory back
  CHECK(ran);
}

TEST_CASE("sim frees: thousands of callbacks that own direct blocks need no stack") {
  const Settings settings("backend:direct");
  sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
  for (int i = 0; i < 20000; ++i) {
    Tensor t = empty({1}, device(kSim0));
    current_stream(kSim0).add_callback([t = std::move(t)] {});
  }
  synchronize(kSim0);
  memory::empty_cache(kSim0);
  CHECK(memory::memory_stats(kSim0).active == 0);
}

TEST_CASE("sim frees: threads that allocate while others' callbacks free and allocate") {
  for (const char* conf : {"backend:caching", "backend:direct"}) {
    CAPTURE(conf);
    const Settings settings(conf);
    sim::configure({.devices = 1});
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) {
        const auto p = memory::allocate(kSim0, 4096), q = memory::allocate(kCPU, 64 << 20);
        p.deleter(p.context);
        q.deleter(q.context);
        memory::empty_cache(kCPU);
        memory::empty_cache(kSim0);
      }
    });
    for (int i = 0; i < 2000; ++i) {
      const auto p = memory::allocate(kSim0, 100);
      current_stream(kSim0).add_callback([p] {
        p.deleter(p.context);
        const auto q = memory::allocate(kCPU, 64 << 20);
        q.deleter(q.context);
      });
      if (i % 4 == 0) synchronize(kSim0);
    }
    stop = true;
    other.join();
    synchronize(kSim0);
    memory::empty_cache(kSim0);
    CHECK(memory::memory_stats(kSim0).active == 0);
  }
}

TEST_CASE("sim frees: a child forked while another thread is in the device can use it") {
#ifdef __SANITIZE_THREAD__
  TENON_SKIP("ThreadSanitizer follows no fork of a threaded process");
#endif
  sim::configure({.devices = 1});
  std::atomic<bool> stop{false};
  std::thread other([&] {
    const Tensor x = ones({100, 100}, device(kSim0));
    while (!stop) {
      matmul(x, x);
      synchronize(kSim0);
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      const float value = ones({4}, device(kSim0)).mul(2).sum().item<float>();
      _exit(value == 8 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  stop = true;
  other.join();
}

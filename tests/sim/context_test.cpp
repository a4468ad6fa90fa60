// SPDX-License-Identifier: Apache-2.0
// What a thread and the process hold of a device: Context, what threads leave behind, changes of the current device.
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <thread>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;

namespace {

const Device kSim0(kSim, 0), kSim1(kSim, 1);

// Everything a thread may do with a device.
void work(Device d, int i) {
  const Stream pooled = Stream::from_pool(-(i % 2), d), own = Stream::create_exclusive(0, d);
  Event timed(true, d);
  {
    const StreamGuard guard(pooled);
    Tensor x = full({256}, 0.5 * i, TensorOptions(d));
    timed.record(pooled);
    own.wait_stream(pooled);
    x.record_stream(own);
    const StreamGuard inner(own);
    Tensor y = x.mul(2).requires_grad_();
    y.mul(y).sum().backward();
    const Tensor host = y.grad().to(kCPU, true);
    own.add_callback([] {});
    own.synchronize();
  }
  Stream::destroy_exclusive(own);
}

void check_threads(Device d) {
  const auto run = [&](int threads) {
    for (int i = 0; i < threads; ++i) std::thread(work, d, i).join();
    synchronize(d);
  };
  run(4);
  const Context before = Context::of(d);
  run(100);
  const Context after = Context::of(d);
  CHECK(after.memory.allocated == before.memory.allocated);
  CHECK(after.exclusive_streams == before.exclusive_streams);
  CHECK(after.pooled_events <= before.pooled_events + 4);
  CHECK(after.pinned.allocated == before.pinned.allocated);
  CHECK(after.stream == Stream::default_stream(d));  // of this thread
  // What streams that are gone had cached goes back like any other cache.
  memory::empty_cache(d);
  CHECK(memory::memory_reserved(d) <= before.memory.reserved);
}

}  // namespace

TEST_CASE("Context shows what there is", "[context]") {
  sim::configure({.devices = 2});
  const Context before = Context::of(kSim0);
  CHECK(before.device == kSim0);
  CHECK(before.current);
  CHECK_FALSE(Context::of(kSim1).current);
  CHECK(before.stream == Stream::default_stream(kSim0));
  const Stream s = Stream::from_pool(-1, kSim0), own = Stream::create_exclusive(0, kSim0);
  const StreamGuard guard(s);
  const Tensor x = ones({1000}, device(kSim0));
  { const Event e = s.record_event(); }
  const Context c = Context::of(kSim0);
  CHECK(c.stream == s);
  CHECK(c.stream.priority() == -1);
  CHECK(c.exclusive_streams == before.exclusive_streams + 1);
  CHECK(c.pool.handouts[1][0] == before.pool.handouts[1][0] + 1);
  CHECK(c.pooled_events >= 1);
  CHECK(c.memory.allocated == 4096);
  const std::string text = c.str();
  INFO(text);
  CHECK(text.substr(0, text.find('\n')) == "sim:0 (current)");
  CHECK(contains(text, "priority -1"));
  CHECK(contains(text, "1 exclusive"));
  CHECK(contains(text, "4.00 KiB in use"));
  Stream::destroy_exclusive(own);
  CHECK(Context::of(kSim0).exclusive_streams == before.exclusive_streams);
  CHECK(Context::of(kCPU).current);
  CHECK_FALSE(Context::of(kCPU).str().empty());
}

TEST_CASE("threads leave nothing behind", "[context][threads]") {
  sim::configure({.devices = 1});
  check_threads(kSim0);
  sim::configure({});
}

TEST_CASE("the device is changed only when it differs", "[context]") {
  sim::configure({.devices = 2});
  const Tensor a = ones({8}, device(kSim0)), b = ones({8}, device(kSim1));
  const Stream s = Stream::from_pool(0, kSim0);
  set_current_device(kSim0);
  const auto changes = [](auto f) {
    const int64_t before = detail::set_device_calls();
    f();
    return detail::set_device_calls() - before;
  };
  CHECK(changes([&] {
          for (int i = 0; i < 20; ++i) a.add(1).mul(2).sum().item<float>();
          const StreamGuard guard(s);
          const DeviceGuard same(kSim0);
          a.add(1).to(kCPU, true);
          s.record_event().synchronize();
        }) == 0);
  CHECK(changes([&] { b.add(1); }) == 2);  // there and back
  const DeviceGuard guard(kSim1);
  CHECK(changes([&] {
          for (int i = 0; i < 20; ++i) b.add(1).sum().item<float>();
        }) == 0);
}

TEST_CASE("threads leave nothing behind on the GPU", "[context][threads][cuda]") {
  TENON_REQUIRE_CUDA();
  check_threads(Device(kCUDA, 0));
}

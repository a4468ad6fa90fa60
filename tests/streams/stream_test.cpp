// SPDX-License-Identifier: Apache-2.0
// Streams on the CPU and on a fake device: pools, ids, the thread's current stream, guards, waits, callbacks.
#include <tenon/streams/event.h>

#include <string>
#include <thread>

#include "tests/streams/fake_streams.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;
using tenon::testing::FakeDevice;

namespace {
const Device kSim0(kSim, 0), kSim1(kSim, 1), kSim2(kSim, 2);
}

TEST_CASE("CPU streams run inline and are always done", "[stream]") {
  const Stream s = Stream::from_pool(0, kCPU);
  CHECK(Stream().id() == 0);
  CHECK(Stream() == Stream::default_stream(kCPU));
  CHECK(s.id() != 0);
  CHECK(s.handle() == nullptr);
  int ran = 0;
  s.add_callback([&] { ++ran; });
  CHECK(ran == 1);
  CHECK(s.query());
  s.synchronize();
  s.wait_stream(Stream());
  CHECK_FALSE(s.is_capturing());
  {
    StreamGuard guard(s);
    CHECK(current_stream(kCPU) == s);
  }
  CHECK(current_stream(kCPU) == Stream());
  CHECK(current_stream(kMeta).device() == Device(kMeta));
}

TEST_CASE("the 33rd pooled stream is the first one again", "[stream]") {
  FakeDevice fake;
  std::vector<Stream> normal, high;
  for (int i = 0; i < 33; ++i) normal.push_back(Stream::from_pool(0, kSim1));
  CHECK(fake->streams_made == 32);
  for (int i = 0; i < 33; ++i) high.push_back(Stream::from_pool(-1, kSim1));
  CHECK(fake->streams_made == 64);
  CHECK(normal[32] == normal[0]);
  CHECK(normal[32].handle() == normal[0].handle());
  std::set<int32_t> ids;
  std::set<void*> handles;
  for (int i = 0; i < 32; ++i) {
    CHECK(normal[i].priority() == 0);
    CHECK(high[i].priority() == -1);
    CHECK(static_cast<testing::FakeStreams::FakeStream*>(high[i].handle())->priority == -1);
    CHECK(static_cast<testing::FakeStreams::FakeStream*>(high[i].handle())->device == 1);
    for (const Stream& s : {normal[i], high[i]}) {
      ids.insert(s.id());
      handles.insert(s.handle());
      CHECK(s.device() == kSim1);
    }
  }
  CHECK(ids.size() == 64);
  CHECK(handles.size() == 64);
  CHECK(ids.count(0) == 0);
  const StreamPoolStats stats = stream_pool_stats(kSim1);
  CHECK(stats.handouts[0][0] == 2);
  CHECK(stats.handouts[0][1] == 1);
  CHECK(stats.handouts[1][31] == 1);
  CHECK(stream_pool_stats(kSim0).handouts[0][0] == 0);
}

TEST_CASE("exclusive streams never alias and their ids are never used again", "[stream]") {
  FakeDevice fake;
  std::set<int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.insert(Stream::from_pool(0, kSim0).id());
  for (int i = 0; i < 40; ++i) ids.insert(Stream::create_exclusive(-(i % 5), kSim0).id());
  CHECK(ids.size() == 32 + 40);
  CHECK(Stream::create_exclusive(-2, kSim0).priority() == -2);
  CHECK(Stream::create_exclusive(7, kSim0).priority() == 0);

  const Stream s = Stream::create_exclusive(0, kSim2);
  set_current_stream(s);
  int ran = 0;
  s.add_callback([&] { ++ran; });
  Stream::destroy_exclusive(s);
  CHECK(ran == 1);  // its work was waited for
  CHECK(fake->streams_destroyed == 1);
  CHECK(current_stream(kSim2).id() == 0);
  CHECK_THROWS_AS(Stream::destroy_exclusive(s), ValueError);
  CHECK_THROWS_AS(Stream::destroy_exclusive(Stream::from_pool(0, kSim2)), ValueError);
  CHECK(Stream::create_exclusive(0, kSim2).id() != s.id());
}

TEST_CASE("the current stream belongs to one thread", "[stream]") {
  FakeDevice fake;
  const Stream s = Stream::from_pool(0, kSim0);
  StreamGuard guard(s);
  CHECK(current_stream(kSim0) == s);
  CHECK(current_stream(kSim) == s);
  int32_t other = -1;
  int other_device = -1;
  std::thread([&] {
    other = current_stream(kSim0).id();
    set_current_device(kSim2);
    other_device = current_stream(kSim).device().index();
  }).join();
  CHECK(other == 0);
  CHECK(other_device == 2);
  CHECK(current_device(kSim) == 0);
}

TEST_CASE("guards nest over devices and unwind", "[stream][guard]") {
  FakeDevice fake;
  const Stream a = Stream::from_pool(0, kSim1), b = Stream::from_pool(0, kSim2);
  set_current_device(kSim0);
  try {
    StreamGuard outer(a);
    CHECK(current_device(kSim) == 1);
    CHECK(fake->current_device() == 1);
    {
      StreamGuard inner(b);
      CHECK(current_device(kSim) == 2);
      CHECK(current_stream(kSim) == b);
      CHECK(current_stream(kSim1) == a);
      DeviceGuard cpu(kCPU);
      CHECK(current_device(kSim) == 2);
    }
    CHECK(current_device(kSim) == 1);
    CHECK(current_stream(kSim2).id() == 0);
    throw ValueError("x");
  } catch (const ValueError&) {
  }
  CHECK(current_device(kSim) == 0);
  CHECK(fake->current_device() == 0);
  CHECK(current_stream(kSim1).id() == 0);
}

TEST_CASE("a guard costs a driver call only when the ordinal differs", "[stream][guard]") {
  FakeDevice fake;
  set_current_device(kSim0);
  const int64_t before = detail::set_device_calls();
  for (int i = 0; i < 10; ++i) {
    DeviceGuard same(kSim0);
    StreamGuard stream(Stream::from_pool(0, kSim0));
    DeviceGuard unset(kSim);
    Event().record(current_stream(kSim));
    current_stream(kSim0).synchronize();
  }
  CHECK(fake->set_devices == 0);
  {
    DeviceGuard other(kSim1);
    DeviceGuard again(kSim1);
  }
  CHECK(fake->set_devices == 2);
  CHECK(detail::set_device_calls() - before == 2);
}

TEST_CASE("a failing device change leaves the state as it was", "[stream][guard]") {
  FakeDevice fake;
  const Stream s = Stream::from_pool(0, kSim1);
  set_current_device(kSim0);
  fake->fail_set_device = true;
  CHECK_THROWS_AS([] { DeviceGuard guard(kSim1); }(), DeviceError);
  CHECK_THROWS_AS([&] { StreamGuard guard(s); }(), DeviceError);
  CHECK(current_device(kSim) == 0);
  CHECK(current_stream(kSim1).id() == 0);
  fake->fail_set_device = false;
}

TEST_CASE("devices resolve to existing ordinals", "[stream]") {
  FakeDevice fake;
  CHECK(resolve(kSim) == kSim0);
  CHECK(resolve(kCPU) == Device(kCPU));
  CHECK(device_count(kSim) == 3);
  CHECK(device_count(kCPU) == 1);
  {
    DeviceGuard guard(kSim2);
    CHECK(resolve(kSim) == kSim2);
  }
  const auto text = error_of<DeviceError>([] { resolve(Device(kSim, 3)); });
  CHECK(contains(text, "sim:3"));
  CHECK(contains(text, "3 devices are visible"));
  CHECK_THROWS_AS(resolve(Device(kSim, 100)), DeviceError);
  CHECK_THROWS_AS(current_stream(Device(kSim, 16)), DeviceError);
  CHECK_THROWS_AS(set_current_device(Device(kSim, 5)), DeviceError);
  CHECK_THROWS_AS(Stream::from_pool(0, Device(kSim, 5)), DeviceError);
}

TEST_CASE("another implementation of a device type is refused", "[stream]") {
  FakeDevice fake;
  testing::FakeStreams second;
  CHECK_THROWS_AS(register_raw_streams(kSim, &second), RegistrationError);
  CHECK_THROWS_AS(register_raw_streams(kCPU, &second), RegistrationError);
  CHECK_THROWS_AS(register_raw_streams(kSim, nullptr), RegistrationError);
  CHECK_NOTHROW(register_raw_streams(kSim, &fake.raw));
  CHECK_THROWS_AS(raw_streams(kCPU), DeviceError);
}

TEST_CASE("wait_stream orders producer and consumer", "[stream]") {
  FakeDevice fake;
  const Stream producer = Stream::from_pool(0, kSim0);
  // One device, another device, and a default stream of a device that is not current.
  const Stream consumer = GENERATE(0, 1, 2) == 0 ? Stream::from_pool(0, kSim0) : Stream::default_stream(kSim1);
  uint64_t buffer = 0, sum = 0, expected = 0;
  for (uint64_t i = 1; i <= 10000; ++i) {
    consumer.wait_stream(consumer);  // nothing to do
    fake->push(producer.device().index(), producer.handle(), [&, i] { buffer = i * 0x9E3779B97F4A7C15u; });
    consumer.wait_stream(producer);
    DeviceGuard guard(consumer.device());
    fake->push(consumer.device().index(), consumer.handle(), [&] { sum = sum * 31 + buffer; });
    producer.wait_stream(consumer);
    expected = expected * 31 + i * 0x9E3779B97F4A7C15u;
  }
  CHECK(sum == 0);  // nothing has run yet: waits are on the device
  CHECK(fake->waits == 20000);
  CHECK(fake->events_made <= 2);  // one pooled event per device serves every wait
  consumer.synchronize();
  CHECK(sum == expected);
}

TEST_CASE("CPU and device wait for each other on the host", "[stream]") {
  FakeDevice fake;
  const Stream s = Stream::from_pool(0, kSim1);
  int ran = 0;
  fake->push(1, s.handle(), [&] { ++ran; });
  s.wait_stream(Stream());  // the CPU's work is done by the time it is queued
  CHECK(ran == 0);
  CHECK_FALSE(s.query());
  Stream().wait_stream(s);
  CHECK(ran == 1);
}

TEST_CASE("callbacks run in order and their exceptions reach the next synchronize", "[stream]") {
  FakeDevice fake;
  const Stream s = GENERATE(true, false) ? Stream::from_pool(0, kSim0) : Stream::from_pool(0, kCPU);
  const Stream other = Stream::from_pool(0, s.device());
  std::string order;
  s.add_callback([&] { order += 'a'; });
  s.add_callback([&] {
    order += 'b';
    throw ValueError("first");
  });
  s.add_callback([&] {
    order += 'c';
    throw IndexError("second");
  });
  CHECK_NOTHROW(other.synchronize());
  CHECK(contains(error_of<ValueError>([&] { s.synchronize(); }), "first"));
  CHECK(order == "abc");
  CHECK_NOTHROW(s.synchronize());

  s.add_callback([] { throw ValueError("again"); });
  CHECK_THROWS_AS(synchronize(s.device()), ValueError);
  CHECK_NOTHROW(synchronize(s.device()));
  CHECK_THROWS_AS(s.add_callback(nullptr), ValueError);
}

TEST_CASE("a callback must not use the device", "[stream]") {
  FakeDevice fake;
  const Stream s = Stream::from_pool(0, kSim0);
  s.add_callback([&] { s.synchronize(); });
  const auto text = error_of<DeviceError>([&] { s.synchronize(); });
  CHECK(contains(text, "host callback"));
  CHECK_FALSE(detail::in_host_callback());
  CHECK_NOTHROW(s.synchronize());
  s.add_callback([] { Stream::from_pool(0, kCPU).synchronize(); });  // the CPU is not the device
  CHECK_NOTHROW(s.synchronize());
}

TEST_CASE("the pool serves many threads and makes each stream once", "[stream][threads]") {
  FakeDevice fake;
  constexpr int kThreads = 8, kRounds = 400;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Device device(kSim, t % 2);
      for (int i = 0; i < kRounds; ++i) {
        const Stream s = Stream::from_pool(-(i % 2), device);
        StreamGuard guard(s);
        Event event;
        event.record(s);
        if (!s.handle() || current_stream(device) != s || current_device(kSim) != t % 2) ++wrong;
        event.synchronize();
        if (!event.query()) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(fake->streams_made == 2 * 64);
  CHECK(fake->events_made <= kThreads);
  int64_t handouts = 0;
  for (const auto& level : stream_pool_stats(kSim0).handouts) {
    for (const int64_t n : level) handouts += n;
  }
  CHECK(handouts == kThreads / 2 * kRounds);
}

TEST_CASE("is_capturing asks the device", "[stream]") {
  FakeDevice fake;
  const Stream s = Stream::from_pool(0, kSim0);
  CHECK_FALSE(s.is_capturing());
  fake->capturing = true;
  CHECK(s.is_capturing());
}

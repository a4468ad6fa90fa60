// SPDX-License-Identifier: Apache-2.0
// Events: lazy, pooled, movable, timed.
#include <tenon/streams/event.h>

#include <chrono>
#include <thread>

#include "tests/streams/fake_streams.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;
using tenon::testing::FakeDevice;

namespace {
const Device kSim0(kSim, 0), kSim1(kSim, 1);
}

TEST_CASE("an event that was never recorded is complete and costs nothing", "[event]") {
  FakeDevice fake;
  Event event(true, kSim);
  CHECK_FALSE(event.recorded());
  CHECK(event.query());
  event.synchronize();
  event.wait(Stream::from_pool(0, kSim0));
  CHECK(fake->events_made == 0);
  CHECK(fake->waits == 0);
  event.record();
  CHECK(event.recorded());
  CHECK(event.device() == kSim0);
  CHECK(fake->events_made == 1);
}

TEST_CASE("events are pooled by device and timing", "[event]") {
  FakeDevice fake;
  const Stream a = Stream::from_pool(0, kSim0), b = Stream::from_pool(0, kSim1);
  for (int i = 0; i < 100; ++i) {
    a.record_event();
    b.record_event();
    Event timed(true);
    timed.record(a);
  }
  CHECK(fake->events_made == 3);
}

TEST_CASE("a record that a pooled event gets later moves no earlier wait", "[event]") {
  FakeDevice fake;
  const Stream a = Stream::from_pool(0, kSim0), b = Stream::from_pool(0, kSim0), c = Stream::from_pool(0, kSim0);
  int x = 0;
  fake->push(0, a.handle(), [&] { x = 1; });
  c.wait_stream(a);  // its event is back in the pool
  fake->push(0, b.handle(), [&] { x = 2; });
  const Event second = b.record_event();  // the same raw event
  CHECK(fake->events_made == 1);
  c.synchronize();
  CHECK(x == 1);
  CHECK_FALSE(second.query());
}

TEST_CASE("events know their device", "[event]") {
  FakeDevice fake;
  const Stream a = Stream::from_pool(0, kSim0), b = Stream::from_pool(0, kSim1);
  Event event;
  event.record(a);
  CHECK(contains(error_of<DeviceError>([&] { event.record(b); }), "sim:1"));
  event.wait(b);
  CHECK(fake->waits == 1);
  CHECK_FALSE(event.query());
  event.wait(Stream());  // on the CPU: the host waits
  CHECK(event.query());
}

TEST_CASE("moving an event moves its mark", "[event]") {
  FakeDevice fake;
  const Stream a = Stream::from_pool(0, kSim0);
  Event first = a.record_event();
  Event second = std::move(first);
  CHECK_FALSE(first.recorded());  // NOLINT(bugprone-use-after-move)
  CHECK(second.recorded());
  Event third = a.record_event();
  third = std::move(second);
  CHECK(third.recorded());
  first.record(a);  // and the moved-from one serves again
  CHECK(fake->events_made == 2);
}

TEST_CASE("elapsed_time measures between timed, complete events", "[event]") {
  FakeDevice fake;
  const Stream s = Stream::from_pool(0, kSim0);
  Event start(true), end(true), untimed, unrecorded(true), elsewhere(true);
  start.record(s);
  end.record(s);
  untimed.record(s);
  elsewhere.record(Stream::from_pool(0, kSim1));
  CHECK(contains(error_of<ValueError>([&] { start.elapsed_time(end); }), "complete"));
  end.synchronize();
  CHECK(start.elapsed_time(end) == 1.5);
  CHECK(end.elapsed_time(start) == -1.5);
  CHECK_THROWS_AS(start.elapsed_time(untimed), ValueError);
  CHECK_THROWS_AS(start.elapsed_time(unrecorded), ValueError);
  CHECK_THROWS_AS(start.elapsed_time(elsewhere), ValueError);
}

TEST_CASE("CPU events time the host", "[event]") {
  Event start(true, kCPU), end(true, kCPU);
  start.record();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  end.record(Stream());
  CHECK(start.query());
  CHECK(start.elapsed_time(end) >= 4.9);
  CHECK(start.elapsed_time(end) < 5000);
}

// SPDX-License-Identifier: Apache-2.0
// FakeStreams: a RawStreams whose work waits in queues until somebody synchronises, so that tests see every
// order that a real device might. It stands in for the simulated device while a FakeDevice lives.
#pragma once

#include <tenon/streams/guard.h>
#include <tenon/streams/raw_streams.h>
#include <cstring>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

#include "tests/support/catch.h"

namespace tenon::testing {

class FakeStreams : public RawStreams {
 public:
  static constexpr int kDevices = 3;

  struct FakeStream;
  /// One record of an event; waits hold on to it, whatever the event records later.
  struct Mark {
    FakeStream* stream;
    bool passed = false;
    double time = 0;
  };
  struct Work {
    std::function<void()> run;
    std::shared_ptr<Mark> waits_for;
  };
  struct FakeStream {
    int device = 0, priority = 0;
    std::deque<Work> queue;
  };
  struct FakeEvent {
    int device = 0;
    bool timing = false;
    std::shared_ptr<Mark> mark;
  };

  FakeStreams() {
    for (int i = 0; i < kDevices; ++i) defaults_[i].device = i;
  }

  int device_count() override { return kDevices; }
  int current_device() override { return current_; }
  void set_device(int index) override {
    ++set_devices;
    if (fail_set_device) throw DeviceError("set_device failed on purpose");
    current_ = index;
  }
  void* create_stream(int device, int priority) override {
    std::lock_guard lock(mutex_);
    expect_current(device);
    streams_.push_back(std::make_unique<FakeStream>());
    streams_.back()->device = device;
    streams_.back()->priority = priority;
    ++streams_made;
    return streams_.back().get();
  }
  void destroy_stream(int, void*) noexcept override { ++streams_destroyed; }
  void synchronize_stream(int device, void* stream) override {
    std::lock_guard lock(mutex_);
    drain(of(device, stream));
  }
  bool query_stream(int device, void* stream) override {
    std::lock_guard lock(mutex_);
    return of(device, stream).queue.empty();
  }
  void synchronize_device(int device) override {
    std::lock_guard lock(mutex_);
    expect_current(device);
    drain(defaults_[device]);
    for (auto& s : streams_) {
      if (s->device == device) drain(*s);
    }
  }
  void* create_event(int device, bool timing) override {
    std::lock_guard lock(mutex_);
    expect_current(device);
    events_.push_back(std::make_unique<FakeEvent>());
    events_.back()->device = device;
    events_.back()->timing = timing;
    ++events_made;
    return events_.back().get();
  }
  void destroy_event(int, void*) noexcept override {}
  void record_event(int device, void* event, void* stream) override {
    std::lock_guard lock(mutex_);
    auto& e = *static_cast<FakeEvent*>(event);
    auto& s = of(device, stream);
    if (e.device != s.device) throw std::logic_error("event and stream are of different devices");
    e.mark = std::make_shared<Mark>(Mark{&s});
    s.queue.push_back({[this, mark = e.mark] { mark->passed = true, mark->time = clock_ += 1.5; }, nullptr});
  }
  void wait_event(int device, void* stream, void* event) override {
    std::lock_guard lock(mutex_);
    of(device, stream).queue.push_back({nullptr, static_cast<FakeEvent*>(event)->mark});
    ++waits;
  }
  bool query_event(int, void* event) override {
    std::lock_guard lock(mutex_);
    return static_cast<FakeEvent*>(event)->mark->passed;
  }
  void synchronize_event(int, void* event) override {
    std::lock_guard lock(mutex_);
    reach(*static_cast<FakeEvent*>(event)->mark);
  }
  double elapsed_ms(int, void* start, void* end) override {
    std::lock_guard lock(mutex_);
    return static_cast<FakeEvent*>(end)->mark->time - static_cast<FakeEvent*>(start)->mark->time;
  }
  void host_callback(int device, void* stream, Function<void()> f) override {
    auto shared = std::make_shared<Function<void()>>(std::move(f));
    push(device, stream, [shared] { (*shared)(); });
  }
  void copy(int, void*, void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  bool is_capturing(int, void*) override { return capturing; }

  /// Queues work as a kernel launch would.
  void push(int device, void* stream, std::function<void()> f) {
    std::lock_guard lock(mutex_);
    of(device, stream).queue.push_back({std::move(f), nullptr});
  }

  std::atomic<int> streams_made{0}, streams_destroyed{0}, events_made{0}, set_devices{0}, waits{0};
  std::atomic<bool> fail_set_device{false}, capturing{false};

 private:
  FakeStream& of(int device, void* stream) {
    if (!stream) expect_current(device);
    return stream ? *static_cast<FakeStream*>(stream) : defaults_[device];
  }
  // Note [Raw stream rules] in raw_streams.h.
  void expect_current(int device) {
    if (current_ != device) throw std::logic_error("the device is not current");
  }
  void reach(Mark& mark) {
    while (!mark.passed) step(*mark.stream);
  }
  void drain(FakeStream& s) {
    while (!s.queue.empty()) step(s);
  }
  void step(FakeStream& s) {
    Work work = std::move(s.queue.front());
    s.queue.pop_front();
    if (work.waits_for) reach(*work.waits_for);
    if (work.run) work.run();
  }

  std::recursive_mutex mutex_;
  FakeStream defaults_[kDevices];
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<std::unique_ptr<FakeEvent>> events_;
  double clock_ = 0;
  static inline thread_local int current_ = 0;
};

/// Puts a FakeStreams in the place of a device type for a scope.
template <class Raw = FakeStreams, DeviceType kType = kSim>
struct FakeDeviceOf {
  Raw raw;
  RawStreams* previous;
  FakeDeviceOf() : previous(detail::exchange_raw_streams(kType, &raw)) { raw.set_device(0), raw.set_devices = 0; }
  ~FakeDeviceOf() { detail::exchange_raw_streams(kType, previous); }
  Raw* operator->() { return &raw; }
};
using FakeDevice = FakeDeviceOf<>;

}  // namespace tenon::testing

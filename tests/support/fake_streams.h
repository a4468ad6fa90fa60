// SPDX-License-Identifier: Apache-2.0
// A double for the allocator's tests: a device of the sim type whose work is done when a test says so. An event recorded
// on a stream is complete once finish() has been called on that stream.
#pragma once

#include <tenon/streams/raw_streams.h>
#include <tenon/streams/stream.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

namespace tenon::testing {

class FakeStreams final : public RawStreams {
  struct FakeStream {
    int64_t queued = 0, done = 0;
  };
  struct FakeEvent {
    FakeStream* stream = nullptr;
    int64_t mark = 0;
  };

 public:
  static FakeStreams& instance() {
    static auto* streams = [] {
      auto* made = new FakeStreams;
      register_raw_streams(kSim, made);
      return made;
    }();
    return *streams;
  }
  /// A stream of device sim:0 with an id of the test's choice.
  Stream stream(int32_t id) {
    std::lock_guard lock(mutex_);
    return Stream(Device(kSim, 0), id, id == 0 ? nullptr : &streams_[id]);
  }
  /// All work queued on the stream so far is done.
  void finish(const Stream& s) {
    std::lock_guard lock(mutex_);
    FakeStream& f = get(s.handle());
    f.done = f.queued;
  }
  int64_t live_events() const { return events_.load(); }
  int64_t records() const { return records_.load(); }
  void fail_records(bool on) { fail_records_ = on; }

  int device_count() override { return 2; }
  int current_device() override { return 0; }
  void set_device(int) override {}
  void* create_stream(int, int) override {
    std::lock_guard lock(mutex_);
    return &streams_[--made_];
  }
  void destroy_stream(int, void*) noexcept override {}
  void synchronize_stream(int, void* s) override {
    std::lock_guard lock(mutex_);
    get(s).done = get(s).queued;
  }
  bool query_stream(int, void* s) override {
    std::lock_guard lock(mutex_);
    return get(s).done == get(s).queued;
  }
  void synchronize_device(int) override {}
  void* create_event(int, bool) override {
    ++events_;
    return new FakeEvent;
  }
  void destroy_event(int, void* e) noexcept override {
    --events_;
    delete static_cast<FakeEvent*>(e);
  }
  void record_event(int, void* e, void* s) override {
    TENON_CHECK(!fail_records_, DeviceError, "record_event: injected fault");
    std::lock_guard lock(mutex_);
    ++records_;
    FakeStream& f = get(s);
    *static_cast<FakeEvent*>(e) = {&f, ++f.queued};
  }
  void wait_event(int, void*, void*) override {}
  bool query_event(int, void* e) override {
    std::lock_guard lock(mutex_);
    auto* event = static_cast<FakeEvent*>(e);
    return !event->stream || event->stream->done >= event->mark;
  }
  void synchronize_event(int, void* e) override {
    std::lock_guard lock(mutex_);
    auto* event = static_cast<FakeEvent*>(e);
    if (event->stream && event->stream->done < event->mark) event->stream->done = event->mark;
  }
  double elapsed_ms(int, void*, void*) override { return 0; }
  void host_callback(int, void*, Function<void()> f) override { f(); }
  void copy(int, void*, void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  bool is_capturing(int, void*) override { return false; }

 private:
  FakeStream& get(void* handle) { return handle ? *static_cast<FakeStream*>(handle) : streams_[0]; }
  std::mutex mutex_;
  std::map<int32_t, FakeStream> streams_;
  int32_t made_ = 0;
  std::atomic<int64_t> events_{0}, records_{0};
  std::atomic<bool> fail_records_{false};
};

}  // namespace tenon::testing

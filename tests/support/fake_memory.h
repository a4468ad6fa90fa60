// SPDX-License-Identifier: Apache-2.0
// Doubles for the allocator's tests. FakeMemory hands out real memory from a bounded amount, refuses on command,
// logs its calls and notes misuse: unaligned or unknown releases, wrong sizes, what is never given back.
// FakeStreams is a device of the sim type whose work is done when a test says so: an event recorded on a stream is
// complete once finish() has been called on that stream.
#pragma once

#include <tenon/memory/raw_memory.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/stream.h>
#include <cstring>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace tenon::testing {

class FakeMemory final : public memory::RawMemory {
 public:
  explicit FakeMemory(int64_t capacity) : capacity_(capacity) {}
  ~FakeMemory() override {
    for (auto& [p, bytes] : live_) std::free(p);
  }
  void* allocate(int64_t bytes) override {
    if (Function<void()> hook = std::exchange(hook_, nullptr)) hook();
    std::lock_guard lock(mutex_);
    ++calls_;
    if (bytes <= 0) ++errors_;
    if ((fail_at_ != 0 && calls_ == fail_at_) || bytes > capacity_ - used_) {
      log_ += 'x';
      return nullptr;
    }
    void* p = nullptr;
    if (posix_memalign(&p, 512, static_cast<size_t>(bytes)) != 0) return nullptr;
    log_ += 'a';
    live_[p] = bytes;
    used_ += bytes;
    return p;
  }
  void release(void* p, int64_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    log_ += 'r';
    const auto found = live_.find(p);
    if (found == live_.end() || found->second != bytes) {
      ++errors_;
      return;
    }
    used_ -= bytes;
    live_.erase(found);
    std::free(p);
  }
  void info(int64_t& free, int64_t& total) override {
    std::lock_guard lock(mutex_);
    free = capacity_ - used_;
    total = capacity_;
  }
  const char* name() const override { return "fake"; }
  bool host_accessible() const override { return true; }

  /// The n-th call from now fails; 0: none.
  void fail_at(int64_t n) {
    std::lock_guard lock(mutex_);
    calls_ = 0;
    fail_at_ = n;
  }
  /// `f` runs once, inside the next allocate, before memory is given.
  void during_next(Function<void()> f) { hook_ = std::move(f); }
  void note(char c) {
    std::lock_guard lock(mutex_);
    log_ += c;
  }
  /// a: gave memory, x: refused, r: took back; other letters from note(). Reading clears it.
  std::string take_log() {
    std::lock_guard lock(mutex_);
    return std::exchange(log_, {});
  }
  /// [p, p + bytes) lies inside one live piece.
  bool contains(const void* p, int64_t bytes) {
    std::lock_guard lock(mutex_);
    auto after = live_.upper_bound(const_cast<void*>(p));
    if (after == live_.begin()) return false;
    --after;
    const char* begin = static_cast<const char*>(after->first);
    const char* q = static_cast<const char*>(p);
    return q >= begin && q + bytes <= begin + after->second;
  }
  int64_t used() {
    std::lock_guard lock(mutex_);
    return used_;
  }
  int64_t errors() {
    std::lock_guard lock(mutex_);
    return errors_;
  }

 private:
  std::mutex mutex_;
  std::map<void*, int64_t> live_;
  std::string log_;
  Function<void()> hook_;
  int64_t capacity_, used_ = 0, calls_ = 0, fail_at_ = 0, errors_ = 0;
};

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

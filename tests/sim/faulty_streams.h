// SPDX-License-Identifier: Apache-2.0
// The simulated device behind a layer with one bug of choice, as a back end of streams might have it. It takes the place
// of the device while it lives; the property tests must notice.
#pragma once

#include <tenon/streams/raw_streams.h>
#include <tenon/streams/sim.h>

#include <cstring>
#include <map>
#include <utility>

namespace tenon::testing {

enum class StreamBug {
  none,
  event_on_wrong_stream,  ///< records go to the default stream
  event_before_last_use,  ///< the last kernel is queued after the record that should cover it
  wait_dropped,           ///< wait_event does nothing
  event_done_too_early,   ///< query_event says yes
  event_wait_returns,     ///< synchronize_event does not wait
  stream_wait_returns,    ///< synchronize_stream does not wait
  copy_at_once            ///< copies do not wait for what was queued before
};
struct StreamBugName {
  StreamBug bug;
  const char* text;
  bool by_allocator;  ///< the allocator's programs find it; the others take tensors
};
inline constexpr StreamBugName kStreamBugs[] = {
    {StreamBug::event_on_wrong_stream, "event recorded on the wrong stream", true},
    {StreamBug::event_before_last_use, "event recorded before the last use", true},
    {StreamBug::wait_dropped, "wait_event dropped", false},
    {StreamBug::event_done_too_early, "event query says done too early", true},
    {StreamBug::event_wait_returns, "event synchronise returns at once", true},
    {StreamBug::stream_wait_returns, "stream synchronise returns at once", true},
    {StreamBug::copy_at_once, "copy overtakes the work queued before it", false},
};

class FaultyStreams final : public RawStreams {
 public:
  explicit FaultyStreams(StreamBug bug) : bug_(bug), real_(raw_streams(kSim)) {
    detail::exchange_raw_streams(kSim, this);
  }
  ~FaultyStreams() override { detail::exchange_raw_streams(kSim, &real_); }

  int device_count() override { return real_.device_count(); }
  int current_device() override { return real_.current_device(); }
  void set_device(int index) override { real_.set_device(index); }
  void* create_stream(int d, int priority) override { return real_.create_stream(d, priority); }
  void destroy_stream(int d, void* s) noexcept override {
    flush(d, s);
    real_.destroy_stream(d, s);
  }
  void synchronize_stream(int d, void* s) override {
    flush(d, s);
    if (bug_ != StreamBug::stream_wait_returns) real_.synchronize_stream(d, s);
  }
  bool query_stream(int d, void* s) override {
    flush(d, s);
    return real_.query_stream(d, s);
  }
  void synchronize_device(int d) override {
    while (!held_.empty()) flush(held_.begin()->first.first, held_.begin()->first.second);
    real_.synchronize_device(d);
  }
  void* create_event(int d, bool timing) override { return real_.create_event(d, timing); }
  void destroy_event(int d, void* e) noexcept override { real_.destroy_event(d, e); }
  void record_event(int d, void* e, void* s) override {
    real_.record_event(d, e, bug_ == StreamBug::event_on_wrong_stream ? nullptr : s);
    flush(d, s);
  }
  void wait_event(int d, void* s, void* e) override {
    flush(d, s);
    if (bug_ != StreamBug::wait_dropped) real_.wait_event(d, s, e);
  }
  bool query_event(int d, void* e) override {
    const bool done = real_.query_event(d, e);
    return done || bug_ == StreamBug::event_done_too_early;
  }
  void synchronize_event(int d, void* e) override {
    if (bug_ != StreamBug::event_wait_returns) real_.synchronize_event(d, e);
  }
  double elapsed_ms(int d, void* a, void* b) override { return real_.elapsed_ms(d, a, b); }
  void host_callback(int d, void* s, Function<void()> f) override {
    flush(d, s);
    real_.host_callback(d, s, std::move(f));
  }
  void copy(int d, void* s, void* to, const void* from, int64_t bytes) override {
    flush(d, s);
    if (bug_ == StreamBug::copy_at_once)
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    else
      real_.copy(d, s, to, from, bytes);
  }
  void launch(int d, void* s, const char* name, Function<void()> kernel) override {
    flush(d, s);
    if (bug_ == StreamBug::event_before_last_use)
      held_[{d, s}] = {name, std::move(kernel)};
    else
      real_.launch(d, s, name, std::move(kernel));
  }
  bool is_capturing(int, void*) override { return false; }

 private:
  void flush(int d, void* s) {
    const auto found = held_.find({d, s});
    if (found == held_.end()) return;
    auto [name, kernel] = std::move(found->second);
    held_.erase(found);
    real_.launch(d, s, name, std::move(kernel));
  }

  const StreamBug bug_;
  RawStreams& real_;
  std::map<std::pair<int, void*>, std::pair<const char*, Function<void()>>> held_;
};

}  // namespace tenon::testing

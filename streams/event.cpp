// SPDX-License-Identifier: Apache-2.0
// Events and their pools. A raw event goes back to its pool with its last record still pending: a wait takes
// what was recorded when it is queued, so a later record by another owner does no harm.
#include <tenon/streams/event.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/state.h>

#include <pthread.h>

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

namespace tenon {

using detail::runs_inline;

namespace {

struct EventPool {
  std::mutex mutex;
  std::vector<void*> free[2];  // without and with timing
};
// Never destroyed: events may be members of static objects.
EventPool& event_pool(Device device) {
  static EventPool* const pools = new EventPool[detail::kDeviceSlots];
  return pools[detail::slot_of(device)];
}

// A child forked while another thread holds one could never take an event. Nothing is called with one held.
template <class F>
void for_all_pools(F f) {
  for (int slot = 0; slot < detail::kDeviceSlots; ++slot) f((&event_pool(Device(kCPU)))[slot].mutex);
}
[[maybe_unused]] const int fork_handler = pthread_atfork([] { for_all_pools([](std::mutex& m) { m.lock(); }); },
                                                         [] { for_all_pools([](std::mutex& m) { m.unlock(); }); },
                                                         [] { for_all_pools([](std::mutex& m) { m.unlock(); }); });

void* take(RawStreams& raw, Device device, bool timing) {
  {
    EventPool& pool = event_pool(device);
    std::lock_guard lock(pool.mutex);
    std::vector<void*>& list = pool.free[timing];
    if (!list.empty()) {
      void* handle = list.back();
      list.pop_back();
      return handle;
    }
  }
  DeviceGuard guard(device);
  return raw.create_event(device.index(), timing);
}

void give(Device device, bool timing, void* handle) noexcept {
  try {
    EventPool& pool = event_pool(device);
    std::lock_guard lock(pool.mutex);
    pool.free[timing].push_back(handle);
  } catch (...) {  // no memory for the list: destroy instead
    if (RawStreams* raw = detail::registered_raw_streams(device.type())) raw->destroy_event(device.index(), handle);
  }
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Event::Event(Event&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      cpu_time_(other.cpu_time_),
      device_(other.device_),
      timing_(other.timing_),
      recorded_(std::exchange(other.recorded_, false)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this == &other) return *this;
  if (handle_) give(device_, timing_, handle_);
  handle_ = std::exchange(other.handle_, nullptr);
  cpu_time_ = other.cpu_time_;
  device_ = other.device_;
  timing_ = other.timing_;
  recorded_ = std::exchange(other.recorded_, false);
  return *this;
}

Event::~Event() {
  if (handle_) give(device_, timing_, handle_);
}

void Event::record(const Stream& stream) {
  const Device device = stream.device();
  TENON_CHECK(!recorded_ || device == device_, DeviceError, "Event::record: stream: expected one of ", device_,
              " where the event was first recorded, got one of ", device);
  if (runs_inline(device.type())) {
    cpu_time_ = timing_ ? now_ns() : 0;
  } else {
    RawStreams& raw = detail::usable_raw_streams(device.type());
    if (handle_ && device_ != device) give(device_, timing_, std::exchange(handle_, nullptr));  // a failed record's
    if (!handle_) handle_ = take(raw, device, timing_);
    device_ = device;  // from here the destructor knows which pool the handle belongs to
    DeviceGuard guard(stream.handle() ? Device() : device);
    raw.record_event(device.index(), handle_, stream.handle());
  }
  device_ = device;
  recorded_ = true;
}

void Event::wait(const Stream& stream) const {
  if (!handle_ || !recorded_) return;
  // Work on another kind of device cannot wait for this event by itself: the host waits in its place.
  if (stream.device().type() != device_.type()) return synchronize();
  RawStreams& raw = detail::usable_raw_streams(device_.type());
  DeviceGuard guard(stream.handle() ? Device() : stream.device());
  raw.wait_event(stream.device().index(), stream.handle(), handle_);
}

bool Event::query() const {
  return !handle_ || !recorded_ || detail::usable_raw_streams(device_.type()).query_event(device_.index(), handle_);
}

void Event::synchronize() const {
  if (handle_ && recorded_) detail::usable_raw_streams(device_.type()).synchronize_event(device_.index(), handle_);
}

double Event::elapsed_time(const Event& end) const {
  TENON_CHECK(timing_ && end.timing_, ValueError, "Event::elapsed_time: expected two events made with enable_timing, ",
              timing_ ? "end" : "the start", " was not");
  TENON_CHECK(recorded_ && end.recorded_, ValueError, "Event::elapsed_time: expected two recorded events, ",
              recorded_ ? "end" : "the start", " is not");
  TENON_CHECK(device_ == end.device_, ValueError, "Event::elapsed_time: expected two events of one device, got ",
              device_, " and ", end.device_);
  if (!handle_) return static_cast<double>(end.cpu_time_ - cpu_time_) * 1e-6;
  TENON_CHECK(query() && end.query(), ValueError,
              "Event::elapsed_time: expected two complete events; call synchronize() on the later one first");
  return detail::usable_raw_streams(device_.type()).elapsed_ms(device_.index(), handle_, end.handle_);
}

namespace detail {
void destroy_pooled_events(DeviceType type) noexcept {
  RawStreams* raw = registered_raw_streams(type);
  for (int index = 0; raw && index < kMaxDevices; ++index) {
    EventPool& pool = event_pool(Device(type, index));
    std::lock_guard lock(pool.mutex);
    for (auto& list : pool.free) {
      for (void* handle : list) raw->destroy_event(index, handle);
      list.clear();
    }
  }
}

void forget_pooled_events(DeviceType type) {
  if (runs_inline(type)) return;
  for (int index = 0; index < kMaxDevices; ++index) {
    EventPool& pool = event_pool(Device(type, index));
    std::lock_guard lock(pool.mutex);
    for (auto& list : pool.free) list.clear();
  }
}
}  // namespace detail

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Streams: the thread's current stream, the pools, exclusive streams, waiting, and host callbacks.
#include <tenon/streams/event.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/settle.h>
#include <tenon/streams/state.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

namespace tenon {

namespace detail {
constinit thread_local ThreadState thread_state __attribute__((tls_model("initial-exec"))){};
}  // namespace detail

using detail::runs_inline;
using detail::slot_of;
using detail::thread_state;

namespace {

constexpr int kPoolSize = 32;
constexpr int kLevels = 2;     // priority 0 and -1
constexpr int kLevelBits = 2;  // an id is serial << kLevelBits | -priority, so priority() needs no look-up
constexpr int kLowestPriority = -((1 << kLevelBits) - 1);

constexpr int32_t make_id(int32_t serial, int priority) { return serial << kLevelBits | -priority; }

// Positions 0..31 of a pool have serials 1..32 at either priority; exclusive streams count on from there.
struct Pool {
  struct Slot {
    std::atomic<bool> made;
    void* handle;
  } slots[kLevels][kPoolSize];
  std::atomic<uint32_t> next[kLevels];
  std::atomic<int32_t> exclusive;
};
constinit Pool pools[detail::kDeviceSlots]{};

// What is created once and never destroyed: streams outlive static destructors and the driver.
struct Shared {
  std::mutex creation;  // of pool streams
  std::mutex exclusive_mutex;
  std::vector<Stream> exclusive;
  std::mutex errors_mutex;
  struct CallbackError {
    Stream stream;
    std::exception_ptr error;
  };
  std::vector<CallbackError> errors;
};
Shared& shared() {
  static Shared* const instance = new Shared;
  return *instance;
}
constinit std::atomic<int> pending_errors{0};

// For whoever forks while another thread reports an error or makes a stream.
[[maybe_unused]] const int fork_handler =
    pthread_atfork([] { shared().exclusive_mutex.lock(), shared().errors_mutex.lock(); },
                   [] { shared().errors_mutex.unlock(), shared().exclusive_mutex.unlock(); },
                   [] { shared().errors_mutex.unlock(), shared().exclusive_mutex.unlock(); });

void keep_callback_error(const Stream& stream, std::exception_ptr error) noexcept {
  try {
    Shared& s = shared();
    std::lock_guard lock(s.errors_mutex);
    for (const auto& e : s.errors) {
      if (e.stream == stream) return;  // the first one of a stream tells the cause
    }
    s.errors.push_back({stream, std::move(error)});
    pending_errors.fetch_add(1, std::memory_order_release);
  } catch (...) {  // no memory for the report: the error is lost, the process is not
  }
}

template <class Matches>
void rethrow_callback_error(Matches matches) {
  if (pending_errors.load(std::memory_order_acquire) == 0) [[likely]]
    return;
  std::exception_ptr error;
  {
    Shared& s = shared();
    std::lock_guard lock(s.errors_mutex);
    for (auto it = s.errors.begin(); it != s.errors.end();) {
      if (!matches(it->stream)) {
        ++it;
        continue;
      }
      if (!error) error = it->error;
      it = s.errors.erase(it);
      pending_errors.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  if (error) std::rethrow_exception(error);
}

// What kernels found wrong with their data, an index out of range say, waits in a mailbox the check knows.
constinit std::atomic<void (*)(int)> fault_check{nullptr};

void check_faults(Device device) {
  if (!device.is_cuda()) return;
  if (const auto check = fault_check.load(std::memory_order_acquire)) check(device.index());
}

// The null stream belongs to whatever device is current, so that one must be; a created stream knows its own.
Device device_to_enter(const Stream& stream) { return stream.handle() ? Device() : stream.device(); }

void* create_raw_stream(Device device, int priority) {
  if (runs_inline(device.type())) return nullptr;
  RawStreams& raw = detail::usable_raw_streams(device.type());
  DeviceGuard guard(device);
  return raw.create_stream(device.index(), priority);
}

}  // namespace

// ---- pools ----

Stream Stream::from_pool(int priority, Device device) {
  device = resolve(device);
  const int level = priority < 0 ? 1 : 0;
  Pool& pool = pools[slot_of(device)];
  const int position = static_cast<int>(pool.next[level].fetch_add(1, std::memory_order_relaxed) % kPoolSize);
  Pool::Slot& slot = pool.slots[level][position];
  if (!slot.made.load(std::memory_order_acquire) && !runs_inline(device.type())) {
    std::lock_guard lock(shared().creation);
    if (!slot.made.load(std::memory_order_relaxed)) {
      slot.handle = create_raw_stream(device, -level);
      slot.made.store(true, std::memory_order_release);
    }
  }
  return Stream(device, make_id(position + 1, -level), slot.handle);
}

Stream Stream::default_stream(Device device) { return Stream(resolve(device), 0, nullptr); }

Stream Stream::create_exclusive(int priority, Device device) {
  device = resolve(device);
  priority = std::clamp(priority, kLowestPriority, 0);
  const int32_t serial = kPoolSize + 1 + pools[slot_of(device)].exclusive.fetch_add(1, std::memory_order_relaxed);
  TENON_CHECK(serial < 1 << 28, ValueError, "Stream::create_exclusive: ", device, " has used up its stream ids");
  const Stream stream(device, make_id(serial, priority), create_raw_stream(device, priority));
  Shared& s = shared();
  std::lock_guard lock(s.exclusive_mutex);
  s.exclusive.push_back(stream);
  return stream;
}

void Stream::destroy_exclusive(const Stream& stream) {
  {
    Shared& s = shared();
    std::lock_guard lock(s.exclusive_mutex);
    const auto found = std::find(s.exclusive.begin(), s.exclusive.end(), stream);
    TENON_CHECK(found != s.exclusive.end(), ValueError,
                "Stream::destroy_exclusive: stream: expected a live stream from create_exclusive, got id ", stream.id(),
                " of ", stream.device());
    s.exclusive.erase(found);
  }
  if (current_stream(stream.device()) == stream) set_current_stream(default_stream(stream.device()));
  if (runs_inline(stream.device().type())) return;
  struct Destroy {  // also when the wait reports an error
    const Stream& stream;
    ~Destroy() {
      if (RawStreams* raw = detail::registered_raw_streams(stream.device().type())) {
        raw->destroy_stream(stream.device().index(), stream.handle());
      }
    }
  } destroy{stream};
  stream.synchronize();
}

StreamPoolStats stream_pool_stats(Device device) {
  device = resolve(device);
  StreamPoolStats stats{};
  for (int level = 0; level < kLevels; ++level) {
    const int64_t n = pools[slot_of(device)].next[level].load(std::memory_order_relaxed);
    for (int i = 0; i < kPoolSize; ++i) stats.handouts[level][i] = (n + kPoolSize - 1 - i) / kPoolSize;
  }
  return stats;
}

int Stream::priority() const { return -(id_ & ((1 << kLevelBits) - 1)); }

// ---- the thread's current stream ----

Stream current_stream(Device device) {
  if (!device.has_index()) device = Device(device.type(), current_device(device.type()));
  TENON_CHECK(device.index() < kMaxDevices, DeviceError, "current_stream: device: got ", device, ", tenon knows ",
              kMaxDevices, " ordinals of a type");
  const auto& entry = thread_state.streams[slot_of(device)];
  return Stream(device, entry.id, entry.handle);
}

void set_current_stream(const Stream& stream) {
  const Device device = stream.device();
  TENON_CHECK(device.index() >= 0 && device.index() < kMaxDevices, DeviceError,
              "set_current_stream: stream: expected a device with an ordinal, got ", device);
  auto& entry = thread_state.streams[slot_of(device)];
  entry.id = stream.id();
  entry.handle = stream.handle();
}

// ---- work ----

void Stream::synchronize() const {
  if (!runs_inline(device_.type())) {
    RawStreams& raw = detail::usable_raw_streams(device_.type());
    DeviceGuard guard(device_to_enter(*this));
    raw.synchronize_stream(device_.index(), handle_);
    check_faults(device_);
  }
  rethrow_callback_error([this](const Stream& s) { return s == *this; });
}

bool Stream::query() const {
  if (runs_inline(device_.type())) return true;
  RawStreams& raw = detail::usable_raw_streams(device_.type());
  DeviceGuard guard(device_to_enter(*this));
  return raw.query_stream(device_.index(), handle_);
}

void Stream::wait_stream(const Stream& other) const {
  if (other == *this || runs_inline(other.device_.type())) return;
  wait_event(other.record_event());
}

void Stream::wait_event(const Event& event) const { event.wait(*this); }

Event Stream::record_event() const {
  Event event;
  event.record(*this);
  return event;
}

void Stream::add_callback(Function<void()> f) const {
  TENON_CHECK(static_cast<bool>(f), ValueError, "Stream::add_callback: f: expected a function, got an empty one");
  if (runs_inline(device_.type())) {
    try {
      f();
    } catch (...) {
      keep_callback_error(*this, std::current_exception());
    }
    return;
  }
  RawStreams& raw = detail::usable_raw_streams(device_.type());
  DeviceGuard guard(device_to_enter(*this));
  raw.host_callback(device_.index(), handle_, [f = std::move(f), stream = *this]() mutable {
    // A raw layer may run callbacks on a thread that is itself in one.
    const bool outer = std::exchange(thread_state.in_callback, true);
    try {
      f();
    } catch (...) {
      keep_callback_error(stream, std::current_exception());
    }
    f = nullptr;  // what it captured may own memory, whose free must know where it is
    thread_state.in_callback = outer;
  });
}

bool Stream::is_capturing() const {
  if (runs_inline(device_.type())) return false;
  RawStreams* raw = detail::registered_raw_streams(device_.type());
  return raw && raw->is_capturing(device_.index(), handle_);
}

void synchronize(Device device) {
  device = resolve(device);
  if (!runs_inline(device.type())) {
    RawStreams& raw = detail::usable_raw_streams(device.type());
    DeviceGuard guard(device);
    raw.synchronize_device(device.index());
    check_faults(device);
  }
  rethrow_callback_error([device](const Stream& s) { return s.device() == device; });
}

namespace detail {
bool settle(const Stream& stream) noexcept {
  const Device device = stream.device();
  if (runs_inline(device.type())) return true;
  RawStreams* raw = registered_raw_streams(device.type());
  if (!raw || in_device_work()) return false;
  try {
    if (stream.handle() && raw->is_capturing(device.index(), stream.handle())) return false;
  } catch (...) {  // no stream any more: the device is asked
  }
  try {
    {
      DeviceGuard guard(device_to_enter(stream));
      if (raw->settle_stream(device.index(), stream.handle())) return true;
    }
    DeviceGuard guard(device);
    return raw->settle_device(device.index());
  } catch (...) {
    return false;
  }
}

void set_fault_check(void (*check)(int)) noexcept { fault_check.store(check, std::memory_order_release); }

void forget_pooled_streams(DeviceType type) {
  if (runs_inline(type)) return;
  for (int index = 0; index < kMaxDevices; ++index) {
    const int slot = slot_of(Device(type, index));
    for (auto& level : pools[slot].slots) {
      for (auto& s : level) {
        s.made.store(false);
        s.handle = nullptr;
      }
    }
    for (auto& next : pools[slot].next) next.store(0);
    thread_state.streams[slot] = {};
  }
}
}  // namespace detail

}  // namespace tenon

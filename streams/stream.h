// SPDX-License-Identifier: Apache-2.0
// Stream: an ordered queue of work on one device, as a small value.
//
// Note [Current stream]. Each thread has one current stream per device, at first the default stream. Every
// operator queues its work there and nowhere else; kernels/cuda/launch is the only place that launches. The
// look-up is one thread-local read. Guards (streams/guard.h) change it for a scope.
// Note [Stream pool]. from_pool hands out 32 streams per priority and device round robin, created lazily: the
// 33rd request aliases the first. create_exclusive never aliases; its stream lives until destroy_exclusive or
// the end of the process. An id is never used twice, a raw handle may be: key per-stream data by id.
// Note [CPU streams]. Work on the CPU runs inline, in call order; its streams carry an id and nothing else,
// and synchronize() returns at once.
// Thread safety: values may be used from any thread.
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/function.h>

#include <cstdint>

namespace tenon {

class Event;

class TENON_API Stream {
 public:
  /// The default stream of the CPU.
  constexpr Stream() = default;
  constexpr Stream(Device device, int32_t id, void* handle) : handle_(handle), id_(id), device_(device) {}

  /// Priority 0 is normal, anything below is high (-1).
  static Stream from_pool(int priority = 0, Device device = Device(kCUDA));
  static Stream default_stream(Device device);
  /// Priorities down to -3, as far as the device tells them apart.
  static Stream create_exclusive(int priority = 0, Device device = Device(kCUDA));
  /// Waits for the stream's work, then destroys it; no copy of it may be used afterwards. ValueError when it is
  /// not a live exclusive stream.
  static void destroy_exclusive(const Stream& stream);

  Device device() const { return device_; }
  /// 0 is the default stream; ids are unique per device and never reused in a process.
  int32_t id() const { return id_; }
  int priority() const;
  /// cudaStream_t for CUDA.
  void* handle() const { return handle_; }

  /// Waits on the host for everything queued so far. Errors of earlier callbacks and kernels surface here.
  void synchronize() const;
  /// True when everything queued so far is done.
  bool query() const;
  /// Later work here waits, on the device, for `other`'s work so far / for the event.
  void wait_stream(const Stream& other) const;
  void wait_event(const Event& event) const;
  Event record_event() const;
  /// Queues a host function. It must not use the device; an exception is rethrown by the next synchronize.
  void add_callback(Function<void()> f) const;
  bool is_capturing() const;

  bool operator==(const Stream& o) const { return id_ == o.id_ && device_ == o.device_; }

 private:
  void* handle_ = nullptr;
  int32_t id_ = 0;
  Device device_;
};

/// The calling thread's current stream on `device` (an unset index: the current device). About 2 ns.
TENON_API Stream current_stream(Device device);
TENON_API void set_current_stream(const Stream& stream);
/// The calling thread's current ordinal of a device type; Device(kCUDA) resolves to it.
TENON_API int current_device(DeviceType type);
TENON_API void set_current_device(Device device);
/// Fills in an unset index; DeviceError when the ordinal does not exist.
TENON_API Device resolve(Device device);
TENON_API int device_count(DeviceType type);
/// Waits for all streams of the device.
TENON_API void synchronize(Device device = Device(kCUDA));
/// How often each pool stream of `device` was handed out, by priority then position.
struct StreamPoolStats {
  int64_t handouts[2][32];
};
TENON_API StreamPoolStats stream_pool_stats(Device device);

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// RawStreams: what a device must offer for streams and events to work on it. CUDA and the simulated device
// implement it; the CPU does not need one (its streams run inline, in order). One instance per device type,
// registered once, never destroyed.
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/function.h>

namespace tenon {

class TENON_API RawStreams {
 public:
  virtual ~RawStreams();
  virtual int device_count() = 0;
  /// The calling thread's current ordinal, and its change; called only when it really changes.
  virtual int current_device() = 0;
  virtual void set_device(int index) = 0;
  /// priority 0 is normal, -1 and below are higher. Handles are opaque; null is the default stream.
  virtual void* create_stream(int device, int priority) = 0;
  virtual void destroy_stream(int device, void* stream) noexcept = 0;
  virtual void synchronize_stream(int device, void* stream) = 0;
  virtual bool query_stream(int device, void* stream) = 0;  ///< true: all work done
  virtual void synchronize_device(int device) = 0;
  virtual void* create_event(int device, bool timing) = 0;
  virtual void destroy_event(int device, void* event) noexcept = 0;
  virtual void record_event(int device, void* event, void* stream) = 0;
  virtual void wait_event(int device, void* stream, void* event) = 0;
  virtual bool query_event(int device, void* event) = 0;
  virtual void synchronize_event(int device, void* event) = 0;
  virtual double elapsed_ms(int device, void* start, void* end) = 0;
  /// Runs `f` on a host thread when the stream gets there.
  virtual void host_callback(int device, void* stream, Function<void()> f) = 0;
  /// True while a graph is captured on that stream: events and synchronisation are restricted then.
  virtual bool is_capturing(int device, void* stream) = 0;
};

/// Installed by the library that implements a device type. A second registration throws RegistrationError.
TENON_API void register_raw_streams(DeviceType type, RawStreams* streams);
/// The implementation, or DeviceError saying why the device type is unavailable and what to do.
TENON_API RawStreams& raw_streams(DeviceType type);
/// The implementation or null. Loads libtenon_cuda on the first question about CUDA.
TENON_API RawStreams* find_raw_streams(DeviceType type) noexcept;

}  // namespace tenon

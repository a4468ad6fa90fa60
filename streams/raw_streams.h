// SPDX-License-Identifier: Apache-2.0
// RawStreams: what a device must offer for streams and events to work on it. CUDA and the simulated device
// implement it; the CPU does not need one (its streams run inline, in order). One instance per device type,
// registered once, never destroyed, safe to call from all threads at once.
//
// Note [Raw stream rules]. The caller has made `device` current whenever something is created and whenever
// the stream is null. A wait takes the event's last record at the time the wait is queued, so that a record
// made later, by another owner of a pooled event, does not move it.
// Note [Loading CUDA]. libtenon needs nothing of CUDA to load. The first question about CUDA opens
// libtenon_cuda from libtenon's own folder, then by name; its registrar calls register_raw_streams. A program
// that links libtenon_cuda has registered it already, and nothing is opened.
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/function.h>

#include <cstdint>
#include <string>

namespace tenon {

namespace cuda {
struct DeviceProperties;  // streams/devices.h
}

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
  /// As synchronize_stream and synchronize_device, but errors that queued work has left stay for the next wait. False
  /// when the wait failed. The defaults call those two: right where these report only what lasts.
  virtual bool settle_stream(int device, void* stream) noexcept;
  virtual bool settle_device(int device) noexcept;
  /// Runs `f` on a host thread when the stream gets there.
  virtual void host_callback(int device, void* stream, Function<void()> f) = 0;
  /// Queues a copy of bytes between any two places the device type can address, host memory included. Pageable host
  /// memory may be staged before the call returns.
  virtual void copy(int device, void* stream, void* to, const void* from, int64_t bytes) = 0;
  /// Queues a kernel that runs on the host: the simulated device's operators. The default runs it at once.
  virtual void launch(int device, void* stream, const char* name, Function<void()> kernel);
  /// True while a graph is captured on that stream: events and synchronisation are restricted then.
  virtual bool is_capturing(int device, void* stream) = 0;

  // What streams/devices.h reports. The defaults say "nothing known".
  virtual bool device_properties(int device, cuda::DeviceProperties& out);
  virtual void memory_info(int device, int64_t& free, int64_t& total);
  /// 13000 for 13.0; 0 when there is none.
  virtual int runtime_version();
  virtual int driver_version();
  /// The architectures machine code was built for, as CMake spells them: "75-real;90".
  virtual const char* arch_list();
  /// Name and text of one of the device's own error codes; leaves them when it does not know the code.
  virtual void describe_error(int code, const char*& name, const char*& text);
  /// Called once per ordinal, before its first use: throws ArchError when no kernel can run there.
  virtual void check_device(int device);
};

/// Installed by the library that implements a device type. Registering another one throws RegistrationError;
/// the same one again does nothing.
TENON_API void register_raw_streams(DeviceType type, RawStreams* streams);
/// The implementation, or DeviceError saying why the device type is unavailable and what to do.
TENON_API RawStreams& raw_streams(DeviceType type);
/// The implementation or null. Loads libtenon_cuda on the first question about CUDA.
TENON_API RawStreams* find_raw_streams(DeviceType type) noexcept;

namespace detail {
/// Why libtenon_cuda could not be loaded; empty when it was, or before the first question.
TENON_API std::string cuda_library_error();
/// True in a child forked after its parent used CUDA, which does not survive a fork.
TENON_API bool forked_after_cuda() noexcept;
/// To be called before the first call that initialises the CUDA driver.
TENON_API void note_cuda_used() noexcept;
/// How often set_device was called: guards that change nothing must not add to it.
TENON_API int64_t set_device_calls() noexcept;
/// True while the calling thread runs a host callback of a stream, where the device must not be used.
TENON_API bool in_host_callback() noexcept;
/// Called with the ordinal after every wait for a CUDA stream or device; may throw what kernels have reported. Set once
/// by the library that holds the kernels.
TENON_API void set_fault_check(void (*check)(int device)) noexcept;
/// For tests: puts `streams` (or null) in the place of the registered implementation and returns that one.
/// Pools are emptied without destroying anything; no stream, event or guard of the type may be in use.
TENON_API RawStreams* exchange_raw_streams(DeviceType type, RawStreams* streams);
}  // namespace detail

}  // namespace tenon

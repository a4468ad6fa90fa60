// SPDX-License-Identifier: Apache-2.0
// RawGraphs: what a device must offer for graphs of recorded work, beside RawStreams. CUDA and the simulated device
// implement it; one instance per device type, registered once, never destroyed, safe to call from all threads at once.
// The caller has made `device` current.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>
#include <string>

namespace tenon {

/// What other threads may do while a stream is captured (the driver's modes): with `thread`, anything on other streams;
/// with `global` nothing that the driver calls unsafe, as waiting for a device, in any thread; `relaxed` forbids nothing.
enum class CaptureMode : uint8_t { thread, global, relaxed };

class TENON_API RawGraphs {
 public:
  virtual ~RawGraphs();
  /// From now on work queued on the stream is recorded and not run; so is that of streams that wait for its events.
  virtual void begin_capture(int device, void* stream, CaptureMode mode) = 0;
  /// The graph of what was recorded. CaptureError when the capture was broken, or a stream that joined it does not lead
  /// back to `stream`; the streams are usable again in any case.
  virtual void* end_capture(int device, void* stream) = 0;
  /// Tells captures apart; 0 when nothing is captured on the stream.
  virtual uint64_t capture_id(int device, void* stream) = 0;
  virtual void* instantiate(int device, void* graph) = 0;
  virtual void launch(int device, void* executable, void* stream) = 0;
  /// Either may be null. Launches that are under way end undisturbed.
  virtual void destroy(int device, void* graph, void* executable) noexcept = 0;
  virtual int64_t nodes(int device, void* graph) = 0;
  /// Writes the graph as a Graphviz file.
  virtual void dump(int device, void* graph, const std::string& path) = 0;
};

/// Installed by the library that implements a device type; another one is a RegistrationError.
TENON_API void register_raw_graphs(DeviceType type, RawGraphs* graphs);
/// The implementation, or DeviceError saying why there is none.
TENON_API RawGraphs& raw_graphs(DeviceType type);

}  // namespace tenon

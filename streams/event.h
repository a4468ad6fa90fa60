// SPDX-License-Identifier: Apache-2.0
// Event: a mark in a stream. Created lazily on first record, taken from a per-device pool, given back on
// destruction. Move-only. Unrecorded events are complete; elapsed_time on them is an error.
#pragma once

#include <tenon/streams/stream.h>

namespace tenon {

class TENON_API Event {
 public:
  explicit Event(bool enable_timing = false) : timing_(enable_timing) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  void record(const Stream& stream);
  void record() { record(current_stream(device_)); }
  /// Makes `stream` wait on the device.
  void wait(const Stream& stream) const;
  bool query() const;
  void synchronize() const;
  /// Milliseconds from this event to `end`; both recorded with enable_timing and complete, else ValueError.
  double elapsed_time(const Event& end) const;
  bool recorded() const { return handle_ != nullptr; }
  Device device() const { return device_; }

 private:
  friend class Stream;
  void* handle_ = nullptr;
  Device device_;
  bool timing_ = false;
};

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Event: a mark in a stream. Created lazily on first record, taken from a per-device pool, given back on
// destruction. Move-only. Unrecorded events are complete; elapsed_time on them is an error.
// Thread safety: const members may be called from any thread at once; record needs the object alone.
#pragma once

#include <tenon/streams/stream.h>

namespace tenon {

class TENON_API Event {
 public:
  /// `device` is where record() without a stream records the first time.
  explicit Event(bool enable_timing = false, Device device = Device(kCUDA)) : device_(device), timing_(enable_timing) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// Marks the work queued on `stream` so far. Later records must be on the same device.
  void record(const Stream& stream);
  void record() { record(current_stream(device_)); }
  /// Later work on `stream` waits for the mark: on the device, or on the host when `stream` runs on another
  /// kind of device (the CPU's run inline).
  void wait(const Stream& stream) const;
  bool query() const;
  void synchronize() const;
  /// Milliseconds from this event to `end`; both recorded with enable_timing and complete, else ValueError.
  double elapsed_time(const Event& end) const;
  bool recorded() const { return recorded_; }
  Device device() const { return device_; }

 private:
  void* handle_ = nullptr;  // null on the CPU
  int64_t cpu_time_ = 0;    // nanoseconds
  Device device_;
  bool timing_ = false;
  bool recorded_ = false;
};

}  // namespace tenon

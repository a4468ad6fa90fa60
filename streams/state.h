// SPDX-License-Identifier: Apache-2.0
// Internal to streams/: the calling thread's device and stream state, and what its sources share.
// One flat slot per device: cpu, meta, then every ordinal of cuda and of sim.
#pragma once

#include <tenon/streams/raw_streams.h>
#include <tenon/streams/stream.h>

#include <cstdint>

namespace tenon::detail {

inline constexpr int kDeviceSlots = 2 + 2 * kMaxDevices;

/// CPU and meta work runs in the calling thread, in call order: nothing to wait for, no RawStreams.
constexpr bool runs_inline(DeviceType type) { return type == kCPU || type == kMeta; }

constexpr int slot_of(Device device) {
  switch (device.type()) {
    case kCPU:
      return 0;
    case kMeta:
      return 1;
    case kCUDA:
      return 2 + device.index();
    case kSim:
      return 2 + kMaxDevices + device.index();
  }
  return 0;
}

// All zero at the start of a thread, so it lies in .tbss and needs no constructor; initial-exec makes an
// access one instruction, also from a shared object.
struct ThreadState {
  struct {
    void* handle;
    int32_t id;
  } streams[kDeviceSlots];
  int8_t device[kDeviceTypes];  // ordinal + 1; 0: not asked yet
  bool in_callback;             // running a host callback, where the device must not be used
  bool in_task;                 // running a task of the simulated device, where nothing may wait for it
};
extern constinit thread_local ThreadState thread_state __attribute__((tls_model("initial-exec")));

/// raw_streams(), but DeviceError inside a host callback.
RawStreams& usable_raw_streams(DeviceType type);
/// The registered implementation and nothing else: no loading, no errors. For destructors.
RawStreams* registered_raw_streams(DeviceType type) noexcept;

/// Called around a replacement of the implementation (tests): forget every pooled handle of the type.
void forget_pooled_streams(DeviceType type);
void forget_pooled_events(DeviceType type);
/// Gives the pooled events back to the implementation.
void destroy_pooled_events(DeviceType type) noexcept;

}  // namespace tenon::detail

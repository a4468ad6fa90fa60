// SPDX-License-Identifier: Apache-2.0
// Guards: scopes for the ambient device and stream. Not movable: a guard restores what it found when its scope
// ends, and that only makes sense in the thread and order it was made in.
#pragma once

#include <tenon/streams/stream.h>

namespace tenon {

/// Makes `device` current; restores the old one. Costs a driver call only when the ordinal differs, and nothing
/// for the CPU and meta.
class TENON_API DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  Device previous_;
};

/// Makes `stream` and its device current; restores both.
class TENON_API StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  DeviceGuard device_;
  Stream previous_;
};

}  // namespace tenon

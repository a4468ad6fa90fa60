// SPDX-License-Identifier: Apache-2.0
// Context: what the calling thread and the process hold of a device, at one look.
#pragma once

#include <tenon/memory/allocator.h>
#include <tenon/streams/stream.h>

#include <string>

namespace tenon {

struct Context {
  Device device;
  Stream stream;                  ///< the calling thread's current one
  bool current = false;           ///< the device is the thread's current one of its type
  StreamPoolStats pool;           ///< hand-outs of pooled streams
  int64_t exclusive_streams = 0;  ///< alive
  int64_t pooled_events = 0;      ///< events at rest, ready to serve again
  int64_t device_changes = 0;     ///< times any thread's current device was changed by the driver
  memory::MemoryStats memory;
  memory::MemoryStats pinned;  ///< of the process; empty while there is none

  /// Nothing is made that is not there, but for the device's allocator.
  TENON_API static Context of(Device device);
  /// A few lines for people.
  TENON_API std::string str() const;
};

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// RawMemory: a source of bytes beneath the caching allocator. Host (huge pages), pinned, CUDA and simulated
// memory implement it.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>

namespace tenon::memory {

/// Thread safety: all members may be called from any thread at once.
class TENON_API RawMemory {
 public:
  virtual ~RawMemory();
  /// Memory aligned to at least 512 bytes, or null when there is none (not an error: the ladder goes on).
  virtual void* allocate(int64_t bytes) = 0;
  /// Takes memory back; work queued on it must be finished before it is used again (cudaFree waits for it).
  virtual void release(void* p, int64_t bytes) noexcept = 0;
  /// Bytes free and in all, as the device reports them.
  virtual void info(int64_t& free, int64_t& total) = 0;
  virtual const char* name() const = 0;
  /// True when the host may read and write the bytes: only then can free blocks be poisoned.
  virtual bool host_accessible() const { return false; }
};

/// Makes the source of one device; called once per device, the result lives as long as the process.
using RawMemoryFactory = RawMemory* (*)(int index);
/// Installed at load by the library that implements a device type. A second, different factory throws
/// RegistrationError.
TENON_API void register_raw_memory(DeviceType type, RawMemoryFactory factory);
/// The source of page-locked host memory (its index is 0).
TENON_API void register_pinned_memory(RawMemoryFactory factory);

}  // namespace tenon::memory

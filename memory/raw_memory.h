// SPDX-License-Identifier: Apache-2.0
// RawMemory: a source of bytes beneath the caching allocator. Host (huge pages), pinned, CUDA and simulated
// memory implement it.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>

namespace tenon::memory {

class TENON_API RawMemory {
 public:
  virtual ~RawMemory();
  /// Memory aligned to at least 512 bytes, or null when there is none (not an error: the ladder goes on).
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* p, int64_t bytes) noexcept = 0;
  /// Bytes free and in all, as the device reports them.
  virtual void info(int64_t& free, int64_t& total) = 0;
  virtual const char* name() const = 0;
};

}  // namespace tenon::memory

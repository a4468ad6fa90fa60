// SPDX-License-Identifier: Apache-2.0
// RawMemory: a source of bytes beneath the caching allocator. Host (huge pages), pinned, CUDA and simulated
// memory implement it.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>

namespace tenon::memory {

/// What expandable segments need: a range of addresses whose pages come and go.
/// Thread safety: all members may be called from any thread at once, for different ranges.
class TENON_API VirtualMemory {
 public:
  virtual ~VirtualMemory();
  /// Addresses and sizes below are multiples of this power of two.
  virtual int64_t granularity() const = 0;
  /// A range without memory behind it, or null.
  virtual void* reserve(int64_t bytes) = 0;
  /// Puts memory behind part of a range, all of it or (false) none.
  virtual bool map(void* p, int64_t bytes) = 0;
  /// Takes it away again; any whole pages, however they were mapped. Work queued on them must be finished first: a
  /// device that cannot know waits for itself, as cudaFree does.
  virtual void unmap(void* p, int64_t bytes) noexcept = 0;
  /// Gives a range back, nothing of which is mapped.
  virtual void unreserve(void* p, int64_t bytes) noexcept = 0;
};

struct AllocatorSettings;

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
  /// True when work on the bytes may still be queued when they are freed: poison then goes behind it, by fill().
  virtual bool queued() const { return false; }
  /// Queues a memset on the stream of that handle; what cannot be queued is left out.
  virtual void fill(void* p, int64_t bytes, int value, void* stream) noexcept;
  /// Null where segments cannot expand.
  virtual VirtualMemory* virtual_memory() { return nullptr; }
  /// Told of settings before the first allocation and when they change. May throw ValueError: nothing has changed then.
  virtual void configure(const AllocatorSettings& settings);
};

/// Makes the source of one device; called once per device, the result lives as long as the process.
using RawMemoryFactory = RawMemory* (*)(int index);
/// Installed at load by the library that implements a device type. A second, different factory throws
/// RegistrationError.
TENON_API void register_raw_memory(DeviceType type, RawMemoryFactory factory);
/// The source of page-locked host memory (its index is 0).
TENON_API void register_pinned_memory(RawMemoryFactory factory);

}  // namespace tenon::memory

// SPDX-License-Identifier: Apache-2.0
// AllocatorObserver: sees what an allocator does, for traces, snapshots and lists of live tensors.
//
// Note [Observed]. While an observer is set, every allocation and free takes the slow path, which tests one pointer;
// without one the hot path pays nothing. before() is called without locks, so costly context (a stack) belongs there, in
// a thread-local; on_event() follows in the same thread. For blocks it holds the lock of their pool, so the events of one
// address come in their true order; for segments and out_of_memory it may hold no lock, or the one for growing. A block is reported as freed twice: when its owner asked, and when it became
// reusable, which is later when other streams still used it (then from any thread, without a before()).
// Thread safety: both are called from many threads at once.
// Internal: not for users' files.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>

namespace tenon::memory {

enum class AllocatorEventKind : uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,  ///< the device gave memory
  segment_free,   ///< it went back
  segment_map,    ///< pages were added to an expandable segment
  segment_unmap,  ///< pages of it went back
  out_of_memory,  ///< the ladder is exhausted; ptr is null, size what the device would have had to give
};

struct AllocatorEvent {
  AllocatorEventKind kind;
  Device device;
  const char* memory;  ///< RawMemory::name(): tells pinned memory from other host memory
  int32_t stream;      ///< of the block's or segment's pool
  const void* ptr;
  int64_t size;
  int64_t requested;  ///< what the caller asked for; 0 for segments
};

class TENON_API AllocatorObserver {
 public:
  virtual ~AllocatorObserver();
  /// An allocation of `bytes` or the free of a block begins in this thread.
  virtual void before(AllocatorEventKind kind, int64_t bytes);
  /// Must be short, and must neither throw nor use any tenon memory.
  virtual void on_event(const AllocatorEvent& event) noexcept = 0;
};

/// One observer for all allocators of the process, also those made later; null for none. Returns the one before, which
/// may still be called by threads that are in the middle of an allocation: keep it alive (or leak it).
TENON_API AllocatorObserver* set_allocator_observer(AllocatorObserver* observer);

}  // namespace tenon::memory

// SPDX-License-Identifier: Apache-2.0
// StreamPool: the free memory of one stream, with the lock that guards it and the counters of its blocks.
//
// Note [Front]. Freed blocks up to 1 MiB are not merged at once: each pool keeps up to 1,024 of them (64 MiB) in
// exact-size LIFO lists, so the common free and allocate is a push and a pop. The front is merged before anybody could
// see the difference: before the device is asked for memory, for statistics, empty_cache and the listing of blocks.
// Note [Contention]. At first all pools of an allocator share one lock and one count of bytes in use, so the peak is
// exact. When threads have really waited for that lock, each pool gets its own lock (the allocator is split), and when
// threads wait for one pool's lock, its threads get pools of their own (its shards), found by a thread's slot; for
// large blocks they still look into each other's before the device is asked. A split pool claims bytes from the
// common count in steps, so from then on the peak is exact to kClaim and the block freed last, per pool in use;
// everything else stays exact.
// reset_peaks() joins them again.
// Note [Recycling]. A pool is found without a lock, so its memory is never freed: an empty one is marked as spare (id
// -1), and whoever takes its lock checks the id.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/free_list.h>
#include <tenon/memory/spin_lock.h>

#include <cstdint>

namespace tenon::memory {

class CachingAllocator;

inline constexpr int64_t kFrontLimit = 1 << 20;
inline constexpr int kFrontClasses = static_cast<int>(kFrontLimit / kMinBlock);
inline constexpr int kFrontBlocks = 1024;
inline constexpr int64_t kFrontBytes = 64 << 20;
inline constexpr int kThreadSlots = 16;
inline constexpr int64_t kClaim = 256 << 10;
inline constexpr int kContended = 100;  ///< waits that show contention

/// Sums over pools make the statistics.
struct PoolCounters {
  int64_t allocated = 0, requested = 0, allocations = 0, frees = 0;
  int64_t splits = 0, merges = 0, cached_blocks = 0, pending = 0;
  int64_t total_allocated = 0, large_allocated = 0, large_allocations = 0, large_frees = 0;
};

struct alignas(64) StreamPool {
  SpinLock* lock = nullptr;  ///< the allocator's, or `own`
  int64_t fast_limit = 0;    ///< blocks up to this may use the front
  int32_t id = -1;           ///< of the stream
  int32_t front_blocks = 0;
  int64_t front_bytes = 0;
  int64_t claimed = 0;            ///< of the common count of bytes in use; only when split
  int64_t requested_claimed = 0;  ///< likewise of bytes asked for
  StreamPool** shards = nullptr;  ///< by thread slot
  bool split = false;
  alignas(64) SpinLock own;
  PoolCounters count;

  CachingAllocator* owner = nullptr;
  Stream stream;
  StreamPool* base = nullptr;  ///< of a shard
  int contended = 0;
  int64_t blocks = 0;  ///< of any state; a pool without blocks can be recycled
  Segment* segments = nullptr;
  int64_t ranges = 0;         ///< expandable ones
  Segment* cursor = nullptr;  ///< where background trimming goes on
  int64_t trim_seen = 0;      ///< allocations when it looked last
  Slab<Block> slab;
  SizeTree large;
  SizeBins small;
  Block* front[kFrontClasses + 1] = {};  ///< by size / kMinBlock
};

/// The calling thread's number, 0 to kThreadSlots - 1, dealt out in turns.
int thread_slot() noexcept;

/// Holds a pool's lock for a scope, whichever it is by then.
class PoolGuard {
 public:
  explicit PoolGuard(StreamPool* pool) : pool_(pool) {
    for (;;) {
      lock_ = __atomic_load_n(&pool->lock, __ATOMIC_ACQUIRE);
      waited_ |= lock_->lock();
      if (lock_ == __atomic_load_n(&pool->lock, __ATOMIC_RELAXED)) [[likely]]
        return;
      lock_->unlock();
    }
  }
  ~PoolGuard() {
    lock_->unlock();
    if (waited_) [[unlikely]]
      report();
  }
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;

 private:
  void report() noexcept;
  StreamPool* pool_;
  SpinLock* lock_;
  bool waited_ = false;
};

}  // namespace tenon::memory

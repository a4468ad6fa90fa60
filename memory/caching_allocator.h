// SPDX-License-Identifier: Apache-2.0
// CachingAllocator: one policy for all memory (host, pinned, CUDA, simulated) over a RawMemory source.
//
// Note [Size classes]. Requests are rounded to 512 bytes. Up to 1 MiB they are cut from 2 MiB segments (the
// small pool), up to 10 MiB from 20 MiB segments, above that a segment is the request rounded to 2 MiB. A block
// is split when the rest is usable: 512 bytes in the small pool, more than the small limit in the large one.
// Freed blocks merge with free neighbours, so an idle segment is one block again.
// Note [Streams]. A block belongs to the stream it was allocated on and returns to that stream's pool, from any
// thread: work of one stream is ordered, so reuse there needs no waiting. Other streams that touch a block are
// told by record_stream; only then does the free record one event per such stream, and the block waits for them.
// Note [Locks]. A pool's lock (memory/stream_pool.h says which) guards its books, `lock_` the list of pools; neither is
// held across a driver call, a wait or a callback. `slow_` serialises those who ask the device for memory or give it back
// (which may wait for the device), `events_` those who query and wait for events; events_ is never taken with slow_ held.
// Order: slow_, lock_, a pool's own lock, uses_lock_; two pools only by who holds lock_. Freeing takes only its pool's.
// Note [Device work]. A host callback, or a kernel of the simulated device, may be what somebody waits for who holds
// slow_ of a device's or of pinned memory, or any events_. So inside of them (detail::in_device_work()) those are never
// taken: growing and emptying a cache is an error there except for host memory, events are not looked at, and blocks
// whose free has to ask the device are deferred.
// Note [Private pools]. find_pool is the one place that chooses a pool; whatever would choose another one there must
// also set fast_limit to 0 in the pools it replaces, as an observer does.
// Note [Ladder]: out_of_memory.cpp. Thread safety: everything, from any thread.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/allocator.h>
#include <tenon/memory/observer.h>
#include <tenon/memory/raw_memory.h>
#include <tenon/memory/settings.h>
#include <tenon/memory/stream_pool.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::memory {

inline constexpr int64_t kHugeRounding = 2 << 20;
inline constexpr int64_t kLargestRequest = int64_t{1} << 60;  ///< no device has more; sums of it do not overflow
inline constexpr int kRecent = 256;                           ///< covers the ids of all pooled streams

/// One block as the listing shows it.
struct BlockInfo {
  const void* segment;
  int64_t segment_size;
  const void* ptr;
  int64_t size, requested;
  int32_t stream;
  BlockState state;
  bool small;  ///< in the small pool
  bool expandable;
};

enum class MemoryKind : uint8_t { device, host, pinned };

class TENON_API CachingAllocator {
 public:
  /// `exact` serves backend:direct (null: `raw` does). Both must outlive the allocator.
  CachingAllocator(Device device, RawMemory* raw, RawMemory* exact = nullptr, MemoryKind kind = MemoryKind::device);
  /// For tests: gives everything back, in use or not. The library's own allocators are never destroyed.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// `bytes` > 0 for work on `stream`. Throws OutOfMemoryError when the ladder is exhausted.
  Block* allocate(int64_t bytes, const Stream& stream);
  void free(Block* block) noexcept;
  void record_stream(Block* block, const Stream& stream);
  /// Deleter of a DataPtr whose context is the block.
  static void release(void* block) noexcept;

  void configure(const AllocatorSettings& settings);
  /// Null for none; see memory/observer.h. The old one may be in use until running calls have returned.
  void observe(AllocatorObserver* observer);
  void empty_cache();
  MemoryStats stats();
  void reset_peaks();
  void reset_accumulated();
  /// Bytes in use, the most there were, and reserved; cheaper than stats().
  void usage(int64_t& allocated, int64_t& peak_allocated, int64_t& reserved);
  /// All blocks that have memory, segment by segment, in address order within one. Of an expandable segment, every
  /// stretch with memory counts as a segment here.
  std::vector<BlockInfo> blocks();
  Device device() const { return device_; }
  RawMemory* raw() const { return raw_; }
  std::string settings_text();
  /// One round of background trimming: gives back what has been idle since the round before the last. Returns the
  /// longest time, in nanoseconds of this thread's CPU, that it held a lock.
  int64_t trim();

  /// Around fork: hold all locks, so that the child finds consistent books, and let them go on both sides. First those
  /// that are held while somebody waits for a device, of all allocators, host memory's last: what is waited for may
  /// need host memory.
  void lock_device_for_fork();
  void lock_for_fork();
  void unlock_after_fork();

 private:
  friend class PoolGuard;
  struct Request {
    Stream stream;
    int64_t bytes, size, segment;  ///< asked for; the block; what to ask the device for
    bool small, direct;
  };
  struct PendingQueue {  ///< events of one stream complete in order
    Stream stream;
    StreamUse* head = nullptr;
    StreamUse* tail = nullptr;
    int64_t uses = 0;  ///< of live and pending blocks; without any the queue goes
  };
  struct Usage {  ///< of all pools; their own claims once split_
    int64_t allocated = 0, requested = 0, pending = 0;
    int64_t peak_allocated = 0, peak_requested = 0, peak_active = 0;
  };
  struct Holes {  ///< free bytes, as one request sees them
    int64_t usable = 0, largest = 0, other_streams = 0, other_pool = 0, unsplittable = 0;
  };
  class AllPools;  ///< guard: all locks of all pools

  // Finding pools (stream_pool.cpp).
  StreamPool* recent_pool(const Stream& stream) const;
  StreamPool* find_pool(const Stream& stream);
  StreamPool* add_pool(const Stream& stream, StreamPool* base);
  StreamPool* pool_at(std::size_t i);
  void note_contention(StreamPool* pool) noexcept;
  MemoryStats sums() const;  ///< under all locks
  void recycle_pools();

  // Under the pool's lock (blocks.cpp).
  Request make_request(int64_t bytes, const Stream& stream) const;
  Block* take_from_cache(const Request& request, StreamPool* pool);
  Block* best_fit(const Request& request, StreamPool* pool) const;
  bool worth_splitting(const Block* block, const Request& request) const;
  Block* cut_and_hand_out(Block* block, Block* rest, const Request& request);
  void split_off(Block* block, int64_t size, Block* rest);
  Block* hand_out(StreamPool* pool, Block* block, int64_t bytes);
  void count_free(StreamPool* pool, const Block* block);
  void claim(StreamPool* pool);
  void give_back(Block* block);
  void absorb(Block* left, Block* right);
  void list(Block* block);
  void unlist(Block* block);
  void merge_front(StreamPool* pool, int at_most = kFrontBlocks + 1);
  Segment* link_segment(const Request& request, StreamPool* pool, void* memory, Block* first);
  void unlink_segment(Segment* segment);
  bool idle(const Segment* segment) const;
  void tell(AllocatorEventKind kind, const Block* block);
  void tell(AllocatorEventKind kind, int32_t stream, const void* p, int64_t bytes, int64_t requested = 0);

  // Without locks.
  Block* allocate_slow(int64_t bytes, const Stream& stream);
  void free_slow(Block* block) noexcept;
  void free_direct(Block* block) noexcept;
  void release_direct(Block* block, bool deferred) noexcept;
  void free_pending(Block* block) noexcept;
  bool mark_uses(const Block* block) noexcept;
  bool passed(const Block* block) const noexcept;
  void enqueue_uses(Block* block) noexcept;  ///< under uses_lock_
  void make_pending(Block* block) noexcept;
  void end_pending(Block* block) noexcept;  ///< under the pool's lock
  void defer(Block* block) noexcept;
  void retry_deferred() noexcept;
  void check_place(const char* what) const;
  void finish_pending(bool wait);  ///< without slow_; does nothing inside device work
  void finish(Block* block);
  PendingQueue* find_queue(const Stream& stream);  ///< under uses_lock_
  Segment* uncached(Block* block);
  void poison(Block* block) noexcept;
  void unpoison(Block* block) noexcept;
  void choose_fast_path(StreamPool* pool);

  // Holding slow_: growing (growth.cpp, expandable.cpp), releasing (release.cpp).
  Block* grow(const Request& request);
  Block* retry(const Request& request);
  Block* from_device(const Request& request);
  Block* add_segment(const Request& request, void* memory);
  Block* expand(const Request& request, bool& no_addresses);
  void count_segment(const Segment* segment, int64_t count);
  void count_reserved(const Segment* segment, int64_t bytes);
  int64_t page_size() const;
  Block* find_room(const Request& request, StreamPool* pool) const;
  bool add_range(const Request& request, StreamPool* pool);
  bool map_run(Block* first, Block* last);
  bool release_pages(int32_t before, int at_most);
  Block* releasable(StreamPool* pool, int32_t before) const;
  Block* take_pages(Block* block);
  void unmap_pages(Block* block);
  void list_unmapped(Block* block);
  void unlink_unmapped(Block* block);
  void collect_garbage();
  bool release_oversize(int64_t bytes);
  bool release_idle();
  template <class Better>
  Segment* take_idle(Better better);
  void release_segments(Segment* chain);
  Holes holes_for(const Request& request);
  std::string verdict(const Request& request, const MemoryNumbers& numbers, const Holes& holes);
  [[noreturn]] void raise_out_of_memory(const Request& request, std::unique_lock<std::mutex>& slow);

  const Device device_;
  RawMemory* const raw_;
  RawMemory* const exact_;
  const MemoryKind kind_;
  StreamPool* recent_[kRecent] = {};  ///< pools by stream id mod kRecent

  alignas(64) SpinLock lock_;
  Usage usage_;  ///< under lock_, atomic once split_
  int contended_ = 0;
  bool split_ = false;

  alignas(64) std::vector<StreamPool*> pools_;
  int64_t reserved_ = 0, peak_reserved_ = 0, total_reserved_ = 0, large_reserved_ = 0, large_segments_ = 0;  ///< atomic
  int64_t segments_allocated_ = 0, segments_released_ = 0, out_of_memory_ = 0, retries_ = 0;                 ///< atomic
  MemoryStats base_;      ///< the sums at the last reset of what accumulates; under all locks
  int32_t epoch_ = 0;     ///< advances with every request to the device and every round of trimming; atomic
  int32_t trimmed_ = -1;  ///< epoch of the last round
  SpinLock uses_lock_;    ///< guards the queues
  std::vector<PendingQueue> pending_;
  Block* deferred_ = nullptr;              ///< freed where streams could be neither marked nor waited for; uses_lock_
  int64_t pending_events_ = 0;             ///< and deferred blocks; atomic
  AllocatorObserver* observer_ = nullptr;  ///< changed with all locks held
  AllocatorSettings settings_;             ///< likewise, and with slow_
  std::string settings_text_ = settings_.str();
  bool poison_free_ = false;
  int64_t limit_ = INT64_MAX;  ///< bytes that may be reserved
  int64_t total_ = INT64_MAX;  ///< of the device, when something is measured against it

  std::mutex events_;  ///< only its holder removes from the queues of pending uses
  std::mutex slow_;
};

/// An allocator of the process; `pinned`: of page-locked host memory.
struct AllocatorEntry {
  CachingAllocator* allocator;
  bool pinned;
};
/// All that exist so far, by device.
std::vector<AllocatorEntry> existing_allocators();

/// Called when memory has run out, without locks, before the error is thrown; what it returns ends the error's text.
using AtOutOfMemory = std::string (*)(CachingAllocator& allocator);
void set_at_out_of_memory(AtOutOfMemory look);
/// What set_tape_bytes_source's function says; 0 without one.
int64_t tape_bytes(Device device);
/// Runs the registered callbacks (allocator.h); false when there are none. No lock may be held.
bool run_out_of_memory_callbacks(Device device, int64_t bytes);

}  // namespace tenon::memory

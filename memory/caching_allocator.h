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
// Note [Front]. Blocks up to 64 KiB are not merged at once: each pool keeps up to 1,024 of them in exact-size
// LIFO lists, so the common free and allocate is a push and a pop. The front is merged before anybody could see
// the difference: before the device is asked for memory, for statistics, empty_cache and the listing of blocks.
// Note [Locks]. `lock_` guards all books and is never held across a driver call, a wait or a callback. `slow_`
// serialises those who talk to the device (growing, releasing, event queries); order: slow_ before lock_.
// Freeing takes only lock_. Note [Ladder]: out_of_memory.cpp. Thread safety: everything, from any thread.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/allocator.h>
#include <tenon/memory/free_list.h>
#include <tenon/memory/observer.h>
#include <tenon/memory/raw_memory.h>
#include <tenon/memory/settings.h>
#include <tenon/memory/spin_lock.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace tenon::memory {

class CachingAllocator;

inline constexpr int64_t kLargeSegment = 20 << 20;
inline constexpr int64_t kLargeRequest = 10 << 20;  ///< above this, a segment of its own size
inline constexpr int64_t kHugeRounding = 2 << 20;
inline constexpr int64_t kLargestRequest = int64_t{1} << 60;  ///< no device has more; sums of it do not overflow
inline constexpr int64_t kFrontLimit = 64 << 10;
inline constexpr int kFrontClasses = static_cast<int>(kFrontLimit / kMinBlock);
inline constexpr int kFrontBlocks = 1024;
inline constexpr int kRecent = 256;  ///< covers the ids of all pooled streams

/// The free memory of one stream.
struct StreamPool {
  CachingAllocator* owner = nullptr;
  Stream stream;
  int64_t blocks = 0;  ///< of any state; a pool without blocks can go
  int front_blocks = 0;
  Block* front[kFrontClasses + 1] = {};  ///< by size / kMinBlock
  SizeTree large;
  SizeBins small;
};

/// One block as the listing shows it.
struct BlockInfo {
  const void* segment;
  int64_t segment_size;
  const void* ptr;
  int64_t size, requested;
  int32_t stream;
  BlockState state;
  bool small;  ///< in the small pool
};

class TENON_API CachingAllocator {
 public:
  /// `exact` serves backend:direct (null: `raw` does). Both must outlive the allocator.
  CachingAllocator(Device device, RawMemory* raw, RawMemory* exact = nullptr);
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
  /// All blocks, segment by segment, in address order within one.
  std::vector<BlockInfo> blocks();
  Device device() const { return device_; }
  RawMemory* raw() const { return raw_; }
  std::string settings_text();

  /// Around fork: hold all locks, so that the child finds consistent books, and let them go on both sides.
  void lock_for_fork();
  void unlock_after_fork();

 private:
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

  // Under lock_.
  MemoryStats raw_stats() const;
  StreamPool* find_pool(const Stream& stream);
  PendingQueue* find_queue(const Stream& stream);
  Request make_request(int64_t bytes, const Stream& stream) const;
  Block* take_from_cache(const Request& request);
  Block* best_fit(const Request& request, StreamPool* pool) const;
  bool worth_splitting(const Block* block, const Request& request) const;
  Block* cut_and_hand_out(Block* block, Block* rest, const Request& request);
  Block* add_segment(const Request& request, void* memory);
  Block* hand_out(Block* block, int64_t bytes);
  void count_free(const Block* block);
  void count_released(const Segment* segment);
  void give_back(Block* block);
  void absorb(Block* left, Block* right);
  void list(Block* block);
  void unlist(Block* block);
  void merge_front(StreamPool* pool);
  void merge_fronts();
  void unlink_segment(Segment* segment);
  void choose_fast_path();
  void tell(AllocatorEventKind kind, const Block* block);
  void tell(AllocatorEventKind kind, const Segment* segment);
  bool idle(const Segment* segment) const;

  // Without lock_.
  Block* allocate_slow(int64_t bytes, const Stream& stream);
  void free_slow(Block* block) noexcept;
  void free_direct(Block* block) noexcept;
  void free_pending(Block* block) noexcept;
  void poison(Block* block) noexcept;
  void unpoison(Block* block) noexcept;

  // Holding slow_ (out_of_memory.cpp; the events in stream_uses.cpp).
  Block* grow(const Request& request);
  Block* retry(const Request& request);
  Block* from_device(const Request& request);
  void finish_pending(bool wait);
  bool release_oversize(int64_t bytes);
  bool release_idle();
  void release_segments(Segment* chain);
  [[noreturn]] void raise_out_of_memory(const Request& request);

  const Device device_;
  RawMemory* const raw_;
  RawMemory* const exact_;

  alignas(64) SpinLock lock_;
  int64_t fast_limit_ = kFrontLimit;  ///< blocks up to this may use the front; read without lock_
  bool poison_free_ = false;          ///< read without lock_
  StreamPool* recent_[kRecent] = {};  ///< pools by stream id mod kRecent
  MemoryStats stats_;                 ///< never reset; of the pools, large alone is counted
  MemoryStats base_;                  ///< stats_ at the last reset of what accumulates
  int64_t pending_bytes_ = 0, pending_events_ = 0;
  Segment* segments_ = nullptr;
  std::vector<StreamPool*> pools_;
  std::vector<PendingQueue> pending_;
  AllocatorSettings settings_;
  int64_t limit_ = INT64_MAX;  ///< bytes that may be reserved
  AllocatorObserver* observer_ = nullptr;
  Slab<Block> block_slab_;
  Slab<Segment> segment_slab_;

  std::mutex slow_;
};

/// An allocator of the process; `pinned`: of page-locked host memory.
struct AllocatorEntry {
  CachingAllocator* allocator;
  bool pinned;
};
/// All that exist so far, by device.
std::vector<AllocatorEntry> existing_allocators();

/// Runs the registered callbacks (allocator.h); false when there are none. No lock may be held.
bool run_out_of_memory_callbacks(Device device, int64_t bytes);

}  // namespace tenon::memory

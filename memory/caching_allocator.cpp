// SPDX-License-Identifier: Apache-2.0
// Allocating and freeing in normal times: the front first, then the pool's free lists, then the device. Pools are
// found in stream_pool.cpp, blocks cut and merged in blocks.cpp; growing is in growth.cpp, running out of memory in
// out_of_memory.cpp, blocks used by several streams in stream_uses.cpp, statistics in statistics.cpp.
#include <tenon/memory/all_pools.h>
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/planted_bugs.h>
#include <tenon/memory/poison.h>
#include <tenon/streams/settle.h>

#include <algorithm>
#include <utility>

namespace tenon::memory {

AllocatorObserver::~AllocatorObserver() = default;
void AllocatorObserver::before(AllocatorEventKind, int64_t) {}

CachingAllocator::CachingAllocator(Device device, RawMemory* raw, RawMemory* exact, MemoryKind kind)
    : device_(device), raw_(raw), exact_(exact ? exact : raw), kind_(kind) {}

CachingAllocator::~CachingAllocator() {
  for (PendingQueue& queue : pending_) {
    while (StreamUse* use = queue.head) {
      queue.head = use->next;
      delete use;
    }
  }
  while (Block* block = deferred_) {
    deferred_ = block->list_next;
    while (StreamUse* use = block->uses) {
      block->uses = use->next;
      delete use;
    }
  }
  for (StreamPool* pool : pools_) {
    while (Segment* segment = pool->segments) {
      pool->segments = segment->next;
      if (raw_->host_accessible()) ASAN_UNPOISON_MEMORY_REGION(segment->ptr, segment->range);
      if (segment->expandable) {
        VirtualMemory* vm = raw_->virtual_memory();
        for (Block* b = segment->first; b;) {
          char* const from = b->ptr;
          char* to = from;
          for (; b && b->state != BlockState::unmapped; b = b->next) to += b->size;
          if (to > from) vm->unmap(from, to - from);
          if (b) b = b->next;
        }
        vm->unreserve(segment->ptr, segment->range);
      } else {
        (segment->direct ? exact_ : raw_)->release(segment->ptr, segment->size);
      }
      delete segment;
    }
  }
  for (StreamPool* pool : pools_) {
    if (!pool->base) delete[] pool->shards;
    delete pool;
  }
}

Block* CachingAllocator::allocate(int64_t bytes, const Stream& stream) {
  if (TENON_PLANTED(pool_by_handle)) {
    for (const StreamPool* p : pools_) {
      if (p->id >= 0 && p->stream.handle() == stream.handle()) return allocate_slow(bytes, p->stream);
    }
  }
  if (bytes <= kFrontLimit) [[likely]] {
    if (StreamPool* pool = recent_pool(stream)) [[likely]] {
      const auto size_class = static_cast<uint64_t>(bytes + kMinBlock - 1) / kMinBlock;
      PoolGuard guard(pool);
      if (pool->id == stream.id() && bytes <= pool->fast_limit) [[likely]] {
        if (Block* block = pool->front[size_class]) [[likely]] {
          pool->front[size_class] = block->list_next;
          --pool->front_blocks;
          pool->front_bytes -= block->size;
          return hand_out(pool, block, bytes);
        }
      }
    }
  }
  return allocate_slow(bytes, stream);
}

void CachingAllocator::free(Block* block) noexcept {
  const int64_t size = block->size;
  if (TENON_PLANTED(cross_thread_free_lost) && thread_slot() != 0) return;
  if (size <= kFrontLimit && !block->uses && block->state == BlockState::in_use) [[likely]] {
    StreamPool* pool = block->pool;
    PoolGuard guard(pool);
    if (size <= pool->fast_limit && pool->front_blocks < kFrontBlocks && pool->front_bytes < kFrontBytes) [[likely]] {
      count_free(pool, block);
      Block*& head = pool->front[static_cast<uint64_t>(size) / kMinBlock];
      block->list_next = head;
      block->state = BlockState::front;
      head = block;
      ++pool->front_blocks;
      pool->front_bytes += size;
      return;
    }
  }
  free_slow(block);
}

void CachingAllocator::release(void* block) noexcept {
  auto* b = static_cast<Block*>(block);
  b->pool->owner->free(b);
}

Block* CachingAllocator::allocate_slow(int64_t bytes, const Stream& stream) {
  TENON_ASSERT(bytes > 0);
  if (AllocatorObserver* o = __atomic_load_n(&observer_, __ATOMIC_ACQUIRE)) o->before(AllocatorEventKind::alloc, bytes);
  if (__atomic_load_n(&pending_events_, __ATOMIC_RELAXED) > 0) finish_pending(/*wait=*/false);
  Request request;
  Block* block = nullptr;
  for (StreamPool* pool = recent_pool(stream);;) {
    if (!pool) pool = find_pool(stream);
    PoolGuard guard(pool);
    if (pool->id == stream.id()) {
      request = make_request(bytes, stream);
      block = take_from_cache(request, pool);
      break;
    }
    pool = nullptr;  // another stream has this place of the look-up, or the pool was recycled
  }
  if (!block) block = grow(request);
  unpoison(block);
  return block;
}

void CachingAllocator::free_slow(Block* block) noexcept {
  if (AllocatorObserver* o = __atomic_load_n(&observer_, __ATOMIC_ACQUIRE)) {
    o->before(AllocatorEventKind::free_requested, block->requested);
  }
  if (block->state == BlockState::direct) return free_direct(block);
  if (block->uses) return free_pending(block);
  poison(block);
  Segment* gone = nullptr;
  {
    StreamPool* pool = block->pool;
    PoolGuard guard(pool);
    tell(AllocatorEventKind::free_requested, block);
    tell(AllocatorEventKind::free_completed, block);
    count_free(pool, block);
    gone = uncached(block);
    if (!gone) give_back(block);
  }
  if (gone) release_segments(gone);
}

// The segment of a block that is too large to be kept, out of the books; null for all others.
Segment* CachingAllocator::uncached(Block* block) {
  Segment* segment = block->segment;
  if (kind_ != MemoryKind::pinned || segment->size <= settings_.pinned_max_cached_size) return nullptr;
  if (detail::in_device_work()) return nullptr;  // Note [Device work]: giving it back waits
  if (block->size != segment->range) return nullptr;
  unlink_segment(segment);
  return segment;
}

void CachingAllocator::configure(const AllocatorSettings& settings) {
  std::string text = settings.str();
  int64_t free = 0, total = INT64_MAX, limit = INT64_MAX;
  const bool limited = settings.per_process_memory_fraction < 1.0 && kind_ == MemoryKind::device;
  if (limited || settings.garbage_collection_threshold > 0) raw_->info(free, total);
  if (limited) limit = static_cast<int64_t>(static_cast<double>(total) * settings.per_process_memory_fraction);
  if (total <= 0) total = INT64_MAX;  // a source that does not know
  raw_->configure(settings);
  std::lock_guard slow(slow_);
  if (kind_ == MemoryKind::pinned) release_idle();  // what is cached may be too large for the new settings
  const AllPools all(*this);
  settings_ = settings;
  settings_text_ = std::move(text);
  if (kind_ == MemoryKind::pinned && settings.pinned_reserve_segment_size > 0) {
    settings_.large_segment_size = settings.pinned_reserve_segment_size;
  }
  limit_ = limit;
  total_ = total;
  const bool was_poisoned = __atomic_exchange_n(&poison_free_, settings.poison_free, __ATOMIC_RELAXED);
  for (StreamPool* pool : pools_) {
    choose_fast_path(pool);
    merge_front(pool);
    if (!was_poisoned || settings.poison_free || !raw_->host_accessible()) continue;
    // Nobody will make these readable when they are handed out, nor what lies behind the bytes in use.
    for (const Segment* s = pool->segments; s; s = s->next) {
      for (const Block* b = s->first; b; b = b->next) {
        if (b->state == BlockState::unmapped || b->state == BlockState::mapping) continue;
        ASAN_UNPOISON_MEMORY_REGION(b->ptr, b->size);
      }
    }
  }
}

void CachingAllocator::observe(AllocatorObserver* observer) {
  const AllPools all(*this);
  __atomic_store_n(&observer_, observer, __ATOMIC_RELEASE);
  for (StreamPool* pool : pools_) choose_fast_path(pool);
}

// Whatever needs more than a push and a pop sends everything the slow way.
void CachingAllocator::choose_fast_path(StreamPool* pool) {
  const bool rounded = settings_.roundup_power2_divisions != AllocatorSettings{}.roundup_power2_divisions;
  const bool plain = settings_.backend == AllocatorBackend::caching && !settings_.poison_free && !rounded && !observer_;
  pool->fast_limit = plain ? std::min(kFrontLimit, settings_.small_pool_limit) : 0;
}

void CachingAllocator::tell(AllocatorEventKind kind, const Block* block) {
  if (observer_) [[unlikely]] {
    tell(kind, block->pool->stream.id(), block->ptr, block->size, block->requested);
  }
}

void CachingAllocator::tell(AllocatorEventKind kind, int32_t stream, const void* p, int64_t bytes, int64_t requested) {
  if (AllocatorObserver* o = __atomic_load_n(&observer_, __ATOMIC_ACQUIRE)) {
    o->on_event({kind, device_, raw_->name(), stream, p, bytes, requested});
  }
}

void CachingAllocator::lock_device_for_fork() {
  events_.lock();
  slow_.lock();
}

void CachingAllocator::lock_for_fork() {
  AllPools::lock(*this);
  uses_lock_.lock();
}

void CachingAllocator::unlock_after_fork() {
  uses_lock_.unlock();
  AllPools::unlock(*this, split_);
  slow_.unlock();
  events_.unlock();
}

}  // namespace tenon::memory

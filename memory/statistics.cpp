// SPDX-License-Identifier: Apache-2.0
// What an allocator says of itself: statistics, their resets, and the listing of blocks. Sums over the pools are taken
// with all of them locked: the numbers of one moment.
#include <tenon/memory/all_pools.h>

#include <algorithm>

namespace tenon::memory {
namespace {

constexpr int64_t MemoryStats::*kAccumulated[] = {
    &MemoryStats::allocations,       &MemoryStats::frees,          &MemoryStats::segments_allocated,
    &MemoryStats::segments_released, &MemoryStats::splits,         &MemoryStats::merges,
    &MemoryStats::out_of_memory,     &MemoryStats::retries,        &MemoryStats::total_allocated,
    &MemoryStats::total_freed,       &MemoryStats::total_reserved, &MemoryStats::total_released};
constexpr int64_t MemoryPoolStats::*kAccumulatedByPool[] = {&MemoryPoolStats::allocations, &MemoryPoolStats::frees};

int64_t load(const int64_t& value) { return __atomic_load_n(&value, __ATOMIC_RELAXED); }
bool has_memory(const Block* b) { return b->state != BlockState::unmapped && b->state != BlockState::mapping; }
void store(int64_t& to, int64_t value) { __atomic_store_n(&to, value, __ATOMIC_RELAXED); }
void add(int64_t& to, int64_t value) { __atomic_add_fetch(&to, value, __ATOMIC_RELAXED); }

}  // namespace

void CachingAllocator::count_segment(const Segment* segment, int64_t count) {
  add(count > 0 ? segments_allocated_ : segments_released_, 1);
  if (!segment->small) add(large_segments_, count);
}

void CachingAllocator::count_reserved(const Segment* segment, int64_t bytes) {
  const int64_t now = __atomic_add_fetch(&reserved_, bytes, __ATOMIC_RELAXED);
  if (!segment->small) add(large_reserved_, bytes);
  if (bytes <= 0) return;
  add(total_reserved_, bytes);
  // Only the holder of slow_ gets here, so nobody else raises the peak.
  if (now > load(peak_reserved_)) store(peak_reserved_, now);
}

// The counters themselves only grow, so that differences between them stay meaningful across resets.
MemoryStats CachingAllocator::sums() const {
  MemoryStats s;
  for (const StreamPool* pool : pools_) {
    const PoolCounters& c = pool->count;
    s.allocated += c.allocated;
    s.active += c.allocated + c.pending;
    s.requested += c.requested;
    s.allocations += c.allocations;
    s.frees += c.frees;
    s.splits += c.splits;
    s.merges += c.merges;
    s.cached_blocks += c.cached_blocks;
    s.total_allocated += c.total_allocated;
    s.large.allocated += c.large_allocated;
    s.large.allocations += c.large_allocations;
    s.large.frees += c.large_frees;
    s.largest_free_block = std::max({s.largest_free_block, pool->small.largest(), pool->large.largest()});
  }
  s.peak_allocated = load(usage_.peak_allocated);
  s.peak_requested = load(usage_.peak_requested);
  s.peak_active = load(usage_.peak_active);
  s.reserved = load(reserved_);
  s.peak_reserved = load(peak_reserved_);
  s.total_reserved = load(total_reserved_);
  s.large.reserved = load(large_reserved_);
  s.large.segments = load(large_segments_);
  s.segments_allocated = load(segments_allocated_);
  s.segments_released = load(segments_released_);
  s.out_of_memory = load(out_of_memory_);
  s.retries = load(retries_);
  s.live_blocks = s.allocations - s.frees;
  s.segments = s.segments_allocated - s.segments_released;
  s.total_freed = s.total_allocated - s.allocated;
  s.total_released = s.total_reserved - s.reserved;
  s.small = {s.allocated - s.large.allocated, s.reserved - s.large.reserved, s.allocations - s.large.allocations,
             s.frees - s.large.frees, s.segments - s.large.segments};
  return s;
}

MemoryStats CachingAllocator::stats() {
  const AllPools all(*this);
  for (StreamPool* pool : pools_) merge_front(pool);
  MemoryStats s = sums();
  for (const auto counter : kAccumulated) s.*counter -= base_.*counter;
  for (const auto counter : kAccumulatedByPool) {
    s.small.*counter -= base_.small.*counter;
    s.large.*counter -= base_.large.*counter;
  }
  return s;
}

// The pools share one lock again, so that peaks are exact from here on: until threads contend the next time.
void CachingAllocator::reset_peaks() {
  const AllPools all(*this);
  const MemoryStats s = sums();
  for (StreamPool* pool : pools_) {
    pool->split = false;
    __atomic_store_n(&pool->lock, &lock_, __ATOMIC_RELEASE);
  }
  split_ = false;
  contended_ = 0;
  store(usage_.allocated, s.allocated);
  store(usage_.requested, s.requested);
  store(usage_.peak_allocated, s.allocated);
  store(usage_.peak_requested, s.requested);
  store(usage_.peak_active, s.active);
  store(peak_reserved_, load(reserved_));
}

void CachingAllocator::reset_accumulated() {
  const AllPools all(*this);
  for (StreamPool* pool : pools_) merge_front(pool);  // stats() would count these merges otherwise
  base_ = sums();
}

void CachingAllocator::usage(int64_t& allocated, int64_t& peak_allocated, int64_t& reserved) {
  const AllPools all(*this);
  allocated = 0;
  for (const StreamPool* pool : pools_) allocated += pool->count.allocated;
  peak_allocated = load(usage_.peak_allocated);
  reserved = load(reserved_);
}

std::vector<BlockInfo> CachingAllocator::blocks() {
  std::vector<BlockInfo> list;
  const AllPools all(*this);
  for (StreamPool* pool : pools_) {
    merge_front(pool);
    for (const Segment* segment = pool->segments; segment; segment = segment->next) {
      const void* stretch = segment->ptr;
      int64_t bytes = segment->expandable ? 0 : segment->size;
      for (const Block* b = segment->first; b; b = b->next) {
        if (!has_memory(b)) {
          bytes = 0;
          continue;
        }
        if (bytes == 0) {
          stretch = b->ptr;
          for (const Block* end = b; end && has_memory(end); end = end->next) bytes += end->size;
        }
        const bool used = b->state == BlockState::in_use || b->state == BlockState::direct;
        list.push_back({stretch, bytes, b->ptr, b->size, used ? b->requested : 0, pool->stream.id(), b->state,
                        segment->small, segment->expandable});
      }
    }
  }
  return list;
}

std::string CachingAllocator::settings_text() {
  const AllPools all(*this);
  return settings_text_;
}

}  // namespace tenon::memory

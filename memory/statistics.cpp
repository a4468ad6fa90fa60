// SPDX-License-Identifier: Apache-2.0
// What an allocator says of itself: statistics, their resets, and the listing of blocks.
#include <tenon/memory/caching_allocator.h>

#include <algorithm>

namespace tenon::memory {
namespace {

constexpr int64_t MemoryStats::*kAccumulated[] = {
    &MemoryStats::allocations,       &MemoryStats::frees,          &MemoryStats::segments_allocated,
    &MemoryStats::segments_released, &MemoryStats::splits,         &MemoryStats::merges,
    &MemoryStats::out_of_memory,     &MemoryStats::retries,        &MemoryStats::total_allocated,
    &MemoryStats::total_freed,       &MemoryStats::total_reserved, &MemoryStats::total_released};
constexpr int64_t MemoryPoolStats::*kAccumulatedByPool[] = {&MemoryPoolStats::allocations, &MemoryPoolStats::frees};

}  // namespace

void CachingAllocator::count_released(const Segment* segment) {
  stats_.reserved -= segment->size;
  ++stats_.segments_released;
  if (!segment->small) {
    stats_.large.reserved -= segment->size;
    --stats_.large.segments;
  }
}

// The counters themselves only grow, so that differences between them stay meaningful across resets.
MemoryStats CachingAllocator::raw_stats() const {
  MemoryStats s = stats_;
  s.active = s.allocated + pending_bytes_;
  s.live_blocks = s.allocations - s.frees;
  s.segments = s.segments_allocated - s.segments_released;
  s.total_freed = s.total_allocated - s.allocated;
  s.total_released = s.total_reserved - s.reserved;
  s.small = {s.allocated - s.large.allocated, s.reserved - s.large.reserved, s.allocations - s.large.allocations,
             s.frees - s.large.frees, s.segments - s.large.segments};
  for (const StreamPool* pool : pools_) {
    s.largest_free_block = std::max({s.largest_free_block, pool->small.largest(), pool->large.largest()});
  }
  return s;
}

MemoryStats CachingAllocator::stats() {
  SpinGuard guard(lock_);
  merge_fronts();
  MemoryStats s = raw_stats();
  for (const auto counter : kAccumulated) s.*counter -= base_.*counter;
  for (const auto counter : kAccumulatedByPool) {
    s.small.*counter -= base_.small.*counter;
    s.large.*counter -= base_.large.*counter;
  }
  return s;
}

void CachingAllocator::reset_peaks() {
  SpinGuard guard(lock_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
  stats_.peak_requested = stats_.requested;
  stats_.peak_active = stats_.allocated + pending_bytes_;
}

void CachingAllocator::reset_accumulated() {
  SpinGuard guard(lock_);
  merge_fronts();  // stats() would count these merges otherwise
  base_ = raw_stats();
}

void CachingAllocator::usage(int64_t& allocated, int64_t& peak_allocated, int64_t& reserved) {
  SpinGuard guard(lock_);
  allocated = stats_.allocated;
  peak_allocated = stats_.peak_allocated;
  reserved = stats_.reserved;
}

std::vector<BlockInfo> CachingAllocator::blocks() {
  std::vector<BlockInfo> list;
  SpinGuard guard(lock_);
  merge_fronts();
  for (const Segment* segment = segments_; segment; segment = segment->next) {
    for (const Block* b = segment->first; b; b = b->next) {
      const bool used = b->state == BlockState::in_use || b->state == BlockState::direct;
      list.push_back({segment->ptr, segment->size, b->ptr, b->size, used ? b->requested : 0, b->pool->stream.id(),
                      b->state, segment->small});
    }
  }
  return list;
}

std::string CachingAllocator::settings_text() {
  SpinGuard guard(lock_);
  return settings_.str();
}

}  // namespace tenon::memory

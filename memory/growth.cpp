// SPDX-License-Identifier: Apache-2.0
// Asking the device for memory, and collecting garbage just before. Everything here holds slow_.
#include <tenon/memory/background_trim.h>
#include <tenon/memory/planted_bugs.h>
#include <tenon/memory/release.h>

namespace tenon::memory {

// From the cache, where somebody may have freed meanwhile, or from the device.
Block* CachingAllocator::retry(const Request& request) {
  StreamPool* pool = find_pool(request.stream);
  {
    PoolGuard guard(pool);
    if (Block* block = take_from_cache(request, pool)) return block;
  }
  if (StreamPool* base = pool->base ? pool->base : pool; base->shards && !request.small) {
    // The threads of one stream have pools of their own: large blocks are worth a look into the others.
    for (int slot = 0; slot < kThreadSlots; ++slot) {
      StreamPool* other = __atomic_load_n(&base->shards[slot], __ATOMIC_ACQUIRE);
      if (!other || other == pool) continue;
      PoolGuard guard(other);
      if (Block* block = take_from_cache(request, other)) return block;
    }
  }
  if (TENON_PLANTED(other_streams_pool)) {
    for (std::size_t i = 0; StreamPool* other = pool_at(i); ++i) {
      PoolGuard guard(other);
      if (Block* block = take_from_cache(request, other)) return block;
    }
  }
  return from_device(request);
}

Block* CachingAllocator::from_device(const Request& request) {
  if (request.segment > kLargestRequest) return nullptr;
  ensure_background_trim();  // a forked child has none until it grows
  __atomic_add_fetch(&epoch_, 1, __ATOMIC_RELAXED);
  if (settings_.garbage_collection_threshold > 0 && !request.direct) collect_garbage();
  if (!request.direct && settings_.expandable_segments && raw_->virtual_memory()) {
    bool no_addresses = false;
    Block* block = expand(request, no_addresses);
    if (block || !no_addresses) return block;  // without addresses for a range an ordinary segment has to do
  }
  if (request.segment > limit_ - __atomic_load_n(&reserved_, __ATOMIC_RELAXED)) return nullptr;
  RawMemory* raw = request.direct ? exact_ : raw_;
  void* memory = raw->allocate(request.segment);
  if (!memory) return nullptr;
  try {
    return add_segment(request, memory);
  } catch (...) {
    raw->release(memory, request.segment);
    throw;
  }
}

Block* CachingAllocator::add_segment(const Request& request, void* memory) {
  StreamPool* pool = find_pool(request.stream);
  const int64_t size = request.segment;
  PoolGuard guard(pool);
  Block* block = pool->slab.take();
  Block* rest = nullptr;
  Segment* segment = nullptr;
  try {
    rest = pool->slab.take();
    segment = link_segment(request, pool, memory, block);
  } catch (...) {
    if (rest) pool->slab.give(rest);
    pool->slab.give(block);
    throw;
  }
  segment->size = segment->range = size;
  block->size = size;
  block->freed_at = __atomic_load_n(&epoch_, __ATOMIC_RELAXED);
  if (request.direct || !worth_splitting(block, request)) {
    pool->slab.give(rest);
    rest = nullptr;
  }
  count_segment(segment, 1);
  count_reserved(segment, size);
  tell(AllocatorEventKind::segment_alloc, segment->stream, memory, size);
  if (poison_free_ && !request.direct && raw_->host_accessible() && !raw_->queued())
    ASAN_POISON_MEMORY_REGION(segment->ptr, size);
  cut_and_hand_out(block, rest, request);
  if (request.direct) block->state = BlockState::direct;
  return block;
}

// Gives back idle segments, the least recently used first, then idle pages, until no more than the wanted share of the
// limit is reserved.
void CachingAllocator::collect_garbage() {
  const auto limit =
      static_cast<int64_t>(settings_.garbage_collection_threshold * static_cast<double>(std::min(limit_, total_)));
  const auto above = [&] { return __atomic_load_n(&reserved_, __ATOMIC_RELAXED) > limit; };
  if (!above()) return;
  for (std::size_t i = 0; StreamPool* pool = pool_at(i); ++i) {
    PoolGuard guard(pool);
    merge_front(pool);
  }
  while (above()) {
    Segment* oldest = take_idle(
        [](const Segment* s, const Segment* best) { return !best || s->first->freed_at < best->first->freed_at; });
    if (!oldest) break;
    release_segments(oldest);
  }
  while (above() && release_pages(INT32_MAX, /*at_most=*/1)) {
  }
}

}  // namespace tenon::memory

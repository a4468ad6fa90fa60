// SPDX-License-Identifier: Apache-2.0
// Blocks within their segments: size classes, best fit, splitting, merging, counting. All under the pool's lock.
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/planted_bugs.h>
#include <tenon/memory/poison.h>

#include <algorithm>
#include <cstring>

namespace tenon::memory {
namespace {

constexpr int kPoisonByte = 0xDB;
constexpr int64_t kPage = 4096;

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// The next of the `divisions` even steps between two powers of two.
int64_t round_to_division(int64_t size, int divisions) {
  const int64_t power = int64_t{1} << (63 - __builtin_clzll(static_cast<uint64_t>(size)));
  return power == size ? size : power + round_up(size - power, std::max(power / divisions, kMinBlock));
}

void raise_to(int64_t& most, int64_t value) {
  int64_t seen = __atomic_load_n(&most, __ATOMIC_RELAXED);
  while (value > seen) {
    if (__atomic_compare_exchange_n(&most, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
  }
}

}  // namespace

CachingAllocator::Request CachingAllocator::make_request(int64_t bytes, const Stream& stream) const {
  Request r{stream, bytes, bytes, bytes, false, settings_.backend == AllocatorBackend::direct};
  if (r.direct || bytes > kLargestRequest)
    return r;  // the latter is refused in from_device; rounding must not overflow
  // Pinned memory that is not to be cached must not share a segment.
  const bool alone =
      kind_ == MemoryKind::pinned && bytes > settings_.pinned_max_cached_size && bytes > settings_.small_pool_limit;
  const bool exact = alone || (kind_ == MemoryKind::pinned && bytes > settings_.pinned_max_round_threshold);
  // Entry i of the divisions is for 2^i MiB and more.
  const int power = 63 - __builtin_clzll(static_cast<uint64_t>(bytes) | 1);
  const int divisions = exact ? 0 : settings_.roundup_power2_divisions[std::clamp(power - 20, 0, 15)];
  r.size = round_up(divisions > 1 && bytes > kMinBlock * divisions ? round_to_division(bytes, divisions) : bytes,
                    exact ? kPage : kMinBlock);
  if (TENON_PLANTED(rounded_down)) r.size = std::max(kMinBlock, bytes / kMinBlock * kMinBlock);
  r.small = r.size <= settings_.small_pool_limit;
  r.segment = r.small                                                ? kSmallSegment
              : !alone && r.size <= settings_.large_segment_size / 2 ? settings_.large_segment_size
              : exact                                                ? r.size
                                                                     : round_up(r.size, kHugeRounding);
  return r;
}

Block* CachingAllocator::take_from_cache(const Request& request, StreamPool* pool) {
  if (request.direct) return nullptr;
  Block* block = nullptr;
  if (request.size <= kFrontLimit) {
    if (Block*& head = pool->front[request.size / kMinBlock]) {
      block = head;
      head = block->list_next;
      --pool->front_blocks;
      pool->front_bytes -= block->size;
      hand_out(pool, block, request.bytes);
      tell(AllocatorEventKind::alloc, block);
      return block;
    }
  }
  block = best_fit(request, pool);
  if (!block && pool->front_blocks > 0) {
    merge_front(pool);
    block = best_fit(request, pool);
  }
  if (!block) return nullptr;
  Block* rest = worth_splitting(block, request) ? pool->slab.take() : nullptr;
  unlist(block);
  return cut_and_hand_out(block, rest, request);
}

Block* CachingAllocator::best_fit(const Request& request, StreamPool* pool) const {
  if (request.small) return pool->small.best(request.size);
  Block* block = pool->large.best(request.size);
  if (!block || block->segment->expandable) return block;
  // Oversize blocks are kept whole: not for smaller requests, nor for much smaller oversize ones.
  const int64_t oversize = settings_.max_split_size;
  if (request.size < oversize && block->size >= oversize) return nullptr;
  if (request.size >= oversize && block->size - request.size >= settings_.max_non_split_rounding) return nullptr;
  return block;
}

bool CachingAllocator::worth_splitting(const Block* block, const Request& request) const {
  const int64_t rest = block->size - request.size;
  if (block->segment->small || block->segment->expandable) return rest >= kMinBlock;
  if (request.size >= settings_.max_split_size) return false;
  // Pinned memory is scarce: at most an eighth is left over.
  if (kind_ == MemoryKind::pinned && rest >= kMinBlock && rest > request.size / 8) return true;
  return rest > settings_.small_pool_limit;
}

// The block keeps its first `size` bytes; `rest`, a fresh descriptor, becomes what remains, in no list.
void CachingAllocator::split_off(Block* block, int64_t size, Block* rest) {
  rest->pool = block->pool;
  rest->segment = block->segment;
  rest->small = block->small;
  rest->ptr = block->ptr + size;
  rest->size = block->size - size;
  rest->freed_at = block->freed_at;
  rest->prev = block;
  rest->next = block->next;
  if (rest->next) rest->next->prev = rest;
  block->next = rest;
  block->size = size;
  ++block->pool->blocks;
}

// `rest` is for what remains, or null: taken before anything changed, since that may throw.
Block* CachingAllocator::cut_and_hand_out(Block* block, Block* rest, const Request& request) {
  if (rest) {
    split_off(block, request.size, rest);
    ++block->pool->count.splits;
    if (TENON_PLANTED(split_loses_rest)) {
      rest->state = BlockState::in_use;
    } else {
      list(rest);
    }
  }
  hand_out(block->pool, block, request.bytes);
  tell(AllocatorEventKind::alloc, block);
  return block;
}

Block* CachingAllocator::hand_out(StreamPool* pool, Block* block, int64_t bytes) {
  block->state = BlockState::in_use;
  block->requested = bytes;
  PoolCounters& c = pool->count;
  c.allocated += block->size;
  c.requested += bytes;
  c.total_allocated += block->size;
  ++c.allocations;
  if (!block->small) [[unlikely]] {
    c.large_allocated += block->size;
    ++c.large_allocations;
  }
  if (!pool->split) [[likely]] {
    Usage& u = usage_;
    u.allocated += block->size;
    u.requested += bytes;
    u.peak_allocated = std::max(u.peak_allocated, u.allocated);
    u.peak_requested = std::max(u.peak_requested, u.requested);
    u.peak_active = std::max(u.peak_active, u.allocated + u.pending);
  } else if (c.allocated > pool->claimed || c.requested > pool->requested_claimed) {
    claim(pool);
  }
  return block;
}

void CachingAllocator::count_free(StreamPool* pool, const Block* block) {
  PoolCounters& c = pool->count;
  c.allocated -= block->size;
  if (!TENON_PLANTED(statistics_drift) || !block->uses) c.requested -= block->requested;
  ++c.frees;
  if (!block->small) [[unlikely]] {
    c.large_allocated -= block->size;
    ++c.large_frees;
  }
  if (!pool->split) [[likely]] {
    usage_.allocated -= block->size;
    usage_.requested -= block->requested;
  } else if (const int64_t kept = kClaim + block->size;  // one block freed and taken again needs no claim
             pool->claimed - c.allocated > kept || pool->requested_claimed - c.requested > kept) {
    claim(pool);
  }
}

// Makes the pool's share of the common counts what it has, and half a kClaim more: a step either way goes unnoticed.
void CachingAllocator::claim(StreamPool* pool) {
  const int64_t more = pool->count.allocated + kClaim / 2 - pool->claimed;
  const int64_t asked = pool->count.requested + kClaim / 2 - pool->requested_claimed;
  pool->claimed += more;
  pool->requested_claimed += asked;
  const int64_t allocated = __atomic_add_fetch(&usage_.allocated, more, __ATOMIC_RELAXED);
  raise_to(usage_.peak_allocated, allocated);
  raise_to(usage_.peak_requested, __atomic_add_fetch(&usage_.requested, asked, __ATOMIC_RELAXED));
  raise_to(usage_.peak_active, allocated + __atomic_load_n(&usage_.pending, __ATOMIC_RELAXED));
}

void CachingAllocator::give_back(Block* block) {
  block->freed_at = __atomic_load_n(&epoch_, __ATOMIC_RELAXED);
  if (Block* left = block->prev; left && left->state == BlockState::free) {
    unlist(left);
    left->freed_at = block->freed_at;
    absorb(left, block);
    block = left;
  }
  if (Block* right = block->next; right && right->state == BlockState::free) {
    unlist(right);
    absorb(block, right);
  }
  if (Block* right = block->next; TENON_PLANTED(merge_with_pending) && right && right->state == BlockState::pending) {
    block->size += right->size;
    block->next = right->next;
    if (block->next) block->next->prev = block;
  }
  if (TENON_PLANTED(merge_across_segments) && !block->next) {
    for (const Segment* s = block->pool->segments; s; s = s->next) {
      if (s->ptr == block->ptr + block->size && idle(s)) block->size += s->size;
    }
  }
  list(block);
}

void CachingAllocator::absorb(Block* left, Block* right) {
  left->size += right->size;
  left->next = right->next;
  if (left->next) left->next->prev = left;
  --left->pool->blocks;
  ++left->pool->count.merges;
  left->pool->slab.give(right);
}

void CachingAllocator::list(Block* block) {
  block->state = BlockState::free;
  block->small ? block->pool->small.insert(block) : block->pool->large.insert(block);
  ++block->pool->count.cached_blocks;
}

void CachingAllocator::unlist(Block* block) {
  block->small ? block->pool->small.remove(block) : block->pool->large.remove(block);
  --block->pool->count.cached_blocks;
}

void CachingAllocator::merge_front(StreamPool* pool, int at_most) {
  for (int size_class = 1; pool->front_blocks > 0 && size_class <= kFrontClasses; ++size_class) {
    while (Block* block = pool->front[size_class]) {
      if (at_most-- == 0) return;
      pool->front[size_class] = block->list_next;
      --pool->front_blocks;
      pool->front_bytes -= block->size;
      give_back(block);
    }
  }
}

Segment* CachingAllocator::link_segment(const Request& request, StreamPool* pool, void* memory, Block* first) {
  auto* segment = new Segment{};
  segment->pool = pool;
  segment->ptr = static_cast<char*>(memory);
  segment->first = first;
  segment->stream = request.stream.id();
  segment->small = request.small;
  segment->direct = request.direct;
  segment->next = pool->segments;
  if (segment->next) segment->next->prev = segment;
  pool->segments = segment;
  first->pool = pool;
  first->segment = segment;
  first->small = request.small;
  first->ptr = segment->ptr;
  ++pool->blocks;
  return segment;
}

// Takes the segment, whose only block is in no list, out of the books.
void CachingAllocator::unlink_segment(Segment* segment) {
  StreamPool* pool = segment->pool;
  --pool->blocks;
  pool->slab.give(segment->first);
  if (segment->expandable) --pool->ranges;
  if (pool->cursor == segment) pool->cursor = segment->next;
  (segment->prev ? segment->prev->next : pool->segments) = segment->next;
  if (segment->next) segment->next->prev = segment->prev;
  segment->first = nullptr;
  segment->next = segment->prev = nullptr;
}

bool CachingAllocator::idle(const Segment* segment) const {
  return !segment->expandable && segment->first->state == BlockState::free &&
         (segment->first->size == segment->size || TENON_PLANTED(segment_in_use_released));
}

void CachingAllocator::poison(Block* block) noexcept {
  if (!__atomic_load_n(&poison_free_, __ATOMIC_RELAXED) || !raw_->host_accessible()) return;
  // Kernels that may still read the block are queued on its stream, and so is whatever uses the memory next.
  if (raw_->queued()) return raw_->fill(block->ptr, block->size, kPoisonByte, block->pool->stream.handle());
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(block->ptr, block->size);
#else
  std::memset(block->ptr, kPoisonByte, static_cast<size_t>(block->size));
#endif
}

// Readable are the bytes asked for, not what rounding added.
void CachingAllocator::unpoison(Block* block) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  if (!raw_->host_accessible() || raw_->queued()) return;
  const bool exact = __atomic_load_n(&poison_free_, __ATOMIC_RELAXED);
  ASAN_UNPOISON_MEMORY_REGION(block->ptr, exact ? block->requested : block->size);
#else
  (void)block;
#endif
}

}  // namespace tenon::memory

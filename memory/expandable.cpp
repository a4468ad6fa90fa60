// SPDX-License-Identifier: Apache-2.0
// Expandable segments: one range of addresses per pool and size class, as large as the device and more, that gets pages
// as it grows and loses them where it is idle. A block that does not fit grows the free block before the hole instead
// of opening a segment of its own, so batches that grow from step to step fill one range without holes.
//
// Note [Pages]. Blocks tile the whole range; those without memory have the state `unmapped` and are listed in their
// segment. While pages are mapped or taken away, outside of all locks, their blocks are `mapping` (free ones beside them
// that will be used are `held`), which nobody else touches. Holding slow_ unless it says otherwise.
#include <tenon/memory/release.h>

namespace tenon::memory {
namespace {

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

bool room(const Block* b) { return b->state == BlockState::free || b->state == BlockState::unmapped; }

}  // namespace

// At least what the small pool takes at a time, so that its whole() blocks are all that can be released.
int64_t CachingAllocator::page_size() const { return std::max(raw_->virtual_memory()->granularity(), kHugeRounding); }

Block* CachingAllocator::expand(const Request& request, bool& no_addresses) {
  const int64_t page = page_size();
  StreamPool* pool = find_pool(request.stream);
  for (bool added = false;; added = true) {
    Block* first = nullptr;
    Block* last = nullptr;
    Block* cut = nullptr;
    int64_t wanted = 0;
    {
      PoolGuard guard(pool);
      merge_front(pool);
      first = find_room(request, pool);
      if (first) {
        Block* tail = pool->slab.take();
        try {
          cut = pool->slab.take();
        } catch (...) {
          pool->slab.give(tail);
          throw;
        }
        // What is mapped: all holes of the run, the last one only as far as it is needed.
        int64_t total = 0;
        for (Block* b = first; total < request.size; b = b->next) {
          last = b;
          if (b->state == BlockState::unmapped) {
            unlink_unmapped(b);
            b->state = BlockState::mapping;  // before its rest is listed, which merges with neighbours
            const int64_t needed = round_up(request.size - total, page);
            if (needed < b->size) {
              split_off(b, needed, tail);
              list_unmapped(std::exchange(tail, nullptr));
            }
            wanted += b->size;
          } else {
            unlist(b);
            b->state = BlockState::held;
          }
          total += b->size;
        }
        if (tail) pool->slab.give(tail);
      }
    }
    if (!first) {
      if (added || !add_range(request, pool)) {
        no_addresses = true;
        return nullptr;
      }
      continue;
    }
    const bool mapped = wanted <= limit_ - __atomic_load_n(&reserved_, __ATOMIC_RELAXED) && map_run(first, last);
    PoolGuard guard(pool);
    Segment* segment = first->segment;
    if (!mapped) {
      pool->slab.give(cut);
      for (Block *b = first, *next = nullptr, *const end = last->next; b && b != end; b = next) {
        next = b->next;
        b->state == BlockState::held ? give_back(b) : list_unmapped(b);
      }
      return nullptr;
    }
    segment->size += wanted;
    count_reserved(segment, wanted);
    for (Block* b = first; b; b = b == last ? nullptr : b->next) {
      if (b->state == BlockState::mapping) tell(AllocatorEventKind::segment_map, segment->stream, b->ptr, b->size);
    }
    while (first != last) {
      if (first->next == last) last = first;
      absorb(first, first->next);
    }
    if (Block* right = first->next; right && right->state == BlockState::free) {  // freed meanwhile
      unlist(right);
      absorb(first, right);
    }
    first->freed_at = __atomic_load_n(&epoch_, __ATOMIC_RELAXED);
    if (!worth_splitting(first, request)) pool->slab.give(std::exchange(cut, nullptr));
    return cut_and_hand_out(first, cut, request);
  }
}

// The start of the lowest run of free blocks and holes that is large enough, and has a hole. Under the pool's lock.
Block* CachingAllocator::find_room(const Request& request, StreamPool* pool) const {
  Block* best = nullptr;
  for (Segment* s = pool->segments; s; s = s->next) {
    if (!s->expandable || s->small != request.small) continue;
    for (Block* hole = s->unmapped; hole; hole = hole->list_next) {
      Block* first = hole->prev && hole->prev->state == BlockState::free ? hole->prev : hole;
      int64_t total = 0;
      for (const Block* b = first; b && room(b) && total < request.size; b = b->next) total += b->size;
      if (total >= request.size && (!best || first->ptr < best->ptr)) best = first;
    }
  }
  return best;
}

bool CachingAllocator::add_range(const Request& request, StreamPool* pool) {
  VirtualMemory* vm = raw_->virtual_memory();
  int64_t free = 0, total = 0;
  raw_->info(free, total);
  // An eighth more than there is, so that the end is hardly ever reached. Later pools get by with less, and another range
  // when it is full: addresses are not endless where streams are many.
  constexpr std::size_t kGenerous = 8;
  const bool many = pool_at(kGenerous) != nullptr;
  const int64_t least = round_up(request.size, page_size());
  int64_t range = std::max(least, round_up(many ? total / 16 : total + total / 8, page_size()));
  void* p = vm->reserve(range);
  while (!p && range > least) {
    range = std::max(least, round_up(range / 4, page_size()));
    p = vm->reserve(range);
  }
  if (!p) return false;
  try {
    PoolGuard guard(pool);
    Block* block = pool->slab.take();
    Segment* segment = nullptr;
    try {
      segment = link_segment(request, pool, p, block);
    } catch (...) {
      pool->slab.give(block);
      throw;
    }
    segment->range = block->size = range;
    segment->expandable = true;
    ++pool->ranges;
    count_segment(segment, 1);
    list_unmapped(block);
  } catch (...) {
    vm->unreserve(p, range);
    throw;
  }
  return true;
}

// Without the pool's lock: the blocks from `first` to `last` are nobody else's. All of them, or none.
bool CachingAllocator::map_run(Block* first, Block* last) {
  VirtualMemory* vm = raw_->virtual_memory();
  Block* failed = nullptr;
  for (Block* b = first; !failed; b = b->next) {
    if (b->state == BlockState::mapping && !vm->map(b->ptr, b->size)) failed = b;
    if (b == last) break;
  }
  if (!failed) return true;
  for (Block* b = first; b != failed; b = b->next) {
    if (b->state == BlockState::mapping) vm->unmap(b->ptr, b->size);
  }
  return false;
}

void CachingAllocator::list_unmapped(Block* block) {
  Segment* segment = block->segment;
  block->state = BlockState::unmapped;
  for (Block* left = block->prev; left && left->state == BlockState::unmapped; left = block->prev) {
    unlink_unmapped(left);
    absorb(left, block);
    block = left;
  }
  for (Block* right = block->next; right && right->state == BlockState::unmapped; right = block->next) {
    unlink_unmapped(right);
    absorb(block, right);
  }
  block->list_prev = nullptr;
  block->list_next = segment->unmapped;
  if (block->list_next) block->list_next->list_prev = block;
  segment->unmapped = block;
}

void CachingAllocator::unlink_unmapped(Block* block) {
  (block->list_prev ? block->list_prev->list_next : block->segment->unmapped) = block->list_next;
  if (block->list_next) block->list_next->list_prev = block->list_prev;
}

// A free block with a whole page in it, free since epoch `before` or earlier. Under the pool's lock.
Block* CachingAllocator::releasable(StreamPool* pool, int32_t before) const {
  if (pool->ranges == 0) return nullptr;
  const int64_t page = page_size();
  const auto fits = [&](const Block* b) {
    if (!b->segment->expandable || b->freed_at > before) return false;
    const auto at = reinterpret_cast<intptr_t>(b->ptr);
    return round_up(at, page) + page <= at + b->size;
  };
  for (Block* b = pool->small.whole(); b; b = b->list_next) {
    if (fits(b)) return b;
  }
  for (Block* top = pool->large.best(page); top; top = pool->large.best(top->size + kMinBlock)) {
    // best() hands out the second of a list: look at its neighbours too.
    for (Block* b = top->list_prev ? top->list_prev : top; b; b = b->list_next) {
      if (fits(b)) return b;
    }
  }
  return nullptr;
}

// Cuts the whole pages out of a free block (null: nothing). Under the pool's lock.
Block* CachingAllocator::take_pages(Block* block) {
  if (!block) return nullptr;
  const int64_t page = page_size();
  StreamPool* pool = block->pool;
  const auto begin = reinterpret_cast<intptr_t>(block->ptr);
  const int64_t head = round_up(begin, page) - begin;
  const int64_t pages = (block->size - head) / page * page;
  Block* middle = nullptr;
  Block* tail = nullptr;
  try {
    middle = pool->slab.take();
    tail = pool->slab.take();
  } catch (...) {  // no memory for the books: the pages stay
    if (middle) pool->slab.give(middle);
    return nullptr;
  }
  unlist(block);
  if (head > 0) {
    split_off(block, head, middle);
    list(block);
    block = middle;
  } else {
    pool->slab.give(middle);
  }
  if (block->size > pages) {
    split_off(block, pages, tail);
    list(tail);
  } else {
    pool->slab.give(tail);
  }
  block->state = BlockState::mapping;
  return block;
}

// Without locks; slow_ is not needed.
void CachingAllocator::unmap_pages(Block* block) {
  Segment* segment = block->segment;
  StreamPool* pool = block->pool;
  const int64_t bytes = block->size;
  tell(AllocatorEventKind::segment_unmap, segment->stream, block->ptr, bytes);
  if (raw_->host_accessible()) ASAN_UNPOISON_MEMORY_REGION(block->ptr, bytes);
  raw_->virtual_memory()->unmap(block->ptr, bytes);
  PoolGuard guard(pool);
  segment->size -= bytes;
  count_reserved(segment, -bytes);
  list_unmapped(block);
}

bool CachingAllocator::release_pages(int32_t before, int at_most) {
  if (!raw_->virtual_memory()) return false;
  bool any = false;
  for (std::size_t i = 0; StreamPool* pool = pool_at(i); ++i) {
    while (at_most > 0) {
      Block* pages = nullptr;
      {
        PoolGuard guard(pool);
        merge_front(pool);
        pages = take_pages(releasable(pool, before));
      }
      if (!pages) break;
      unmap_pages(pages);
      any = true;
      --at_most;
    }
  }
  return any;
}

}  // namespace tenon::memory

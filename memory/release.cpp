// SPDX-License-Identifier: Apache-2.0
// Giving memory back to the device: idle segments and, in expandable.cpp, idle pages. Everything here holds slow_
// unless it says otherwise.
#include <tenon/memory/release.h>

#include <ctime>

namespace tenon::memory {

// The smallest idle large segment that suffices, else the largest ones until they do.
bool CachingAllocator::release_oversize(int64_t bytes) {
  const auto smallest_fit = [bytes](const Segment* s, const Segment* best) {
    return !s->small && s->size >= bytes && (!best || s->size < best->size);
  };
  if (Segment* fit = take_idle(smallest_fit)) {
    release_segments(fit);
    return true;
  }
  const auto largest = [](const Segment* s, const Segment* best) {
    return !s->small && (!best || s->size > best->size);
  };
  bool any = false;
  for (int64_t released = 0; released < bytes;) {
    Segment* segment = take_idle(largest);
    if (!segment) break;
    released += segment->size;
    release_segments(segment);
    any = true;
  }
  return any;
}

bool CachingAllocator::release_idle() {
  Segment* chain = nullptr;
  bool any = false;  // of memory; ranges of addresses do not help
  for (std::size_t i = 0; StreamPool* pool = pool_at(i); ++i) {
    PoolGuard guard(pool);
    merge_front(pool);
    for (Segment* s = pool->segments; s;) {
      Segment* next = s->next;
      const bool empty_range = s->expandable && s->first->state == BlockState::unmapped && s->first->size == s->range;
      if (idle(s) || empty_range) {
        if (!empty_range) unlist(s->first);
        any |= !empty_range;
        unlink_segment(s);
        s->next = std::exchange(chain, s);
      }
      s = next;
    }
  }
  recycle_pools();
  release_segments(chain);
  return any;
}

// Without locks: the segments are in no books any more.
void CachingAllocator::release_segments(Segment* chain) {
  while (Segment* s = chain) {
    chain = s->next;
    if (raw_->host_accessible()) ASAN_UNPOISON_MEMORY_REGION(s->ptr, s->range);
    if (s->expandable) {
      raw_->virtual_memory()->unreserve(s->ptr, s->range);
    } else {
      // Told before the device may give the address to somebody else.
      tell(AllocatorEventKind::segment_free, s->stream, s->ptr, s->size);
      raw_->release(s->ptr, s->size);
    }
    count_reserved(s, -s->size);
    count_segment(s, -1);
    delete s;
  }
}

void CachingAllocator::empty_cache() {
  check_place("empty_cache");
  finish_pending(/*wait=*/true);
  std::lock_guard slow(slow_);
  release_idle();
  if (release_pages(INT32_MAX, INT32_MAX)) release_idle();  // also ranges of addresses that became empty
}

namespace {

// Measures this thread's own time, so that being preempted with a lock held does not count as holding it.
class HoldTime {
 public:
  explicit HoldTime(int64_t& longest) : longest_(longest), start_(now()) {}
  ~HoldTime() { longest_ = std::max(longest_, now() - start_); }
  HoldTime(const HoldTime&) = delete;
  HoldTime& operator=(const HoldTime&) = delete;

 private:
  static int64_t now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
  }
  int64_t& longest_;
  int64_t start_;
};

constexpr int kTrimMerges = 16;  // per hold of a lock
constexpr int kTrimSegments = 16;

}  // namespace

// Takes slow_ only for moments, and skips its turn when somebody else talks to the device: who does will not find this
// worker in the way. Whatever is given back is in no books while that happens.
int64_t CachingAllocator::trim() {
  int64_t longest = 0;
  const int32_t before = trimmed_;
  if (__atomic_load_n(&pending_events_, __ATOMIC_RELAXED) > 0) {
    try {
      finish_pending(/*wait=*/false);
    } catch (...) {  // the device's error meets whoever waits for it
    }
  }
  for (std::size_t i = 0; StreamPool* pool = pool_at(i); ++i) {
    bool quiet = false;
    for (bool more = true, first = true; more; first = false) {
      PoolGuard guard(pool);
      const HoldTime time(longest);
      if (first) {
        // Fewer allocations than blocks in the front: most of it was not touched.
        const int64_t since = pool->count.allocations - std::exchange(pool->trim_seen, pool->count.allocations);
        quiet = since == 0 || since < pool->front_blocks;
      }
      more = quiet && pool->front_blocks > 0;
      if (more) merge_front(pool, kTrimMerges);
      if (first) pool->cursor = pool->segments;
    }
    for (bool more = true; more;) {
      Segment* old = nullptr;
      {
        std::unique_lock slow(slow_, std::try_to_lock);
        if (!slow.owns_lock()) return longest;
        PoolGuard guard(pool);
        const HoldTime time(longest);
        for (int n = 0; n < kTrimSegments && pool->cursor && !old; ++n) {
          Segment* s = pool->cursor;
          pool->cursor = s->next;
          if (!idle(s) || s->first->freed_at > before) continue;
          unlist(s->first);
          unlink_segment(s);
          old = s;
        }
        more = pool->cursor != nullptr;
      }
      release_segments(old);
    }
    while (raw_->virtual_memory()) {
      Block* pages = nullptr;
      {
        std::unique_lock slow(slow_, std::try_to_lock);
        if (!slow.owns_lock()) return longest;
        PoolGuard guard(pool);
        const HoldTime time(longest);
        pages = take_pages(releasable(pool, before));
      }
      if (!pages) break;
      unmap_pages(pages);
    }
  }
  trimmed_ = __atomic_fetch_add(&epoch_, 1, __ATOMIC_RELAXED);
  return longest;
}

}  // namespace tenon::memory

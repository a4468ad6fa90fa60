// SPDX-License-Identifier: Apache-2.0
// Growing, and what happens when the device has no more.
//
// Note [Ladder]. After the device has refused once, in this order, trying again after each rung:
//   1. the callbacks of add_out_of_memory_callback (no lock held: they free what they like);
//   2. wait for blocks that other streams still use;
//   3. give back idle segments of the large pool, of any stream: the smallest that suffices, else the largest;
//   4. give back every idle segment;
//   5. for a request that would take a shared 20 MiB segment, ask for no more than it needs;
//   6. raise, with the numbers and a verdict. The allocator is as usable afterwards as before.
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/size_text.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace tenon::memory {
namespace {

using OutOfMemoryCallback = Function<void(Device, int64_t)>;

struct Callbacks {
  std::mutex mutex;
  int64_t next_id = 1;
  std::vector<std::pair<int64_t, std::shared_ptr<OutOfMemoryCallback>>> list;
};

Callbacks& callbacks() {
  static auto* all = new Callbacks;  // never destroyed: memory may run out in a destructor at exit
  return *all;
}

}  // namespace

int64_t add_out_of_memory_callback(OutOfMemoryCallback f) {
  auto shared = std::make_shared<OutOfMemoryCallback>(std::move(f));
  Callbacks& all = callbacks();
  std::lock_guard lock(all.mutex);
  all.list.emplace_back(all.next_id, std::move(shared));
  return all.next_id++;
}

void remove_out_of_memory_callback(int64_t id) {
  Callbacks& all = callbacks();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.list, [id](const auto& entry) { return entry.first == id; });
}

bool run_out_of_memory_callbacks(Device device, int64_t bytes) {
  static thread_local bool running = false;  // a callback that runs out of memory itself gets no callbacks
  if (running) return false;
  decltype(Callbacks::list) list;
  {
    std::lock_guard lock(callbacks().mutex);
    list = callbacks().list;
  }
  running = true;
  struct Reset {
    ~Reset() { running = false; }
  } reset;
  for (auto& [id, callback] : list) (*callback)(device, bytes);
  return !list.empty();
}

Block* CachingAllocator::grow(const Request& request) {
  std::unique_lock slow(slow_);
  // Someone else may have grown, or freed, while this thread waited for slow_.
  if (Block* block = retry(request)) return block;
  {
    SpinGuard guard(lock_);
    ++stats_.retries;
  }
  slow.unlock();
  const bool called = run_out_of_memory_callbacks(device_, request.bytes);
  slow.lock();
  if (called) {
    if (Block* block = retry(request)) return block;
  }
  bool events;
  {
    SpinGuard guard(lock_);
    events = pending_events_ > 0;
  }
  if (events) {
    finish_pending(/*wait=*/true);
    if (Block* block = retry(request)) return block;
  }
  if (release_oversize(request.segment)) {
    if (Block* block = retry(request)) return block;
  }
  if (release_idle()) {
    if (Block* block = retry(request)) return block;
  }
  if (!request.small && request.segment == kLargeSegment && request.size <= kLargeRequest) {
    Request exact = request;
    exact.segment = (request.size + kHugeRounding - 1) / kHugeRounding * kHugeRounding;
    if (Block* block = from_device(exact)) return block;
  }
  raise_out_of_memory(request);
}

Block* CachingAllocator::retry(const Request& request) {
  {
    SpinGuard guard(lock_);
    if (Block* block = take_from_cache(request)) return block;
  }
  return from_device(request);
}

Block* CachingAllocator::from_device(const Request& request) {
  if (request.segment > kLargestRequest) return nullptr;
  {
    SpinGuard guard(lock_);
    if (request.segment > limit_ - stats_.reserved) return nullptr;
  }
  RawMemory* raw = request.direct ? exact_ : raw_;
  void* memory = raw->allocate(request.segment);
  if (!memory) return nullptr;
  try {
    SpinGuard guard(lock_);
    return add_segment(request, memory);
  } catch (...) {
    raw->release(memory, request.segment);
    throw;
  }
}

bool CachingAllocator::idle(const Segment* segment) const {
  return segment->first->state == BlockState::free && segment->first->size == segment->size;
}

// Takes the segment, whose only block is in no list, out of the books.
void CachingAllocator::unlink_segment(Segment* segment) {
  Block* block = segment->first;
  --block->pool->blocks;
  block_slab_.give(block);
  (segment->prev ? segment->prev->next : segments_) = segment->next;
  if (segment->next) segment->next->prev = segment->prev;
  segment->first = nullptr;
  segment->next = segment->prev = nullptr;
}

bool CachingAllocator::release_oversize(int64_t bytes) {
  Segment* chain = nullptr;
  {
    SpinGuard guard(lock_);
    const auto take = [&](Segment* segment) {
      unlist(segment->first);
      unlink_segment(segment);
      segment->next = std::exchange(chain, segment);
    };
    Segment* fit = nullptr;
    for (Segment* s = segments_; s; s = s->next) {
      if (!s->small && idle(s) && s->size >= bytes && (!fit || s->size < fit->size)) fit = s;
    }
    if (fit) take(fit);
    for (int64_t released = fit ? bytes : 0; released < bytes;) {
      Segment* largest = nullptr;
      for (Segment* s = segments_; s; s = s->next) {
        if (!s->small && idle(s) && (!largest || s->size > largest->size)) largest = s;
      }
      if (!largest) break;
      released += largest->size;
      take(largest);
    }
  }
  release_segments(chain);
  return chain != nullptr;
}

bool CachingAllocator::release_idle() {
  Segment* chain = nullptr;
  {
    SpinGuard guard(lock_);
    merge_fronts();
    for (Segment* s = segments_; s;) {
      Segment* next = s->next;
      if (idle(s)) {
        unlist(s->first);
        unlink_segment(s);
        s->next = std::exchange(chain, s);
      }
      s = next;
    }
    // Pools of streams that have gone would stay for ever otherwise.
    std::erase_if(pools_, [this](StreamPool* pool) {
      if (pool->blocks > 0) return false;
      if (StreamPool*& recent = recent_[pool->stream.id() & (kRecent - 1)]; recent == pool) recent = nullptr;
      delete pool;
      return true;
    });
  }
  release_segments(chain);
  return chain != nullptr;
}

void CachingAllocator::release_segments(Segment* chain) {
  {
    SpinGuard guard(lock_);  // told before the device may give the address to somebody else
    for (Segment* s = chain; s; s = s->next) tell(AllocatorEventKind::segment_free, s);
  }
  for (Segment* s = chain; s; s = s->next) {
    ASAN_UNPOISON_MEMORY_REGION(s->ptr, s->size);
    raw_->release(s->ptr, s->size);
  }
  SpinGuard guard(lock_);
  while (Segment* s = chain) {
    chain = s->next;
    count_released(s);
    segment_slab_.give(s);
  }
}

void CachingAllocator::empty_cache() {
  std::lock_guard slow(slow_);
  finish_pending(/*wait=*/true);
  release_idle();
}

void CachingAllocator::raise_out_of_memory(const Request& request) {
  MemoryNumbers n;
  n.requested = request.bytes;
  raw_->info(n.free, n.total);
  const MemoryStats s = stats();
  std::string settings;
  bool limited;
  {
    SpinGuard guard(lock_);
    ++stats_.out_of_memory;
    if (observer_) {
      observer_->on_event({AllocatorEventKind::out_of_memory, device_, raw_->name(), request.stream.id(), nullptr,
                           request.segment, request.bytes});
    }
    settings = settings_.str();
    limited = limit_ < n.total;
    if (limited) n.free = std::min(n.free, std::max<int64_t>(0, limit_ - s.reserved));
  }
  n.reserved = s.reserved;
  n.allocated = s.allocated;
  n.largest_free_block = s.largest_free_block;
  // Everything idle has been given back: what is reserved and not in use are holes beside blocks in use.
  const int64_t holes = s.reserved - s.active;
  const bool fragmented = request.bytes <= holes + n.free;
  const int64_t others = std::max<int64_t>(0, n.total - n.free - n.reserved);
  std::string verdict;
  if (fragmented) {
    verdict = detail::concat("fragmentation: ", size_text(holes), " lie in holes beside blocks in use (largest ",
                             size_text(n.largest_free_block), ")");
  } else {
    verdict = detail::concat(
        limited ? "the limit of per_process_memory_fraction is reached: " : "the memory is really full: ", "free ",
        size_text(request.bytes - holes - n.free), " more, or ask for less");
  }
  throw OutOfMemoryError(
      detail::concat("allocate: ", device_, " (", raw_->name(), "): out of memory: asked for ",
                     size_text(request.bytes), ", free ", size_text(n.free), " of ", size_text(n.total), "\nin use ",
                     size_text(n.allocated), ", reserved ", size_text(n.reserved), ", others hold ",
                     size_text(limited ? 0 : others), "; settings ", settings, "\nverdict: ", verdict),
      n);
}

}  // namespace tenon::memory

// SPDX-License-Identifier: Apache-2.0
// What happens when the device has no more.
//
// Note [Ladder]. After the device has refused once, in this order, trying again after each rung:
//   1. the callbacks of add_out_of_memory_callback (no lock held: they free what they like); a request for more than the
//      device has, or may give, ends here;
//   2. wait for blocks that other streams still use;
//   3. give back idle segments of the large pool, of any stream: the smallest that suffices, else the largest;
//   4. give back every idle segment;
//   5. unmap the idle pages of expandable segments;
//   6. for a request that would take a shared segment, ask for no more than it needs;
//   7. raise, with the numbers and a verdict. The allocator is as usable afterwards as before.
#include <tenon/memory/all_pools.h>
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/planted_bugs.h>
#include <tenon/memory/size_text.h>
#include <tenon/streams/op_context.h>

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

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

// Registered at load, so that it is locked after the allocators' locks.
[[maybe_unused]] const int fork_handler = pthread_atfork(
    [] { callbacks().mutex.lock(); }, [] { callbacks().mutex.unlock(); }, [] { callbacks().mutex.unlock(); });

using TapeBytes = int64_t (*)(Device);
constinit TapeBytes tape_source = nullptr;
constinit AtOutOfMemory at_out_of_memory = nullptr;

int64_t round_up_to_huge(int64_t bytes) { return (bytes + kHugeRounding - 1) / kHugeRounding * kHugeRounding; }

}  // namespace

int64_t add_out_of_memory_callback(OutOfMemoryCallback f) {
  TENON_CHECK(f, ValueError, "add_out_of_memory_callback: f: expected a function, got an empty one");
  auto shared = std::make_shared<OutOfMemoryCallback>(std::move(f));
  Callbacks& all = callbacks();
  std::lock_guard lock(all.mutex);
  all.list.emplace_back(all.next_id, std::move(shared));
  return all.next_id++;
}

void remove_out_of_memory_callback(int64_t id) {
  Callbacks& all = callbacks();
  std::shared_ptr<OutOfMemoryCallback> gone;  // destroyed without the lock: what it captured may own memory
  std::lock_guard lock(all.mutex);
  const auto found = std::find_if(all.list.begin(), all.list.end(), [id](const auto& e) { return e.first == id; });
  if (found == all.list.end()) return;
  gone = std::move(found->second);
  all.list.erase(found);
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

void set_tape_bytes_source(int64_t (*source)(Device)) { __atomic_store_n(&tape_source, source, __ATOMIC_RELEASE); }
int64_t tape_bytes(Device device) {
  const TapeBytes source = __atomic_load_n(&tape_source, __ATOMIC_ACQUIRE);
  return source ? source(device) : 0;
}

void set_at_out_of_memory(AtOutOfMemory look) { __atomic_store_n(&at_out_of_memory, look, __ATOMIC_RELEASE); }

Block* CachingAllocator::grow(const Request& request) {
  check_place("allocate");
  std::unique_lock slow(slow_);
  // Someone else may have grown, or freed, while this thread waited for slow_.
  if (Block* block = retry(request)) return block;
  if (settings_.throw_on_cudamalloc_oom) raise_out_of_memory(request, slow);
  __atomic_add_fetch(&retries_, 1, __ATOMIC_RELAXED);
  slow.unlock();
  const bool called = !TENON_PLANTED(callbacks_skipped) && run_out_of_memory_callbacks(device_, request.bytes);
  slow.lock();
  if (called) {
    if (Block* block = retry(request)) return block;
  }
  int64_t free = 0, total = 0;
  raw_->info(free, total);
  // More than there can ever be: giving up the cache would only slow down what comes next.
  if (total > 0 && request.bytes > std::min(limit_, total)) raise_out_of_memory(request, slow);
  if (__atomic_load_n(&pending_events_, __ATOMIC_RELAXED) > 0 && !TENON_PLANTED(pending_not_awaited)) {
    slow.unlock();
    finish_pending(/*wait=*/true);
    slow.lock();
    if (Block* block = retry(request)) return block;
  }
  if (!TENON_PLANTED(oversize_skipped) && release_oversize(request.segment)) {
    if (Block* block = retry(request)) return block;
  }
  if (!TENON_PLANTED(idle_kept) && release_idle()) {
    if (Block* block = retry(request)) return block;
  }
  if (release_pages(INT32_MAX, INT32_MAX)) {
    release_idle();  // ranges of addresses that became empty
    if (Block* block = retry(request)) return block;
  }
  const int64_t shared = settings_.large_segment_size;
  if (!request.small && !request.direct && request.segment == shared && request.size <= shared / 2) {
    Request exact = request;
    exact.segment = round_up_to_huge(request.size);
    if (Block* block = from_device(exact)) return block;
  }
  raise_out_of_memory(request, slow);
}

// What of the free bytes a request could have used, had they been in one piece, and why the others are no use to it.
CachingAllocator::Holes CachingAllocator::holes_for(const Request& request) {
  const AllPools all(*this);
  Holes holes;
  for (StreamPool* pool : pools_) {
    merge_front(pool);
    for (const Segment* segment = pool->segments; segment; segment = segment->next) {
      for (const Block* b = segment->first; b; b = b->next) {
        if (b->state != BlockState::free) continue;
        if (segment->direct || request.direct || pool->id != request.stream.id()) {
          holes.other_streams += b->size;
        } else if (segment->small != request.small) {
          holes.other_pool += b->size;
        } else if (b->size >= settings_.max_split_size && request.size < settings_.max_split_size) {
          holes.unsplittable += b->size;
        } else {
          holes.usable += b->size;
          holes.largest = std::max(holes.largest, b->size);
        }
      }
    }
  }
  return holes;
}

std::string CachingAllocator::verdict(const Request& request, const MemoryNumbers& n, const Holes& holes) {
  const bool limited = limit_<n.total, known = n.total> 0;
  const bool expands = settings_.expandable_segments && raw_->virtual_memory();
  const int64_t unusable = holes.other_streams + holes.other_pool + holes.unsplittable;
  const int64_t room = known ? n.free : 0;
  const char* const limit = "per_process_memory_fraction";
  if (known && request.bytes > std::min(limit_, n.total)) {
    return limited ? detail::concat("the request is larger than the limit of ", limit, ", ", size_text(limit_))
                   : detail::concat("the request is larger than all of the memory, ", size_text(n.total));
  }
  if (settings_.throw_on_cudamalloc_oom && holes.usable + unusable > 0 &&
      request.bytes <= holes.usable + unusable + room) {
    return detail::concat(size_text(holes.usable + unusable),
                          " are cached and not in use; throw_on_cudamalloc_oom keeps them");
  }
  if (known && request.bytes <= room) {
    // The least that the ladder asked for.
    const int64_t asked = request.direct                   ? request.segment
                          : request.small || expands       ? kSmallSegment
                          : request.segment > request.size ? std::min(request.segment, round_up_to_huge(request.size))
                                                           : request.segment;
    if (asked > room) {
      return detail::concat(limited ? "the limit of per_process_memory_fraction is reached" : "the device refused",
                            " although ", size_text(room), " are free: memory is taken in whole segments, ",
                            size_text(asked), " here; free at least ", size_text(asked - room), " more");
    }
    return detail::concat("the device refused although ", size_text(room),
                          " are free: its own memory is fragmented, or another program took it meanwhile");
  }
  if (holes.usable > 0 && request.bytes <= holes.usable + room) {
    std::string text = detail::concat("fragmentation: ", size_text(holes.usable),
                                      " lie in holes beside blocks in use (largest ", size_text(holes.largest), ")");
    if (expands)
      return text + "; expandable_segments is on: what is left are parts of pages, which larger blocks avoid";
    if (raw_->virtual_memory()) {
      return text + "; expandable_segments:True avoids it, when set before the first allocation (TENON_ALLOC_CONF)";
    }
    if (settings_.max_split_size == INT64_MAX) text += "; max_split_size_mb keeps large blocks whole";
    return text;
  }
  if (unusable > 0 && request.bytes <= holes.usable + unusable + room) {
    std::string where;
    const auto add = [&](int64_t bytes, const char* text) {
      if (bytes > 0) where += detail::concat(where.empty() ? "" : ", ", size_text(bytes), " are free in ", text);
    };
    add(holes.other_streams, "pools of other streams");
    add(holes.other_pool, request.small ? "the large pool" : "the small pool");
    add(holes.unsplittable, "blocks that max_split_size_mb keeps whole");
    return detail::concat("fragmentation by pools: ", where, ", which this request cannot use; largest usable hole ",
                          size_text(holes.largest), "; free at least ", size_text(request.bytes - holes.usable - room),
                          " more on this stream");
  }
  if (!known) return "the source gave no more and does not say how much it has: free some, or ask for less";
  std::string text = detail::concat(
      limited ? "the limit of per_process_memory_fraction is reached: " : "the memory is really full: ",
      "free at least ", size_text(request.bytes - holes.usable - unusable - room), " more, or ask for less");
  if (tape_bytes(device_) > n.allocated / 4) text += "; evaluate under NoGradGuard, or checkpoint";
  return text;
}

// Three lines: what was asked for, what there is, and why that is not enough with what to do about it.
void CachingAllocator::raise_out_of_memory(const Request& request, std::unique_lock<std::mutex>& slow) {
  MemoryNumbers n;
  n.requested = request.bytes;
  raw_->info(n.free, n.total);
  const MemoryStats s = stats();
  const Holes holes = holes_for(request);
  __atomic_add_fetch(&out_of_memory_, 1, __ATOMIC_RELAXED);
  tell(AllocatorEventKind::out_of_memory, request.stream.id(), nullptr, request.segment, request.bytes);
  const bool limited = limit_ < n.total;
  if (limited) n.free = std::min(n.free, std::max<int64_t>(0, limit_ - s.reserved));
  n.reserved = s.reserved;
  n.allocated = s.allocated;
  n.largest_free_block = holes.largest;
  const int64_t others = limited ? 0 : std::max<int64_t>(0, n.total - n.free - n.reserved);
  const int64_t tape = tape_bytes(device_);
  const std::string op(current_operator ? current_operator : "",
                       current_operator ? std::strcspn(current_operator, "(") : 0);
  std::string text = detail::concat(
      op, op.empty() ? "" : ": ", "allocate: ", device_, " (", raw_->name(), "): out of memory: asked for ",
      size_text(request.bytes), ", free ",
      n.total > 0 ? detail::concat(size_text(n.free), " of ", size_text(n.total)) : std::string("unknown"), "\nin use ",
      size_text(n.allocated), tape > 0 ? detail::concat(" (", size_text(tape), " kept for backward)") : "",
      ", reserved ", size_text(n.reserved), n.total > 0 ? detail::concat(", others hold ", size_text(others)) : "",
      "; settings ", settings_text_, "\nverdict: ", verdict(request, n, holes));
  slow.unlock();  // whoever looks at the memory now may take its time
  if (const AtOutOfMemory look = __atomic_load_n(&at_out_of_memory, __ATOMIC_ACQUIRE)) text += look(*this);
  throw OutOfMemoryError(text, n);
}

}  // namespace tenon::memory

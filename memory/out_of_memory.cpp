// SPDX-License-Identifier: Apache-2.0
// What happens when the device has no more.
//
// Note [Ladder]. After the device has refused once, in this order, trying again after each rung:
//   1. the callbacks of add_out_of_memory_callback (no lock held: they free what they like);
//   2. wait for blocks that other streams still use;
//   3. give back idle segments of the large pool, of any stream: the smallest that suffices, else the largest;
//   4. give back every idle segment;
//   5. unmap the idle pages of expandable segments;
//   6. for a request that would take a shared segment, ask for no more than it needs;
//   7. raise, with the numbers and a verdict. The allocator is as usable afterwards as before.
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/planted_bugs.h>
#include <tenon/memory/size_text.h>

#include <algorithm>
#include <cstdio>
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

using TapeBytes = int64_t (*)(Device);
constinit TapeBytes tape_source = nullptr;

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

void set_tape_bytes_source(int64_t (*source)(Device)) { __atomic_store_n(&tape_source, source, __ATOMIC_RELEASE); }
int64_t tape_bytes(Device device) {
  const TapeBytes source = __atomic_load_n(&tape_source, __ATOMIC_ACQUIRE);
  return source ? source(device) : 0;
}

Block* CachingAllocator::grow(const Request& request) {
  std::unique_lock slow(slow_);
  // Someone else may have grown, or freed, while this thread waited for slow_.
  if (Block* block = retry(request)) return block;
  if (settings_.throw_on_cudamalloc_oom) raise_out_of_memory(request);
  __atomic_add_fetch(&retries_, 1, __ATOMIC_RELAXED);
  slow.unlock();
  const bool called = !TENON_PLANTED(callbacks_skipped) && run_out_of_memory_callbacks(device_, request.bytes);
  slow.lock();
  if (called) {
    if (Block* block = retry(request)) return block;
  }
  if (__atomic_load_n(&pending_events_, __ATOMIC_RELAXED) > 0 && !TENON_PLANTED(pending_not_awaited)) {
    finish_pending(/*wait=*/true);
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
    exact.segment = (request.size + kHugeRounding - 1) / kHugeRounding * kHugeRounding;
    if (Block* block = from_device(exact)) return block;
  }
  raise_out_of_memory(request);
}

// Three lines: what was asked for, what there is, and why that is not enough with what to do about it.
void CachingAllocator::raise_out_of_memory(const Request& request) {
  MemoryNumbers n;
  n.requested = request.bytes;
  raw_->info(n.free, n.total);
  const MemoryStats s = stats();
  __atomic_add_fetch(&out_of_memory_, 1, __ATOMIC_RELAXED);
  tell(AllocatorEventKind::out_of_memory, request.stream.id(), nullptr, request.segment, request.bytes);
  const bool limited = limit_ < n.total;
  if (limited) n.free = std::min(n.free, std::max<int64_t>(0, limit_ - s.reserved));
  n.reserved = s.reserved;
  n.allocated = s.allocated;
  n.largest_free_block = s.largest_free_block;
  // Everything idle has been given back: what is reserved and not in use are holes beside blocks in use.
  const int64_t holes = s.reserved - s.active;
  const bool fragmented = request.bytes <= holes + n.free;
  const int64_t others = limited ? 0 : std::max<int64_t>(0, n.total - n.free - n.reserved);
  const int64_t tape = tape_bytes(device_);
  std::string verdict;
  if (fragmented) {
    verdict = detail::concat("fragmentation: ", size_text(holes), " lie in holes beside blocks in use (largest ",
                             size_text(n.largest_free_block), ")");
    if (settings_.throw_on_cudamalloc_oom) {
      verdict = detail::concat(size_text(holes), " are cached and not in use; throw_on_cudamalloc_oom keeps them");
    } else if (!settings_.expandable_segments && raw_->virtual_memory()) {
      verdict += "; expandable_segments:True avoids it";
    } else if (!settings_.expandable_segments && settings_.max_split_size == INT64_MAX) {
      verdict += "; max_split_size_mb keeps large blocks whole";
    }
  } else {
    verdict = detail::concat(
        limited ? "the limit of per_process_memory_fraction is reached: " : "the memory is really full: ", "free ",
        size_text(request.bytes - holes - n.free), " more, or ask for less");
    if (tape > s.allocated / 4) verdict += "; evaluate under NoGradGuard, or checkpoint";
  }
  throw OutOfMemoryError(detail::concat("allocate: ", device_, " (", raw_->name(), "): out of memory: asked for ",
                                        size_text(request.bytes), ", free ", size_text(n.free), " of ",
                                        size_text(n.total), "\nin use ", size_text(n.allocated),
                                        tape > 0 ? detail::concat(" (", size_text(tape), " kept for backward)") : "",
                                        ", reserved ", size_text(n.reserved), ", others hold ", size_text(others),
                                        "; settings ", settings_.str(), "\nverdict: ", verdict),
                         n);
}

}  // namespace tenon::memory

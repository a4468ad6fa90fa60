// SPDX-License-Identifier: Apache-2.0
// The policy in normal times: the front, best fit, splitting, merging. Growing and running out of memory are in
// out_of_memory.cpp, blocks used by several streams in stream_uses.cpp.
#include <tenon/memory/caching_allocator.h>

#include <algorithm>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace tenon::memory {
namespace {

constexpr int kPoisonByte = 0xDB;

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// The next of the `divisions` even steps between two powers of two.
int64_t round_to_division(int64_t size, int divisions) {
  const int64_t power = int64_t{1} << (63 - __builtin_clzll(static_cast<uint64_t>(size)));
  return power == size ? size : power + round_up(size - power, std::max(power / divisions, kMinBlock));
}

}  // namespace

AllocatorObserver::~AllocatorObserver() = default;
void AllocatorObserver::before(AllocatorEventKind, int64_t) {}

void SpinLock::wait() {
  int spins = 0;
  do {
    while (__atomic_load_n(&held_, __ATOMIC_RELAXED) != 0u) {
      if (++spins < 64) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      } else {
        sched_yield();
      }
    }
  } while (__atomic_exchange_n(&held_, 1u, __ATOMIC_ACQUIRE) != 0u);
}

CachingAllocator::CachingAllocator(Device device, RawMemory* raw, RawMemory* exact)
    : device_(device), raw_(raw), exact_(exact ? exact : raw) {}

CachingAllocator::~CachingAllocator() {
  for (PendingQueue& queue : pending_) {
    while (StreamUse* use = queue.head) {
      queue.head = use->next;
      delete use;
    }
  }
  for (Segment* segment = segments_; segment; segment = segment->next) {
    ASAN_UNPOISON_MEMORY_REGION(segment->ptr, segment->size);
    (segment->direct ? exact_ : raw_)->release(segment->ptr, segment->size);
  }
  for (StreamPool* pool : pools_) delete pool;
}

Block* CachingAllocator::allocate(int64_t bytes, const Stream& stream) {
  if (bytes <= __atomic_load_n(&fast_limit_, __ATOMIC_RELAXED)) [[likely]] {
    const auto size_class = static_cast<uint64_t>(bytes + kMinBlock - 1) / kMinBlock;
    SpinGuard guard(lock_);
    StreamPool* pool = recent_[stream.id() & (kRecent - 1)];
    if (pool && pool->stream.id() == stream.id() && bytes <= fast_limit_) [[likely]] {
      if (Block* block = pool->front[size_class]) [[likely]] {
        pool->front[size_class] = block->list_next;
        --pool->front_blocks;
        return hand_out(block, bytes);
      }
    }
  }
  return allocate_slow(bytes, stream);
}

void CachingAllocator::free(Block* block) noexcept {
  if (block->size <= __atomic_load_n(&fast_limit_, __ATOMIC_RELAXED) && !block->uses &&
      block->state == BlockState::in_use) [[likely]] {
    StreamPool* pool = block->pool;
    SpinGuard guard(lock_);
    if (observer_) [[unlikely]] {  // set since the look above: no before() this once
      tell(AllocatorEventKind::free_requested, block);
      tell(AllocatorEventKind::free_completed, block);
    }
    if (pool->front_blocks < kFrontBlocks) [[likely]] {
      count_free(block);
      Block*& head = pool->front[static_cast<uint64_t>(block->size) / kMinBlock];
      block->list_next = head;
      block->state = BlockState::front;
      head = block;
      ++pool->front_blocks;
    } else {
      count_free(block);
      give_back(block);
    }
    return;
  }
  free_slow(block);
}

void CachingAllocator::release(void* block) noexcept {
  auto* b = static_cast<Block*>(block);
  b->pool->owner->free(b);
}

Block* CachingAllocator::hand_out(Block* block, int64_t bytes) {
  block->state = BlockState::in_use;
  block->requested = bytes;
  stats_.allocated += block->size;
  stats_.requested += bytes;
  ++stats_.allocations;
  stats_.total_allocated += block->size;
  if (!block->small) [[unlikely]] {
    stats_.large.allocated += block->size;
    ++stats_.large.allocations;
  }
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  stats_.peak_requested = std::max(stats_.peak_requested, stats_.requested);
  stats_.peak_active = std::max(stats_.peak_active, stats_.allocated + pending_bytes_);
  return block;
}

void CachingAllocator::count_free(const Block* block) {
  stats_.allocated -= block->size;
  stats_.requested -= block->requested;
  ++stats_.frees;
  if (!block->small) [[unlikely]] {
    stats_.large.allocated -= block->size;
    ++stats_.large.frees;
  }
}

Block* CachingAllocator::allocate_slow(int64_t bytes, const Stream& stream) {
  TENON_ASSERT(bytes > 0);
  if (AllocatorObserver* o = __atomic_load_n(&observer_, __ATOMIC_ACQUIRE)) o->before(AllocatorEventKind::alloc, bytes);
  Request request;
  Block* block = nullptr;
  bool events;
  {
    SpinGuard guard(lock_);
    request = make_request(bytes, stream);
    events = pending_events_ > 0;
    if (!events) block = take_from_cache(request);
  }
  if (events) {
    // Whoever holds slow_ is looking at the events already, or waiting for the device.
    if (std::unique_lock slow(slow_, std::try_to_lock); slow.owns_lock()) finish_pending(/*wait=*/false);
    SpinGuard guard(lock_);
    block = take_from_cache(request);
  }
  if (!block) block = grow(request);
  unpoison(block);
  return block;
}

CachingAllocator::Request CachingAllocator::make_request(int64_t bytes, const Stream& stream) const {
  Request r{stream, bytes, bytes, bytes, false, settings_.backend == AllocatorBackend::direct};
  if (r.direct) return r;
  if (bytes > kLargestRequest) return r;  // refused in from_device; rounding must not overflow
  const int divisions = settings_.roundup_power2_divisions;
  r.size =
      round_up(divisions > 0 && bytes > kMinBlock * divisions ? round_to_division(bytes, divisions) : bytes, kMinBlock);
  r.small = r.size <= settings_.small_pool_limit;
  r.segment = r.small ? kSmallSegment : r.size <= kLargeRequest ? kLargeSegment : round_up(r.size, kHugeRounding);
  return r;
}

StreamPool* CachingAllocator::find_pool(const Stream& stream) {
  StreamPool*& recent = recent_[stream.id() & (kRecent - 1)];
  if (recent && recent->stream.id() == stream.id()) return recent;
  for (StreamPool* pool : pools_) {
    if (pool->stream.id() == stream.id()) return recent = pool;
  }
  pools_.reserve(pools_.size() + 1);
  auto* pool = new StreamPool;
  pool->owner = this;
  pool->stream = stream;
  pools_.push_back(pool);
  return recent = pool;
}

Block* CachingAllocator::take_from_cache(const Request& request) {
  if (request.direct) return nullptr;
  StreamPool* pool = find_pool(request.stream);
  if (request.size <= kFrontLimit) {
    if (Block*& head = pool->front[request.size / kMinBlock]) {
      Block* block = head;
      head = block->list_next;
      --pool->front_blocks;
      hand_out(block, request.bytes);
      tell(AllocatorEventKind::alloc, block);
      return block;
    }
  }
  Block* block = best_fit(request, pool);
  if (!block && pool->front_blocks > 0) {
    merge_front(pool);
    block = best_fit(request, pool);
  }
  if (!block) return nullptr;
  Block* rest = worth_splitting(block, request) ? block_slab_.take() : nullptr;
  unlist(block);
  return cut_and_hand_out(block, rest, request);
}

Block* CachingAllocator::best_fit(const Request& request, StreamPool* pool) const {
  if (request.small) return pool->small.best(request.size);
  Block* block = pool->large.best(request.size);
  if (!block) return nullptr;
  // Oversize blocks are kept whole: not for smaller requests, nor for much smaller oversize ones.
  const int64_t oversize = settings_.max_split_size;
  if (request.size < oversize && block->size >= oversize) return nullptr;
  if (request.size >= oversize && block->size - request.size >= kLargeSegment) return nullptr;
  return block;
}

bool CachingAllocator::worth_splitting(const Block* block, const Request& request) const {
  const int64_t rest = block->size - request.size;
  if (block->segment->small) return rest >= kMinBlock;
  return request.size < settings_.max_split_size && rest > settings_.small_pool_limit;
}

// `rest` is a fresh descriptor for what remains, or null: taken before anything changed, since it may throw.
Block* CachingAllocator::cut_and_hand_out(Block* block, Block* rest, const Request& request) {
  if (rest) {
    rest->pool = block->pool;
    rest->segment = block->segment;
    rest->small = block->small;
    rest->ptr = block->ptr + request.size;
    rest->size = block->size - request.size;
    rest->prev = block;
    rest->next = block->next;
    if (rest->next) rest->next->prev = rest;
    block->next = rest;
    block->size = request.size;
    ++block->pool->blocks;
    ++stats_.splits;
    list(rest);
  }
  hand_out(block, request.bytes);
  tell(AllocatorEventKind::alloc, block);
  return block;
}

Block* CachingAllocator::add_segment(const Request& request, void* memory) {
  StreamPool* pool = find_pool(request.stream);
  Block* block = block_slab_.take();
  Block* rest = nullptr;
  Segment* segment = nullptr;
  const int64_t size = request.segment;
  try {
    segment = segment_slab_.take();
    *segment = {static_cast<char*>(memory), size,          block,         nullptr, segments_,
                request.stream.id(),        request.small, request.direct};
    block->pool = pool;
    block->segment = segment;
    block->ptr = segment->ptr;
    block->size = size;
    block->small = request.small;
    if (!request.direct && worth_splitting(block, request)) rest = block_slab_.take();
  } catch (...) {
    if (segment) segment_slab_.give(segment);
    block_slab_.give(block);
    throw;
  }
  if (segments_) segments_->prev = segment;
  segments_ = segment;
  ++pool->blocks;
  ++stats_.segments_allocated;
  stats_.reserved += size;
  stats_.total_reserved += size;
  if (!request.small) {
    stats_.large.reserved += size;
    ++stats_.large.segments;
  }
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  tell(AllocatorEventKind::segment_alloc, segment);
  if (poison_free_ && !request.direct && raw_->host_accessible()) ASAN_POISON_MEMORY_REGION(segment->ptr, size);
  cut_and_hand_out(block, rest, request);
  if (request.direct) block->state = BlockState::direct;
  return block;
}

void CachingAllocator::free_slow(Block* block) noexcept {
  if (AllocatorObserver* o = __atomic_load_n(&observer_, __ATOMIC_ACQUIRE)) {
    o->before(AllocatorEventKind::free_requested, block->requested);
  }
  if (block->state == BlockState::direct) return free_direct(block);
  if (block->uses) return free_pending(block);
  poison(block);
  SpinGuard guard(lock_);
  tell(AllocatorEventKind::free_requested, block);
  tell(AllocatorEventKind::free_completed, block);
  count_free(block);
  give_back(block);
}

void CachingAllocator::give_back(Block* block) {
  if (Block* left = block->prev; left && left->state == BlockState::free) {
    unlist(left);
    absorb(left, block);
    block = left;
  }
  if (Block* right = block->next; right && right->state == BlockState::free) {
    unlist(right);
    absorb(block, right);
  }
  list(block);
}

void CachingAllocator::absorb(Block* left, Block* right) {
  left->size += right->size;
  left->next = right->next;
  if (left->next) left->next->prev = left;
  --left->pool->blocks;
  ++stats_.merges;
  block_slab_.give(right);
}

void CachingAllocator::list(Block* block) {
  block->state = BlockState::free;
  block->segment->small ? block->pool->small.insert(block) : block->pool->large.insert(block);
  ++stats_.cached_blocks;
}

void CachingAllocator::unlist(Block* block) {
  block->segment->small ? block->pool->small.remove(block) : block->pool->large.remove(block);
  --stats_.cached_blocks;
}

void CachingAllocator::merge_front(StreamPool* pool) {
  for (int size_class = 1; pool->front_blocks > 0 && size_class <= kFrontClasses; ++size_class) {
    while (Block* block = pool->front[size_class]) {
      pool->front[size_class] = block->list_next;
      --pool->front_blocks;
      give_back(block);
    }
  }
}

void CachingAllocator::merge_fronts() {
  for (StreamPool* pool : pools_) merge_front(pool);
}

void CachingAllocator::poison(Block* block) noexcept {
  if (!__atomic_load_n(&poison_free_, __ATOMIC_RELAXED) || !raw_->host_accessible()) return;
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(block->ptr, block->size);
#else
  std::memset(block->ptr, kPoisonByte, static_cast<size_t>(block->size));
#endif
}

// Readable are the bytes asked for, not what rounding added.
void CachingAllocator::unpoison(Block* block) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  if (!raw_->host_accessible()) return;
  const bool exact = __atomic_load_n(&poison_free_, __ATOMIC_RELAXED);
  ASAN_UNPOISON_MEMORY_REGION(block->ptr, exact ? block->requested : block->size);
#else
  (void)block;
#endif
}

void CachingAllocator::configure(const AllocatorSettings& settings) {
  int64_t limit = INT64_MAX;
  if (settings.per_process_memory_fraction < 1.0 && !device_.is_cpu()) {
    int64_t free = 0, total = 0;
    raw_->info(free, total);
    limit = static_cast<int64_t>(static_cast<double>(total) * settings.per_process_memory_fraction);
  }
  SpinGuard guard(lock_);
  settings_ = settings;
  limit_ = limit;
  __atomic_store_n(&poison_free_, settings.poison_free, __ATOMIC_RELAXED);
  choose_fast_path();
  merge_fronts();
}

void CachingAllocator::observe(AllocatorObserver* observer) {
  SpinGuard guard(lock_);
  __atomic_store_n(&observer_, observer, __ATOMIC_RELEASE);
  choose_fast_path();
}

// Whatever needs more than a push and a pop sends everything the slow way.
void CachingAllocator::choose_fast_path() {
  const bool plain = settings_.backend == AllocatorBackend::caching && !settings_.poison_free &&
                     settings_.roundup_power2_divisions == 0 && !observer_;
  __atomic_store_n(&fast_limit_, plain ? std::min(kFrontLimit, settings_.small_pool_limit) : 0, __ATOMIC_RELAXED);
}

void CachingAllocator::tell(AllocatorEventKind kind, const Block* block) {
  if (observer_) [[unlikely]] {
    observer_->on_event(
        {kind, device_, raw_->name(), block->pool->stream.id(), block->ptr, block->size, block->requested});
  }
}

void CachingAllocator::tell(AllocatorEventKind kind, const Segment* segment) {
  if (observer_) [[unlikely]] {
    observer_->on_event({kind, device_, raw_->name(), segment->stream, segment->ptr, segment->size, 0});
  }
}

void CachingAllocator::lock_for_fork() {
  slow_.lock();
  lock_.lock();
}

void CachingAllocator::unlock_after_fork() {
  lock_.unlock();
  slow_.unlock();
}

}  // namespace tenon::memory

// SPDX-License-Identifier: Apache-2.0
// Blocks that several streams use, and the direct backend's frees: the only places that wait for streams.
//
// Note [Deferred frees]. Freeing must not throw, nor reuse memory too early. A stream whose event cannot be recorded is
// waited for, then its device; where that fails too, or nothing may be waited for (Note [Device work]), the block stays
// pending in a list of its own, and whoever allocates or empties the cache next tries again. On a device that is in
// error for good it stays there. Waiting leaves the errors of queued work to the user's next wait (streams/settle.h).
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/planted_bugs.h>
#include <tenon/streams/settle.h>

#include <utility>

namespace tenon::memory {

CachingAllocator::PendingQueue* CachingAllocator::find_queue(const Stream& stream) {
  for (PendingQueue& queue : pending_) {
    if (queue.stream == stream) return &queue;
  }
  return nullptr;
}

void CachingAllocator::record_stream(Block* block, const Stream& stream) {
  if (stream.device().is_cpu()) return;  // CPU work is done when its call returns
  if (TENON_PLANTED(record_stream_ignored)) return;
  auto* use = new StreamUse{stream, Event(), block, nullptr};
  if (TENON_PLANTED(event_recorded_early)) use->event.record(stream);
  {
    PoolGuard guard(block->pool);
    bool known = stream == block->pool->stream;
    for (const StreamUse* u = block->uses; u && !known; u = u->next) known = u->stream == stream;
    if (!known) {
      // The queue is made now, so that freeing needs no memory. Direct blocks are waited for instead.
      if (block->state != BlockState::direct) {
        SpinGuard queues(uses_lock_);
        PendingQueue* queue = find_queue(stream);
        if (!queue) queue = &pending_.emplace_back(PendingQueue{stream});
        ++queue->uses;
      }
      use->next = block->uses;
      block->uses = use;
      use = nullptr;
    }
  }
  delete use;
}

// Marks where the streams that use the block are now; false when one could be neither marked nor waited for.
bool CachingAllocator::mark_uses(const Block* block) noexcept {
  if (detail::in_device_work()) return false;
  for (StreamUse* use = block->uses; use; use = use->next) {
    try {
      if (!TENON_PLANTED(event_recorded_early)) use->event.record(use->stream);
    } catch (...) {
      // Once the stream has been waited for, an event that is unrecorded, or recorded earlier, is complete.
      if (TENON_PLANTED(fault_leaks_block) || !detail::settle(use->stream)) return false;
    }
  }
  return true;
}

// Waits for all work on a direct block.
bool CachingAllocator::passed(const Block* block) const noexcept {
  if (kind_ != MemoryKind::host && detail::in_device_work()) return false;  // giving it back waits
  for (const StreamUse* use = block->uses; use; use = use->next) {
    if (!detail::settle(use->stream)) return false;
  }
  return detail::settle(block->pool->stream);
}

void CachingAllocator::make_pending(Block* block) noexcept {
  PoolGuard guard(block->pool);
  tell(AllocatorEventKind::free_requested, block);
  count_free(block->pool, block);
  block->state = BlockState::pending;
  block->pool->count.pending += block->size;
  __atomic_add_fetch(&usage_.pending, block->size, __ATOMIC_RELAXED);
}

void CachingAllocator::end_pending(Block* block) noexcept {
  block->pool->count.pending -= block->size;
  __atomic_sub_fetch(&usage_.pending, block->size, __ATOMIC_RELAXED);
  tell(AllocatorEventKind::free_completed, block);
}

void CachingAllocator::enqueue_uses(Block* block) noexcept {
  for (StreamUse* use = std::exchange(block->uses, nullptr); use;) {
    StreamUse* next = use->next;
    use->next = nullptr;
    PendingQueue* queue = find_queue(use->stream);
    (queue->tail ? queue->tail->next : queue->head) = use;
    queue->tail = use;
    ++block->pending;
    __atomic_add_fetch(&pending_events_, 1, __ATOMIC_RELAXED);
    use = next;
  }
}

void CachingAllocator::defer(Block* block) noexcept {
  SpinGuard guard(uses_lock_);
  block->list_next = deferred_;
  __atomic_store_n(&deferred_, block, __ATOMIC_RELAXED);  // finish_pending looks before it locks
  __atomic_add_fetch(&pending_events_, 1, __ATOMIC_RELAXED);
}

void CachingAllocator::retry_deferred() noexcept {
  Block* list = nullptr;
  {
    SpinGuard guard(uses_lock_);
    list = __atomic_exchange_n(&deferred_, nullptr, __ATOMIC_RELAXED);
  }
  while (Block* block = list) {
    list = block->list_next;
    const bool direct = block->segment->direct;
    if (direct ? !passed(block) : !mark_uses(block)) {
      defer(block);
    } else if (direct) {
      release_direct(block, /*deferred=*/true);
    } else {
      SpinGuard guard(uses_lock_);
      enqueue_uses(block);
    }
    __atomic_sub_fetch(&pending_events_, 1, __ATOMIC_RELAXED);
  }
}

void CachingAllocator::free_pending(Block* block) noexcept {
  const bool marked = mark_uses(block);
  if (!marked && TENON_PLANTED(fault_leaks_block)) return;
  make_pending(block);
  if (!marked) return defer(block);
  SpinGuard guard(uses_lock_);
  enqueue_uses(block);
}

void CachingAllocator::check_place(const char* what) const {
  TENON_CHECK(kind_ == MemoryKind::host || !detail::in_device_work(), DeviceError, what,
              ": a host callback of a stream must not ask ", device_, kind_ == MemoryKind::pinned ? " (pinned)" : "",
              " for memory or give it back\n  Do it in the thread that added the callback.");
}

// Only the holder of events_ removes from the queues, so a head stays valid while it is asked without uses_lock_.
void CachingAllocator::finish_pending(bool wait) {
  if (detail::in_device_work()) return;
  std::unique_lock events(events_, std::defer_lock);
  // Whoever holds it is looking already.
  if (wait) {
    events.lock();
  } else if (!events.try_lock()) {
    return;
  }
  if (__atomic_load_n(&deferred_, __ATOMIC_RELAXED)) retry_deferred();
  for (size_t i = 0;;) {
    StreamUse* use = nullptr;
    {
      SpinGuard guard(uses_lock_);
      if (i >= pending_.size()) return;
      use = pending_[i].head;
    }
    if (!use) {
      ++i;
      continue;
    }
    if (wait) {
      use->event.synchronize();
    } else if (!use->event.query()) {
      ++i;
      continue;
    }
    Block* done = nullptr;
    {
      SpinGuard guard(uses_lock_);
      PendingQueue& queue = pending_[i];
      queue.head = use->next;
      if (!queue.head) queue.tail = nullptr;
      if (--queue.uses == 0) {
        pending_[i] = pending_.back();
        pending_.pop_back();
      }
      __atomic_sub_fetch(&pending_events_, 1, __ATOMIC_RELAXED);
      if (TENON_PLANTED(first_event_suffices)) use->block->pending = use->block->pending > 0 ? 1 : 0;
      if (--use->block->pending == 0) done = use->block;
    }
    delete use;
    if (done) finish(done);
  }
}

// The last stream has passed.
void CachingAllocator::finish(Block* block) {
  Segment* gone = nullptr;
  poison(block);
  {
    PoolGuard guard(block->pool);
    end_pending(block);
    gone = uncached(block);
    if (!gone) give_back(block);
  }
  release_segments(gone);
}

void CachingAllocator::free_direct(Block* block) noexcept {
  if (passed(block)) return release_direct(block, /*deferred=*/false);
  make_pending(block);
  defer(block);
}

void CachingAllocator::release_direct(Block* block, bool deferred) noexcept {
  StreamUse* use = block->uses;
  Segment* segment = block->segment;
  char* const ptr = segment->ptr;
  const int64_t bytes = segment->size;
  {
    PoolGuard guard(block->pool);  // told before the device may give the address to somebody else
    if (deferred) {
      end_pending(block);
    } else {
      tell(AllocatorEventKind::free_requested, block);
      tell(AllocatorEventKind::free_completed, block);
    }
    tell(AllocatorEventKind::segment_free, segment->stream, ptr, bytes);
  }
  exact_->release(ptr, bytes);
  {
    StreamPool* pool = block->pool;
    PoolGuard guard(pool);
    if (!deferred) count_free(pool, block);
    unlink_segment(segment);
    count_reserved(segment, -bytes);
    count_segment(segment, -1);
  }
  delete segment;
  while (use) {
    StreamUse* next = use->next;
    delete use;
    use = next;
  }
}

}  // namespace tenon::memory

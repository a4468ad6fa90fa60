// SPDX-License-Identifier: Apache-2.0
// Blocks that several streams use, and the direct backend's frees: the only places that wait for streams.
// An event that cannot be recorded or waited for means a device in an error state; freeing must not throw, so
// the block then goes back as if the work were done: none of it runs any more.
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/planted_bugs.h>

namespace tenon::memory {
namespace {

void wait_for(const Stream& stream) noexcept {
  try {
    stream.synchronize();
  } catch (...) {  // see above
  }
}

}  // namespace

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

void CachingAllocator::free_pending(Block* block) noexcept {
  StreamUse* const uses = block->uses;
  for (StreamUse* use = uses; use; use = use->next) {
    try {
      if (!TENON_PLANTED(event_recorded_early)) use->event.record(use->stream);
    } catch (...) {
      if (TENON_PLANTED(fault_leaks_block)) return;
      wait_for(use->stream);  // the event stays unrecorded, and such events are complete
    }
  }
  {
    PoolGuard guard(block->pool);
    tell(AllocatorEventKind::free_requested, block);
    count_free(block->pool, block);
    block->state = BlockState::pending;
    block->uses = nullptr;
    block->pool->count.pending += block->size;
    __atomic_add_fetch(&usage_.pending, block->size, __ATOMIC_RELAXED);
  }
  SpinGuard guard(uses_lock_);
  for (StreamUse* use = uses; use;) {
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

// Only the holder of slow_ removes from the queues, so a head stays valid while it is asked without lock_.
void CachingAllocator::finish_pending(bool wait) {
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
    block->pool->count.pending -= block->size;
    __atomic_sub_fetch(&usage_.pending, block->size, __ATOMIC_RELAXED);
    tell(AllocatorEventKind::free_completed, block);
    gone = uncached(block);
    if (!gone) give_back(block);
  }
  release_segments(gone);
}

void CachingAllocator::free_direct(Block* block) noexcept {
  StreamUse* use = block->uses;
  for (StreamUse* u = use; u; u = u->next) wait_for(u->stream);
  if (!block->pool->stream.device().is_cpu()) wait_for(block->pool->stream);
  Segment* segment = block->segment;
  char* const ptr = segment->ptr;
  const int64_t bytes = segment->size;
  {
    PoolGuard guard(block->pool);  // told before the device may give the address to somebody else
    tell(AllocatorEventKind::free_requested, block);
    tell(AllocatorEventKind::free_completed, block);
    tell(AllocatorEventKind::segment_free, segment->stream, ptr, bytes);
  }
  exact_->release(ptr, bytes);
  {
    StreamPool* pool = block->pool;
    PoolGuard guard(pool);
    count_free(pool, block);
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

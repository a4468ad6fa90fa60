// SPDX-License-Identifier: Apache-2.0
// Blocks that several streams use, and the direct backend's frees: the only places that wait for streams.
// An event that cannot be recorded or waited for means a device in an error state; freeing must not throw, so
// the block then goes back as if the work were done: none of it runs any more.
#include <tenon/memory/caching_allocator.h>

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
  auto* use = new StreamUse{stream, Event(), block, nullptr};
  {
    SpinGuard guard(lock_);
    bool known = stream == block->pool->stream;
    for (const StreamUse* u = block->uses; u && !known; u = u->next) known = u->stream == stream;
    if (!known) {
      // The queue is made now, so that freeing needs no memory. Direct blocks are waited for instead.
      if (block->state != BlockState::direct) {
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
  for (StreamUse* use = block->uses; use; use = use->next) {
    try {
      use->event.record(use->stream);
    } catch (...) {
      wait_for(use->stream);  // the event stays unrecorded, and such events are complete
    }
  }
  SpinGuard guard(lock_);
  tell(AllocatorEventKind::free_requested, block);
  count_free(block);
  block->state = BlockState::pending;
  pending_bytes_ += block->size;
  for (StreamUse* use = block->uses; use;) {
    StreamUse* next = use->next;
    use->next = nullptr;
    PendingQueue* queue = find_queue(use->stream);
    (queue->tail ? queue->tail->next : queue->head) = use;
    queue->tail = use;
    ++block->pending;
    ++pending_events_;
    use = next;
  }
  block->uses = nullptr;
}

// Only the holder of slow_ removes from the queues, so a head stays valid while it is asked without lock_.
void CachingAllocator::finish_pending(bool wait) {
  for (size_t i = 0;;) {
    StreamUse* use = nullptr;
    {
      SpinGuard guard(lock_);
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
    {
      SpinGuard guard(lock_);
      PendingQueue& queue = pending_[i];
      queue.head = use->next;
      if (!queue.head) queue.tail = nullptr;
      if (--queue.uses == 0) {
        pending_[i] = pending_.back();
        pending_.pop_back();
      }
      --pending_events_;
      if (Block* block = use->block; --block->pending == 0) {
        pending_bytes_ -= block->size;
        poison(block);
        tell(AllocatorEventKind::free_completed, block);
        give_back(block);
      }
    }
    delete use;
  }
}

void CachingAllocator::free_direct(Block* block) noexcept {
  StreamUse* use = block->uses;
  for (StreamUse* u = use; u; u = u->next) wait_for(u->stream);
  if (!block->pool->stream.device().is_cpu()) wait_for(block->pool->stream);
  Segment* segment = block->segment;
  char* const ptr = segment->ptr;
  const int64_t bytes = segment->size;
  {
    SpinGuard guard(lock_);  // told before the device may give the address to somebody else
    tell(AllocatorEventKind::free_requested, block);
    tell(AllocatorEventKind::free_completed, block);
    tell(AllocatorEventKind::segment_free, segment);
  }
  exact_->release(ptr, bytes);
  {
    SpinGuard guard(lock_);
    count_free(block);
    unlink_segment(segment);
    count_released(segment);
    segment_slab_.give(segment);
  }
  while (use) {
    StreamUse* next = use->next;
    delete use;
    use = next;
  }
}

}  // namespace tenon::memory

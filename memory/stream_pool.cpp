// SPDX-License-Identifier: Apache-2.0
// Finding the pool of a stream, and dividing what threads contend for. See memory/stream_pool.h.
#include <tenon/memory/all_pools.h>

#include <algorithm>
#include <memory>
#include <new>

namespace tenon::memory {
namespace {

constinit int32_t next_slot = 0;
constinit thread_local int32_t slot_plus_one __attribute__((tls_model("initial-exec"))) = 0;

}  // namespace

int thread_slot() noexcept {
  if (slot_plus_one == 0) [[unlikely]] {
    slot_plus_one = 1 + (__atomic_fetch_add(&next_slot, 1, __ATOMIC_RELAXED) & (kThreadSlots - 1));
  }
  return slot_plus_one - 1;
}

void PoolGuard::report() noexcept { pool_->owner->note_contention(pool_); }

// Without locks; the result may belong to another stream by now, or may never have been this one's: check its id.
StreamPool* CachingAllocator::recent_pool(const Stream& stream) const {
  StreamPool* pool = __atomic_load_n(&recent_[stream.id() & (kRecent - 1)], __ATOMIC_ACQUIRE);
  if (!pool) return nullptr;
  StreamPool** shards = __atomic_load_n(&pool->shards, __ATOMIC_ACQUIRE);
  return shards ? __atomic_load_n(&shards[thread_slot()], __ATOMIC_ACQUIRE) : pool;
}

StreamPool* CachingAllocator::find_pool(const Stream& stream) {
  SpinGuard guard(lock_);
  StreamPool*& recent = recent_[stream.id() & (kRecent - 1)];
  StreamPool* base = recent && recent->id == stream.id() ? recent : nullptr;
  for (std::size_t i = 0; !base && i < pools_.size(); ++i) {
    if (pools_[i]->id == stream.id() && !pools_[i]->base) base = pools_[i];
  }
  if (!base) base = add_pool(stream, nullptr);
  __atomic_store_n(&recent, base, __ATOMIC_RELEASE);
  if (!base->shards) return base;
  StreamPool*& shard = base->shards[thread_slot()];
  if (!shard) __atomic_store_n(&shard, add_pool(stream, base), __ATOMIC_RELEASE);
  return shard;
}

// Under lock_.
StreamPool* CachingAllocator::add_pool(const Stream& stream, StreamPool* base) {
  StreamPool* pool = nullptr;
  for (StreamPool* p : pools_) {
    if (p->id < 0) pool = p;
  }
  if (pool) {
    if (split_) pool->own.lock();  // somebody may just find out that it is not the pool looked for
  } else {
    pools_.reserve(pools_.size() + 1);
    pool = new StreamPool;
    pool->owner = this;
    pool->split = split_;
    pool->lock = split_ ? &pool->own : &lock_;
    if (split_) pool->own.lock();
    pools_.push_back(pool);
  }
  pool->stream = stream;
  pool->base = base;
  pool->id = stream.id();
  choose_fast_path(pool);
  if (split_) pool->own.unlock();
  return pool;
}

StreamPool* CachingAllocator::pool_at(std::size_t i) {
  SpinGuard guard(lock_);
  return i < pools_.size() ? pools_[i] : nullptr;
}

// A thread has waited for the pool's lock, and holds none now.
void CachingAllocator::note_contention(StreamPool* pool) noexcept {
  SpinGuard guard(lock_);
  if (!split_) {
    if (++contended_ < kContended) return;
    split_ = true;
    for (StreamPool* p : pools_) {
      p->split = true;
      p->claimed = p->count.allocated;
      p->requested_claimed = p->count.requested;
      __atomic_store_n(&p->lock, &p->own, __ATOMIC_RELEASE);
    }
    return;
  }
  if (pool->base || pool->shards || ++pool->contended < kContended) return;
  if (auto** shards = new (std::nothrow) StreamPool*[kThreadSlots]()) {
    shards[thread_slot()] = pool;
    __atomic_store_n(&pool->shards, shards, __ATOMIC_RELEASE);
  }
}

// Pools of streams that have gone would stay for ever otherwise.
void CachingAllocator::recycle_pools() {
  const AllPools all(*this);
  for (StreamPool* pool : pools_) {
    if (pool->blocks > 0 || pool->id < 0 || pool->shards || pool->base) continue;
    StreamPool*& recent = recent_[pool->id & (kRecent - 1)];
    if (recent == pool) __atomic_store_n(&recent, nullptr, __ATOMIC_RELEASE);
    pool->id = -1;
  }
}

}  // namespace tenon::memory

// SPDX-License-Identifier: Apache-2.0
// Private pools, where graphs keep what they work on, and memory's part in a capture.
//
// Note [Private pools]. A private pool is a group of StreamPools of its own, one per stream and allocator, whose number
// is the MemPool's. While a capture goes on, a route sends what is allocated for its streams there. Freed blocks stay
// in the group: only later captures into the same MemPool get them, so a replay finds its memory untouched. When the
// last handle of the MemPool goes (graphs hold one), the group is retired: what is idle goes back to the device at once,
// the rest is ordinary idle memory once it is freed.
#include <tenon/memory/all_pools.h>
#include <tenon/memory/private_pools.h>
#include <tenon/streams/graph.h>
#include <tenon/streams/settle.h>

#include <algorithm>

namespace tenon::memory {

uint64_t CachingAllocator::group_for(const Stream& stream) {
  std::vector<Route> routes;
  {
    SpinGuard guard(lock_);
    routes = routes_;
  }
  // Asks the driver: not with a lock held.
  for (const Route& route : routes)
    if (route.takes(route.context, stream)) return route.group;
  return 0;
}

void CachingAllocator::begin_route(const Route& route) {
  const AllPools all(*this);
  routes_.push_back(route);
  __atomic_store_n(&routes_on_, static_cast<int>(routes_.size()), __ATOMIC_RELEASE);
  for (StreamPool* pool : pools_) choose_fast_path(pool);
}

void CachingAllocator::end_route(const void* context) noexcept {
  const AllPools all(*this);
  const auto found = std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) { return r.context == context; });
  if (found == routes_.end()) return;
  routes_.erase(found);
  __atomic_store_n(&routes_on_, static_cast<int>(routes_.size()), __ATOMIC_RELEASE);
  for (StreamPool* pool : pools_) choose_fast_path(pool);
}

void CachingAllocator::retire(uint64_t group) noexcept {
  bool any = false;
  {
    const AllPools all(*this);
    for (StreamPool* pool : pools_) {
      if (pool->group != group || pool->id < 0) continue;
      pool->held = false;
      any = true;
    }
  }
  if (!any || detail::in_device_work()) return;
  if (detail::captures_underway() > 0) return __atomic_store_n(&empty_later_, true, __ATOMIC_RELEASE);
  try {
    finish_pending(/*wait=*/false);
    std::lock_guard slow(slow_);
    release_idle(group);
    if (release_pages(INT32_MAX, INT32_MAX, group)) release_idle(group);
  } catch (...) {  // it stays in the cache, where the ladder finds it
  }
}

void CachingAllocator::catch_up() noexcept {
  if (detail::captures_underway() > 0 || !__atomic_exchange_n(&empty_later_, false, __ATOMIC_ACQ_REL)) return;
  try {
    empty_cache();
  } catch (...) {  // errors of the device meet whoever waits for it
  }
}

bool in_private_pool(const Storage& storage, uint64_t group) {
  if (!storage || !storage->owned_by(&CachingAllocator::release)) return false;
  return static_cast<const Block*>(storage->context())->pool->group == group;
}

namespace {

#ifndef TENON_PLANTED_BUGS
CachingAllocator* allocator_of(Device device) {
  for (const AllocatorEntry& e : existing_allocators())
    if (!e.pinned && e.allocator->device() == device) return e.allocator;
  return nullptr;
}

// The routes of a thread's capture: the streams that it captures, of its device.
class PrivatePools final : public detail::CaptureObserver {
 public:
  void begin(const detail::GraphInfo& graph) override {
    const Device device = graph.stream.device();
    if (!allocator_of(device)) memory_stats(device);  // makes it
    allocator_of(device)->begin_route({graph.pool,
                                       [](const void* context, const Stream& stream) {
                                         return detail::captures(*static_cast<const detail::GraphInfo*>(context),
                                                                 stream);
                                       },
                                       &graph});
  }
  void end(const detail::GraphInfo& graph, bool) noexcept override {
    if (CachingAllocator* a = allocator_of(graph.stream.device())) a->end_route(&graph);
    for (const AllocatorEntry& e : existing_allocators()) e.allocator->catch_up();
  }
  void pool_gone(uint64_t pool) noexcept override {
    for (const AllocatorEntry& e : existing_allocators())
      if (!e.pinned && !e.allocator->device().is_cpu()) e.allocator->retire(pool);
  }
};

[[maybe_unused]] const bool observed = [] {
  detail::add_capture_observer(new PrivatePools);  // never destroyed: graphs may be reset at exit
  return true;
}();
#endif

}  // namespace

}  // namespace tenon::memory

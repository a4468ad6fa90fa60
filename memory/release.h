// SPDX-License-Identifier: Apache-2.0
// Choosing among idle segments.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/poison.h>

#include <algorithm>
#include <utility>

namespace tenon::memory {

// The idle segment for which better(segment, best so far) held last, out of the books. Holding slow_, so that nobody
// else takes segments away; somebody may allocate from the chosen one meanwhile, then it looks again.
template <class Better>
Segment* CachingAllocator::take_idle(Better better) {
  for (;;) {
    Segment* best = nullptr;
    StreamPool* home = nullptr;
    Segment copy_of_best{};
    Block first{};
    for (std::size_t i = 0; StreamPool* pool = pool_at(i); ++i) {
      PoolGuard guard(pool);
      for (Segment* s = pool->segments; s; s = s->next) {
        if (!idle(s) || !better(s, best ? &copy_of_best : nullptr)) continue;
        best = s;
        home = pool;
        first = *s->first;  // compared later without the lock of this pool
        copy_of_best = *s;
        copy_of_best.first = &first;
      }
    }
    if (!best) return nullptr;
    PoolGuard guard(home);
    if (!idle(best)) continue;
    unlist(best->first);
    unlink_segment(best);
    return best;
  }
}

}  // namespace tenon::memory

// SPDX-License-Identifier: Apache-2.0
// Programs with graphs for any device: whose memory a graph works on, and for how long.
#pragma once

#include <tenon/memory/private_pools.h>

#include <thread>

#include "tests/streams/graph_programs.h"

namespace tenon::testing {

inline void frees(Device d) {
  Graph g(d);
  Tensor x = filled(d, 3, 1000), y;
  {
    Tensor w = filled(d, 5, 1000);  // older than the capture, and gone before the first replay
    synchronize(d);
    g.capture([&] {
      Tensor a = x.mul(w);
      Tensor b = a.add(1);
      a = Tensor();  // its memory is used again within the capture
      Tensor c = b.add(x);
      y = c.sub(2);
    });
    CHECK(g.held_bytes() >= 8000);
  }
  const void* const result = y.data_ptr();
  // Whoever allocates now gets none of the graph's memory.
  std::vector<Tensor> others;
  for (int i = 0; i < 40; ++i) others.push_back(filled(d, -7, 1000));
  for (int i = 0; i < 3; ++i) {
    x.fill_(i);
    g.replay();
    CHECK(values(y) == FloatList(1000, static_cast<float>(5 * i + 1 + i - 2)));
  }
  y = Tensor();  // freed early: still the graph's
  for (int i = 0; i < 40; ++i) {
    others.push_back(filled(d, -8, 1000));
    CHECK(others.back().data_ptr() != result);
  }
  g.replay();
  for (const Tensor& t : others) CHECK(values(t) == FloatList(1000, values(t)[0]));
  memory::empty_cache(d);  // does not take it away either
  g.replay();
  synchronize(d);
  if (d.is_sim()) CHECK(static_cast<const float*>(result)[0] == 5 * 2 + 1 + 2 - 2);
}

inline void memory_returned(Device d) {
  for (const char* conf : {"backend:caching", "expandable_segments:True", "backend:direct"}) {
    CAPTURE(conf);
    const std::string before = memory::allocator_settings();
    memory::set_allocator_settings(conf);
    memory::empty_cache(d);
    const int64_t reserved = memory::memory_reserved(d), allocated = memory::memory_allocated(d);
    {
      Tensor x = filled(d, 1, 1 << 20), y;
      MemPool pool;
      Graph a(d), b(d);
      a.capture([&] { y = x.add(1).mul(2).add(3); }, pool);
      const int64_t of_one = memory::memory_reserved(d);
      y = Tensor();
      Tensor z;
      b.capture([&] { z = x.add(4).mul(2).add(3); }, pool);
      CHECK(memory::memory_reserved(d) == of_one);  // what the first does not need serves the second
      CHECK(memory::in_private_pool(z.storage(), pool.id()));
      CHECK_FALSE(memory::in_private_pool(x.storage(), pool.id()));
      pool = MemPool();
      a.replay();
      b.replay();
      CHECK(values(z) == FloatList(1 << 20, 13));
      a.reset();
      b.replay();
      CHECK(values(z) == FloatList(1 << 20, 13));
      memory::empty_cache(d);
      b.replay();
      CHECK(values(z) == FloatList(1 << 20, 13));
      b.reset();
      CHECK(z.storage()->use_count() == 1);
    }
    memory::empty_cache(d);
    CHECK(memory::memory_reserved(d) == reserved);
    CHECK(memory::memory_allocated(d) == allocated);
    // A hundred captures leave nothing behind, not even without empty_cache.
    Tensor x = filled(d, 1, 1 << 20);
    const int64_t with_x = memory::memory_reserved(d);
    for (int i = 0; i < 100; ++i) {
      Graph g(d);
      g.capture([&] { (void)x.add(1).mul(2); });
      g.replay();
    }
    CHECK(memory::memory_reserved(d) == with_x);
    x = Tensor();
    memory::set_allocator_settings(before);
  }
}

inline void cache_kept(Device d) {
  Tensor x = filled(d, 1, 1 << 20), y;
  (void)filled(d, 1, 8 << 20);  // cached
  synchronize(d);
  const Stream side = Stream::from_pool(0, d);
  const int64_t reserved = memory::memory_reserved(d);
  bool outside = false;
  float seen = 0;
  Graph g(d);
  g.capture([&] {
    memory::empty_cache(d);
    CHECK(memory::memory_reserved(d) == reserved);
    const Stream mine = current_stream(d);
    Tensor a = x.add(1);
    const void* const address = a.data_ptr();
    side.wait_stream(mine);
    {
      const StreamGuard guard(side);
      a.record_stream(side);
      y = a.mul(3);
    }
    a = Tensor();
    Tensor b = x.add(7);  // must not be where side still reads
    CHECK(b.data_ptr() != address);
    mine.wait_stream(side);
    y = y.add(b);
    y.record_stream(mine);
    std::thread other([&] {  // allocates and frees outside of the graph
      const StreamGuard guard(Stream::from_pool(0, d));
      Tensor t = filled(d, 4, 1 << 20);
      outside = !memory::in_private_pool(t.storage(), g.pool().id());
      t.record_stream(Stream::default_stream(d));
      t.add_(1);
      current_stream(d).synchronize();
      seen = values(t)[0];
    });
    other.join();
  });
  CHECK(outside);
  CHECK(seen == 5);
  CHECK(memory::memory_reserved(d) < reserved + (24 << 20));  // now the cache went
  for (int i = 0; i < 5; ++i) {
    x.fill_(i);
    g.replay();
    CHECK(values(y) == FloatList(1 << 20, static_cast<float>(3 * (i + 1) + i + 7)));
  }
}

inline void pinned_memory(Device d) {
  Tensor x = filled(d, 0), y;
  Tensor pinned = ones({4}).pin_memory();
  auto* const data = static_cast<float*>(pinned.data_ptr());
  synchronize(d);
  Graph g(d);
  g.capture([&] {
    x.copy_(pinned, /*non_blocking=*/true);
    y = x.add(1);
    const DataPtr during = memory::allocate_pinned(1 << 20);  // no work on a stream
    during.deleter(during.context);
  });
  pinned = Tensor();
  const Tensor other = full({4}, 9).pin_memory();
  CHECK(other.data_ptr() != data);
  for (int i = 2; i < 5; ++i) {
    for (int k = 0; k < 4; ++k) data[k] = static_cast<float>(i);
    g.replay();
    CHECK(values(y) == FloatList(4, static_cast<float>(i + 1)));
  }
}

}  // namespace tenon::testing

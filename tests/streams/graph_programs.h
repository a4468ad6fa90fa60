// SPDX-License-Identifier: Apache-2.0
// Programs with graphs for any device: tests/sim runs them on the simulated one, tests/streams on the GPU. References are
// the same programs without a graph, or plain arithmetic.
#pragma once

#include <tenon/memory/private_pools.h>
#include <tenon/tenon.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace tenon::testing {

using FloatList = std::vector<float>;

inline FloatList values(const Tensor& t) { return t.to_vector<float>(); }
inline Tensor filled(Device d, float value, int64_t n = 4) { return full({n}, value, device(d)); }

// A network of two layers, its batches, and steps on them: all of one seed, on any device.
struct Training {
  explicit Training(Device d, bool decay, double dropout_p = 0) : p(dropout_p) {
    manual_seed(11);
    const NoGradGuard no_grad;
    const auto weight = [&](IntArrayRef sizes) { return (rand(sizes).sub(0.5)).to(d).requires_grad_(true); };
    parameters = {weight({6, 8}), weight({8}), weight({8, 3}), weight({3})};
    for (int i = 0; i < 24; ++i) batches.push_back({randn({5, 6}).to(d), randint(0, 3, {5}).to(d)});
    if (decay)
      optimizer = std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.05, .weight_decay = 1e-2});
    else
      optimizer = std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor h = x.matmul(parameters[0]).add(parameters[1]).relu();
    if (p > 0) h = dropout(h, p, true);
    const Tensor loss = cross_entropy(h.matmul(parameters[2]).add(parameters[3]), y);
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  std::vector<FloatList> state() const {
    std::vector<FloatList> all;
    for (const Tensor& t : parameters) all.push_back(values(t.detach()));
    return all;
  }
  double p;
  std::vector<Tensor> parameters;
  std::vector<std::pair<Tensor, Tensor>> batches;
  std::unique_ptr<optim::Optimizer> optimizer;
};

inline std::string unjoined_text(Device d) {
  return d.is_sim() ? "joined the capture and has work" : "cudaErrorStreamCaptureUnjoined";
}

inline void replays(Device d) {
  Tensor x = filled(d, 1), y;
  synchronize(d);
  Graph g(d);
  CHECK_FALSE(g.captured());
  g.capture([&] { y = x.add(1).mul(x); });
  CHECK(g.captured());
  CHECK(g.nodes() == 2);
  for (const float v : {1.F, 2.F, 5.F}) {
    x.fill_(v);
    g.replay();
    CHECK(values(y) == FloatList(4, (v + 1) * v));
  }
  g.reset();
  CHECK_FALSE(g.captured());
  CHECK(contains(error_of<CaptureError>([&] { g.replay(); }), "nothing was captured"));
  g.capture([&] { y = x.add(2); });  // a graph can be used again
  g.replay();
  CHECK(values(y) == FloatList(4, 7));
}

inline void fork_and_join(Device d) {
  const Stream side = Stream::from_pool(0, d);
  Tensor x = filled(d, 0), y, z;
  synchronize(d);
  Graph g(d);
  g.capture([&] {
    const Stream mine = current_stream(d);
    const Tensor a = x.add(1);
    side.wait_stream(mine);
    {
      const StreamGuard guard(side);
      CHECK(side.is_capturing());
      y = a.mul(10);
      a.record_stream(side);
    }
    z = a.mul(100);
    mine.wait_stream(side);
    z = z.add(y);
    z.record_stream(mine);
  });
  CHECK_FALSE(side.is_capturing());
  for (int i = 1; i < 4; ++i) {
    x.fill_(i);
    g.replay();
    g.replay();  // replays do not overlap
    CHECK(values(z) == FloatList(4, static_cast<float>((i + 1) * 110)));
  }
}

inline void unjoined_streams(Device d) {
  const Stream side = Stream::from_pool(0, d);
  Tensor x = filled(d, 1);
  const Event before = current_stream(d).record_event();
  Event within(false, d);
  synchronize(d);
  Graph g(d);
  CHECK(contains(error_of<CaptureError>([&] {
                   g.capture([&] {
                     side.wait_stream(current_stream(d));
                     const StreamGuard guard(side);
                     x.add_(1);
                   });
                 }),
                 unjoined_text(d)));
  CHECK_FALSE(side.is_capturing());
  if (d.is_sim())
    CHECK(contains(error_of<CaptureError>([&] { g.capture([&] { current_stream(d).wait_event(before); }); }),
                   "outside of the capture"));
  CHECK(contains(error_of<CaptureError>([&] {
                   g.capture([&] {
                     const StreamGuard guard(side);  // has not joined
                     x.add_(1);
                   });
                 }),
                 "has not joined the capture"));
  CHECK_FALSE(g.captured());
  x.add_(1);
  CHECK(values(x) == FloatList(4, 2));
  g.capture([&] {
    x.add_(5);
    within.record(current_stream(d));
  });
  CHECK_THROWS_AS(within.query(), CaptureError);  // it marks a place in the graph
  CHECK_THROWS_AS(within.synchronize(), CaptureError);
  g.replay();
  CHECK(values(x) == FloatList(4, 7));
  within.record(current_stream(d));
  within.synchronize();
  CHECK(within.query());
}

inline void refusals(Device d) {
  Tensor x = filled(d, 2);
  const Tensor host = ones({4}), pinned = host.pin_memory();
  synchronize(d);
  const auto refused = [&](auto f) {
    Graph g(d);
    const std::string text = error_of<CaptureError>([&] { g.capture(f); });
    CHECK_FALSE(g.captured());
    CHECK_FALSE(current_stream(d).is_capturing());
    CHECK(values(x.add(1)) == FloatList(4, 3));
    return text;
  };
  CHECK(contains(refused([&] { (void)x.sum().item<float>(); }), "item: not while a graph is captured"));
  CHECK(contains(refused([&] { (void)nonzero(x); }), "nonzero: not while"));
  CHECK(contains(refused([&] { (void)equal(x, x); }), "equal: not while"));
  CHECK(contains(refused([&] { x.copy_(host); }), "not pinned"));
  CHECK(contains(refused([&] { (void)host.to(d); }), "not pinned"));
  CHECK(contains(refused([&] { x.copy_(pinned); }), "Stream::synchronize"));
  CHECK(contains(refused([&] { (void)host.add(1); }),
                 "add: not while a graph is captured: it has an operand on the CPU"));
  CHECK(contains(refused([&] { (void)x.mul(scalar_tensor(2)); }), "operand on the CPU"));
  CHECK(contains(refused([&] { current_stream(d).synchronize(); }), "Stream::synchronize: the host cannot wait"));
  CHECK(contains(refused([&] { (void)current_stream(d).query(); }), "Stream::query"));
  CHECK(contains(refused([&] { synchronize(d); }), "synchronize"));
  CHECK(contains(refused([&] { current_stream(d).add_callback([] {}); }), "callback"));
  if (d.is_sim()) CHECK(contains(refused([&] { (void)ones({2}, device(Device(kSim, 1))).add(1); }), "works on sim:1"));
  CHECK(contains(refused([&] { Graph(d).capture([] {}); }), "capturing another"));
}

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

inline void random_numbers(Device d) {
  const auto draw = [d](const Generator& own) {
    const Tensor x = rand({7}, device(d)), n = randn({5}, device(d));
    Tensor mine;
    {
      const GeneratorGuard guard(own);
      mine = rand({3}, device(d));
    }
    const Tensor k = randint(0, 1000, {6}, device(d)).to(kFloat32), p = bernoulli(full({9}, 0.5, device(d)));
    return cat({x, n, mine, k, p, dropout(ones({8}, device(d)), 0.5, true)});
  };
  const auto seeds = [](int i) { return static_cast<uint64_t>(i == 3 ? 77 : 5); };
  std::vector<FloatList> eager;
  const Generator own(d);
  manual_seed(5), own.manual_seed(6);
  for (int i = 0; i < 6; ++i) {
    if (i == 3) manual_seed(seeds(i));
    eager.push_back(values(draw(own)));
  }
  const uint64_t after = default_generator(d).offset(), own_after = own.offset();
  CHECK(eager[0] != eager[1]);

  manual_seed(5), own.manual_seed(6);
  Graph g(d);
  Tensor y;
  g.capture([&] { y = draw(own); });
  CHECK(default_generator(d).offset() == 0);  // a capture draws nothing
  for (int i = 0; i < 6; ++i) {
    if (i == 3) manual_seed(seeds(i));
    g.replay();
    CHECK(values(y) == eager[static_cast<std::size_t>(i)]);
  }
  CHECK(default_generator(d).offset() == after);
  CHECK(own.offset() == own_after);
  // Eager draws between replays take their turn.
  manual_seed(5), own.manual_seed(6);
  (void)draw(own);
  g.replay();
  CHECK(values(y) == eager[1]);
}

inline void training(Device d) {
  for (const bool decay : {false, true}) {
    for (const double p : {0.0, 0.3}) {
      CAPTURE(decay, p);
      std::vector<FloatList> expected, losses;
      {
        Training eager(d, decay, p);
        manual_seed(3);
        for (int i = 0; i < 20; ++i)
          losses.push_back(values(eager.step(eager.batches[i].first, eager.batches[i].second)));
        expected = eager.state();
      }
      Training t(d, decay, p);
      manual_seed(3);
      GraphFunction step = graph([&](TensorList in) -> std::vector<Tensor> { return {t.step(in[0], in[1])}; });
      for (std::size_t i = 0; i < 20; ++i) {
        const std::vector<Tensor> loss = step({t.batches[i].first, t.batches[i].second});
        CHECK(values(loss[0]) == losses[i]);
      }
      CHECK(step.graphs() == 1);
      CHECK(t.state() == expected);
      CHECK(losses[0] != losses[1]);
    }
  }
}

inline void function_calls(Device d) {
  Tensor total = filled(d, 0);
  int host_calls = 0;
  GraphFunction f = graph([&](TensorList in) -> std::vector<Tensor> {
    ++host_calls;
    total.add_(1);
    return {in[0].mul(2), in[0].sum()};
  });
  for (int i = 0; i < 5; ++i) {
    const auto r = f({filled(d, static_cast<float>(i))});
    CHECK(values(r[0]) == FloatList(4, static_cast<float>(2 * i)));
    CHECK(values(r[1]) == FloatList(1, static_cast<float>(4 * i)));
  }
  CHECK(host_calls == 2);
  CHECK(values(total) == FloatList(4, 5));  // also the call that captured
  const Tensor wide = ones({2, 3}, device(d));
  for (int i = 0; i < 3; ++i) CHECK(values(f({wide})[1]) == FloatList(1, 6));
  CHECK(f.graphs() == 2);
  std::vector<Tensor> in = f.inputs(std::vector<Tensor>{wide});
  REQUIRE(in.size() == 1);
  in[0].fill_(4);
  CHECK(values(f(in)[1]) == FloatList(1, 24));
  CHECK(values(f({filled(d, 3)})[0]) == FloatList(4, 6));
  CHECK_THROWS_AS(f({ones({4})}), DeviceError);
  f.reset();
  CHECK(f.graphs() == 0);

  GraphFunction bad = graph([](TensorList in) -> std::vector<Tensor> { return {nonzero(in[0])}; });
  CHECK(values(bad({filled(d, 1, 1)})[0].to(kFloat32)) == FloatList{0});
  CHECK(contains(error_of<CaptureError>([&] { bad({filled(d, 1, 1)}); }), "nonzero"));
  CHECK(contains(error_of<CaptureError>([&] { bad({filled(d, 1, 1)}); }), "nonzero"));
}

inline void guards(Device d) {
  Tensor x = filled(d, 1);
  synchronize(d);
  Graph g(d);
  CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "the default stream of " + d.str()));
  {
    const GraphCapture capture(g);
    CHECK(current_stream(d).is_capturing());
    x.add_(1);
    Graph other(d);
    const StreamGuard guard(Stream::from_pool(0, d));
    CHECK(contains(error_of<CaptureError>([&] { other.capture_begin(); }), "capturing another"));
    CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "holds a capture"));
    CHECK(contains(error_of<CaptureError>([&] { lint_capture([] {}); }), "capturing"));
  }
  CHECK(current_stream(d).id() == 0);
  g.replay();
  CHECK(values(x) == FloatList(4, 2));
  CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "holds a capture"));
  CHECK(contains(error_of<CaptureError>([&] { g.capture_end(); }), "not capturing"));
  Graph again(d);
  CHECK(contains(error_of<CaptureError>([&] { again.capture([&] { g.replay(); }); }), "part of another capture"));
  try {
    const GraphCapture capture(again);
    throw ValueError("passes");
  } catch (const ValueError&) {
  }
  CHECK(contains(error_of<CaptureError>([&] { again.replay(); }), "nothing was captured"));
  const Stream side = Stream::from_pool(0, d);
  {
    const GraphCapture capture(again);
    side.wait_stream(current_stream(d));
    const StreamGuard guard(side);
    x.add_(1);
  }
  CHECK(contains(error_of<CaptureError>([&] { again.replay(); }), unjoined_text(d)));
  again.reset();
  again.capture([&] { x.add_(10); });
  Graph moved = std::move(again);
  moved.replay();
  CHECK(values(x) == FloatList(4, 12));
  CHECK_THROWS_AS(Graph(kCPU).capture([] {}), DeviceError);
  {
    Graph left(d);
    const StreamGuard guard(side);
    left.capture_begin();
    x.add_(1);
  }  // destroyed in its capture
  CHECK_FALSE(side.is_capturing());
  CHECK(values(x) == FloatList(4, 12));
}

}  // namespace tenon::testing

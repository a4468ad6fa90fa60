// SPDX-License-Identifier: Apache-2.0
// Graphs of whole programs on the simulated device: memory, random numbers, training steps, the linter. References are
// the same programs without a graph.
#include <tenon/dispatch/capture.h>
#include <tenon/dispatch/graph_function.h>
#include <tenon/memory/private_pools.h>
#include <tenon/streams/graph.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <thread>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

const Device kSim0(kSim, 0), kSim1(kSim, 1);
using FloatList = std::vector<float>;

FloatList values(const Tensor& t) { return t.to_vector<float>(); }
Tensor on_sim(float value, int64_t n = 4) { return full({n}, value, device(kSim0)); }

// A network of two layers, its batches, and steps on them: all of one seed, on any device.
struct Training {
  explicit Training(Device d, bool adam, double dropout_p = 0) : p(dropout_p) {
    manual_seed(11);
    const NoGradGuard no_grad;
    const auto weight = [&](IntArrayRef sizes) { return (rand(sizes).sub(0.5)).to(d).requires_grad_(true); };
    parameters = {weight({6, 8}), weight({8}), weight({8, 3}), weight({3})};
    for (int i = 0; i < 24; ++i) batches.push_back({randn({5, 6}).to(d), randint(0, 3, {5}).to(d)});
    if (adam)
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

}  // namespace

TEST_CASE("graph: what was captured runs when it is replayed, on the data that is there then") {
  for (uint64_t s = 0; s < 20; ++s) {
    sim::configure({.seed = s + tenon::testing::seed()});
    CAPTURE(s);
    Tensor x = on_sim(1), y;
    synchronize(kSim0);
    Graph g(kSim0);
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
}

TEST_CASE("graph: streams that fork and join in a capture are ordered by their events in every replay") {
  for (uint64_t s = 0; s < 60; ++s) {
    sim::configure({.seed = s + tenon::testing::seed()});
    CAPTURE(s);
    const Stream side = Stream::from_pool(0, kSim0);
    Tensor x = on_sim(0), y, z;
    synchronize(kSim0);
    Graph g(kSim0);
    g.capture([&] {
      const Stream mine = current_stream(kSim0);
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
}

TEST_CASE("graph: a stream that does not come back, and one of outside, are errors; the device stays usable") {
  sim::configure({});
  const Stream side = Stream::from_pool(0, kSim0);
  Tensor x = on_sim(1);
  const Event before = current_stream(kSim0).record_event();
  synchronize(kSim0);
  Graph g(kSim0);
  CHECK(contains(error_of<CaptureError>([&] {
                   g.capture([&] {
                     side.wait_stream(current_stream(kSim0));
                     const StreamGuard guard(side);
                     x.add_(1);
                   });
                 }),
                 "joined the capture"));
  CHECK_FALSE(side.is_capturing());
  CHECK(contains(error_of<CaptureError>([&] { g.capture([&] { current_stream(kSim0).wait_event(before); }); }),
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
  g.capture([&] { x.add_(5); });
  g.replay();
  CHECK(values(x) == FloatList(4, 7));
}

TEST_CASE("graph: refused operators are named, the capture ends, work goes on") {
  sim::configure({});
  Tensor x = on_sim(2);
  const Tensor host = ones({4}), pinned = host.pin_memory();
  synchronize(kSim0);
  const auto refused = [&](auto f) {
    Graph g(kSim0);
    const std::string text = error_of<CaptureError>([&] { g.capture(f); });
    CHECK_FALSE(g.captured());
    CHECK_FALSE(current_stream(kSim0).is_capturing());
    CHECK(values(x.add(1)) == FloatList(4, 3));
    return text;
  };
  CHECK(contains(refused([&] { (void)x.sum().item<float>(); }), "item: not while a graph is captured"));
  CHECK(contains(refused([&] { (void)nonzero(x); }), "nonzero: not while"));
  CHECK(contains(refused([&] { (void)equal(x, x); }), "equal: not while"));
  CHECK(contains(refused([&] { x.copy_(host); }), "not pinned"));
  CHECK(contains(refused([&] { (void)host.to(kSim0); }), "not pinned"));
  CHECK(contains(refused([&] { x.copy_(pinned); }), "Stream::synchronize"));
  CHECK(contains(refused([&] { (void)host.add(1); }),
                 "add: not while a graph is captured: it has an operand on the CPU"));
  CHECK(contains(refused([&] { (void)x.mul(scalar_tensor(2)); }), "operand on the CPU"));
  CHECK(contains(refused([&] { current_stream(kSim0).synchronize(); }), "Stream::synchronize: the host cannot wait"));
  CHECK(contains(refused([&] { (void)current_stream(kSim0).query(); }), "Stream::query"));
  CHECK(contains(refused([&] { synchronize(kSim0); }), "synchronize"));
  CHECK(contains(refused([&] { current_stream(kSim0).add_callback([] {}); }), "callback"));
  CHECK(contains(refused([&] { (void)ones({2}, device(kSim1)).add(1); }), "works on sim:1"));
  CHECK(contains(refused([&] { Graph(kSim0).capture([] {}); }), "capturing another"));
}

TEST_CASE("graph: frees in a capture, after it, and of what it uses never change a replay") {
  sim::configure({.memory_bytes = 64 << 20});
  Graph g(kSim0);
  Tensor x = on_sim(3, 1000), y;
  {
    Tensor w = on_sim(5, 1000);  // older than the capture, and gone before the first replay
    synchronize(kSim0);
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
  for (int i = 0; i < 40; ++i) others.push_back(on_sim(-7, 1000));
  for (int i = 0; i < 3; ++i) {
    x.fill_(i);
    g.replay();
    CHECK(values(y) == FloatList(1000, static_cast<float>(5 * i + 1 + i - 2)));
  }
  y = Tensor();  // freed early: still the graph's
  for (int i = 0; i < 40; ++i) {
    others.push_back(on_sim(-8, 1000));
    CHECK(others.back().data_ptr() != result);
  }
  g.replay();
  for (const Tensor& t : others) CHECK(values(t) == FloatList(1000, values(t)[0]));
  memory::empty_cache(kSim0);  // does not take it away either
  g.replay();
  synchronize(kSim0);
  CHECK(static_cast<const float*>(result)[0] == 5 * 2 + 1 + 2 - 2);
}

TEST_CASE("graph: everything goes back when the last graph of a pool is reset") {
  for (const char* conf : {"backend:caching", "expandable_segments:True", "backend:direct"}) {
    CAPTURE(conf);
    const std::string before = memory::allocator_settings();
    memory::set_allocator_settings(conf);
    sim::configure({.memory_bytes = 256 << 20});
    memory::empty_cache(kSim0);
    const int64_t reserved = memory::memory_reserved(kSim0), allocated = memory::memory_allocated(kSim0);
    {
      Tensor x = on_sim(1, 1 << 20), y;
      MemPool pool;
      Graph a(kSim0), b(kSim0);
      a.capture([&] { y = x.add(1).mul(2).add(3); }, pool);
      const int64_t of_one = memory::memory_reserved(kSim0);
      y = Tensor();
      Tensor z;
      b.capture([&] { z = x.add(4).mul(2).add(3); }, pool);
      CHECK(memory::memory_reserved(kSim0) == of_one);  // what the first does not need serves the second
      CHECK(memory::in_private_pool(z.storage(), pool.id()));
      CHECK_FALSE(memory::in_private_pool(x.storage(), pool.id()));
      pool = MemPool();
      a.replay();
      b.replay();
      CHECK(values(z) == FloatList(1 << 20, 13));
      a.reset();
      b.replay();
      CHECK(values(z) == FloatList(1 << 20, 13));
      memory::empty_cache(kSim0);
      b.replay();
      CHECK(values(z) == FloatList(1 << 20, 13));
      b.reset();
      CHECK(z.storage()->use_count() == 1);
    }
    memory::empty_cache(kSim0);
    CHECK(memory::memory_reserved(kSim0) == reserved);
    CHECK(memory::memory_allocated(kSim0) == allocated);
    // A hundred captures leave nothing behind, not even without empty_cache.
    Tensor x = on_sim(1, 1 << 20);
    const int64_t with_x = memory::memory_reserved(kSim0);
    for (int i = 0; i < 100; ++i) {
      Graph g(kSim0);
      g.capture([&] { (void)x.add(1).mul(2); });
      g.replay();
    }
    CHECK(memory::memory_reserved(kSim0) == with_x);
    x = Tensor();
    memory::set_allocator_settings(before);
  }
}

TEST_CASE("graph: while streams are captured the cache is kept, blocks of several streams wait, other threads go on") {
  sim::configure({.memory_bytes = 256 << 20});
  Tensor x = on_sim(1, 1 << 20), y;
  (void)on_sim(1, 8 << 20);  // cached
  synchronize(kSim0);
  const Stream side = Stream::from_pool(0, kSim0);
  const int64_t reserved = memory::memory_reserved(kSim0);
  Graph g(kSim0);
  g.capture([&] {
    memory::empty_cache(kSim0);
    CHECK(memory::memory_reserved(kSim0) == reserved);
    const Stream mine = current_stream(kSim0);
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
    std::thread([&] {  // allocates and frees outside of the graph
      const StreamGuard guard(Stream::from_pool(0, kSim0));
      Tensor t = on_sim(4, 1 << 20);
      CHECK_FALSE(memory::in_private_pool(t.storage(), g.pool().id()));
      t.record_stream(Stream::default_stream(kSim0));
      t.add_(1);
      current_stream(kSim0).synchronize();
      if (values(t)[0] != 5) throw InternalError("wrong");
    })
        .join();
  });
  CHECK(memory::memory_reserved(kSim0) < reserved + (24 << 20));  // now the cache went
  for (int i = 0; i < 5; ++i) {
    x.fill_(i);
    g.replay();
    CHECK(values(y) == FloatList(1 << 20, static_cast<float>(3 * (i + 1) + i + 7)));
  }
}

TEST_CASE("graph: pinned memory that a copy reads is kept, and read by every replay") {
  sim::configure({});
  Tensor x = on_sim(0), y;
  Tensor pinned = ones({4}).pin_memory();
  auto* const data = static_cast<float*>(pinned.data_ptr());
  synchronize(kSim0);
  Graph g(kSim0);
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

TEST_CASE("graph: every replay draws the numbers that the same calls would have drawn") {
  sim::configure({.seed = tenon::testing::seed()});
  const auto draw = [](const Generator& own) {
    const Tensor x = rand({7}, device(kSim0)), n = randn({5}, device(kSim0));
    Tensor mine;
    {
      const GeneratorGuard guard(own);
      mine = rand({3}, device(kSim0));
    }
    const Tensor k = randint(0, 1000, {6}, device(kSim0)).to(kFloat32), p = bernoulli(full({9}, 0.5, device(kSim0)));
    return cat({x, n, mine, k, p, dropout(ones({8}, device(kSim0)), 0.5, true)});
  };
  const auto seeds = [](int i) { return static_cast<uint64_t>(i == 3 ? 77 : 5); };
  std::vector<FloatList> eager;
  const Generator own(kSim0);
  manual_seed(5), own.manual_seed(6);
  for (int i = 0; i < 6; ++i) {
    if (i == 3) manual_seed(seeds(i));
    eager.push_back(values(draw(own)));
  }
  const uint64_t after = default_generator(kSim0).offset(), own_after = own.offset();
  CHECK(eager[0] != eager[1]);

  manual_seed(5), own.manual_seed(6);
  Graph g(kSim0);
  Tensor y;
  g.capture([&] { y = draw(own); });
  CHECK(default_generator(kSim0).offset() == 0);  // a capture draws nothing
  for (int i = 0; i < 6; ++i) {
    if (i == 3) manual_seed(seeds(i));
    g.replay();
    CHECK(values(y) == eager[static_cast<std::size_t>(i)]);
  }
  CHECK(default_generator(kSim0).offset() == after);
  CHECK(own.offset() == own_after);
  // Eager draws between replays take their turn.
  manual_seed(5), own.manual_seed(6);
  (void)draw(own);
  g.replay();
  CHECK(values(y) == eager[1]);
}

TEST_CASE("graph: twenty whole training steps equal the same steps without a graph, bit for bit") {
  for (const bool adam : {false, true}) {
    for (const double p : {0.0, 0.3}) {
      CAPTURE(adam, p);
      sim::configure({.seed = tenon::testing::seed()});
      std::vector<FloatList> expected, losses;
      {
        Training eager(kSim0, adam, p);
        manual_seed(3);
        for (int i = 0; i < 20; ++i)
          losses.push_back(values(eager.step(eager.batches[i].first, eager.batches[i].second)));
        expected = eager.state();
      }
      Training t(kSim0, adam, p);
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

TEST_CASE("graph(f): each kind of inputs has its graph, calls run once, inputs may be written in place") {
  sim::configure({.seed = tenon::testing::seed()});
  Tensor total = on_sim(0);
  int host_calls = 0;
  GraphFunction f = graph([&](TensorList in) -> std::vector<Tensor> {
    ++host_calls;
    total.add_(1);
    return {in[0].mul(2), in[0].sum()};
  });
  for (int i = 0; i < 5; ++i) {
    const auto r = f({on_sim(static_cast<float>(i))});
    CHECK(values(r[0]) == FloatList(4, static_cast<float>(2 * i)));
    CHECK(values(r[1]) == FloatList(1, static_cast<float>(4 * i)));
  }
  CHECK(host_calls == 2);
  CHECK(values(total) == FloatList(4, 5));  // also the call that captured
  const Tensor wide = ones({2, 3}, device(kSim0));
  for (int i = 0; i < 3; ++i) CHECK(values(f({wide})[1]) == FloatList(1, 6));
  CHECK(f.graphs() == 2);
  std::vector<Tensor> in = f.inputs(std::vector<Tensor>{wide});
  REQUIRE(in.size() == 1);
  in[0].fill_(4);
  CHECK(values(f(in)[1]) == FloatList(1, 24));
  CHECK(values(f({on_sim(3)})[0]) == FloatList(4, 6));
  CHECK_THROWS_AS(f({ones({4})}), DeviceError);
  f.reset();
  CHECK(f.graphs() == 0);

  GraphFunction bad = graph([](TensorList in) -> std::vector<Tensor> { return {nonzero(in[0])}; });
  CHECK(values(bad({on_sim(1, 1)})[0].to(kFloat32)) == FloatList{0});
  CHECK(contains(error_of<CaptureError>([&] { bad({on_sim(1, 1)}); }), "nonzero"));
  CHECK(contains(error_of<CaptureError>([&] { bad({on_sim(1, 1)}); }), "nonzero"));
}

TEST_CASE("graph: any failing call leaves an error, a usable device and no memory behind") {
  sim::configure({});
  const int64_t reserved = memory::memory_reserved(kSim0);
  bool whole = false;
  int failed = 0;
  for (int64_t k = 1; !whole; ++k) {
    CAPTURE(k);
    REQUIRE(k < 200);
    sim::configure({});
    {
      Tensor x = on_sim(2);
      synchronize(kSim0);
      sim::fail_any(k);
      try {
        Graph g(kSim0);
        Tensor y;
        g.capture([&] { y = x.add(1).mul(rand({4}, device(kSim0)).mul(0).add(1)); });
        g.replay();
        g.replay();
        const FloatList got = values(y);
        whole = sim::counters().faults == 0;
        CHECK(got == FloatList(4, 3));
      } catch (const Error&) {
        ++failed;
      }
      sim::clear_faults();
      try {
        synchronize(kSim0);
      } catch (const Error&) {
      }
      CHECK(values(x.add(1)) == FloatList(4, 3));
      CHECK(detail::captures_underway() == 0);
    }
    memory::empty_cache(kSim0);
    CHECK(memory::memory_reserved(kSim0) == reserved);
  }
  CHECK(failed > 8);
}

TEST_CASE("graph: guards keep or drop the capture, errors wait for the replay") {
  sim::configure({});
  Tensor x = on_sim(1);
  synchronize(kSim0);
  Graph g(kSim0);
  CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "the default stream of sim:0"));
  {
    const GraphCapture capture(g);
    CHECK(current_stream(kSim0).is_capturing());
    x.add_(1);
    Graph other(kSim0);
    const StreamGuard guard(Stream::from_pool(0, kSim0));
    CHECK(contains(error_of<CaptureError>([&] { other.capture_begin(); }), "capturing another"));
    CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "holds a capture"));
    CHECK(contains(error_of<CaptureError>([&] { lint_capture([] {}); }), "capturing"));
  }
  CHECK(current_stream(kSim0).id() == 0);
  g.replay();
  CHECK(values(x) == FloatList(4, 2));
  CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "holds a capture"));
  CHECK(contains(error_of<CaptureError>([&] { g.capture_end(); }), "not capturing"));
  Graph again(kSim0);
  CHECK(contains(error_of<CaptureError>([&] { again.capture([&] { g.replay(); }); }), "part of another capture"));
  try {
    const GraphCapture capture(again);
    throw ValueError("passes");
  } catch (const ValueError&) {
  }
  CHECK(contains(error_of<CaptureError>([&] { again.replay(); }), "nothing was captured"));
  const Stream side = Stream::from_pool(0, kSim0);
  {
    const GraphCapture capture(again);
    side.wait_stream(current_stream(kSim0));
    const StreamGuard guard(side);
    x.add_(1);
  }
  CHECK(contains(error_of<CaptureError>([&] { again.replay(); }), "joined the capture"));
  again.reset();
  again.capture([&] { x.add_(10); });
  Graph moved = std::move(again);
  moved.replay();
  CHECK(values(x) == FloatList(4, 12));
  CHECK_THROWS_AS(Graph(kCPU).capture([] {}), DeviceError);
  {
    Graph left(kSim0);
    const StreamGuard guard(side);
    left.capture_begin();
    x.add_(1);
  }  // destroyed in its capture
  CHECK_FALSE(side.is_capturing());
  CHECK(values(x) == FloatList(4, 12));
}

TEST_CASE("graph: debug_dump writes the recorded work with its order") {
  sim::configure({});
  Tensor x = on_sim(1);
  Graph g(kSim0);
  CHECK_THROWS_AS(g.debug_dump("/dev/null"), CaptureError);
  g.capture([&] { x.add(1).mul_(2); });
  const std::string path = "graph_test_dump.dot";
  g.debug_dump(path);
  std::string text(4096, ' ');
  std::FILE* file = std::fopen(path.c_str(), "r");
  REQUIRE(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  std::remove(path.c_str());
  CHECK(contains(text, "n0 [label=\"add\"]"));
  CHECK(contains(text, "n0 -> n1"));
  CHECK_THROWS_AS(g.debug_dump("/nowhere/x.dot"), IoError);
}

TEST_CASE("graph: threads capture at the same time, each its own work") {
  sim::configure({.seed = tenon::testing::seed()});
  std::vector<std::thread> threads;
  std::vector<FloatList> results(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &results] {
      const StreamGuard mine(Stream::from_pool(0, kSim0));
      Tensor x = on_sim(static_cast<float>(t)), y;
      Graph g(kSim0);
      g.capture([&] {
        y = x;
        for (int i = 0; i < 20; ++i) y = y.add(1);
      });
      for (int i = 0; i < 3; ++i) g.replay();
      results[static_cast<std::size_t>(t)] = values(y);
    });
  }
  for (auto& t : threads) t.join();
  for (int t = 0; t < 4; ++t) CHECK(results[static_cast<std::size_t>(t)] == FloatList(4, static_cast<float>(t + 20)));
}

TEST_CASE("lint_capture lists every offender, on any device, without stopping at the first") {
  sim::configure({});
  const auto program = [](const Tensor& x) {
    return [x] {
      Tensor y = x.add(1);
      if (y.sum().item<float>() > 0) y = y.mul(2);
      (void)y.sum().item<float>();
      (void)nonzero(y);
      (void)masked_select(y, y.gt(0));
      (void)y.sum();
    };
  };
  for (const Device d : {Device(kCPU), kSim0}) {
    CAPTURE(d.str());
    const CaptureReport r = lint_capture(program(ones({4}, device(d))), d);
    CHECK_FALSE(r.clean());
    CHECK(r.stopped.empty());
    REQUIRE(r.offences.size() == 3);
    CHECK(r.offences[0].where == "item");
    CHECK(r.offences[0].count == 2);
    CHECK(r.offences[1].where == "nonzero");
    CHECK(contains(r.offences[1].reason, "sizes"));
    CHECK(r.offences[2].where == "masked_select");
    CHECK(contains(r.str(), "item: it waits for the device (2 times)"));
    CHECK(r.operators > 6);
  }
  const CaptureReport meta = lint_capture(program(empty({4}, device(kMeta))), kMeta);
  CHECK(meta.offences.at(0).where == "item");
  CHECK(contains(meta.stopped, "meta"));
  CHECK(contains(meta.str(), "stopped by: "));

  const Tensor x = on_sim(1), host = ones({4});
  const CaptureReport r = lint_capture(
      [&] {
        on_sim(0).copy_(host);
        (void)host.add(1);
        (void)x.cpu();
        synchronize(kSim0);
        current_stream(kSim0).synchronize();
        const Event e = current_stream(kSim0).record_event();
        e.synchronize();
      },
      kSim0);
  std::vector<std::string> where;
  for (const CaptureOffence& o : r.offences) where.push_back(o.where);
  CHECK(where == std::vector<std::string>{"copy", "add", "_to_copy", "synchronize", "Stream::synchronize",
                                          "Event::synchronize"});

  const CaptureReport fine = lint_capture([&] { (void)x.add(1).relu().sum(); }, kSim0);
  CHECK(fine.clean());
  CHECK(fine.str() == "capturable: 3 operators");
  Training t(kSim0, true, 0.5);
  CHECK(lint_capture([&] { t.step(t.batches[0].first, t.batches[0].second); }, kSim0).str() ==
        lint_capture([&] { t.step(t.batches[1].first, t.batches[1].second); }, kSim0).str());
  (void)x.sum().item<float>();  // the rules are gone
}

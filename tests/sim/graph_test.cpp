// SPDX-License-Identifier: Apache-2.0
// Graphs on the simulated device: the common programs under many schedules, and what can only be shown there.
#include <tenon/streams/launch_ring.h>
#include <tenon/streams/sim.h>

#include "tests/streams/graph_memory_programs.h"
#include "tests/streams/graph_training_programs.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;
using tenon::testing::FloatList;
using tenon::testing::Training;
using tenon::testing::values;

namespace {

const Device kSim0(kSim, 0), kSim1(kSim, 1);

Tensor on_sim(float value, int64_t n = 4) { return tenon::testing::filled(kSim0, value, n); }

// Under `n` seeds.
template <class F>
void schedules(uint64_t n, F program) {
  for (uint64_t s = 0; s < n; ++s) {
    CAPTURE(s);
    sim::configure({.memory_bytes = 256 << 20, .seed = s + tenon::testing::seed()});
    program(kSim0);
  }
}

}  // namespace

TEST_CASE("graph: what was captured runs when it is replayed, on the data that is there then") {
  schedules(20, tenon::testing::replays);
}

TEST_CASE("graph: streams that fork and join in a capture are ordered by their events in every replay") {
  schedules(60, tenon::testing::fork_and_join);
}

TEST_CASE("graph: a stream that does not come back, and one of outside, are errors; the device stays usable") {
  schedules(3, tenon::testing::unjoined_streams);
}

TEST_CASE("graph: refused operators are named, the capture ends, work goes on") {
  schedules(3, tenon::testing::refusals);
}

TEST_CASE("graph: frees in a capture, after it, and of what it uses never change a replay") {
  schedules(10, tenon::testing::frees);
}

TEST_CASE("graph: everything goes back when the last graph of a pool is reset") {
  schedules(2, tenon::testing::memory_returned);
}

TEST_CASE("graph: while streams are captured the cache is kept, blocks of several streams wait, other threads go on") {
  schedules(4, tenon::testing::cache_kept);
}

TEST_CASE("graph: pinned memory that a copy reads is kept, and read by every replay") {
  schedules(4, tenon::testing::pinned_memory);
}

TEST_CASE("graph: every replay draws the numbers that the same calls would have drawn") {
  schedules(4, tenon::testing::random_numbers);
}

TEST_CASE("graph: twenty whole training steps equal the same steps without a graph, bit for bit") {
  schedules(2, tenon::testing::training);
}

TEST_CASE("graph: optimizers whose steps a graph would get wrong are refused") {
  schedules(2, tenon::testing::uncapturable_optimizers);
}

TEST_CASE("graph(f): each kind of inputs has its graph, calls run once, inputs may be written in place") {
  schedules(4, tenon::testing::function_calls);
}

TEST_CASE("graph: a capture that runs out of memory gives up the cache, then ends with the error") {
  sim::configure({.memory_bytes = 64 << 20});
  const Tensor x = on_sim(1, 1 << 20);
  { const Tensor cached = on_sim(1, 10 << 20); }
  synchronize(kSim0);
  CHECK(memory::memory_reserved(kSim0) >= 44 << 20);
  Graph g(kSim0);
  Tensor y;
  g.capture([&] { y = cat({x, x, x, x, x, x, x, x}); });  // 32 MiB, where the cached memory was
  g.replay();
  CHECK(values(y.sum()) == FloatList{8 << 20});
  Graph larger(kSim0);
  CHECK_THROWS_AS(larger.capture([&] { (void)cat({y, y}); }), OutOfMemoryError);
  CHECK_FALSE(larger.captured());
  CHECK(detail::captures_underway() == 0);
  g.replay();
  CHECK(values(y.sum()) == FloatList{8 << 20});
}

TEST_CASE("graph: guards keep or drop the capture, errors wait for the replay") {
  schedules(3, tenon::testing::guards);
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
  g.replay();
  CHECK(last_launches(1).at(0).kernel == "graph");
  CHECK(last_launches(1).at(0).op == "Graph::replay");
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
  for (int i = 0; i < 2; ++i)
    CHECK(lint_capture([&] { t.step(t.batches[0].first, t.batches[0].second); }, kSim0).clean());
  (void)x.sum().item<float>();  // the rules are gone
}

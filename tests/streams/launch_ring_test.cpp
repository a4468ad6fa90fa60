// SPDX-License-Identifier: Apache-2.0
// The launch ring, blame mode and broken devices, on the simulated device.
#include "tests/support/catch.h"

#include <tenon/streams/blame.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/graph.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

const Device kSim0(kSim, 0);

int lines(const std::string& text) { return 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

struct Fresh {  // a device that works, and settings that end with the test
  int size = launch_ring_size();
  explicit Fresh(sim::Options options = {}) { sim::configure(options); }
  ~Fresh() {
    set_blame_mode(false);
    record_launch_sites(false);
    set_launch_ring_size(size);
    sim::configure({});
  }
};

}  // namespace

TEST_CASE("the ring keeps the last launches: operator, stream, number, newest first", "[ring]") {
  const Fresh fresh({.schedule = sim::Schedule::eager});
  set_launch_ring_size(64);
  const TensorOptions on(kSim0);
  const Tensor x = ones({8}, on);
  const uint64_t before = launch_count();
  const Stream side = Stream::from_pool(0, kSim0);
  (void)x.add(1);
  {
    const StreamGuard guard(side);
    (void)x.relu();
  }
  (void)x.mul(2);
  CHECK(launch_count() == before + 3);
  const std::vector<Launch> last = last_launches(3);
  REQUIRE(last.size() == 3);
  CHECK(last[0].op == "mul");
  CHECK(last[1].op == "relu");
  CHECK(last[2].op == "add");
  CHECK(last[0].stream == 0);
  CHECK(last[1].stream == side.id());
  CHECK(last[0].device == kSim0);
  CHECK(last[0].sequence == before + 3);
  CHECK(last[2].sequence == before + 1);
  CHECK(last[0].str() == "#" + std::to_string(before + 3) + " mul on sim:0 stream 0");
  CHECK(last[0].site.empty());
  std::vector<float> host(8);
  (void)x.cpu();
  CHECK(last_launches(1)[0].kernel == "copy");
  synchronize(kSim0);

  for (int i = 0; i < 100; ++i) (void)x.add(1);
  CHECK(last_launches().size() == 64);
  set_launch_ring_size(10);
  CHECK(launch_ring_size() == 16);
  (void)x.add(1);
  CHECK(last_launches()[0].op == "add");
  set_launch_ring_size(0);
  (void)x.mul(1);
  CHECK(last_launches().empty());
  CHECK_THROWS_AS(set_launch_ring_size(-1), ValueError);
  CHECK_THROWS_AS(set_launch_ring_size(5000), ValueError);
}

TEST_CASE("the ring names kernels, cuts long operators, and keeps the place when asked", "[ring]") {
  const Fresh fresh;
  set_launch_ring_size(64);
  const OpContext context("an_operator_with_a_name_longer_than_the_ring_keeps(Tensor self) -> Tensor");
  static const char* const kMangled = "_ZN5tenon4cuda12_GLOBAL__N_112scale_kernelIfLi4EEEvPT_S3_";
  (void)detail::note_launch(Stream(kSim0, 0, nullptr), kMangled, detail::literal_name, 12, 2, 1, 256);
  Launch l = last_launches(1)[0];
  CHECK(l.op == "an_operator_with_a_name_longer_");
  CHECK(contains(l.kernel, "scale_kernel<float, 4"));
  CHECK_FALSE(contains(l.kernel, "tenon::"));
  CHECK(contains(l.str(), "12 x 2 x 1 blocks of 256"));
  record_launch_sites(true);
  (void)detail::note_launch(Stream(kSim0, 0, nullptr), "copy", detail::literal_name);
  CHECK(contains(last_launches(1)[0].site, "streams_tests"));
  record_launch_sites(false);
  for (int i = 0; i < 64; ++i) (void)detail::note_launch(Stream(kSim0, 0, nullptr), "copy", detail::literal_name);
  CHECK(last_launches(1)[0].site.empty());
}

TEST_CASE("threads write the ring while another reads it", "[ring]") {
  const Fresh fresh;
  set_launch_ring_size(64);
  std::atomic<bool> stop{false};
  const uint64_t start = launch_count();
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t) {
    writers.emplace_back([&stop, t] {
      const OpContext context(t == 0 ? "first" : t == 1 ? "second" : "third");
      while (!stop) (void)detail::note_launch(Stream(kSim0, t, nullptr), nullptr, nullptr);
    });
  }
  bool whole = true;
  int64_t seen = 0;
  for (int round = 0; round < 300 || seen < 1000; ++round) {
    uint64_t previous = UINT64_MAX;
    for (const Launch& l : last_launches()) {
      if (l.sequence <= start) break;  // of other tests
      ++seen;
      whole = whole && l.sequence < previous && l.stream >= 0 && l.stream < 3;
      whole = whole && (l.op == "first" || l.op == "second" || l.op == "third");
      previous = l.sequence;
    }
  }
  stop = true;
  for (std::thread& w : writers) w.join();
  CHECK(whole);
}

TEST_CASE("errors carry their parts, and detail() the last launches", "[ring][failure]") {
  const Fresh fresh;
  const Tensor x = ones({4}, TensorOptions(kSim0));
  (void)x.add(1);
  const Stream side = Stream::from_pool(0, kSim0);
  const StreamGuard guard(side);
  sim::fail(sim::CallKind::launch);
  try {
    (void)x.mul(3);
    FAIL("no error");
  } catch (const CudaError& e) {
    CHECK(e.failure().op == "mul");
    CHECK(e.failure().device == 0);
    CHECK(e.failure().stream == side.id());
    CHECK(e.failure().memory.total == sim::options().memory_bytes);
    CHECK(lines(e.what()) <= 3);
    CHECK(contains(e.what(), "launch on sim:0 stream " + std::to_string(side.id())));
    CHECK(contains(e.detail(), "Last launches, newest first:\n  #"));
    CHECK(e.detail().find(" mul on sim:0") < e.detail().find(" add on sim:0"));
  }
  sim::fail(sim::CallKind::query);
  CHECK(contains(error_of<CudaError>([&] { (void)side.query(); }), "stream " + std::to_string(side.id())));
}

TEST_CASE("a fault is told by the next call, names its operator in blame mode, and stays the cause", "[blame]") {
  const Fresh fresh({.schedule = sim::Schedule::lazy});
  set_blame_mode(true);
  {
    const Tensor x = ones({4}, TensorOptions(kSim0));
    sim::fault_kernel(2);
    const Tensor a = x.add(1), b = a.relu(), c = b.exp();  // relu breaks the device when it runs
    CHECK(device_failure(kSim0).empty());
    std::string first;
    try {
      synchronize(kSim0);
      FAIL("no error");
    } catch (const CudaError& e) {
      first = e.what();
      CHECK(e.failure().op == "relu");
      CHECK(e.failure().stream == 0);
      CHECK(e.failure().code == 700);
      CHECK(e.failure().name == "cudaErrorIllegalAddress");
      CHECK(contains(first, "Made by #"));
      CHECK(contains(first, " relu on sim:0 stream 0"));
      CHECK(lines(first) == 3);
      CHECK(contains(e.detail(), "Unfinished, oldest of each stream:\n  #"));
    }
    CHECK(contains(device_failure(kSim0), " relu on sim:0"));
    CHECK_FALSE(contains(device_failure(kSim0), "\n"));
    // Whatever comes then fails at once and cites it.
    const auto cites = [&](auto&& f) {
      try {
        f();
        return false;
      } catch (const CudaError& e) {
        return contains(e.what(), " relu on sim:0") && lines(e.what()) <= 3 && e.failure().op == "relu";
      }
    };
    CHECK(cites([&] { (void)x.add(1); }));
    CHECK(cites([&] { (void)x.cpu(); }));
    CHECK(cites([&] { synchronize(kSim0); }));
    CHECK(cites([&] { (void)Stream::from_pool(0, kSim0).query(); }));
    CHECK(cites([&] { (void)empty({1 << 20}, TensorOptions(kSim0)); }));
    CHECK(ones({2}, TensorOptions(Device(kSim, 1))).sum().item<float>() == 2);  // the other one works
  }
  sim::configure({});
  CHECK(device_failure(kSim0).empty());
  CHECK(ones({4}, TensorOptions(kSim0)).add(1).sum().item<float>() == 8);
}

TEST_CASE("without blame mode a fault tells what was launched last and how to learn more", "[blame]") {
  const Fresh fresh({.schedule = sim::Schedule::lazy});
  set_blame_mode(false);
  const Tensor x = ones({4}, TensorOptions(kSim0));
  sim::fault_kernel();
  (void)x.add(1);
  (void)x.mul(1);
  const std::string text = error_of<CudaError>([&] { synchronize(kSim0); });
  CHECK(contains(text, "An earlier kernel may be the cause (last: mul, add"));
  CHECK(contains(text, "TENON_BLAME=1"));
  CHECK(lines(text) == 3);
}

TEST_CASE("suspects: on several streams the oldest unfinished launch of each", "[blame]") {
  const Fresh fresh({.schedule = sim::Schedule::lazy});
  set_blame_mode(true);
  const Tensor x = ones({4}, TensorOptions(kSim0));
  synchronize(kSim0);
  CHECK(suspects(kSim0).empty());
  const Stream side = Stream::from_pool(0, kSim0);
  (void)x.add(1);
  (void)x.exp();
  {
    const StreamGuard guard(side);
    (void)x.relu();
    (void)x.log();
  }
  const std::vector<Launch> open = suspects(kSim0);
  REQUIRE(open.size() == 2);
  CHECK(open[0].op == "add");
  CHECK(open[1].op == "relu");
  side.synchronize();
  REQUIRE(suspects(kSim0).size() == 1);
  CHECK(suspects(kSim0)[0].op == "add");
}

TEST_CASE("threads that share a stream leave no launch unfinished", "[blame]") {
  const Fresh fresh;
  set_blame_mode(true);
  const Tensor x = ones({4}, TensorOptions(kSim0));
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&x] {
        for (int i = 0; i < 20; ++i) (void)x.add(1);
      });
    }
    for (std::thread& t : threads) t.join();
    synchronize(kSim0);
    REQUIRE(suspects(kSim0).empty());
  }
}

TEST_CASE("what was launched while blame mode was off is no suspect", "[blame]") {
  const Fresh fresh({.schedule = sim::Schedule::lazy});
  set_blame_mode(true);
  const Tensor x = ones({4}, TensorOptions(kSim0));
  synchronize(kSim0);
  set_blame_mode(false);
  (void)x.add(1);
  set_blame_mode(true);
  (void)x.relu();
  REQUIRE(suspects(kSim0).size() == 1);
  CHECK(suspects(kSim0)[0].op == "relu");
  synchronize(kSim0);
  CHECK(suspects(kSim0).empty());
}

TEST_CASE("a replay of a graph is one launch; what was captured is no suspect", "[blame][graph]") {
  const Fresh fresh({.schedule = sim::Schedule::lazy});
  set_blame_mode(true);
  const Tensor x = ones({4}, TensorOptions(kSim0));
  const Stream side = Stream::from_pool(0, kSim0);
  side.wait_stream(current_stream(kSim0));
  const StreamGuard guard(side);
  (void)x.add(1);
  side.synchronize();
  Graph captured(kSim0);
  captured.capture([&] { (void)x.exp(); });
  CHECK(suspects(kSim0).empty());
  captured.replay();
  CHECK(last_launches(1)[0].kernel == "graph");
  REQUIRE(suspects(kSim0).size() == 1);
  CHECK(suspects(kSim0)[0].kernel == "graph");
  CHECK(suspects(kSim0)[0].stream == side.id());
  side.synchronize();
  CHECK(suspects(kSim0).empty());
}

// Twenty faults planted in random programs: any operator, any place, either schedule, found by whatever call comes next.
TEST_CASE("blame mode names the operator of at least 95 % of planted faults", "[blame]") {
  std::mt19937 random(tenon::testing::seed());
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  struct Step {
    const char* op;
    Tensor (*run)(const Tensor&);
  };
  constexpr Step kSteps[] = {
      // one launch each
      {"add", [](const Tensor& t) { return t.add(1); }},  {"mul", [](const Tensor& t) { return t.mul(0.5); }},
      {"relu", [](const Tensor& t) { return t.relu(); }}, {"exp", [](const Tensor& t) { return t.exp(); }},
      {"tanh", [](const Tensor& t) { return t.tanh(); }}, {"neg", [](const Tensor& t) { return t.neg(); }},
      {"abs", [](const Tensor& t) { return t.abs(); }}};
  int named = 0;
  constexpr int kFaults = 20;
  for (int fault = 0; fault < kFaults; ++fault) {
    const auto schedule = fault % 3 == 0 ? sim::Schedule::lazy : sim::Schedule::seeded;
    const Fresh fresh({.seed = random(), .schedule = schedule});
    set_blame_mode(true);
    const Stream side = fault % 2 == 0 ? Stream::from_pool(0, kSim0) : Stream::default_stream(kSim0);
    const StreamGuard guard(side);
    std::vector<const Step*> program;
    for (int i = 5 + draw(20); i > 0; --i) program.push_back(&kSteps[draw(static_cast<int>(std::size(kSteps)))]);
    const int at = 1 + draw(static_cast<int>(program.size()));
    try {
      Tensor x = full({3, 3}, 0.1, TensorOptions(kSim0));
      sim::fault_kernel(at);
      for (const Step* step : program) x = step->run(x);
      if (draw(2) == 0) (void)x.sum().item<float>();
      synchronize(kSim0);
      FAIL("no fault");
    } catch (const CudaError& e) {
      named += e.failure().op == program[static_cast<std::size_t>(at - 1)]->op && contains(e.what(), "Made by #");
    }
  }
  CHECK(named >= kFaults * 95 / 100);
}

// SPDX-License-Identifier: Apache-2.0
// Stream safety: every race is wrong in some order without it, found in every order by `check`, never wrong with
// `automatic`; programs that are right are never accused.
#include <tenon/streams/safety.h>
#include <tenon/streams/sim.h>

#include <thread>

#include "tests/sim/races.h"
#include "tests/sim/tensor_program.h"
#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;
using tenon::testing::Race;
using tenon::testing::races;
using tenon::testing::SafetyGuard;
using tenon::testing::TensorProgram;

namespace {

const Device kSim0(kSim, 0), kSim1(kSim, 1);
constexpr int64_t kElements = 1000;

// Gives up what is left of a program that an error has ended.
void settle(Device d) {
  set_stream_safety(StreamSafety::off);
  synchronize(d);
  memory::empty_cache(d);  // so that freed memory is the first to serve again
}

int64_t pending(Device d) {
  const memory::MemoryStats stats = memory::memory_stats(d);
  return stats.active - stats.allocated;
}

}  // namespace

TEST_CASE("sim safety: races are wrong without it, found by check, mended by automatic", "[safety]") {
  for (const Race& race : races()) {
    CAPTURE(race.name);
    int wrong = 0, quiet = 0, wrong_mended = 0;
    for (uint64_t s = 0; s < 200; ++s) {
      const uint64_t seed = s + tenon::testing::seed();
      sim::configure({.devices = 1, .seed = seed});
      wrong += race.program(kSim0, kElements) != race.right;
      {
        sim::configure({.devices = 1, .seed = seed});
        const SafetyGuard safety(StreamSafety::automatic);
        const int64_t before = stream_races();
        wrong_mended += race.program(kSim0, kElements) != race.right;
        CHECK(stream_races() > before);
      }
      sim::configure({.devices = 1, .seed = seed});
      const SafetyGuard safety(StreamSafety::check);
      try {
        race.program(kSim0, kElements);
        ++quiet;
      } catch (const RaceError& e) {
        const std::string text = e.what();
        for (const char* word : race.words)
          if (!contains(text, word)) FAIL_CHECK("no '" << word << "' in: " << text);
      }
      settle(kSim0);
    }
    // The driver's page-locked memory is pageable to the simulated device, which then waits.
    if (!(race.pinned && cuda::is_available())) CHECK(wrong > 0);
    CHECK(quiet == 0);
    CHECK(wrong_mended == 0);
  }
  sim::configure({});
}

TEST_CASE("sim safety: random programs that are right are never accused", "[safety]") {
  sim::configure({.devices = 1, .memory_bytes = 34 << 20});
  for (const StreamSafety mode : {StreamSafety::check, StreamSafety::automatic}) {
    const SafetyGuard safety(mode);
    uint64_t at = 0;
    const int64_t before = stream_races();
    const std::string found =
        tenon::testing::first_violation<TensorProgram>("sim_tests", uint64_t{tenon::testing::seed()} << 20, 6000, &at);
    INFO(found);
    CHECK(found.empty());
    CHECK(stream_races() == before);
  }
  sim::configure({});
}

TEST_CASE("sim safety: automatic mends random programs that forget to wait and to tell", "[safety]") {
  sim::configure({.devices = 1, .memory_bytes = 34 << 20});
  TensorProgram::forget_record_stream = TensorProgram::forget_to_wait = true;
  uint64_t at = 0;
  const std::string without = tenon::testing::first_violation<TensorProgram>("sim_tests", 1, 2000, &at);
  CHECK(!without.empty());
  std::string with;
  {
    const SafetyGuard safety(StreamSafety::automatic);
    with =
        tenon::testing::first_violation<TensorProgram>("sim_tests", uint64_t{tenon::testing::seed()} << 20, 6000, &at);
  }
  TensorProgram::forget_record_stream = TensorProgram::forget_to_wait = false;
  INFO(with);
  CHECK(with.empty());
  sim::configure({});
}

TEST_CASE("sim safety: the report names both operators, streams and places", "[safety]") {
  sim::configure({.devices = 1});
  const SafetyGuard safety(StreamSafety::check, /*sites=*/true);
  Tensor x = ones({4}, device(kSim0));
  const Stream side = Stream::from_pool(0, kSim0);
  const auto text = error_of<RaceError>([&] {
    const StreamGuard guard(side);
    x.mul(2);
  });
  INFO(text);
  CHECK(text.substr(0, text.find('\n')) ==
        detail::concat("mul: self is read on sim:0 stream ", side.id(),
                       " while ones on sim:0 default stream may still write it; nothing puts the two in order"));
  CHECK(contains(text, "\n  at sim_tests"));
  CHECK(contains(text, "; the other at "));
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  side.wait_stream(current_stream(kSim0));
  const StreamGuard guard(side);
  CHECK(x.mul(2).sum().item<float>() == 8);
}

TEST_CASE("sim safety: everything that orders is known", "[safety]") {
  for (const StreamSafety mode : {StreamSafety::check, StreamSafety::automatic}) {
    sim::configure({.devices = 2});
    const SafetyGuard safety(mode);
    const int64_t before = stream_races();
    const Stream a = Stream::from_pool(0, kSim0), b = Stream::from_pool(0, kSim0), c = Stream::from_pool(0, kSim0);
    const Stream far = Stream::from_pool(0, kSim1);
    const auto on = [](const Stream& s, auto f) {
      const StreamGuard guard(s);
      return f();
    };
    Tensor x = on(a, [] { return ones({64}, device(kSim0)); });
    const auto add = [&] { x.add_(1); };
    b.wait_stream(a), on(b, add);  // a wait
    Event e(false, kSim0);
    e.record(b), e.wait(far), c.wait_stream(far), on(c, add);  // over a third stream, of another device
    c.synchronize(), on(a, add);                               // the host has seen c
    e.record(a), e.synchronize(), on(b, add);                  // or an event
    synchronize(kSim0), on(c, add);                            // or the device
    while (!c.query()) sim::run();
    on(a, add);  // a question that was answered with yes
    e.record(a);
    while (!e.query()) sim::run();
    on(b, add);
    on(b, [&] { CHECK(x.sum().item<float>() == 64 * 8); });
    on(a, add);  // item() waited
    a.synchronize();
    // Reads need no order among themselves, nor writes of different bytes.
    for (const Stream& s : {a, b, c}) on(s, [&] { return x.mul(2); });
    for (const Stream& s : {a, b, c}) s.synchronize();
    auto halves = x.split(32);
    on(a, [&] { halves[0].fill_(1); });
    on(b, [&] { halves[1].fill_(2); });
    synchronize(kSim0);
    CHECK(x.sum().item<float>() == 96);
    // Copies between devices wait on both sides.
    const Tensor y = x.to(kSim1);
    CHECK(on(far, [&] { return 0; }) == 0);
    x.fill_(3);
    CHECK(y.sum().item<float>() == 96);
    CHECK(stream_races() == before);
    x = Tensor();
    settle(kSim0);
  }
  sim::configure({});
}

TEST_CASE("sim safety: a mended use does not outlive the next join", "[safety]") {
  for (const bool joined : {true, false}) {
    sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
    const SafetyGuard safety(StreamSafety::automatic);
    const Stream side = Stream::from_pool(0, kSim0);
    Tensor x = ones({1000}, device(kSim0));
    Tensor y;
    {
      const StreamGuard guard(side);
      y = x.mul(2);
    }
    if (joined) current_stream(kSim0).wait_stream(side);
    const void* const place = x.data_ptr();
    x = Tensor();
    CHECK((pending(kSim0) > 0) == !joined);
    x = ones({1000}, device(kSim0));
    CHECK((x.data_ptr() == place) == joined);
    synchronize(kSim0);
    y = x = Tensor();
  }
  sim::configure({});
}

TEST_CASE("sim safety: reuse is found wherever the memory went, once, and not after a join", "[safety]") {
  sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
  const SafetyGuard safety(StreamSafety::check);
  const Stream side = Stream::from_pool(0, kSim0);
  const auto leave_suspect = [&](int64_t n) {
    Tensor x = ones({n}, device(kSim0));
    side.wait_stream(current_stream(kSim0));
    const StreamGuard guard(side);
    x.mul(2);
  };
  // Merged with its neighbours and cut again, another size takes part of it.
  leave_suspect(1000);
  memory::memory_stats(kSim0);
  CHECK_THROWS_AS(empty({100}, device(kSim0)), RaceError);
  CHECK_NOTHROW(empty({100}, device(kSim0)));
  CHECK(memory::memory_allocated(kSim0) == 0);

  leave_suspect(1000);
  current_stream(kSim0).wait_stream(side);
  CHECK_NOTHROW(empty({1000}, device(kSim0)));

  leave_suspect(1000);
  side.synchronize();
  CHECK_NOTHROW(empty({1000}, device(kSim0)));

  leave_suspect(1000);
  memory::empty_cache(kSim0);  // the device was waited for
  CHECK_NOTHROW(empty({1000}, device(kSim0)));

  leave_suspect(1000);
  set_stream_safety(StreamSafety::off);
  CHECK_NOTHROW(empty({1000}, device(kSim0)));
  synchronize(kSim0);
  sim::configure({});
}

TEST_CASE("sim safety: host memory remembers the copy to it", "[safety]") {
  sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
  const Tensor x = full({8}, 3.0, device(kSim0));
  const auto accesses = std::vector<std::pair<const char*, float (*)(const Tensor&)>>{
      {"data_ptr", [](const Tensor& t) { return *static_cast<float*>(t.data_ptr()); }},
      {"accessor", [](const Tensor& t) { return t.accessor<float, 1>()[7]; }},
      {"span", [](const Tensor& t) { return t.span<float>()[1]; }},
      {"item", [](const Tensor& t) { return t.select(0, 2).item<float>(); }},
      {"to_vector", [](const Tensor& t) { return t.to_vector<float>()[3]; }},
      {"print", [](const Tensor& t) { return t.str().find("3") != std::string::npos ? 3.0f : 0.0f; }},
      {"operator", [](const Tensor& t) { return (t + 0).to_vector<float>()[0]; }},
      {"view",
       [](const Tensor& t) {
         return t.view({2, 4}).slice(0, 1).data_ptr<float>()[0];
       }},
  };
  for (const auto& [name, access] : accesses) {
    CAPTURE(name);
    {
      const SafetyGuard safety(StreamSafety::check);
      const Tensor host = x.to(kCPU, /*non_blocking=*/true);
      CHECK(host.is_pinned());
      CHECK_THROWS_AS(access(host), RaceError);
      CHECK_THROWS_AS(access(host), RaceError);  // still
      current_stream(kSim0).synchronize();
      CHECK(access(host) == 3);
      const Tensor blocking = x.to(kCPU);
      CHECK(access(blocking) == 3);
    }
    const SafetyGuard safety(StreamSafety::automatic);
    const Tensor host = x.to(kCPU, true);
    const int64_t waits = sync_count();
    CHECK(access(host) == 3);
    CHECK(sync_count() == waits + (cuda::is_available() ? 0 : 1));
    CHECK(access(host) == 3);
    CHECK(sync_count() == waits + (cuda::is_available() ? 0 : 1));
  }
  // A host callback comes behind the copy on its stream.
  const SafetyGuard safety(StreamSafety::check);
  const Tensor host = x.to(kCPU, true);
  float seen = 0;
  current_stream(kSim0).add_callback([&] { seen = *host.data_ptr<float>(); });
  synchronize(kSim0);
  CHECK(seen == 3);
}

TEST_CASE("sim safety: threads", "[safety][threads]") {
  sim::configure({.devices = 1});
  const SafetyGuard safety(StreamSafety::automatic);
  const Tensor x = ones({256}, device(kSim0));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const Stream s = Stream::create_exclusive(0, kSim0);
      {
        const StreamGuard guard(s);
        for (int i = 0; i < 100; ++i) wrong += x.mul(2).sum().item<float>() != 512;
      }
      Stream::destroy_exclusive(s);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("stream safety on the GPU: races are found, and mended", "[safety][cuda]") {
  TENON_REQUIRE_CUDA();
  const Device d(kCUDA, 0);
  for (const Race& race : races()) {
    CAPTURE(race.name);
    settle(d);
    for (int i = 0; i < 20; ++i) {
      {
        const SafetyGuard safety(StreamSafety::automatic);
        CHECK(race.program(d, 1 << 17) == race.right);
      }
      settle(d);
      const SafetyGuard safety(StreamSafety::check);
      const auto text = error_of<RaceError>([&] { race.program(d, 1 << 17); });
      for (const char* word : race.words)
        if (!contains(text, word)) FAIL_CHECK("no '" << word << "' in: " << text);
      settle(d);
    }
  }
}

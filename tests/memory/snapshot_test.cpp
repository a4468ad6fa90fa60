// SPDX-License-Identifier: Apache-2.0
// Snapshots: what they say agrees with the statistics and with what the test did; the ring forgets the oldest; the
// JSON is JSON and says the same.
#include <tenon/memory/snapshot.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include "tests/support/catch.h"

#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>
#define TENON_TEST_JSON
#endif

using namespace tenon;
using namespace tenon::memory;
using Kind = AllocatorEventKind;

namespace {

constexpr int64_t MiB = 1 << 20;
const Device kHost(kCPU);

// The tests of single events are of the caching allocator, whatever TENON_ALLOC_CONF says.
struct Caching {
  Caching() { set_allocator_settings(""); }
  ~Caching() { set_allocator_settings(before); }
  std::string before = allocator_settings();
};

struct History {
  explicit History(int64_t max_entries = 100'000, bool stacks = true) {
    record_memory_history(true, max_entries, stacks);
  }
  ~History() { record_memory_history(false); }
};

[[gnu::noinline]] DataPtr take(int64_t bytes) {
  const DataPtr p = allocate(kHost, bytes);
  asm volatile("" ::: "memory");
  return p;
}
void give(const DataPtr& p) { p.deleter(p.context); }

const SnapshotAllocator& cpu_of(const MemorySnapshot& s, int* index = nullptr) {
  for (size_t i = 0; i < s.allocators.size(); ++i) {
    if (s.allocators[i].name != "cpu") continue;
    if (index) *index = static_cast<int>(i);
    return s.allocators[i];
  }
  FAIL("no allocator cpu");
  return s.allocators.front();
}

std::vector<SnapshotEvent> events_of(const MemorySnapshot& s, const void* address) {
  std::vector<SnapshotEvent> list;
  for (const SnapshotEvent& e : s.events) {
    if (e.address == reinterpret_cast<uint64_t>(address)) list.push_back(e);
  }
  return list;
}

const SnapshotBlock* block_at(const SnapshotAllocator& a, const void* address) {
  for (const SnapshotSegment& segment : a.segments) {
    for (const SnapshotBlock& b : segment.blocks) {
      if (b.address == reinterpret_cast<uint64_t>(address)) return &b;
    }
  }
  return nullptr;
}

}  // namespace

TEST_CASE("snapshot: blocks tile their segments and add up to the statistics") {
  const DataPtr small = take(1000), large = take(3 * MiB), gone = take(5 * MiB);
  give(gone);
  const MemorySnapshot s = memory_snapshot();
  const SnapshotAllocator& cpu = cpu_of(s);
  int64_t allocated = 0, requested = 0, reserved = 0, live = 0, cached = 0, small_reserved = 0;
  for (const SnapshotSegment& segment : cpu.segments) {
    uint64_t next = segment.address;
    for (const SnapshotBlock& b : segment.blocks) {
      CHECK(b.address == next);
      next += static_cast<uint64_t>(b.size);
      if (b.state == SnapshotBlockState::in_use) {
        allocated += b.size;
        requested += b.requested;
        ++live;
      } else {
        ++cached;
      }
    }
    CHECK(next == segment.address + static_cast<uint64_t>(segment.size));
    reserved += segment.size;
    if (segment.small) small_reserved += segment.size;
  }
  CHECK(allocated == cpu.stats.allocated);
  CHECK(requested == cpu.stats.requested);
  CHECK(reserved == cpu.stats.reserved);
  CHECK(small_reserved == cpu.stats.small.reserved);
  CHECK(live == cpu.stats.live_blocks);
  CHECK(cached == cpu.stats.cached_blocks);
  CHECK(cpu.stats.allocated == memory_allocated(kHost));
  CHECK(cpu.settings.rfind("backend:", 0) == 0);
  CHECK(cpu.total > 0);
  const SnapshotBlock* block = block_at(cpu, large.data);
  REQUIRE(block);
  CHECK(block->requested == 3 * MiB);
  CHECK(block->stack == -1);  // nothing was recorded
  CHECK(s.events.empty());
  give(small);
  give(large);
}

TEST_CASE("snapshot: history has events in order, with the place and the operator") {
  const Caching caching;
  empty_cache(kHost);
  const DataPtr earlier = take(2000);
  const History history;
  const DataPtr a = take(7 * MiB), b = take(100);
  Tensor t = ones({64, 64}) + 1.0;
  const void* data = t.data_ptr();
  give(a);
  give(earlier);
  const MemorySnapshot s = memory_snapshot();
  int index = -1;
  const SnapshotAllocator& cpu = cpu_of(s, &index);
  CHECK(s.dropped_events == 0);

  const std::vector<SnapshotEvent> of_a = events_of(s, a.data);
  std::vector<Kind> kinds;
  for (const SnapshotEvent& e : of_a) {
    CHECK(e.allocator == index);
    CHECK(e.stream == 0);
    if (e.kind != Kind::segment_alloc) {
      CHECK(e.size == 7 * MiB);
      CHECK(e.requested == 7 * MiB);
    }
    kinds.push_back(e.kind);
  }
  if (kinds.front() == Kind::segment_alloc) kinds.erase(kinds.begin());  // a segment that begins with this block
  CHECK(kinds == std::vector<Kind>{Kind::alloc, Kind::free_requested, Kind::free_completed});
  CHECK(std::is_sorted(s.events.begin(), s.events.end(),
                       [](const auto& x, const auto& y) { return x.microseconds < y.microseconds; }));
  CHECK(events_of(s, earlier.data).front().kind == Kind::free_requested);

  const SnapshotBlock* block = block_at(cpu, b.data);
  REQUIRE(block);
  REQUIRE(block->stack >= 0);
  CHECK(block->op == -1);
  bool through_take = false;
  for (const int32_t f : s.stacks[static_cast<size_t>(block->stack)]) {
    const StackFrame& frame = s.frames[static_cast<size_t>(f)];
    through_take = through_take || (!frame.in_library && frame.module.find("memory_tests") != std::string::npos);
  }
  CHECK(through_take);
  const SnapshotBlock* result = block_at(cpu, data);
  REQUIRE(result);
  REQUIRE(result->op >= 0);
  CHECK(s.operators[static_cast<size_t>(result->op)] == "add");
  give(b);
}

TEST_CASE("snapshot: the ring keeps the newest events, off records nothing") {
  const Caching caching;
  {
    const History history(16, /*stacks=*/false);
    DataPtr last;
    for (int i = 0; i < 40; ++i) {
      last = take(600 + 512 * i);
      give(last);
    }
    const MemorySnapshot s = memory_snapshot();
    CHECK(s.events.size() == 16);
    CHECK(s.dropped_events >= 40 * 3 - 16);
    CHECK(s.stacks.empty());
    CHECK(s.events.back().kind == Kind::free_completed);
    CHECK(s.events.back().address == reinterpret_cast<uint64_t>(last.data));
  }
  give(take(4096));
  CHECK(memory_snapshot().events.empty());
  CHECK_THROWS_AS(record_memory_history(true, 0), ValueError);
}

TEST_CASE("snapshot: threads allocate while snapshots are taken") {
  const History history(5000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) give(take(1000 * (t + 1) + i));
    });
  }
  for (int i = 0; i < 10; ++i) (void)memory_snapshot();
  for (auto& t : threads) t.join();
  // Every address is allocated and freed in turns.
  std::map<uint64_t, bool> alive;
  int wrong = 0;
  for (const SnapshotEvent& e : memory_snapshot().events) {
    if (e.kind == Kind::alloc) {
      wrong += alive.contains(e.address) && alive[e.address];
      alive[e.address] = true;
    } else if (e.kind == Kind::free_completed) {
      wrong += alive.contains(e.address) && !alive[e.address];
      alive[e.address] = false;
    }
  }
  CHECK(wrong == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("snapshot: a forked child records nothing and works") {
  const History history;
  give(take(1000));
  const pid_t child = fork();
  if (child == 0) {
    int code = 2;
    try {
      give(take(1000));
      code = memory_snapshot().events.empty() ? 0 : 1;
    } catch (...) {  // the child must not go on with the tests
    }
    _exit(code);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
#endif

#if defined(TENON_TEST_JSON)
TEST_CASE("snapshot: the JSON says the same") {
  const History history;
  const DataPtr a = take(3 * MiB);
  give(take(10'000));
  MemorySnapshot s = memory_snapshot();
  s.operators.push_back("a \"quoted\\\" name\n\x01");
  const auto json = nlohmann::json::parse(to_json(s));
  CHECK(json["format"] == "tenon-memory-snapshot");
  CHECK(json["operators"].back() == s.operators.back());
  CHECK(json["events"].size() == s.events.size());
  CHECK(json["stacks"].size() == s.stacks.size());
  CHECK(json["event_kinds"][static_cast<size_t>(Kind::segment_unmap)] == "segment_unmap");
  int index = -1;
  const SnapshotAllocator& cpu = cpu_of(s, &index);
  const auto& j = json["allocators"][static_cast<size_t>(index)];
  CHECK(j["stats"]["allocated"] == cpu.stats.allocated);
  CHECK(j["stats"]["peak_reserved"] == cpu.stats.peak_reserved);
  CHECK(j["stats"]["small"]["reserved"] == cpu.stats.small.reserved);
  CHECK(j["segments"].size() == cpu.segments.size());
  CHECK(j["segments"][0]["blocks"].size() == cpu.segments[0].blocks.size());
  CHECK(json["events"][0][3] == s.events[0].address);
  CHECK(json["frames"][0][1] == s.frames[0].module);
  give(a);
}
#endif

TEST_CASE("snapshot: taken when memory runs out, before anything is unwound") {
  const std::string path = "oom_snapshot_test.json";
  std::remove(path.c_str());
  struct Off {
    ~Off() { snapshot_on_out_of_memory(""); }
  } off;
  snapshot_on_out_of_memory(path);
  const auto fail = [] {
    const DataPtr local = allocate(Device(kCPU), 7'654'321);
    struct Give {
      const DataPtr& p;
      ~Give() { p.deleter(p.context); }
    } give{local};
    (void)allocate(Device(kCPU), int64_t{1} << 60);
  };
  const auto text = [&] {
    try {
      fail();
    } catch (const OutOfMemoryError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(text().find("\nsnapshot: " + path) != std::string::npos);
  std::ifstream file(path);
  const std::string saved((std::istreambuf_iterator<char>(file)), {});
  CHECK(saved.find(",7654321,\"in use\"") != std::string::npos);  // what the unwinding has given back
  std::remove(path.c_str());
  snapshot_on_out_of_memory("/nonexistent/folder/s.json");
  CHECK(text().find("snapshot: save_memory_snapshot: path: cannot write '/nonexistent/folder/s.json'") !=
        std::string::npos);
  snapshot_on_out_of_memory("");
  CHECK(text().find("snapshot: ") == std::string::npos);
}

TEST_CASE("snapshot: saving says why it cannot") {
  try {
    save_memory_snapshot("/nonexistent/folder/snapshot.json");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("/nonexistent/folder/snapshot.json") != std::string::npos);
    CHECK(std::string(e.what()).find("No such file") != std::string::npos);
  }
}

TEST_CASE("snapshot: device and pinned memory are told apart", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const Device gpu(kCUDA, 0);
  const Tensor host = ones({1000}).pin_memory();
  const History history;
  const Tensor a = ones({1000, 1000}, TensorOptions(gpu)), pinned = ones({1 << 20}).pin_memory();
  const MemorySnapshot s = memory_snapshot();
  std::map<std::string, int64_t> live;
  for (const SnapshotEvent& e : s.events) {
    if (e.kind == Kind::alloc) live[s.allocators[static_cast<size_t>(e.allocator)].name] += e.requested;
  }
  CHECK(live["cuda:0"] >= 4'000'000);
  CHECK(live["pinned"] == 4 << 20);
  const SnapshotBlock* block = nullptr;
  for (const SnapshotAllocator& each : s.allocators) {
    if (each.name == "cuda:0") block = block_at(each, a.data_ptr());
  }
  REQUIRE(block);
  CHECK(block->requested == 4'000'000);
  CHECK(block->op >= 0);
}

#if defined(TENON_TEST_JSON)
TEST_CASE("snapshot: bytes that are no UTF-8 still make JSON") {
  MemorySnapshot s;
  s.operators = {"a\xff\xc3(\xed\xa0\x80z", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
                 std::string("\xe2\x82", 2)};
  const nlohmann::json json = nlohmann::json::parse(to_json(s));
  CHECK(json["operators"][0] == "a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
  CHECK(json["operators"][1] == s.operators[1]);
  CHECK(json["operators"][2] == "\xef\xbf\xbd\xef\xbf\xbd");
}
#endif

// SPDX-License-Identifier: Apache-2.0
// Replays: the recorded settings give back what was measured, other settings give what they promise, and the tuner
// finds the better one.
#include <tenon/memory/replay.h>
#include <tenon/memory/settings.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <string>

#include "tests/support/catch.h"

using namespace tenon;
using namespace tenon::memory;
using Kind = AllocatorEventKind;

namespace {

constexpr int64_t MiB = 1 << 20;
const Device kHost(kCPU);

double relative(int64_t a, int64_t b) { return std::abs(static_cast<double>(a - b)) / static_cast<double>(b); }

/// Events as a device would have recorded them; addresses are names here.
class Trace {
 public:
  Trace() {
    SnapshotAllocator a;
    a.name = "cuda:0";
    a.settings = AllocatorSettings().str();
    a.total = int64_t{64} << 30;
    a.virtual_memory = true;
    snapshot_.allocators.push_back(a);
  }
  uint64_t allocate(int64_t bytes, int32_t stream = 0) {
    add(Kind::alloc, ++last_, bytes, stream);
    sizes_.push_back(bytes);
    return last_;
  }
  void free(uint64_t address) {
    add(Kind::free_requested, address, sizes_[address - 1], 0);
    add(Kind::free_completed, address, sizes_[address - 1], 0);
  }
  MemorySnapshot& snapshot() { return snapshot_; }

 private:
  void add(Kind kind, uint64_t address, int64_t bytes, int32_t stream) {
    SnapshotEvent e;
    e.kind = kind;
    e.address = address;
    e.size = e.requested = bytes;
    e.stream = stream;
    snapshot_.events.push_back(e);
  }
  MemorySnapshot snapshot_;
  std::vector<int64_t> sizes_;
  uint64_t last_ = 0;
};

/// Training on sentences of any length: each step makes large activations of its own size and leaves a few medium-sized
/// blocks behind (caches, states) that live on.
Trace varying_lengths() {
  Trace trace;
  std::mt19937 random(7);
  std::vector<uint64_t> kept;
  for (int step = 0; step < 150; ++step) {
    const int64_t length = std::uniform_int_distribution<int64_t>(100, 2048)(random);
    std::vector<uint64_t> activations;
    for (int layer = 0; layer < 8; ++layer) {
      activations.push_back(trace.allocate(length * 48 * 1024));
      activations.push_back(trace.allocate(length * 4 * 1024));
    }
    std::shuffle(activations.begin(), activations.end(), random);
    for (size_t i = 0; i < activations.size(); ++i) {
      trace.free(activations[i]);
      if (i == 4 || i == 9) kept.push_back(trace.allocate(3 * MiB + 4096 * (step % 13)));
    }
    if (step % 3 == 2) {
      const size_t victim = random() % kept.size();
      trace.free(kept[victim]);
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  return trace;
}

int cpu_index(const MemorySnapshot& s) {
  for (size_t i = 0; i < s.allocators.size(); ++i) {
    if (s.allocators[i].name == "cpu") return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("replay: the recorded settings reproduce the measured bytes") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  struct Restore {
    std::string settings = allocator_settings();
    ~Restore() {
      record_memory_history(false);
      set_allocator_settings(settings);
    }
  } restore;
  for (const char* conf : {"", "max_split_size_mb:32", "roundup_power2_divisions:4,small_pool_limit:512"}) {
    CAPTURE(conf);
    set_allocator_settings(conf);
    empty_cache(kHost);
    reset_peak_memory_stats(kHost);
    record_memory_history(true, 100'000, /*stacks=*/false);
    std::vector<DataPtr> live;
    for (int i = 0; i < 4000; ++i) {
      if (live.size() > 60 || (!live.empty() && random() % 5 < 2)) {
        const size_t victim = random() % live.size();
        live[victim].deleter(live[victim].context);
        live[victim] = live.back();
        live.pop_back();
      }
      const int64_t bytes = int64_t{1} << (random() % 24);
      live.push_back(allocate(kHost, bytes + static_cast<int64_t>(random() % static_cast<uint64_t>(bytes))));
    }
    const MemoryStats measured = memory_stats(kHost);
    const MemorySnapshot snapshot = memory_snapshot();
    record_memory_history(false);
    const int cpu = cpu_index(snapshot);
    const ReplayResult was = recorded_usage(snapshot, cpu);
    CHECK(was.reserved == measured.reserved);
    CHECK(was.allocated == measured.allocated);
    CHECK(was.peak_reserved == measured.peak_reserved);
    CHECK(was.peak_allocated == measured.peak_allocated);
    const ReplayResult again = replay(snapshot, cpu, snapshot.allocators[static_cast<size_t>(cpu)].settings);
    CHECK(again.failed == 0);
    CHECK(relative(again.peak_allocated, measured.peak_allocated) < 0.001);
    CHECK(relative(again.peak_reserved, measured.peak_reserved) <= 0.02);
    CHECK(relative(again.reserved, measured.reserved) <= 0.02);
    std::cout << "replay of " << was.allocations << " allocations, '" << conf << "': reserved " << again.peak_reserved
              << ", measured " << measured.peak_reserved << "\n";
    for (const DataPtr& p : live) p.deleter(p.context);
  }
}

TEST_CASE("replay: a history that lost its beginning still has the right level") {
  empty_cache(kHost);
  std::vector<DataPtr> live;
  for (int i = 0; i < 20; ++i) live.push_back(allocate(kHost, 5 * MiB));
  record_memory_history(true, 64, false);
  for (int i = 0; i < 200; ++i) {
    const DataPtr p = allocate(kHost, 2 * MiB);
    p.deleter(p.context);
  }
  live.back().deleter(live.back().context);  // freed without a recorded allocation
  live.pop_back();
  const MemorySnapshot snapshot = memory_snapshot();
  record_memory_history(false);
  CHECK(snapshot.dropped_events > 0);
  const int cpu = cpu_index(snapshot);
  const ReplayResult was = recorded_usage(snapshot, cpu), again = replay(snapshot, cpu, "");
  CHECK(was.allocated == memory_allocated(kHost));
  CHECK(was.peak_allocated >= 102 * MiB);
  CHECK(again.allocated == was.allocated);
  CHECK(again.peak_allocated == was.peak_allocated);
  for (const DataPtr& p : live) p.deleter(p.context);
}

TEST_CASE("replay: max_split_size_mb on varying lengths") {
  Trace trace = varying_lengths();
  const ReplayResult plain = replay(trace.snapshot(), 0, ""),
                     whole = replay(trace.snapshot(), 0, "max_split_size_mb:32");
  std::cout << "varying lengths: allocated " << plain.peak_allocated / MiB << " MiB; reserved "
            << plain.peak_reserved / MiB << " MiB by default, " << whole.peak_reserved / MiB
            << " MiB with max_split_size_mb:32\n";
  CHECK(plain.failed == 0);
  CHECK(whole.failed == 0);
  CHECK(plain.peak_requested == whole.peak_requested);
  CHECK(plain.peak_reserved >= plain.peak_allocated);
  CHECK(whole.peak_reserved != plain.peak_reserved);  // the setting reaches the allocator
  const std::vector<ReplayResult> tuned = tune(trace.snapshot(), 0);
  REQUIRE(tuned.size() > 10);
  CHECK(tuned.front().peak_reserved <= plain.peak_reserved);
  CHECK(tuned.front().peak_reserved <= whole.peak_reserved * 1.005);
  std::cout << "  best: " << tuned.front().settings << ", reserved " << tuned.front().peak_reserved / MiB << " MiB, "
            << tuned.front().segments_allocated << " segments\n";
}

TEST_CASE("replay: long-lived blocks in large segments, the case that max_split_size_mb is for") {
  // Cached 60 MiB blocks are nibbled at by 4 MiB ones that stay; the next 60 MiB then needs a new segment.
  Trace trace;
  for (int i = 0; i < 20; ++i) {
    const uint64_t big = trace.allocate(60 * MiB);
    trace.free(big);
    trace.allocate(4 * MiB);
  }
  const ReplayResult plain = replay(trace.snapshot(), 0, ""),
                     whole = replay(trace.snapshot(), 0, "max_split_size_mb:20");
  CHECK(plain.peak_allocated == whole.peak_allocated);
  CHECK(plain.peak_reserved >= 2 * 60 * MiB);
  CHECK(whole.peak_reserved == 60 * MiB + 4 * 20 * MiB);
  // On a card between the two the setting decides whether it fits.
  if (plain.peak_reserved > whole.peak_reserved) {
    CHECK(replay(trace.snapshot(), 0, "max_split_size_mb:20", whole.peak_reserved).failed == 0);
  }
}

TEST_CASE("replay: too small a device fails, and is counted") {
  Trace trace;
  const uint64_t a = trace.allocate(40 * MiB);
  trace.allocate(40 * MiB);
  trace.free(a);
  trace.allocate(40 * MiB);
  CHECK(replay(trace.snapshot(), 0, "", 80 * MiB).failed == 0);
  const ReplayResult small = replay(trace.snapshot(), 0, "", 60 * MiB);
  CHECK(small.failed == 1);  // the second; then the first has gone, and the third fits
  CHECK(small.peak_reserved == 40 * MiB);
  CHECK(small.allocated == 40 * MiB);
}

TEST_CASE("replay: streams have pools of their own; direct keeps nothing") {
  Trace trace;
  for (int i = 0; i < 10; ++i) trace.free(trace.allocate(30 * MiB, i % 2));
  CHECK(replay(trace.snapshot(), 0, "").peak_reserved == 60 * MiB);
  const ReplayResult direct = replay(trace.snapshot(), 0, "backend:direct");
  CHECK(direct.peak_reserved == 30 * MiB);
  CHECK(direct.segments_allocated == 10);
  CHECK(direct.reserved == 0);
  CHECK(direct.fragmentation() == 0.0);
}

TEST_CASE("replay: settings of virtual memory only where the recorded source has it") {
  Trace trace;  // grows by a little: with expandable segments far less is reserved
  for (int64_t mib = 20; mib < 60; mib += 2) trace.free(trace.allocate(mib * MiB));
  const int64_t expanded = replay(trace.snapshot(), 0, "expandable_segments:True").peak_reserved;
  CHECK(expanded < replay(trace.snapshot(), 0, "").peak_reserved);
  CHECK(tune(trace.snapshot(), 0).front().settings.find("expandable_segments") != std::string::npos);
  trace.snapshot().allocators[0].virtual_memory = false;
  CHECK(replay(trace.snapshot(), 0, "expandable_segments:True").peak_reserved ==
        replay(trace.snapshot(), 0, "").peak_reserved);
  for (const ReplayResult& r : tune(trace.snapshot(), 0)) {
    CHECK(r.settings.find("expandable_segments") == std::string::npos);
  }
  // The real ones: the host has none.
  const DataPtr p = allocate(kHost, 100);
  const MemorySnapshot real = memory_snapshot();
  CHECK_FALSE(real.allocators[static_cast<size_t>(cpu_index(real))].virtual_memory);
  p.deleter(p.context);
}

TEST_CASE("replay: pinned memory keeps its own rules") {
  Trace trace;
  trace.snapshot().allocators[0].name = "pinned";
  trace.snapshot().allocators[0].virtual_memory = false;
  trace.free(trace.allocate(101 * MiB - 1));  // above the threshold: exact but for a page
  CHECK(replay(trace.snapshot(), 0, "").peak_reserved == 101 * MiB);
  CHECK(replay(trace.snapshot(), 0, "pinned_max_cached_size_mb:10").reserved == 0);
  CHECK(replay(trace.snapshot(), 0, "pinned_reserve_segment_size_mb:2").failed == 0);
}

TEST_CASE("replay: errors") {
  Trace trace;
  CHECK_THROWS_AS(replay(trace.snapshot(), 3, ""), IndexError);
  CHECK_THROWS_AS(replay(trace.snapshot(), 0, "no_such_key:1"), ValueError);
  CHECK(replay(trace.snapshot(), 0, "").peak_reserved == 0);
  CHECK(tune(trace.snapshot(), 0).front().peak_reserved == 0);
}

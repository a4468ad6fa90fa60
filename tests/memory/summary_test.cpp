// SPDX-License-Identifier: Apache-2.0
// The summary's text: golden for a made-up allocator, true for the real one, never wider than 80 columns.
#include <tenon/memory/summary.h>
#include <tenon/ops/factory.h>

#include <string>

#include "tests/support/catch.h"

using namespace tenon;
using namespace tenon::memory;

namespace {

constexpr int64_t MiB = 1 << 20;

SnapshotAllocator example() {
  SnapshotAllocator a;
  a.name = "cuda:0";
  a.source = "cudaMalloc";
  a.settings = "backend:caching,max_split_size_mb:128";
  a.total = 80LL << 30;
  MemoryStats& s = a.stats;
  s.allocated = 12 * MiB;
  s.peak_allocated = 14 * MiB;
  s.total_allocated = 100 * MiB;
  s.total_freed = 88 * MiB;
  s.requested = 11 * MiB + MiB / 2;
  s.peak_requested = 13 * MiB;
  s.active = 13 * MiB;
  s.reserved = 22 * MiB;
  s.peak_reserved = 42 * MiB;
  s.total_reserved = 42 * MiB;
  s.total_released = 20 * MiB;
  s.small = {2 * MiB, 2 * MiB, 70, 66, 1};
  s.large = {10 * MiB, 20 * MiB, 30, 22, 1};
  s.live_blocks = 12;
  s.cached_blocks = 2;
  s.segments = 2;
  s.allocations = 100;
  s.frees = 88;
  s.splits = 40;
  s.merges = 1;
  s.segments_allocated = 3;
  s.segments_released = 1;
  a.segments = {
      {0x1000, 2 * MiB, 0, true, {{0x1000, 2 * MiB, 2 * MiB, SnapshotBlockState::in_use, -1, -1}}},
      {0x9000000,
       20 * MiB,
       0,
       false,
       {{0x9000000, 10 * MiB, 10 * MiB, SnapshotBlockState::in_use, -1, -1},
        {0x9a00000, 6 * MiB, 0, SnapshotBlockState::free, -1, -1},
        {0xa000000, MiB, 0, SnapshotBlockState::pending, -1, -1},
        {0xa100000, 3 * MiB, 0, SnapshotBlockState::free, -1, -1}}},
  };
  return a;
}

size_t widest(const std::string& text) {
  size_t most = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    REQUIRE(end != std::string::npos);  // every line ends
    most = std::max(most, end - begin);
    begin = end + 1;
  }
  return most;
}

}  // namespace

TEST_CASE("summary: golden text") {
  CHECK(summarize(example()) == R"(Memory of cuda:0 (cudaMalloc, 80.00 GiB)
================================================================================
                                  current         peak    allocated        freed
Live: blocks in use             12.00 MiB    14.00 MiB   100.00 MiB    88.00 MiB
  small pool                     2.00 MiB
  large pool                    10.00 MiB
  asked for                     11.50 MiB    13.00 MiB
Waiting for other streams        1.00 MiB
Cached: free, kept               9.00 MiB
  whole segments                  0 bytes
  holes beside live blocks       9.00 MiB
  largest hole                   6.00 MiB
Reserved from the device        22.00 MiB    42.00 MiB    42.00 MiB    20.00 MiB
  small pool                     2.00 MiB
  large pool                    20.00 MiB
--------------------------------------------------------------------------------
Blocks: 12 live, 2 cached, in 2 segments (small 1, large 1)
So far: 100 allocations, 88 frees, 40 splits, 1 merge
Device: 3 segments taken, 1 given back, refused 0 times, out of memory 0 times
Settings: backend:caching,max_split_size_mb:128
--------------------------------------------------------------------------------
Live memory belongs to tensors and falls when the last tensor of a storage goes.
Cached memory is free, but kept for the next allocation; the device and other
programs count it as used. empty_cache() gives the whole segments back; holes go
when the live blocks beside them do.
)");
}

TEST_CASE("summary: abbreviated, with pinned memory") {
  SnapshotAllocator pinned;
  pinned.name = "pinned";
  pinned.stats.allocated = pinned.stats.peak_allocated = pinned.stats.total_allocated = MiB;
  pinned.stats.reserved = pinned.stats.peak_reserved = pinned.stats.total_reserved = 2 * MiB;
  CHECK(summarize(example(), &pinned, true) == R"(Memory of cuda:0 (cudaMalloc, 80.00 GiB)
================================================================================
                                  current         peak    allocated        freed
Live: blocks in use             12.00 MiB    14.00 MiB   100.00 MiB    88.00 MiB
  small pool                     2.00 MiB
  large pool                    10.00 MiB
  asked for                     11.50 MiB    13.00 MiB
Waiting for other streams        1.00 MiB
Cached: free, kept               9.00 MiB
  whole segments                  0 bytes
  holes beside live blocks       9.00 MiB
  largest hole                   6.00 MiB
Reserved from the device        22.00 MiB    42.00 MiB    42.00 MiB    20.00 MiB
  small pool                     2.00 MiB
  large pool                    20.00 MiB
Pinned host memory: live         1.00 MiB     1.00 MiB     1.00 MiB      0 bytes
  reserved                       2.00 MiB     2.00 MiB     2.00 MiB      0 bytes
--------------------------------------------------------------------------------
)");
}

TEST_CASE("summary: never wider than 80 columns") {
  SnapshotAllocator a = example();
  const int64_t huge = int64_t{1023} << 50;
  a.stats.allocated = a.stats.peak_allocated = a.stats.total_allocated = a.stats.total_freed = huge;
  a.stats.splits = a.stats.merges = a.stats.allocations = a.stats.frees = a.stats.retries = huge;
  a.stats.live_blocks = a.stats.cached_blocks = a.stats.segments = a.stats.small.segments = huge;
  a.settings =
      "backend:caching,max_split_size_mb:128,roundup_power2_divisions:8,small_pool_limit:512,"
      "per_process_memory_fraction:0.5,garbage_collection_threshold:0.8,expandable_segments:True,poison_free:True";
  CHECK(widest(summarize(a, &a)) <= 80);
  CHECK(widest(summarize(a, &a, true)) <= 80);
}

TEST_CASE("summary: of a real device") {
  const Tensor t = zeros({1000, 1000});
  const std::string text = memory_summary(kCPU);
  CAPTURE(text);
  CHECK(widest(text) <= 80);
  CHECK(text.rfind("Memory of cpu (", 0) == 0);
  CHECK(text.find("Settings: " + allocator_settings().substr(0, 20)) != std::string::npos);
  CHECK(memory_summary(kCPU, true).size() < text.size());
}

TEST_CASE("summary: of a GPU, with the pinned memory of the host", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const Device gpu(kCUDA, 0);
  const Tensor a = ones({1000, 1000}, TensorOptions(gpu)), b = ones({1000}).pin_memory();
  const std::string text = memory_summary(gpu);
  CAPTURE(text);
  CHECK(widest(text) <= 80);
  CHECK(text.rfind("Memory of cuda:0 (", 0) == 0);
  CHECK(text.find("Pinned host memory: live") != std::string::npos);
}

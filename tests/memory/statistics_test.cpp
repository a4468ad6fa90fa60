// SPDX-License-Identifier: Apache-2.0
// Every number of MemoryStats after each step of a script whose right answers were worked out by hand.
#include <tenon/memory/caching_allocator.h>

#include "tests/support/catch.h"
#include "tests/support/fake_memory.h"

using namespace tenon;
using namespace tenon::memory;
using testing::FakeMemory;
using testing::FakeStreams;

namespace {

constexpr int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;
const Device kDevice(kSim, 0);

void check_pool(const MemoryPoolStats& got, const MemoryPoolStats& expected) {
  CHECK(got.allocated == expected.allocated);
  CHECK(got.reserved == expected.reserved);
  CHECK(got.allocations == expected.allocations);
  CHECK(got.frees == expected.frees);
  CHECK(got.segments == expected.segments);
}

}  // namespace

TEST_CASE("statistics: a scripted sequence has exact numbers") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  auto& streams = FakeStreams::instance();
  const Stream own = streams.stream(0), other = streams.stream(9);

  Block* a = allocator.allocate(100, own);           // 512 of a small segment of 2 MiB
  Block* b = allocator.allocate(3 * MiB, own);       // of a large one of 20 MiB
  Block* c = allocator.allocate(30 * MiB - 5, own);  // a segment of its own
  MemoryStats s = allocator.stats();
  CHECK(s.allocated == 33 * MiB + 512);
  CHECK(s.peak_allocated == 33 * MiB + 512);
  CHECK(s.requested == 33 * MiB + 95);
  CHECK(s.peak_requested == 33 * MiB + 95);
  CHECK(s.active == s.allocated);
  CHECK(s.reserved == 52 * MiB);
  CHECK(s.peak_reserved == 52 * MiB);
  CHECK(s.live_blocks == 3);
  CHECK(s.cached_blocks == 2);
  CHECK(s.segments == 3);
  CHECK(s.largest_free_block == 17 * MiB);
  CHECK(s.allocations == 3);
  CHECK(s.frees == 0);
  CHECK(s.splits == 2);
  CHECK(s.merges == 0);
  CHECK(s.segments_allocated == 3);
  CHECK(s.total_allocated == 33 * MiB + 512);
  CHECK(s.total_freed == 0);
  CHECK(s.total_reserved == 52 * MiB);
  CHECK(s.total_released == 0);
  check_pool(s.small, {512, 2 * MiB, 1, 0, 1});
  check_pool(s.large, {33 * MiB, 50 * MiB, 2, 0, 2});

  allocator.free(b);  // merges with the rest of its segment
  s = allocator.stats();
  CHECK(s.allocated == 30 * MiB + 512);
  CHECK(s.peak_allocated == 33 * MiB + 512);
  CHECK(s.requested == 30 * MiB + 95);
  CHECK(s.total_freed == 3 * MiB);
  CHECK(s.merges == 1);
  CHECK(s.largest_free_block == 20 * MiB);
  check_pool(s.large, {30 * MiB, 50 * MiB, 2, 1, 2});

  allocator.reset_peaks();
  s = allocator.stats();
  CHECK(s.peak_allocated == 30 * MiB + 512);
  CHECK(s.peak_requested == 30 * MiB + 95);
  CHECK(s.peak_active == 30 * MiB + 512);
  CHECK(s.peak_reserved == 52 * MiB);

  Block* d = allocator.allocate(MiB, own);
  allocator.record_stream(d, other);
  allocator.free(d);  // the other stream still works on it
  s = allocator.stats();
  CHECK(s.allocated == 30 * MiB + 512);
  CHECK(s.active == 31 * MiB + 512);
  CHECK(s.peak_allocated == 31 * MiB + 512);
  CHECK(s.requested == 30 * MiB + 95);
  check_pool(s.small, {512, 2 * MiB, 2, 1, 1});
  Block* e = allocator.allocate(MiB, own);  // does not fit beside the waiting one: another segment
  s = allocator.stats();
  CHECK(s.peak_active == 32 * MiB + 512);
  CHECK(s.peak_allocated == 31 * MiB + 512);
  CHECK(s.reserved == 54 * MiB);
  streams.finish(other);
  allocator.free(e);
  allocator.empty_cache();  // leaves the segments of a and c
  s = allocator.stats();
  CHECK(s.active == 30 * MiB + 512);
  CHECK(s.reserved == 32 * MiB);
  CHECK(s.peak_reserved == 54 * MiB);
  CHECK(s.segments_released == 2);
  CHECK(s.total_released == 22 * MiB);
  check_pool(s.small, {512, 2 * MiB, 3, 2, 1});
  check_pool(s.large, {30 * MiB, 30 * MiB, 2, 1, 1});

  allocator.reset_accumulated();
  s = allocator.stats();
  for (const int64_t n : {s.allocations, s.frees, s.segments_allocated, s.segments_released, s.splits, s.merges,
                          s.out_of_memory, s.retries, s.total_allocated, s.total_freed, s.total_reserved,
                          s.total_released, s.small.allocations, s.small.frees, s.large.allocations, s.large.frees}) {
    CHECK(n == 0);
  }
  CHECK(s.allocated == 30 * MiB + 512);  // what is, stays
  CHECK(s.live_blocks == 2);
  CHECK(s.segments == 2);
  allocator.free(c);
  allocator.free(a);
  s = allocator.stats();
  CHECK(s.frees == 2);
  CHECK(s.allocations == 0);
  CHECK(s.total_freed == 30 * MiB + 512);
  CHECK(s.allocated == 0);
  CHECK_THROWS_AS(allocator.allocate(2 * GiB, own), OutOfMemoryError);
  s = allocator.stats();
  CHECK(s.out_of_memory == 1);
  CHECK(s.retries == 1);
  CHECK(s.reserved == 32 * MiB);  // more than the device has: the cache would not have helped
  allocator.empty_cache();
  s = allocator.stats();
  CHECK(s.reserved == 0);
  check_pool(s.small, {0, 0, 0, 1, 0});
  check_pool(s.large, {0, 0, 0, 1, 0});
}

TEST_CASE("statistics: the functions of a device") {
  const Device cpu(kCPU);
  const MemoryStats before = memory_stats(cpu);
  const DataPtr p = allocate(cpu, 5 * MiB);
  CHECK(memory_allocated(cpu) == before.allocated + 5 * MiB);
  CHECK(max_memory_allocated(cpu) >= memory_allocated(cpu));
  CHECK(max_memory_reserved(cpu) >= memory_reserved(cpu));
  p.deleter(p.context);
  reset_peak_memory_stats(cpu);
  CHECK(max_memory_allocated(cpu) == memory_allocated(cpu));
  CHECK(max_memory_reserved(cpu) == memory_reserved(cpu));
  reset_accumulated_memory_stats(cpu);
  CHECK(memory_stats(cpu).allocations == 0);
  const DataPtr q = allocate(cpu, 7 * KiB);
  CHECK(memory_stats(cpu).allocations == 1);
  CHECK(memory_stats(cpu).total_allocated == 7 * KiB);
  q.deleter(q.context);
}

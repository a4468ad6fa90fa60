// SPDX-License-Identifier: Apache-2.0
// What each setting does, over fake memory: garbage collection, rounding, segments, pinned memory, background trimming.
#include <tenon/memory/background_trim.h>
#include <tenon/memory/caching_allocator.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/books.h"
#include "tests/support/catch.h"

using namespace tenon;
using namespace tenon::memory;
using testing::broken;
using testing::contains;
using testing::FakeMemory;
using testing::FakeStreams;

namespace {

constexpr int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;
const Device kDevice(kSim, 0);

AllocatorSettings conf(const char* text) { return AllocatorSettings::parse(text); }
Stream stream(int32_t id = 4) { return FakeStreams::instance().stream(id); }

}  // namespace

TEST_CASE("garbage collection: the least recently used idle segments, down to the threshold, with no other condition") {
  const char* const settings = GENERATE("garbage_collection_threshold:0.5",
                                        "garbage_collection_threshold:0.625,per_process_memory_fraction:0.8");
  CAPTURE(settings);
  FakeMemory fake(200 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf(settings));  // both: 100 MiB
  Block* a = allocator.allocate(30 * MiB, stream());
  Block* b = allocator.allocate(32 * MiB, stream());
  Block* c = allocator.allocate(34 * MiB, stream());
  allocator.free(b);
  allocator.free(allocator.allocate(12 * MiB, stream(8)));  // 108 MiB; b's segment is older than this one
  CHECK(fake.take_log() == "aaaa");
  Block* d = allocator.allocate(40 * MiB, stream());  // b's goes, the others stay
  CHECK(fake.take_log() == "ra");
  CHECK(allocator.stats().reserved == (30 + 34 + 12 + 40) * MiB);
  allocator.free(a);
  Block* e = allocator.allocate(10 * KiB, stream());  // 116 MiB: the 12 MiB are the older ones, then a's
  CHECK(fake.take_log() == "rra");
  CHECK(allocator.stats().reserved == (34 + 40 + 2) * MiB);
  for (Block* x : {c, d, e}) allocator.free(x);
  allocator.configure(conf(""));
  allocator.free(allocator.allocate(60 * MiB, stream(12)));
  CHECK(fake.take_log() == "a");  // without the setting nothing goes
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("garbage collection unmaps idle pages of expandable segments") {
  FakeMemory fake(200 * MiB, true);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("garbage_collection_threshold:0.5,expandable_segments:True"));
  Block* a = allocator.allocate(110 * MiB, stream());
  allocator.free(a);
  Block* b = allocator.allocate(20 * MiB, stream(8));
  CHECK(fake.used() == 20 * MiB);
  allocator.free(b);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("max_non_split_rounding_mb: how much larger an oversize block may be") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("max_split_size_mb:20,max_non_split_rounding_mb:64"));
  Block* a = allocator.allocate(100 * MiB, stream());
  allocator.free(a);
  Block* b = allocator.allocate(40 * MiB, stream());
  CHECK(b->size == 100 * MiB);
  Block* c = allocator.allocate(36 * MiB, stream());
  allocator.free(b);
  Block* d = allocator.allocate(36 * MiB, stream());  // 64 MiB would be wasted
  CHECK(d->size == 36 * MiB);
  allocator.free(c);
  allocator.free(d);
}

TEST_CASE("large_segment_size_mb: the shared segments and up to which size") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("large_segment_size_mb:64"));
  Block* a = allocator.allocate(32 * MiB, stream());
  CHECK(allocator.stats().reserved == 64 * MiB);
  Block* b = allocator.allocate(33 * MiB, stream());
  CHECK(allocator.stats().reserved == 98 * MiB);
  allocator.free(a);
  allocator.free(b);
}

TEST_CASE("roundup_power2_divisions: a list, by size") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("roundup_power2_divisions:[2:1,8:4,>:2]"));
  const int64_t rows[][2] = {{1100 * KiB, 1100 * KiB}, {2 * MiB + 1, 2560 * KiB}, {5 * MiB, 5 * MiB},
                             {5 * MiB + 1, 6 * MiB},   {9 * MiB, 12 * MiB},       {33 * MiB, 48 * MiB}};
  for (const auto& row : rows) {
    CAPTURE(row[0]);
    Block* block = allocator.allocate(row[0], stream());
    CHECK(block->size == row[1]);
    allocator.free(block);
    allocator.empty_cache();
  }
}

TEST_CASE("throw_on_cudamalloc_oom: the first refusal raises, and says so") {
  FakeMemory fake(64 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("throw_on_cudamalloc_oom:True"));
  allocator.free(allocator.allocate(40 * MiB, stream(8)));
  fake.take_log();
  std::string text;
  try {
    allocator.allocate(30 * MiB, stream());
  } catch (const OutOfMemoryError& e) {
    text = e.what();
  }
  CHECK(contains(text, "throw_on_cudamalloc_oom keeps them"));
  CHECK(fake.take_log() == "x");
  CHECK(allocator.stats().reserved == 40 * MiB);
}

TEST_CASE("pinned memory: an eighth is wasted at most, nothing above 64 MiB, and what is too large is not kept") {
  const uint32_t seed = testing::seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  FakeMemory fake(8 * GiB);
  CachingAllocator allocator(Device(kCPU), &fake, nullptr, MemoryKind::pinned);
  std::vector<Block*> live;
  int64_t wasteful = 0;
  for (int i = 0; i < 3000; ++i) {
    const int64_t bytes = 4096 + static_cast<int64_t>(random() % (uint64_t{1} << (12 + random() % 15)));
    live.push_back(allocator.allocate(bytes, Stream()));
    wasteful += live.back()->size - bytes > bytes / 8 + 511;
    if (live.size() > 20 || random() % 2 == 0) {
      std::swap(live[random() % live.size()], live.back());
      allocator.free(live.back());
      live.pop_back();
    }
  }
  CHECK(wasteful == 0);
  for (Block* b : live) allocator.free(b);
  CHECK(broken(allocator, fake) == "");
  allocator.empty_cache();
  Block* large = allocator.allocate(70 * MiB + 1, Stream());
  CHECK(large->size == 70 * MiB + 4096);
  CHECK(allocator.stats().reserved == 70 * MiB + 4096);
  allocator.free(large);
  allocator.configure(conf("pinned_max_cached_size_mb:8,pinned_max_round_threshold_mb:4"));
  CHECK(fake.used() == 0);
  large = allocator.allocate(30 * MiB + 100, Stream());
  CHECK(large->size == 30 * MiB + 4096);
  allocator.free(large);
  CHECK(fake.used() == 0);
  CHECK(broken(allocator, fake) == "");
  allocator.configure(conf("pinned_reserve_segment_size_mb:100"));
  Block* a = allocator.allocate(2 * MiB, Stream());
  CHECK(fake.used() == 100 * MiB);
  allocator.free(a);
}

TEST_CASE("pinned memory: what is too large to be kept shares no segment") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(Device(kCPU), &fake, nullptr, MemoryKind::pinned);
  allocator.configure(conf("pinned_max_cached_size_mb:2"));
  Block* a = allocator.allocate(3 * MiB, Stream());
  CHECK(fake.used() == 3 * MiB);
  allocator.free(a);
  CHECK(fake.used() == 0);
  Block* b = allocator.allocate(MiB + MiB / 2, Stream());  // small enough to share one
  CHECK(fake.used() == 20 * MiB);
  allocator.free(b);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("trimming: the front of a pool that is hardly used, and blocks whose events have passed") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  std::vector<Block*> small;
  for (int i = 0; i < 500; ++i) small.push_back(allocator.allocate(4 * KiB, stream()));
  Block* shared = allocator.allocate(50 * MiB, stream());
  allocator.record_stream(shared, device.stream(8));
  for (Block* b : small) allocator.free(b);
  allocator.free(shared);
  device.finish(device.stream(8));
  for (int round = 0; round < 6; ++round) {
    allocator.free(allocator.allocate(8 * KiB, stream(12)));
    Block* now_and_then = allocator.allocate(16 * KiB, stream());
    allocator.trim();
    allocator.free(now_and_then);
  }
  CHECK(allocator.stats().active == 0);
  CHECK(fake.used() <= 6 * MiB);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("pinned memory: a block waits for the streams that copy from it, also when it is not kept") {
  FakeStreams& device = FakeStreams::instance();
  const char* const settings = GENERATE("", "pinned_max_cached_size_mb:1");
  FakeMemory fake(GiB);
  CachingAllocator allocator(Device(kCPU), &fake, nullptr, MemoryKind::pinned);
  allocator.configure(conf(settings));
  Block* a = allocator.allocate(3 * MiB, Stream());
  void* const at = a->ptr;
  allocator.record_stream(a, device.stream(41));
  allocator.free(a);
  Block* b = allocator.allocate(3 * MiB, Stream());
  CHECK(b->ptr != at);
  CHECK(fake.contains(at, 3 * MiB));
  device.finish(device.stream(41));
  allocator.free(b);
  allocator.empty_cache();
  CHECK(fake.used() == 0);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("trimming: what has been idle for two rounds goes back, without any call that allocates") {
  const bool expandable = GENERATE(false, true);
  CAPTURE(expandable);
  int64_t longest = INT64_MAX;
  for (int attempt = 0; attempt < 5 && longest >= 50'000; ++attempt) {  // interrupts count as this thread's time
    longest = 0;
    FakeMemory fake(GiB, expandable);
    CachingAllocator allocator(kDevice, &fake);
    if (expandable) allocator.configure(conf("expandable_segments:True"));
    std::vector<Block*> small;
    for (int i = 0; i < 3000; ++i) small.push_back(allocator.allocate(4 * KiB, stream()));
    Block* used = allocator.allocate(30 * MiB, stream());
    Block* idle = allocator.allocate(50 * MiB, stream(8));
    for (Block* b : small) allocator.free(b);
    allocator.free(idle);
    for (int round = 0; round < 4; ++round) longest = std::max(longest, allocator.trim());
    CHECK(fake.used() == 30 * MiB);
    CHECK(broken(allocator, fake) == "");
    // A busy pool keeps its front.
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 100; ++i) allocator.free(allocator.allocate(4 * KiB, stream()));
      longest = std::max(longest, allocator.trim());
    }
    CHECK(fake.used() == 32 * MiB);
    allocator.free(used);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(longest < 50'000);
#endif
}

TEST_CASE("background_trim_ms: an idle program's memory falls, and the worker starts, stops and starts again") {
  const Device host(kCPU);
  const std::string before = allocator_settings();
  set_allocator_settings("background_trim_ms:5");
  const auto falls = [&] {
    const DataPtr p = allocate(host, 40 * MiB);
    p.deleter(p.context);
    const int64_t reserved = memory_reserved(host);
    for (int i = 0; i < 2000 && memory_reserved(host) > reserved - 40 * MiB; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return memory_reserved(host) <= reserved - 40 * MiB;
  };
  CHECK(falls());
  set_allocator_settings("background_trim_ms:0");
  set_allocator_settings("background_trim_ms:7");
  CHECK(falls());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(longest_trim_hold() > 0);
#endif
  set_allocator_settings(before);
}

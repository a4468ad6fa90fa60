// SPDX-License-Identifier: Apache-2.0
// The policy over a fake source: size classes, splitting, merging, statistics, streams, the direct backend.
#include <tenon/memory/caching_allocator.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "tests/support/books.h"
#include "tests/support/catch.h"
#include "tests/support/fake_memory.h"

using namespace tenon;
using namespace tenon::memory;
using testing::broken;
using testing::FakeMemory;
using testing::FakeStreams;

namespace {

constexpr int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;
const Device kDevice(kSim, 0);

AllocatorSettings conf(const char* text) { return AllocatorSettings::parse(text); }

}  // namespace

TEST_CASE("allocator: the table of size classes") {
  struct Row {
    int64_t bytes, block, segment;
  };
  const Row rows[] = {
      {1, 512, 2 * MiB},
      {512, 512, 2 * MiB},
      {513, 1024, 2 * MiB},
      {100 * 1000, 100352, 2 * MiB},
      {MiB, MiB, 2 * MiB},
      {MiB + 1, MiB + 512, 20 * MiB},
      {4 * MiB, 4 * MiB, 20 * MiB},
      {10 * MiB, 10 * MiB, 20 * MiB},
      {10 * MiB + 1, 10 * MiB + 512, 12 * MiB},
      {11 * MiB, 12 * MiB, 12 * MiB},  // a rest of 1 MiB or less stays with a large block
      {33 * MiB + 1, 34 * MiB, 34 * MiB},
      {100 * MiB, 100 * MiB, 100 * MiB},
  };
  for (const Row& row : rows) {
    CAPTURE(row.bytes);
    FakeMemory fake(GiB);
    CachingAllocator allocator(kDevice, &fake);
    Block* block = allocator.allocate(row.bytes, FakeStreams::instance().stream(0));
    CHECK(block->size == row.block);
    CHECK(allocator.stats().reserved == row.segment);
    CHECK(reinterpret_cast<uintptr_t>(block->ptr) % 64 == 0);
    CHECK(broken(allocator, fake) == "");
    allocator.free(block);
    CHECK(broken(allocator, fake) == "");
    CHECK(allocator.blocks().size() == 1);
  }
}

TEST_CASE("allocator: rounding to divisions of a power of two") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("roundup_power2_divisions:4"));
  const Stream stream = FakeStreams::instance().stream(0);
  const int64_t rows[][2] = {{700, 1024}, {4097, 5120}, {5121, 6144}, {8000, 8192}, {8192, 8192}, {300000, 327680}};
  for (const auto& row : rows) {
    CAPTURE(row[0]);
    Block* block = allocator.allocate(row[0], stream);
    CHECK(block->size == row[1]);
    allocator.free(block);
  }
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("allocator: small_pool_limit moves the border between the pools") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("small_pool_limit:4"));
  const Stream stream = FakeStreams::instance().stream(0);
  Block* small = allocator.allocate(4096, stream);
  CHECK(allocator.stats().reserved == 2 * MiB);
  Block* large = allocator.allocate(4097, stream);
  CHECK(allocator.stats().reserved == 22 * MiB);
  CHECK(large->size == 4608);
  allocator.free(small);
  allocator.free(large);
  CHECK(broken(allocator, fake) == "");
  CHECK(allocator.blocks().size() == 2);
}

TEST_CASE("allocator: max_split_size_mb keeps oversize blocks whole") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("max_split_size_mb:20"));
  const Stream stream = FakeStreams::instance().stream(0);
  Block* big = allocator.allocate(100 * MiB, stream);
  void* const at = big->ptr;
  allocator.free(big);
  Block* medium = allocator.allocate(15 * MiB, stream);  // must not cut into the 100 MiB
  CHECK(medium->ptr != at);
  Block* close = allocator.allocate(90 * MiB, stream);  // near enough, and whole
  CHECK(close->ptr == at);
  CHECK(close->size == 100 * MiB);
  allocator.free(close);
  Block* far = allocator.allocate(40 * MiB, stream);  // 60 MiB would be wasted
  CHECK(far->ptr != at);
  allocator.free(far);
  allocator.free(medium);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("allocator: a steady loop asks the device for nothing, and permutations of frees merge into whole segments") {
  const uint32_t seed = testing::seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(0);
  const int64_t sizes[] = {100, 4 * KiB, 70 * KiB, 600 * KiB, MiB, 3 * MiB, 9 * MiB, 17 * MiB};
  int64_t after_first = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<Block*> blocks;
    for (const int64_t bytes : sizes) {
      for (int i = 0; i < 3; ++i) blocks.push_back(allocator.allocate(bytes, stream));
    }
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (Block* b : blocks) allocator.free(b);
    const MemoryStats s = allocator.stats();
    if (round == 0) after_first = s.segments_allocated;
    REQUIRE(s.segments_allocated == after_first);
    REQUIRE(s.cached_blocks == after_first);  // one block per segment
    REQUIRE(s.allocated == 0);
  }
  CHECK(broken(allocator, fake) == "");
  allocator.empty_cache();
  CHECK(fake.used() == 0);
  CHECK(allocator.stats().reserved == 0);
}

TEST_CASE("allocator: small blocks freed into the front merge before the device is asked") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(0);
  std::vector<Block*> blocks;
  for (int64_t at = 0; at < 2 * MiB; at += 4 * KiB) blocks.push_back(allocator.allocate(4 * KiB, stream));
  for (Block* b : blocks) allocator.free(b);
  Block* half = allocator.allocate(MiB, stream);
  CHECK(fake.take_log() == "a");
  CHECK(half->ptr == blocks.front()->ptr);
  // More frees than the front holds: the others merge at once, and nothing is lost.
  blocks.clear();
  for (int i = 0; i < 3 * kFrontBlocks; ++i) blocks.push_back(allocator.allocate(512, stream));
  for (Block* b : blocks) allocator.free(b);
  allocator.free(half);
  CHECK(broken(allocator, fake) == "");
  CHECK(allocator.stats().cached_blocks == allocator.stats().segments_allocated);
}

TEST_CASE("allocator: scripted statistics") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(0);
  Block* a = allocator.allocate(1000, stream);
  Block* b = allocator.allocate(5 * MiB, stream);
  MemoryStats s = allocator.stats();
  CHECK(s.allocated == 1024 + 5 * MiB);
  CHECK(s.requested == 1000 + 5 * MiB);
  CHECK(s.reserved == 22 * MiB);
  CHECK(s.allocations == 2);
  CHECK(s.splits == 2);
  CHECK(s.cached_blocks == 2);
  CHECK(s.largest_free_block == 15 * MiB);
  allocator.free(b);
  s = allocator.stats();
  CHECK(s.allocated == 1024);
  CHECK(s.peak_allocated == 1024 + 5 * MiB);
  CHECK(s.frees == 1);
  CHECK(s.merges == 1);
  allocator.reset_peaks();
  CHECK(allocator.stats().peak_allocated == 1024);
  allocator.empty_cache();
  s = allocator.stats();
  CHECK(s.reserved == 2 * MiB);
  CHECK(s.peak_reserved == 22 * MiB);
  CHECK(s.segments_released == 1);
  allocator.free(a);
  CHECK(s.out_of_memory == 0);
  CHECK(s.retries == 0);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("allocator: a random history keeps every invariant") {
  const uint32_t seed = testing::seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  FakeStreams& device = FakeStreams::instance();
  const char* const settings[] = {"",
                                  "max_split_size_mb:24",
                                  "roundup_power2_divisions:8",
                                  "small_pool_limit:64",
                                  "poison_free:True",
                                  "backend:direct"};
  for (const char* text : settings) {
    CAPTURE(text);
    FakeMemory fake(400 * MiB);
    CachingAllocator allocator(kDevice, &fake);
    allocator.configure(conf(text));
    struct Use {
      Block* block;
      char* ptr;
      int64_t bytes;
      unsigned char fill;
    };
    std::vector<Use> live;
    std::map<const char*, int64_t> ranges;
    std::vector<Stream> recorded;
    int64_t overlaps = 0, clobbered = 0, refused = 0;
    std::string problem;
    const auto release = [&](size_t i) {
      const Use u = live[i];
      clobbered +=
          static_cast<unsigned char>(u.ptr[0]) != u.fill || static_cast<unsigned char>(u.ptr[u.bytes - 1]) != u.fill;
      ranges.erase(u.ptr);
      live[i] = live.back();
      live.pop_back();
      allocator.free(u.block);
    };
    for (int step = 0; step < 4000 && problem.empty(); ++step) {
      const int dice = static_cast<int>(random() % 100);
      if (dice < 50 || live.empty()) {
        const int exponent = static_cast<int>(random() % 25);
        const int64_t bytes = 1 + static_cast<int64_t>(random() % (uint64_t{1} << exponent));
        try {
          Block* block = allocator.allocate(bytes, device.stream(static_cast<int32_t>(random() % 4)));
          const auto next = ranges.lower_bound(block->ptr);
          if (next != ranges.end() && block->ptr + bytes > next->first) ++overlaps;
          if (next != ranges.begin() && std::prev(next)->first + std::prev(next)->second > block->ptr) ++overlaps;
          ranges[block->ptr] = bytes;
          const auto fill = static_cast<unsigned char>(random());
          block->ptr[0] = block->ptr[bytes - 1] = static_cast<char>(fill);
          live.push_back({block, block->ptr, bytes, fill});
        } catch (const OutOfMemoryError&) {
          ++refused;
          for (int i = 0; i < 8 && !live.empty(); ++i) release(random() % live.size());
        }
      } else if (dice < 92) {
        release(random() % live.size());
      } else if (dice < 96) {
        allocator.record_stream(live[random() % live.size()].block, device.stream(static_cast<int32_t>(random() % 4)));
      } else if (dice < 98) {
        device.finish(device.stream(static_cast<int32_t>(random() % 4)));
      } else if (dice < 99) {
        allocator.empty_cache();
      }
      if (step % 50 == 0) problem = broken(allocator, fake);
    }
    CHECK(problem == "");
    CHECK(overlaps == 0);
    CHECK(clobbered == 0);
    while (!live.empty()) release(live.size() - 1);
    for (int32_t i = 0; i < 4; ++i) device.finish(device.stream(i));
    allocator.empty_cache();
    CHECK(broken(allocator, fake) == "");
    CHECK(fake.used() == 0);
    CHECK(allocator.stats().active == 0);
    CHECK(allocator.stats().out_of_memory == refused);
  }
}

TEST_CASE("streams: a freed block is reused at once on its stream, never on another") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  for (const int64_t bytes : {int64_t{4096}, 4 * MiB}) {
    CAPTURE(bytes);
    Block* a = allocator.allocate(bytes, device.stream(8));
    char* const at = a->ptr;
    allocator.free(a);
    Block* other = allocator.allocate(bytes, device.stream(12));
    CHECK(other->ptr != at);
    Block* same = allocator.allocate(bytes, device.stream(8));
    CHECK(same->ptr == at);
    allocator.free(other);
    allocator.free(same);
  }
  CHECK(device.stream(8).id() + 256 == device.stream(264).id());  // two ids that share a slot of the look-up
  Block* x = allocator.allocate(4096, device.stream(8));
  char* const at = x->ptr;
  allocator.free(x);
  Block* y = allocator.allocate(4096, device.stream(264));
  CHECK(y->ptr != at);
  Block* z = allocator.allocate(4096, device.stream(8));
  CHECK(z->ptr == at);
  allocator.free(y);
  allocator.free(z);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("streams: record_stream holds a block until the last recorded stream has passed") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream home = device.stream(21), left = device.stream(22), right = device.stream(23);
  const int64_t bytes = GENERATE(int64_t{1000}, int64_t{4} << 20);
  const int64_t records = device.records();
  Block* a = allocator.allocate(bytes, home);
  char* const at = a->ptr;
  allocator.record_stream(a, home);  // its own stream needs no event
  allocator.record_stream(a, left);
  allocator.record_stream(a, right);
  allocator.record_stream(a, left);
  CHECK(device.records() == records);  // lazily: nothing before the free
  allocator.free(a);
  CHECK(device.records() == records + 2);
  MemoryStats s = allocator.stats();
  CHECK(s.allocated == 0);
  CHECK(s.active >= bytes);

  Block* b = allocator.allocate(bytes, home);
  CHECK(b->ptr != at);
  device.finish(right);
  Block* c = allocator.allocate(bytes, home);
  CHECK(c->ptr != at);
  device.finish(left);
  Block* filler = allocator.allocate(700 * KiB, home);  // a request the front cannot serve looks at the events
  Block* d = allocator.allocate(bytes, home);
  CHECK(d->ptr == at);
  CHECK(allocator.stats().active == allocator.stats().allocated);
  for (Block* block : {b, c, d, filler}) allocator.free(block);
  CHECK(device.records() == records + 2);  // the next life of the block starts without uses
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("streams: without record_stream no event is made, and empty_cache waits for those that were") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  const int64_t records = device.records();
  for (int i = 0; i < 100; ++i) allocator.free(allocator.allocate(1 << (i % 24), device.stream(4)));
  CHECK(device.records() == records);
  Block* a = allocator.allocate(MiB, device.stream(4));
  allocator.record_stream(a, device.stream(31));
  allocator.free(a);
  allocator.empty_cache();
  CHECK(fake.used() == 0);
  CHECK(allocator.stats().active == 0);
}

TEST_CASE("streams: a device that can record no event does not lose the block") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  Block* a = allocator.allocate(MiB, device.stream(4));
  allocator.record_stream(a, device.stream(32));
  device.fail_records(true);
  allocator.free(a);
  device.fail_records(false);
  allocator.empty_cache();
  CHECK(fake.used() == 0);
}

TEST_CASE("direct backend: exact sizes, from and to the device at once, waiting for the streams") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory caching(GiB), exact(GiB);
  CachingAllocator allocator(kDevice, &caching, &exact);
  Block* cached = allocator.allocate(5000, device.stream(4));  // from before the change of settings
  allocator.configure(conf("backend:direct"));
  Block* a = allocator.allocate(1001, device.stream(4));
  CHECK(a->size == 1001);
  CHECK(exact.used() == 1001);
  MemoryStats s = allocator.stats();
  CHECK(s.allocated == 1001 + 5120);
  CHECK(s.reserved == 1001 + 2 * MiB);
  allocator.record_stream(a, device.stream(33));
  Event home, side;  // work is queued on both streams
  home.record(device.stream(4));
  side.record(device.stream(33));
  CHECK_FALSE(home.query());
  CHECK_FALSE(side.query());
  allocator.free(a);
  CHECK(home.query());
  CHECK(side.query());
  CHECK(exact.used() == 0);
  allocator.free(cached);
  s = allocator.stats();
  CHECK(s.allocated == 0);
  CHECK(s.active == 0);
  CHECK(s.reserved == 2 * MiB);
  allocator.empty_cache();
  CHECK(caching.used() == 0);
  CHECK(exact.errors() + caching.errors() == 0);
}

#if defined(__SANITIZE_ADDRESS__)
TEST_CASE("poison_free makes unreadable what is free, and what rounding added to a block") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("poison_free:True"));
  for (const int64_t bytes : {int64_t{1000}, 3 * MiB}) {
    Block* a = allocator.allocate(bytes, FakeStreams::instance().stream(4));
    char* const at = a->ptr;
    CHECK_FALSE(__asan_region_is_poisoned(at, static_cast<size_t>(bytes)));
    CHECK(__asan_address_is_poisoned(at + bytes));
    allocator.free(a);
    CHECK(__asan_address_is_poisoned(at));
    a = allocator.allocate(bytes, FakeStreams::instance().stream(4));
    CHECK(a->ptr == at);
    CHECK_FALSE(__asan_region_is_poisoned(at, static_cast<size_t>(bytes)));
    allocator.free(a);
  }
}
#else
TEST_CASE("poison_free overwrites what is freed") {
  FakeMemory fake(GiB);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(conf("poison_free:True"));
  Block* a = allocator.allocate(1000, FakeStreams::instance().stream(4));
  char* const at = a->ptr;
  std::memset(at, 1, 1000);
  allocator.free(a);
  CHECK(std::count(at, at + 1000, static_cast<char>(0xDB)) == 1000);
}
#endif

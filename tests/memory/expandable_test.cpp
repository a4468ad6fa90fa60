// SPDX-License-Identifier: Apache-2.0
// Expandable segments: growing in place, holes, giving pages back, refusals, fragmentation against ordinary segments.
#include <tenon/memory/caching_allocator.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/books.h"
#include "tests/support/catch.h"

using namespace tenon;
using namespace tenon::memory;
using testing::broken;
using testing::FakeMemory;
using testing::FakeStreams;

namespace {

constexpr int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;
const Device kDevice(kSim, 0);

AllocatorSettings expandable() { return AllocatorSettings::parse("expandable_segments:True"); }

// A training loop whose batch grows: every step keeps some activations of its size, then drops them; a few results of
// each step stay. Returns reserved / allocated at the top of the last step.
double growing_batch(const char* settings) {
  FakeMemory fake(8 * GiB, true);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(AllocatorSettings::parse(settings));
  const Stream stream = FakeStreams::instance().stream(4);
  std::vector<Block*> kept;
  double ratio = 0;
  for (int64_t step = 1; step <= 40; ++step) {
    std::vector<Block*> activations;
    for (int layer = 0; layer < 12; ++layer) activations.push_back(allocator.allocate(step * 1300 * KiB, stream));
    const MemoryStats s = allocator.stats();
    ratio = static_cast<double>(s.reserved) / static_cast<double>(s.allocated);
    kept.push_back(allocator.allocate(300 * KiB, stream));
    for (Block* b : activations) allocator.free(b);
  }
  for (Block* b : kept) allocator.free(b);
  return ratio;
}

}  // namespace

TEST_CASE("expandable: a growing batch ends with 1.05 reserved per allocated, and worse without") {
  const double with = growing_batch("expandable_segments:True"), without = growing_batch("");
  CAPTURE(with, without);
  CHECK(with <= 1.05);
  CHECK(without > 1.2);
}

TEST_CASE("expandable: blocks grow one range, pages follow what is needed") {
  FakeMemory fake(256 * MiB, true);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(expandable());
  const Stream stream = FakeStreams::instance().stream(4);
  Block* a = allocator.allocate(3 * MiB, stream);
  CHECK(allocator.stats().reserved == 4 * MiB);
  Block* b = allocator.allocate(5 * MiB, stream);  // takes the free MiB at the end and two pages more
  CHECK(b->ptr == a->ptr + 3 * MiB);
  CHECK(allocator.stats().reserved == 8 * MiB);
  Block* small = allocator.allocate(1000, stream);  // the small pool has a range of its own
  CHECK(fake.ranges() == 2);
  CHECK(allocator.stats().reserved == 10 * MiB);
  CHECK(fake.take_log() == "mmm");
  std::memset(a->ptr, 1, 3 * MiB);
  std::memset(b->ptr, 1, 5 * MiB);
  CHECK(broken(allocator, fake) == "");
  for (Block* x : {a, b, small}) allocator.free(x);
  a = allocator.allocate(8 * MiB, stream);  // merged again
  CHECK(fake.take_log() == "");
  allocator.free(a);
  allocator.empty_cache();
  CHECK(fake.used() == 0);
  CHECK(fake.ranges() == 0);
  CHECK(allocator.stats().segments == 0);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("expandable: idle pages go back around blocks in use, and the holes are used again") {
  FakeMemory fake(256 * MiB, true);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(expandable());
  const Stream stream = FakeStreams::instance().stream(4);
  std::vector<Block*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocator.allocate(10 * MiB, stream));
  char* const base = blocks[0]->ptr;
  for (int i = 0; i < 8; i += 2) allocator.free(blocks[static_cast<size_t>(i)]);
  allocator.empty_cache();
  CHECK(allocator.stats().reserved == 40 * MiB);
  CHECK(fake.used() == 40 * MiB);
  CHECK(broken(allocator, fake) == "");
  fake.take_log();
  Block* again = allocator.allocate(9 * MiB, stream);  // 10 MiB are mapped in the first hole
  CHECK(again->ptr == base);
  CHECK(fake.take_log() == "m");
  CHECK(allocator.stats().reserved == 50 * MiB);
  // Larger than any hole: from the free MiB before the next block nothing can grow, so the end does.
  Block* large = allocator.allocate(12 * MiB, stream);
  CHECK(large->ptr >= base + 70 * MiB);
  CHECK(broken(allocator, fake) == "");
  allocator.free(again);
  allocator.free(large);
  for (int i = 1; i < 8; i += 2) allocator.free(blocks[static_cast<size_t>(i)]);
  Block* all = allocator.allocate(82 * MiB, stream);  // several holes are filled for one block
  CHECK(all->ptr == base);
  std::memset(all->ptr, 1, 82 * MiB);
  CHECK(broken(allocator, fake) == "");
  allocator.free(all);
}

TEST_CASE("expandable: unmapping idle pages saves a call on another stream") {
  FakeMemory fake(64 * MiB, true);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(expandable());
  FakeStreams& device = FakeStreams::instance();
  Block* held = allocator.allocate(10 * MiB, device.stream(4));
  Block* idle = allocator.allocate(40 * MiB, device.stream(4));
  Block* tail = allocator.allocate(3 * MiB, device.stream(4));
  allocator.free(idle);
  fake.take_log();
  Block* block = allocator.allocate(30 * MiB, device.stream(8));
  CHECK(fake.take_log() == "xum");
  for (Block* b : {held, tail, block}) allocator.free(b);
  CHECK(broken(allocator, fake) == "");
}

TEST_CASE("expandable: a share of the device limits it, and what it cannot get leaves the books in order") {
  FakeMemory fake(64 * MiB, true);
  CachingAllocator allocator(kDevice, &fake);
  allocator.configure(AllocatorSettings::parse("expandable_segments:True,per_process_memory_fraction:0.5"));
  const Stream stream = FakeStreams::instance().stream(4);
  Block* a = allocator.allocate(20 * MiB, stream);
  CHECK_THROWS_AS(allocator.allocate(16 * MiB, stream), OutOfMemoryError);
  CHECK(broken(allocator, fake) == "");
  Block* b = allocator.allocate(12 * MiB, stream);
  CHECK(allocator.stats().reserved == 32 * MiB);
  allocator.free(a);
  allocator.free(b);
  for (int64_t n = 1; n < 12; ++n) {
    CAPTURE(n);
    FakeMemory other(128 * MiB, true);
    CachingAllocator faulty(kDevice, &other);
    faulty.configure(expandable());
    other.fail_at(n);
    std::vector<Block*> live;
    for (int i = 0; i < 20; ++i) {
      try {
        live.push_back(faulty.allocate(700 << (i % 14), stream));
      } catch (const OutOfMemoryError&) {
      }
      if (i % 3 == 2) {
        faulty.free(live.front());
        live.erase(live.begin());
      }
    }
    CHECK(broken(faulty, other) == "");
    for (Block* x : live) faulty.free(x);
    faulty.empty_cache();
    CHECK(other.used() == 0);
    CHECK(other.errors() == 0);
  }
}

TEST_CASE("expandable: a random history keeps every invariant") {
  const uint32_t seed = testing::seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(300 * MiB, true);
  CachingAllocator allocator(kDevice, &fake);
  std::vector<std::pair<Block*, int64_t>> live;
  std::map<const char*, int64_t> ranges;
  int64_t overlaps = 0, clobbered = 0;
  std::string problem;
  const auto release = [&](size_t i) {
    const auto [block, bytes] = live[i];
    clobbered += block->ptr[0] != static_cast<char>(bytes) || block->ptr[bytes - 1] != static_cast<char>(bytes);
    ranges.erase(block->ptr);
    live[i] = live.back();
    live.pop_back();
    allocator.free(block);
  };
  for (int step = 0; step < 4000 && problem.empty(); ++step) {
    const int dice = static_cast<int>(random() % 100);
    if (dice < 50 || live.empty()) {
      const int64_t bytes = 1 + static_cast<int64_t>(random() % (uint64_t{1} << (random() % 25)));
      try {
        Block* block = allocator.allocate(bytes, device.stream(static_cast<int32_t>(random() % 3)));
        const auto next = ranges.lower_bound(block->ptr);
        if (next != ranges.end() && block->ptr + bytes > next->first) ++overlaps;
        if (next != ranges.begin() && std::prev(next)->first + std::prev(next)->second > block->ptr) ++overlaps;
        ranges[block->ptr] = bytes;
        block->ptr[0] = block->ptr[bytes - 1] = static_cast<char>(bytes);
        live.emplace_back(block, bytes);
      } catch (const OutOfMemoryError&) {
        for (int i = 0; i < 8 && !live.empty(); ++i) release(random() % live.size());
      }
    } else if (dice < 92) {
      release(random() % live.size());
    } else if (dice < 95) {
      allocator.record_stream(live[random() % live.size()].first, device.stream(static_cast<int32_t>(random() % 3)));
    } else if (dice < 97) {
      device.finish(device.stream(static_cast<int32_t>(random() % 3)));
    } else if (dice < 98) {
      allocator.empty_cache();
    } else if (dice < 99) {
      allocator.trim();
    } else {  // both kinds of segments beside each other
      allocator.configure(random() % 4 != 0 ? expandable() : AllocatorSettings{});
    }
    if (step % 50 == 0) problem = broken(allocator, fake);
  }
  CHECK(problem == "");
  CHECK(overlaps == 0);
  CHECK(clobbered == 0);
  while (!live.empty()) release(live.size() - 1);
  for (int32_t i = 0; i < 3; ++i) device.finish(device.stream(i));
  allocator.empty_cache();
  CHECK(broken(allocator, fake) == "");
  CHECK(fake.used() == 0);
  CHECK(fake.ranges() == 0);
}

TEST_CASE("expandable: without addresses for a range an ordinary segment does; many pools reserve less") {
  class Scarce final : public RawMemory, public VirtualMemory {
   public:
    explicit Scarce(int64_t addresses) : fake_(GiB, true), addresses_(addresses) {}
    void* allocate(int64_t bytes) override { return fake_.allocate(bytes); }
    void release(void* p, int64_t bytes) noexcept override { fake_.release(p, bytes); }
    void info(int64_t& free, int64_t& total) override { fake_.info(free, total); }
    const char* name() const override { return "scarce"; }
    VirtualMemory* virtual_memory() override { return this; }
    int64_t granularity() const override { return fake_.granularity(); }
    void* reserve(int64_t bytes) override {
      if (bytes > addresses_) return nullptr;
      addresses_ -= bytes;
      return fake_.reserve(bytes);
    }
    bool map(void* p, int64_t bytes) override { return fake_.map(p, bytes); }
    void unmap(void* p, int64_t bytes) noexcept override { fake_.unmap(p, bytes); }
    void unreserve(void* p, int64_t bytes) noexcept override {
      addresses_ += bytes;
      fake_.unreserve(p, bytes);
    }
    int64_t addresses() const { return addresses_; }
    FakeMemory& fake() { return fake_; }

   private:
    FakeMemory fake_;
    int64_t addresses_;
  };
  Scarce scarce(100 * MiB);
  CachingAllocator allocator(kDevice, &scarce);
  allocator.configure(AllocatorSettings::parse("expandable_segments:True"));
  FakeStreams& device = FakeStreams::instance();
  std::vector<Block*> live;
  for (int32_t s = 0; s < 12; ++s) live.push_back(allocator.allocate(30 * MiB, device.stream(4 + s)));
  CHECK(scarce.addresses() < 30 * MiB);
  CHECK(allocator.stats().reserved == 360 * MiB);
  for (Block* b : live) allocator.free(b);
  allocator.empty_cache();
  CHECK(scarce.fake().used() == 0);
  CHECK(scarce.addresses() == 100 * MiB);
  CHECK(scarce.fake().errors() == 0);

  Scarce ample(64 * GiB);
  CachingAllocator busy(kDevice, &ample);
  busy.configure(AllocatorSettings::parse("expandable_segments:True"));
  for (int32_t s = 0; s < 100; ++s) busy.free(busy.allocate(3 * MiB, device.stream(4 + s)));
  CHECK(ample.addresses() > 40 * GiB);  // not 9/8 of the device a hundred times
}

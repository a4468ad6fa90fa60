// SPDX-License-Identifier: Apache-2.0
// The ladder: its order, that each rung can save a call, the numbers and verdicts of the error, recovery.
#include <tenon/memory/caching_allocator.h>
#include <tenon/streams/op_context.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_memory.h"

using namespace tenon;
using namespace tenon::memory;
using testing::contains;
using testing::FakeMemory;
using testing::FakeStreams;

namespace {

constexpr int64_t MiB = 1 << 20;
const Device kDevice(kSim, 0);

OutOfMemoryError failure(CachingAllocator& allocator, int64_t bytes, const Stream& stream) {
  try {
    allocator.allocate(bytes, stream);
  } catch (const OutOfMemoryError& e) {
    return e;
  }
  FAIL("expected OutOfMemoryError");
  return {"", {}};
}

struct Callback {
  explicit Callback(Function<void(Device, int64_t)> f) : id(add_out_of_memory_callback(std::move(f))) {}
  ~Callback() { remove_out_of_memory_callback(id); }
  int64_t id;
};

}  // namespace

TEST_CASE("ladder: the rungs come in order") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(100 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream home = device.stream(4), other = device.stream(8);
  // Idle: a small and a 40 MiB segment of another stream. Pending: 30 MiB of this one. In use: 20 MiB.
  Block* small = allocator.allocate(1000, other);
  Block* idle = allocator.allocate(40 * MiB, other);
  Block* pending = allocator.allocate(30 * MiB, home);
  Block* used = allocator.allocate(12 * MiB, home);
  allocator.free(small);
  allocator.free(idle);
  allocator.record_stream(pending, other);
  allocator.free(pending);
  fake.take_log();
  const Callback callback([&](Device d, int64_t bytes) {
    fake.note('c');
    CHECK(d == kDevice);
    CHECK(bytes == 90 * MiB);
  });
  const Stream watched = device.stream(12);
  const OutOfMemoryError error = failure(allocator, 90 * MiB, watched);
  // Refused, callbacks, refused; events (30 MiB come back to the cache), refused; the two large segments, largest
  // first since none suffices, refused; the small one, refused; raise.
  CHECK(fake.take_log() == "xcxxrrxrx");
  CHECK(error.numbers().requested == 90 * MiB);
  CHECK(error.numbers().total == 100 * MiB);
  CHECK(error.numbers().allocated == 12 * MiB);
  CHECK(error.numbers().reserved == 12 * MiB);
  CHECK(error.numbers().free == 88 * MiB);
  allocator.free(used);
}

TEST_CASE("ladder: each rung alone saves the call") {
  FakeStreams& device = FakeStreams::instance();
  const Stream home = device.stream(4), other = device.stream(8);
  FakeMemory fake(64 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  SECTION("a callback that frees") {
    Block* held = allocator.allocate(40 * MiB, home);
    void* const at = held->ptr;
    const Callback callback([&](Device, int64_t) {
      if (held) allocator.free(held);
      held = nullptr;
    });
    Block* block = allocator.allocate(40 * MiB, home);
    CHECK(block->ptr == at);
    CHECK(fake.take_log() == "ax");
    allocator.free(block);
  }
  SECTION("an event that completes") {
    Block* held = allocator.allocate(40 * MiB, home);
    void* const at = held->ptr;
    allocator.record_stream(held, other);
    allocator.free(held);
    Block* block = allocator.allocate(40 * MiB, home);
    CHECK(block->ptr == at);
    CHECK(fake.take_log() == "ax");
    allocator.free(block);
  }
  SECTION("the smallest sufficient segment of another stream, and no other") {
    Block* a = allocator.allocate(12 * MiB, other);
    Block* b = allocator.allocate(22 * MiB, other);
    Block* c = allocator.allocate(30 * MiB, other);
    for (Block* x : {a, b, c}) allocator.free(x);
    CHECK(allocator.stats().reserved == 64 * MiB);
    Block* block = allocator.allocate(20 * MiB, home);
    CHECK(fake.take_log() == "aaaxra");
    CHECK(allocator.stats().reserved == 62 * MiB);
    CHECK(allocator.stats().retries == 1);
    allocator.free(block);
  }
  SECTION("all cached segments") {
    std::vector<Block*> small;
    for (int i = 0; i < 64; ++i) small.push_back(allocator.allocate(MiB, other));
    for (Block* x : small) allocator.free(x);
    CHECK(allocator.stats().reserved == 64 * MiB);
    Block* block = allocator.allocate(60 * MiB, home);
    CHECK(allocator.stats().reserved == 60 * MiB);
    allocator.free(block);
  }
  SECTION("an exact segment instead of a shared one") {
    Block* held = allocator.allocate(50 * MiB, home);
    Block* block = allocator.allocate(5 * MiB, home);
    CHECK(fake.take_log() == "axa");
    CHECK(allocator.stats().reserved == 56 * MiB);
    allocator.free(held);
    allocator.free(block);
  }
  allocator.empty_cache();
  CHECK(fake.used() == 0);
  CHECK(fake.errors() == 0);
}

TEST_CASE("ladder: the callback may allocate and fail itself, and removed callbacks are not called") {
  FakeMemory fake(10 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(4);
  int calls = 0;
  {
    const Callback callback([&](Device, int64_t) {
      ++calls;
      failure(allocator, 30 * MiB, stream);
    });
    failure(allocator, 20 * MiB, stream);
  }
  CHECK(calls == 1);
  failure(allocator, 20 * MiB, stream);
  CHECK(calls == 1);
}

TEST_CASE("out of memory: the verdict is fragmentation when holes would do") {
  FakeMemory fake(100 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(4);
  std::vector<Block*> blocks;  // five segments of 20 MiB, two blocks of 10 MiB each; every second one is freed
  for (int i = 0; i < 10; ++i) blocks.push_back(allocator.allocate(10 * MiB, stream));
  for (int i = 0; i < 10; i += 2) allocator.free(blocks[i]);
  const OutOfMemoryError error = failure(allocator, 30 * MiB, stream);
  CHECK(contains(error.what(), "verdict: fragmentation"));
  CHECK(contains(error.what(), "sim:0 (fake): out of memory: asked for 30.00 MiB, free 0 bytes of 100.00 MiB"));
  CHECK(error.numbers().largest_free_block == 10 * MiB);
  CHECK(error.numbers().allocated == 50 * MiB);
  CHECK(error.numbers().reserved == 100 * MiB);
  // Recoverable: what fits is still served.
  Block* block = allocator.allocate(10 * MiB, stream);
  CHECK(fake.errors() == 0);
  allocator.free(block);
  for (int i = 1; i < 10; i += 2) allocator.free(blocks[i]);
  block = allocator.allocate(100 * MiB, stream);
  allocator.free(block);
  CHECK(allocator.stats().out_of_memory == 1);
}

TEST_CASE("out of memory: the verdict is full when nothing would help") {
  FakeMemory fake(100 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(4);
  Block* held = allocator.allocate(90 * MiB, stream);
  const OutOfMemoryError error = failure(allocator, 30 * MiB, stream);
  CHECK(contains(error.what(), "verdict: the memory is really full: free at least 20.00 MiB more"));
  CHECK(contains(error.what(), "settings backend:caching"));
  const std::string text = error.what();
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(error.numbers().largest_free_block == 0);
  allocator.free(held);
  Block* retry = allocator.allocate(30 * MiB, stream);
  allocator.free(retry);
}

TEST_CASE("out of memory: requests beyond any memory, and a share of it") {
  FakeMemory fake(100 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(4);
  CHECK(failure(allocator, INT64_MAX, stream).numbers().requested == INT64_MAX);
  CHECK(failure(allocator, (int64_t{1} << 60) + 1, stream).numbers().free == 100 * MiB);
  allocator.configure(AllocatorSettings::parse("per_process_memory_fraction:0.5"));
  Block* block = allocator.allocate(40 * MiB, stream);
  const OutOfMemoryError error = failure(allocator, 20 * MiB, stream);
  CHECK(contains(error.what(), "per_process_memory_fraction"));
  CHECK(error.numbers().free == 10 * MiB);
  allocator.free(block);
  block = allocator.allocate(50 * MiB, stream);
  allocator.free(block);
  CHECK(fake.errors() == 0);
}

TEST_CASE("out of memory: a refusal at any call leaves everything in order") {
  FakeStreams& device = FakeStreams::instance();
  for (int64_t n = 1; n < 40; ++n) {
    CAPTURE(n);
    FakeMemory fake(1024 * MiB);
    CachingAllocator allocator(kDevice, &fake);
    fake.fail_at(n);
    std::vector<Block*> live;
    int refused = 0;
    for (int i = 0; i < 60; ++i) {
      try {
        live.push_back(allocator.allocate((int64_t{700} << (i % 15)), device.stream(i % 3)));
      } catch (const OutOfMemoryError&) {
        ++refused;
      }
      if (i % 3 == 2) {
        allocator.free(live.front());
        live.erase(live.begin());
      }
    }
    CHECK(refused <= 1);  // a rung that changed something tries again; with nothing to give up the error comes at once
    CHECK(allocator.stats().out_of_memory == refused);
    for (Block* b : live) allocator.free(b);
    allocator.empty_cache();
    CHECK(allocator.stats().allocated == 0);
    CHECK(fake.used() == 0);
    CHECK(fake.errors() == 0);
  }
}

TEST_CASE("out of memory: the text names what the tape keeps, and no setting that is on already") {
  FakeMemory fake(100 * MiB, true);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(4);
  struct Source {
    Source() {
      set_tape_bytes_source([](Device device) { return device == kDevice ? 60 * MiB : 0; });
    }
    ~Source() { set_tape_bytes_source(nullptr); }
  } source;
  Block* held = allocator.allocate(90 * MiB, stream);
  std::string text = failure(allocator, 30 * MiB, stream).what();
  CHECK(contains(text, "in use 90.00 MiB (60.00 MiB kept for backward)"));
  CHECK(contains(text, "NoGradGuard"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  allocator.free(held);
  for (const bool expandable : {false, true}) {
    CAPTURE(expandable);
    allocator.empty_cache();
    if (expandable) allocator.configure(AllocatorSettings::parse("expandable_segments:True"));
    std::vector<Block*> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(allocator.allocate(10 * MiB, stream));
    for (int i = 1; i < 10; i += 2) blocks[static_cast<size_t>(i)]->ptr[0] = 1;
    // Pages of expandable segments go back, so there the holes are free memory and a smaller request is served.
    for (int i = 0; i < 10; i += 2) allocator.free(blocks[static_cast<size_t>(i)]);
    text = failure(allocator, expandable ? 60 * MiB : 30 * MiB, stream).what();
    CHECK(contains(text, expandable ? "really full" : "expandable_segments:True avoids it, when set before"));
    CHECK(contains(text, "advise") == false);
    if (expandable) {
      Block* block = allocator.allocate(30 * MiB, stream);
      allocator.free(block);
    }
    for (int i = 1; i < 10; i += 2) allocator.free(blocks[static_cast<size_t>(i)]);
  }
  CHECK(fake.errors() == 0);
}

TEST_CASE("out of memory: the verdict of a device that refuses although it has room") {
  FakeMemory fake(3 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(4);
  Block* held = allocator.allocate(1000, stream);  // a segment of 2 MiB
  Block* most = allocator.allocate(MiB, stream);   // of it; 1 MiB of the device is free
  const std::string whole = failure(allocator, MiB, stream).what();
  CHECK(contains(whole,
                 "verdict: the device refused although 1.00 MiB are free: memory is taken in whole segments, "
                 "2.00 MiB here; free at least 1.00 MiB more"));
  CHECK_FALSE(contains(whole, "fragmentation:"));
  allocator.configure(AllocatorSettings::parse("per_process_memory_fraction:0.999999"));
  CHECK(contains(failure(allocator, MiB - 100, stream).what(), "the limit of per_process_memory_fraction is reached"));
  allocator.free(most);
  allocator.free(held);

  FakeMemory room(1024 * MiB);
  CachingAllocator refused(kDevice, &room);
  room.fail_at(1);  // with nothing to give up the first refusal is the last
  const std::string refusal = failure(refused, 100 * MiB, stream).what();
  CHECK(contains(refusal, "verdict: the device refused although 1.00 GiB are free"));
  CHECK(contains(refusal, "another program"));
}

TEST_CASE("out of memory: holes that the request cannot use are not called usable") {
  FakeStreams& device = FakeStreams::instance();
  const Stream stream = device.stream(4), other = device.stream(8);
  {
    FakeMemory fake(100 * MiB);
    CachingAllocator allocator(kDevice, &fake);
    std::vector<Block*> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(allocator.allocate(10 * MiB, other));
    for (int i = 0; i < 10; i += 2) allocator.free(blocks[static_cast<size_t>(i)]);
    const OutOfMemoryError error = failure(allocator, 8 * MiB, stream);
    CHECK(contains(error.what(), "50.00 MiB are free in pools of other streams, which this request cannot use"));
    CHECK(contains(error.what(), "largest usable hole 0 bytes"));
    CHECK(error.numbers().largest_free_block == 0);
    CHECK(allocator.stats().largest_free_block == 10 * MiB);
    for (int i = 1; i < 10; i += 2) allocator.free(blocks[static_cast<size_t>(i)]);
  }
  {
    FakeMemory fake(20 * MiB);
    CachingAllocator allocator(kDevice, &fake);
    Block* large = allocator.allocate(9 * MiB, stream);  // 11 MiB of the shared segment are free
    const OutOfMemoryError error = failure(allocator, 1000, stream);
    CHECK(contains(error.what(), "11.00 MiB are free in the large pool, which this request cannot use"));
    CHECK(error.numbers().largest_free_block == 0);
    allocator.free(large);
  }
}

TEST_CASE("out of memory: more than there is, or than the limit") {
  FakeMemory fake(100 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(4);
  CHECK(contains(failure(allocator, 200 * MiB, stream).what(),
                 "verdict: the request is larger than all of the memory, 100.00 MiB"));
  allocator.configure(AllocatorSettings::parse("per_process_memory_fraction:0.5"));
  CHECK(contains(failure(allocator, 60 * MiB, stream).what(),
                 "verdict: the request is larger than the limit of per_process_memory_fraction, 50.00 MiB"));
}

TEST_CASE("out of memory: a hopeless request does not cost the cache") {
  FakeMemory fake(100 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const Stream stream = FakeStreams::instance().stream(4);
  allocator.free(allocator.allocate(40 * MiB, stream));
  failure(allocator, 200 * MiB, stream);
  CHECK(allocator.stats().reserved == 40 * MiB);
  failure(allocator, INT64_MAX, stream);
  CHECK(allocator.stats().reserved == 40 * MiB);
  allocator.free(allocator.allocate(80 * MiB, stream));  // possible: now it goes
  CHECK(allocator.stats().reserved == 80 * MiB);
}

TEST_CASE("out of memory: a source that does not know its size") {
  struct Unknown final : RawMemory {
    void* allocate(int64_t) override { return nullptr; }
    void release(void*, int64_t) noexcept override {}
    void info(int64_t& free, int64_t& total) override { free = total = 0; }
    const char* name() const override { return "unknown"; }
  } source;
  CachingAllocator allocator(Device(kCPU), &source, nullptr, MemoryKind::pinned);
  const std::string text = failure(allocator, 10 * MiB, Stream()).what();
  CHECK(contains(text, "asked for 10.00 MiB, free unknown\n"));
  CHECK(contains(text, "verdict: the source gave no more and does not say how much it has"));
  CHECK_FALSE(contains(text, "others hold"));
}

TEST_CASE("out of memory: the operator is named") {
  FakeMemory fake(10 * MiB);
  CachingAllocator allocator(kDevice, &fake);
  const OpContext context("matmul(Tensor a, Tensor b) -> Tensor");
  CHECK(std::string(failure(allocator, 30 * MiB, FakeStreams::instance().stream(4)).what())
            .rfind("matmul: allocate: sim:0 (fake): out of memory", 0) == 0);
}

TEST_CASE("out of memory: an empty callback is refused at once") {
  CHECK_THROWS_AS(add_out_of_memory_callback({}), ValueError);
}

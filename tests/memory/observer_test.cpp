// SPDX-License-Identifier: Apache-2.0
// What an observer hears: every allocation and free, in order, and nothing after it was removed.
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/observer.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_memory.h"

using namespace tenon;
using namespace tenon::memory;
using testing::FakeMemory;
using testing::FakeStreams;

namespace {

constexpr int64_t MiB = 1 << 20;
const Device kDevice(kSim, 0);

class Recorder final : public AllocatorObserver {
 public:
  void before(AllocatorEventKind, int64_t) override {
    std::lock_guard lock(mutex_);
    ++befores;
  }
  void on_event(const AllocatorEvent& e) noexcept override {
    std::lock_guard lock(mutex_);
    static constexpr char kLetters[] = "afFsrmuo";
    log += kLetters[static_cast<int>(e.kind)];
    if (e.kind == AllocatorEventKind::alloc && !live.emplace(e.ptr, e.size).second) ++wrong;
    if (e.kind == AllocatorEventKind::free_completed && live.erase(e.ptr) != 1) ++wrong;
    last = e;
  }
  std::string log;
  std::map<const void*, int64_t> live;
  int64_t befores = 0, wrong = 0;
  AllocatorEvent last{};

 private:
  std::mutex mutex_;
};

}  // namespace

TEST_CASE("observer: hears allocations, frees and segments, also of pending and direct blocks") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(64 * MiB);
  Recorder recorder;
  CachingAllocator allocator(kDevice, &fake);
  allocator.free(allocator.allocate(1000, device.stream(4)));
  allocator.observe(&recorder);
  Block* a = allocator.allocate(1000, device.stream(4));
  CHECK(recorder.last.size == 1024);
  CHECK(recorder.last.requested == 1000);
  CHECK(recorder.last.stream == 4);
  CHECK(std::string(recorder.last.memory) == "fake");
  allocator.free(a);
  CHECK(recorder.log == "afF");
  CHECK(recorder.befores == 2);
  recorder.log.clear();
  a = allocator.allocate(3 * MiB, device.stream(8));
  allocator.record_stream(a, device.stream(12));
  allocator.free(a);
  CHECK(recorder.log == "saf");
  allocator.empty_cache();
  CHECK(recorder.log == "safFrr");
  recorder.log.clear();
  CHECK_THROWS_AS(allocator.allocate(100 * MiB, device.stream(4)), OutOfMemoryError);
  CHECK(recorder.log == "o");
  allocator.configure(AllocatorSettings::parse("backend:direct"));
  recorder.log.clear();
  allocator.free(allocator.allocate(100, device.stream(4)));
  CHECK(recorder.log == "safFr");
  allocator.observe(nullptr);
  allocator.free(allocator.allocate(100, device.stream(4)));
  CHECK(recorder.log == "safFr");
  CHECK(recorder.wrong == 0);
  CHECK(recorder.live.empty());
}

TEST_CASE("observer: an address is never reported in use twice, from many threads") {
  FakeStreams& device = FakeStreams::instance();
  FakeMemory fake(1024 * MiB);
  Recorder recorder;
  CachingAllocator allocator(kDevice, &fake);
  allocator.observe(&recorder);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        Block* a = allocator.allocate(100 << (i % 14), device.stream(t % 2));
        if (i % 7 == 0) allocator.record_stream(a, device.stream(3));
        allocator.free(a);
      }
    });
  }
  for (auto& t : threads) t.join();
  allocator.empty_cache();
  CHECK(recorder.wrong == 0);
  CHECK(recorder.live.empty());
  CHECK(recorder.befores == 4000);
}

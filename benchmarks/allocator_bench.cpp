// SPDX-License-Identifier: Apache-2.0
// The allocator's policy by itself, over addresses without memory: what a pair of allocate and free costs with many
// cached blocks, how reserved memory and step times behave under settings; and page faults of a CPU training loop.
//   allocator_bench [seed]
#include <sys/resource.h>
#include <tenon/memory/caching_allocator.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tenon;
using namespace tenon::memory;
using Clock = std::chrono::steady_clock;

constexpr int64_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;

/// Addresses without memory. A call costs as much time as cudaMalloc and cudaFree are known to.
class AddressSpace final : public RawMemory, public VirtualMemory {
 public:
  AddressSpace(int64_t capacity, double call_us) : capacity_(capacity), call_us_(call_us) {}
  void* allocate(int64_t bytes) override { return map(nullptr, bytes) ? reserve(bytes) : nullptr; }
  void release(void* p, int64_t bytes) noexcept override { unmap(p, bytes); }
  void info(int64_t& free, int64_t& total) override {
    free = capacity_ - used_;
    total = capacity_;
  }
  const char* name() const override { return "addresses"; }
  VirtualMemory* virtual_memory() override { return this; }
  int64_t granularity() const override { return 2 * MiB; }
  void* reserve(int64_t bytes) override {
    void* p = reinterpret_cast<void*>(next_);
    next_ += static_cast<uint64_t>((bytes + 2 * MiB - 1) / (2 * MiB) * (2 * MiB));
    return p;
  }
  bool map(void*, int64_t bytes) override {
    spend();
    if (bytes > capacity_ - used_) return false;
    used_ += bytes;
    return true;
  }
  void unmap(void*, int64_t bytes) noexcept override {
    spend();
    used_ -= bytes;
  }
  void unreserve(void*, int64_t) noexcept override {}

 private:
  void spend() const {
    if (call_us_ == 0) return;
    const auto end = Clock::now() + std::chrono::duration<double, std::micro>(call_us_);
    while (Clock::now() < end) {
    }
  }
  const int64_t capacity_;
  const double call_us_;
  int64_t used_ = 0;
  uint64_t next_ = uint64_t{1} << 40;
};

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1))];
}

// Nanoseconds of a pair with `count` free blocks of up to as many sizes, none of which can merge.
void with_cached_blocks(int64_t count, bool small, uint64_t seed) {
  AddressSpace space(int64_t{1} << 46, 0);
  CachingAllocator allocator(Device(kSim, 0), &space);
  std::mt19937_64 random(seed);
  std::vector<Block*> blocks;
  const auto size = [&] {
    return small ? 512 + static_cast<int64_t>(random() % 2000) * 512
                 : MiB + 512 + static_cast<int64_t>(random() % (8 * MiB / 512)) * 512;
  };
  for (int64_t i = 0; i < 2 * count; ++i) blocks.push_back(allocator.allocate(size(), Stream()));
  for (size_t i = 0; i < blocks.size(); i += 2) allocator.free(blocks[i]);
  (void)allocator.stats();  // merges the front
  constexpr int kPairs = 20000;
  std::vector<double> results;
  for (int round = 0; round < 7; ++round) {
    std::vector<int64_t> sizes;
    for (int i = 0; i < kPairs; ++i) sizes.push_back(size());
    const auto start = Clock::now();
    for (const int64_t bytes : sizes) allocator.free(allocator.allocate(bytes, Stream()));
    results.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kPairs);
  }
  std::printf("%-44s %10lld %10.1f ns\n",
              small ? "pair, random small sizes, cached blocks" : "pair, random large sizes, cached blocks",
              static_cast<long long>(allocator.stats().cached_blocks), quantile(results, 0.5));
}

void growing_batch(const char* settings) {
  AddressSpace space(80 * GiB, 0);
  CachingAllocator allocator(Device(kSim, 0), &space);
  allocator.configure(AllocatorSettings::parse(settings));
  std::vector<Block*> kept;
  double ratio = 0;
  for (int64_t step = 1; step <= 60; ++step) {
    std::vector<Block*> activations;
    for (int layer = 0; layer < 24; ++layer) activations.push_back(allocator.allocate(step * 1300 * KiB, Stream()));
    const MemoryStats s = allocator.stats();
    ratio = static_cast<double>(s.reserved) / static_cast<double>(s.allocated);
    kept.push_back(allocator.allocate(300 * KiB, Stream()));
    for (Block* b : activations) allocator.free(b);
  }
  std::printf("%-44s %10s %10.3f reserved/allocated\n", "growing batch, last step", *settings ? "" : "default", ratio);
  if (*settings) std::printf("    with %s\n", settings);
}

// Steps of random image sizes on a device that is almost full: the allocator's share of their time.
void jitter(const char* settings, uint64_t seed) {
  AddressSpace space(6 * GiB, 300);
  CachingAllocator allocator(Device(kSim, 0), &space);
  allocator.configure(AllocatorSettings::parse(settings));
  std::mt19937_64 random(seed);
  std::vector<double> steps;
  int failed = 0;
  for (int step = 0; step < 400; ++step) {
    const int64_t side = 320 + static_cast<int64_t>(random() % 14) * 32;
    const auto start = Clock::now();
    std::vector<Block*> live;
    try {
      for (int layer = 0; layer < 40; ++layer) {
        live.push_back(allocator.allocate(side * side * 4 * 16 * 8 / (1 + layer / 8), Stream()));
      }
    } catch (const OutOfMemoryError&) {
      ++failed;
    }
    for (Block* b : live) allocator.free(b);
    if (step >= 50) steps.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  const MemoryStats s = allocator.stats();
  std::printf("%-44s p50 %8.3f ms  p99 %8.3f ms  ladder %lld, failed %d\n",
              *settings ? settings : "random sizes, default", quantile(steps, 0.5), quantile(steps, 0.99),
              static_cast<long long>(s.retries), failed);
}

void page_faults() {
  Tensor w1 = randn({784, 512}) * 0.05, w2 = randn({512, 10}) * 0.05;
  w1.requires_grad_();
  w2.requires_grad_();
  const Tensor x = randn({512, 784}), y = randn({512, 10});
  const auto step = [&] {
    const Tensor error = x.matmul(w1).relu().matmul(w2) - y;
    (error * error).mean().backward();
    w1.set_grad({});
    w2.set_grad({});
  };
  for (int i = 0; i < 20; ++i) step();
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 100; ++i) step();
  getrusage(RUSAGE_SELF, &after);
  std::printf("%-44s %10s %10.2f per step\n", "page faults, CPU training step", "",
              static_cast<double>(after.ru_minflt - before.ru_minflt) / 100);
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  for (const bool small : {true, false}) {
    for (const int64_t count : {int64_t{100}, int64_t{10'000}, int64_t{1'000'000}})
      with_cached_blocks(count, small, seed);
  }
  growing_batch("");
  growing_batch("expandable_segments:True");
  for (const char* settings : {"", "garbage_collection_threshold:0.8", "max_split_size_mb:128",
                               "roundup_power2_divisions:8", "expandable_segments:True"}) {
    jitter(settings, seed);
  }
  page_faults();
  return 0;
}

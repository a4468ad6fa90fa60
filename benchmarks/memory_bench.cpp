// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of an allocate and free through tenon::memory, per device and size, against what it replaces:
// malloc, and on a GPU cudaMalloc and cudaMallocAsync. Threads run the same loop at once; what is printed is the
// time per pair in one thread, then the throughput of all against one. Medians of several rounds.
//   memory_bench [rounds]
#include <tenon/memory/allocator.h>
#include <tenon/streams/guard.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#if defined(TENON_BENCH_CUDA)
#include <cuda_runtime.h>
#endif

namespace {

using tenon::DataPtr;
using tenon::Device;
using Clock = std::chrono::steady_clock;

int rounds = 9;

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Median over rounds of nanoseconds per call of `pair`, in `threads` threads at once (0 prepares each thread).
template <class Prepare, class Pair>
double time_pairs(int threads, int calls, Prepare prepare, Pair pair) {
  std::vector<double> results;
  for (int r = 0; r < rounds; ++r) {
    std::vector<std::thread> pool;
    std::vector<double> took(static_cast<size_t>(threads));
    int waiting = threads;
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        prepare();
        for (int i = 0; i < calls / 10 + 1; ++i) pair();
        __atomic_fetch_sub(&waiting, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) > 0) std::this_thread::yield();
        const auto start = Clock::now();
        for (int i = 0; i < calls; ++i) pair();
        took[static_cast<size_t>(t)] = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / calls;
      });
    }
    for (auto& t : pool) t.join();
    results.push_back(*std::max_element(took.begin(), took.end()));
  }
  return median(results);
}

template <class Prepare, class Pair>
void row(const char* what, long long bytes, int calls, Prepare prepare, Pair pair) {
  std::printf("%-34s %10lld", what, bytes);
  double one = 0;
  for (const int threads : {1, 2, 4, 8, 16}) {
    const double ns = time_pairs(threads, calls / threads, prepare, pair);
    if (threads == 1) one = ns;
    std::printf(" %10.1f", ns);
    if (threads > 1) std::printf(" (%4.2fx)", one * threads / ns);
  }
  std::printf("\n");
}

void tenon_pair(Device device, long long bytes) {
  const DataPtr p = tenon::memory::allocate(device, bytes);
  asm volatile("" ::"r"(p.data) : "memory");
  p.deleter(p.context);
}

void bench_device(Device device) {
  const auto on_own_stream = [device] {
    if (!device.is_cpu()) tenon::set_current_stream(tenon::Stream::from_pool(0, device));
  };
  for (const long long bytes : {4LL, 4096LL, 65536LL, 1LL << 18, 1LL << 20, 4LL << 20, 64LL << 20}) {
    row(device.is_cpu() ? "tenon cpu" : "tenon cuda", bytes, 400000, on_own_stream, [=] { tenon_pair(device, bytes); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) rounds = std::max(1, std::atoi(argv[1]));
  std::printf("ns per allocate+free, median of %d rounds; in brackets the throughput against one thread\n", rounds);
  std::printf("%-34s %10s %10s %18s %18s %18s %18s\n", "", "bytes", "1 thread", "2 threads", "4", "8", "16");
  const auto nothing = [] {};
  bench_device(Device(tenon::kCPU));
  for (const long long bytes : {4LL, 65536LL, 4LL << 20}) {
    row("malloc", bytes, 400000, nothing, [bytes] {
      void* p = std::malloc(static_cast<size_t>(bytes));
      asm volatile("" ::"r"(p) : "memory");
      std::free(p);
    });
  }
#if defined(TENON_BENCH_CUDA)
  if (tenon::device_count(tenon::kCUDA) > 0) {
    const Device device(tenon::kCUDA, 0);
    bench_device(device);
    for (const long long bytes : {4LL, 1LL << 20, 64LL << 20}) {
      row("cudaMallocAsync", bytes, 4000, nothing, [bytes] {
        void* p = nullptr;
        cudaMallocAsync(&p, static_cast<size_t>(bytes), cudaStreamPerThread);
        cudaFreeAsync(p, cudaStreamPerThread);
      });
      row("cudaMalloc", bytes, 400, nothing, [bytes] {
        void* p = nullptr;
        cudaMalloc(&p, static_cast<size_t>(bytes));
        cudaFree(p);
      });
    }
  }
#endif
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Twenty faulty kernels, one each run, since a fault ends a CUDA context: planted_kernels NUMBER launches operators with the
// faulty kernel among them, as operator "planted", and prints what the error that comes out of the next wait names.
// planted_kernels cost: nanoseconds of a launch without the ring, with it, and in blame mode.
#undef NDEBUG
#include <cassert>

#include <tenon/kernels/cuda/device_error.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/memory/allocator.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/event.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/op_context.h>
#include <tenon/tenon.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace tenon;

namespace {

constexpr long long kFar = 1ll << 44;
__device__ volatile int sink;

__global__ void write_null(char*) { *reinterpret_cast<volatile int*>(0) = 1; }
__global__ void read_null(char*) { sink = *reinterpret_cast<volatile int*>(8); }
__global__ void write_far(char* p) { *reinterpret_cast<volatile int*>(p + kFar) = 1; }
__global__ void read_far(char* p) { sink = *reinterpret_cast<volatile int*>(p + kFar); }
__global__ void write_misaligned(char* p) { *reinterpret_cast<volatile int*>(p + 1) = 1; }
__global__ void read_misaligned(char* p) { sink = static_cast<int>(*reinterpret_cast<volatile long long*>(p + 4)); }
__global__ void trap(char*) { __trap(); }
__global__ void assertion(char* p) { assert(p == nullptr && "planted"); }
__global__ void atomic_null(char*) { atomicAdd(reinterpret_cast<int*>(16), 1); }
__global__ void one_lane(char* p) { *reinterpret_cast<volatile int*>(p + (threadIdx.x == 13 ? kFar : 0)) = 1; }
__global__ void beyond_shared(char* p) {
  __shared__ volatile int words[32];
  words[threadIdx.x + (p ? 1 << 22 : 0)] = 1;
  sink = words[0];
}
__global__ void call_null(char* p) {
  void (*volatile function)(char*) = nullptr;
  function(p);
}
__global__ void write_wild(char*) { *reinterpret_cast<volatile int*>(0xdead000000000000ull) = 1; }
__global__ void run_off(char* p) {
  for (long long at = threadIdx.x * 4ll; at < kFar; at += 1ll << 32) *reinterpret_cast<volatile int*>(p + at) = 1;
}
__global__ void negative_index(char* p) { reinterpret_cast<volatile int*>(p)[-(kFar / 8) + threadIdx.x] = 1; }
__global__ void wide_store(char* p) { *reinterpret_cast<int4*>(p + kFar) = int4{1, 2, 3, 4}; }
__global__ void wide_misaligned(char* p) { *reinterpret_cast<int4*>(p + 4) = int4{1, 2, 3, 4}; }
__global__ void compare_and_swap(char* p) { atomicCAS(reinterpret_cast<unsigned*>(p + kFar), 0u, 1u); }
__global__ void stale(char* p) { *reinterpret_cast<volatile int*>(p) = 1; }  // memory that was given back
__global__ void with_text(char*, cuda::DeviceAssert check) { check.require(threadIdx.x > 64, threadIdx.x, blockIdx.x); }
__global__ void nothing(char*) {}

using Kernel = void (*)(char*);
constexpr Kernel kKernels[] = {write_null, read_null, write_far,      read_far,   write_misaligned, read_misaligned,
                               trap,       assertion, atomic_null,    one_lane,   beyond_shared,    call_null,
                               write_wild, run_off,   negative_index, wide_store, wide_misaligned,  compare_and_swap,
                               stale};
constexpr int kFaults = static_cast<int>(std::size(kKernels)) + 1;  // and the one with a text

void fault(int number, const Tensor& x) {
  const OpContext context("planted(Tensor self) -> Tensor");
  char* p = static_cast<char*>(x.data_ptr());
  if (number == kFaults - 1) {
    cuda::launch(with_text, 1, 64, 0, p, cuda::device_assert("planted", "a value must be above 64"));
    return;
  }
  if (kKernels[number] == static_cast<Kernel>(stale)) {
    const DataPtr gone = memory::allocate(x.device(), 64 << 20);
    p = static_cast<char*>(gone.data);
    gone.deleter(gone.context);
    memory::empty_cache(x.device());
  }
  cuda::launch(kKernels[number], 2, 32, 0, p);
}

int plant(int number) {
  const Device gpu(kCUDA, 0);
  set_blame_mode(true);
  Tensor x = full({256, 256}, 0.01, TensorOptions(gpu));
  // Every fourth on a side stream, behind work of the default one.
  const Stream stream = number % 4 == 3 ? Stream::from_pool(0, gpu) : Stream::default_stream(gpu);
  stream.wait_stream(Stream::default_stream(gpu));
  const StreamGuard guard(stream);
  try {
    for (int i = 0; i < 3 + number % 5; ++i) x = x.matmul(x).add(1).mul(0.01).softmax(1);
    fault(number, x);
    for (int i = 0; i < number % 3; ++i) x = x.exp().neg();
    synchronize(gpu);
    std::printf("op none\n");
  } catch (const CudaError& e) {
    std::printf("op %s\n%s\n%s\n", e.failure().op.c_str(), e.what(), e.failure().report.c_str());
    try {  // what comes later quotes the first cause
      (void)x.add(1);
      std::printf("later none\n");
    } catch (const CudaError& later) {
      std::printf("later %s\n%s\n", later.failure().op.c_str(), later.what());
    }
  }
  std::fflush(stdout);
  std::_Exit(0);
}

double nanoseconds_of_launch() {
  const Device gpu(kCUDA, 0);
  const Tensor x = ones({64}, TensorOptions(gpu));
  char* p = static_cast<char*>(x.data_ptr());
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    synchronize(gpu);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 500; ++i) cuda::launch(nothing, 1, 32, 0, p);
    const auto took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, std::chrono::duration<double, std::nano>(took).count() / 500);
  }
  synchronize(gpu);
  return best;
}

int cost() {
  set_launch_ring_size(0);
  const double without = nanoseconds_of_launch();
  set_launch_ring_size(64);
  const double with = nanoseconds_of_launch();
  set_blame_mode(true);
  const double blamed = nanoseconds_of_launch();
  std::printf("a launch: %.0f ns without the ring, %.0f ns with it, %.0f ns in blame mode\n", without, with, blamed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "cost") == 0) return cost();
  const int number = argc > 1 ? std::atoi(argv[1]) : -1;
  return number >= 0 && number < kFaults ? plant(number) : 2;
}

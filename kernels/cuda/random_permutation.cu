// SPDX-License-Identifier: Apache-2.0
// randperm: the order of 64-bit random keys, equal ones by position; the CPU gives the same.
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/kernels/philox.h>
#include <tenon/ops/random.h>
#include <tenon/streams/guard.h>

#include <cub/device/device_radix_sort.cuh>

namespace tenon {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    make_keys(uint64_t* keys, uint32_t* places, int64_t n, const PhiloxState state) {
  const int64_t b = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (b * 2 >= n) return;
  const philox::Block block = philox::generate(state.seed, philox::first_block(state) + static_cast<uint64_t>(b));
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (b * 2 + i < n) keys[b * 2 + i] = block.wide(i), places[b * 2 + i] = static_cast<uint32_t>(b * 2 + i);
}

template <class T>
__global__ void __launch_bounds__(kThreads) write_places(T* out, const uint32_t* places, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) out[i] = static_cast<T>(static_cast<int64_t>(places[i]));
}

// Returns the sorted places, which lie in `memory`.
const uint32_t* sort_places(cuda::Workspace& memory, int64_t n, const PhiloxState& state) {
  TENON_CHECK(n < (int64_t(1) << 31), ValueError, "randperm: n: expected a number below 2^31 on CUDA, got ", n);
  const int64_t padded = cuda::ceil_div(n, 32) * 32;
  memory.allocate(padded * 2 * (8 + 4));
  auto* keys = reinterpret_cast<uint64_t*>(memory.data());
  auto* sorted = keys + padded;
  auto* places = reinterpret_cast<uint32_t*>(sorted + padded);
  auto* sorted_places = places + padded;
  cuda::launch(make_keys, static_cast<unsigned>(cuda::ceil_div(n, 2 * kThreads)), kThreads, 0, keys, places, n, state);
  const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA)).handle());
  std::size_t bytes = 0;
  const int count = static_cast<int>(n);
  TENON_CUDA(
      cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted, places, sorted_places, count, 0, 64, stream));
  const cuda::Workspace temporary(static_cast<int64_t>(bytes));
  TENON_CUDA(cub::DeviceRadixSort::SortPairs(temporary.data(), bytes, keys, sorted, places, sorted_places, count, 0, 64,
                                             stream));
  return sorted_places;
}

template <class T>
void randperm_cuda(const Tensor& out, const PhiloxState& state) {
  const DeviceGuard guard(out.device());
  const int64_t n = out.numel();
  cuda::Workspace memory;
  const uint32_t* places = sort_places(memory, n, state);
  cuda::launch(write_places<T>, static_cast<unsigned>(cuda::ceil_div(n, kThreads)), kThreads, 0,
               static_cast<T*>(out.data_ptr()), places, n);
}

TENON_REGISTER_KERNEL(op::randperm, cuda, Numbers, randperm_cuda);

}  // namespace
}  // namespace tenon

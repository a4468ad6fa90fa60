// SPDX-License-Identifier: Apache-2.0
// Sorting and the most frequent element. Short lines are sorted in shared memory, long ones by CUB's radix sort of
// order keys with positions; many long lines by one sort of them all and a second, stable one by line. CUB is
// instantiated for the four widths of keys, not for the element types.
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/line_sort.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>

namespace tenon {
namespace {

using Ordered = Join<Numbers, Bools>;
constexpr int kThreads = 256;

unsigned blocks_for(int64_t n) { return static_cast<unsigned>(cuda::ceil_div(n, kThreads)); }

template <class T>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(const T* x, int64_t n, bool inverted, order_key_t<T>* keys, uint32_t* places) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const auto key = OrderKey<T>::of(x[i]);
  keys[i] = inverted ? static_cast<order_key_t<T>>(~key) : key;
  places[i] = static_cast<uint32_t>(i);
}

__global__ void __launch_bounds__(kThreads)
    line_numbers_kernel(const uint32_t* places, int64_t n, uint32_t length, uint32_t* lines) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) lines[i] = places[i] / length;
}

// keys may be null: then every value is read where it was.
template <class T>
__global__ void __launch_bounds__(kThreads)
    results_kernel(const T* x, const order_key_t<T>* keys, const uint32_t* places, int64_t n, uint32_t length,
                   bool inverted, T* values, int64_t* indices) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const uint32_t place = places[i];
  indices[i] = length == 0 ? place : place % length;
  if (!values) return;
  if (keys) {
    const order_key_t<T> raw = keys[i];
    const order_key_t<T> key = inverted ? static_cast<order_key_t<T>>(~raw) : raw;
    values[i] = OrderKey<T>::exact(key) ? OrderKey<T>::value(key) : x[place];
  } else {
    values[i] = x[place];
  }
}

// Sorts n pairs by bits 0 to bits - 1 of the key; the buffers say afterwards where the result is.
template <class Key>
void radix_sort(cub::DoubleBuffer<Key>& keys, cub::DoubleBuffer<uint32_t>& places, int64_t n, int bits) {
  const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA)).handle());
  const auto count = static_cast<uint32_t>(n);
  std::size_t bytes = 0;
  TENON_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, places, count, 0, bits, stream));
  const cuda::Workspace temporary(static_cast<int64_t>(bytes) + 1);
  TENON_CUDA(cub::DeviceRadixSort::SortPairs(temporary.data(), bytes, keys, places, count, 0, bits, stream));
}

// `lines` lines of n elements, lines * n below 2^32.
template <class T>
void sort_by_radix(const T* x, int64_t lines, int64_t n, bool inverted, T* values, int64_t* indices) {
  using Key = order_key_t<T>;
  const int64_t total = lines * n, padded = cuda::ceil_div(total, 64) * 64;
  constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  const cuda::Workspace memory(
      padded * 2 * static_cast<int64_t>(sizeof(uint32_t) + std::max<std::size_t>(sizeof(Key), lines > 1 ? 4 : 1)));
  auto* const first = reinterpret_cast<uint32_t*>(memory.data());
  char* const behind = memory.data() + padded * 8;
  auto* const key_memory = reinterpret_cast<Key*>(behind);
  cub::DoubleBuffer<uint32_t> places(first, first + padded);
  cub::DoubleBuffer<Key> keys(key_memory, key_memory + padded);
  cuda::launch(keys_kernel<T>, blocks_for(total), kThreads, 0, x, total, inverted, keys.Current(), places.Current());
  radix_sort(keys, places, total, kBits);
  if (lines == 1) {
    cuda::launch(results_kernel<T>, blocks_for(total), kThreads, 0, x, keys.Current(), places.Current(), total, 0u,
                 inverted, values, indices);
    return;
  }
  // All elements are in order; a stable sort by line leaves each line in order. The keys' memory is free now.
  auto* const numbers = reinterpret_cast<uint32_t*>(behind);
  cub::DoubleBuffer<uint32_t> line_keys(numbers, numbers + padded);
  cuda::launch(line_numbers_kernel, blocks_for(total), kThreads, 0, places.Current(), total, static_cast<uint32_t>(n),
               line_keys.Current());
  int bits = 1;
  while (bits < 32 && ((lines - 1) >> bits) != 0) ++bits;
  radix_sort(line_keys, places, total, bits);
  cuda::launch(results_kernel<T>, blocks_for(total), kThreads, 0, x, static_cast<const Key*>(nullptr), places.Current(),
               total, static_cast<uint32_t>(n), inverted, values, indices);
}

template <class T>
void sort_cuda(const Tensor& values, const Tensor& indices, const Tensor& self, bool descending) {
  const DeviceGuard guard(self.device());
  const int64_t n = self.sizes().back(), lines = self.numel() / n;
  const auto* x = static_cast<const T*>(self.data_ptr());
  auto* to = values.defined() ? static_cast<T*>(values.data_ptr()) : nullptr;
  auto* where = static_cast<int64_t*>(indices.data_ptr());
  if (n <= cuda::kLineSortLimit) {
    cuda::sort_lines(x, lines, n, to, where, 0, n, descending);
    return;
  }
  constexpr int64_t kMost = int64_t(1) << 32;
  TENON_CHECK(n < kMost, ValueError, "sort: self: expected fewer than 2^32 elements in a line on CUDA, got ", n);
  // Lines by themselves when they fill the device, else as many together as positions of 31 bits allow.
  const int64_t together =
      n >= (int64_t(1) << 22) || lines < 4 ? 1 : std::max<int64_t>(1, std::min(lines, (kMost / 2) / n));
  for (int64_t line = 0; line < lines; line += together) {
    const int64_t count = std::min(together, lines - line);
    sort_by_radix(x + line * n, count, n, descending, to ? to + line * n : nullptr, where + line * n);
  }
}

// The end of the longest run of each sorted line, the first of several. A run's begin is found by halving.
template <class T>
__global__ void __launch_bounds__(kThreads)
    mode_kernel(const T* sorted, const int64_t* order, int64_t n, T* values, int64_t* indices) {
  using C = cuda::compute_t<T>;
  __shared__ int64_t lengths[kThreads], ends[kThreads];
  const T* x = sorted + int64_t(blockIdx.x) * n;
  int64_t most = 0, best = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    const C v = static_cast<C>(x[i]);
    if (i + 1 < n && static_cast<C>(x[i + 1]) == v) continue;  // the run goes on
    int64_t low = 0, high = i;
    if (i > 0 && static_cast<C>(x[i - 1]) == v) {
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (static_cast<C>(x[middle]) < v)
          low = middle + 1;
        else
          high = middle;
      }
    } else {
      low = i;
    }
    if (i - low + 1 > most) most = i - low + 1, best = i;
  }
  lengths[threadIdx.x] = most, ends[threadIdx.x] = best;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    const int64_t length = lengths[threadIdx.x + half], end = ends[threadIdx.x + half];
    if (length > lengths[threadIdx.x] || (length == lengths[threadIdx.x] && end < ends[threadIdx.x]))
      lengths[threadIdx.x] = length, ends[threadIdx.x] = end;
  }
  if (threadIdx.x != 0) return;
  values[blockIdx.x] = x[ends[0]];
  indices[blockIdx.x] = order[int64_t(blockIdx.x) * n + ends[0]];
}

template <class T>
void mode_cuda(const Tensor& values, const Tensor& indices, const Tensor& sorted, const Tensor& order) {
  const DeviceGuard guard(sorted.device());
  const int64_t n = sorted.sizes().back();
  cuda::launch(mode_kernel<T>, static_cast<unsigned>(sorted.numel() / n), kThreads, 0,
               static_cast<const T*>(sorted.data_ptr()), static_cast<const int64_t*>(order.data_ptr()), n,
               static_cast<T*>(values.data_ptr()), static_cast<int64_t*>(indices.data_ptr()));
}

TENON_REGISTER_KERNEL(op::sort, cuda, Ordered, sort_cuda);
TENON_REGISTER_KERNEL(op::mode, cuda, Ordered, mode_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// The gradient of embedding: rows of grad summed by index, in a fixed order and in float for the halves.
//
// Note [Sorted segments]. Indices are sorted (stably) with their positions; equal ones are then a run. A block takes a
// chunk of the sorted order for a tile of columns and sums run by run. What a run has in one chunk alone is stored at
// once; a run across chunks leaves one partial sum per chunk, which a second kernel adds in order. No atomics: the same
// input gives the same bits.
#include <tenon/kernels/cuda/device_error.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/ops/index.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <cub/device/device_radix_sort.cuh>

namespace tenon {
namespace {

constexpr int kChunk = 64, kThreads = 128;

struct Segments {
  const uint32_t* keys;  // sorted; rows that take part, then `rows`
  const int32_t* order;
  int64_t n, columns;
  uint32_t rows;
  bool scale;
};

__global__ void prepare_kernel(const int64_t* index, int64_t n, int64_t padding, cuda::IndexCheck check, uint32_t* keys,
                               int32_t* order) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int64_t row = index[i];
  const bool counts = check(row, i) && row != padding;
  keys[i] = static_cast<uint32_t>(counts ? row : check.size);
  order[i] = static_cast<int32_t>(i);
}

// First place in the sorted keys whose key is not below `key`.
__device__ int64_t lower_bound(const uint32_t* keys, int64_t n, uint32_t key) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

template <class T, int W>
__device__ void store_row(const Segments& s, T* out, uint32_t key, int64_t column, const cuda::compute_t<T> (&sum)[W]) {
  using C = cuda::compute_t<T>;
  int64_t count = 1;
  if (s.scale) count = lower_bound(s.keys, s.n, key + 1) - lower_bound(s.keys, s.n, key);
  cuda::Vector<T, W> y;
#pragma unroll
  for (int w = 0; w < W; ++w) {
    if constexpr (is_complex_v<T>)
      y.v[w] = s.scale ? sum[w] / C(static_cast<typename T::value_type>(count)) : sum[w];
    else
      y.v[w] = static_cast<T>(s.scale ? sum[w] / static_cast<C>(count) : sum[w]);
  }
  cuda::store_vector<T, W>(out + int64_t(key) * s.columns + column, y);
}

// partial: [chunks][2][columns]; 0: the end of a run begun in an earlier chunk, 1: the begin of one that goes on.
template <class T, int W>
__global__ void __launch_bounds__(kThreads)
    sum_chunks(const Segments s, const T* grad, T* out, cuda::compute_t<T>* partial) {
  using C = cuda::compute_t<T>;
  __shared__ uint32_t keys[kChunk + 2];  // with the neighbours on both sides
  __shared__ int32_t order[kChunk];
  const int64_t begin = int64_t(blockIdx.x) * kChunk;
  const int count = static_cast<int>(::min(int64_t(kChunk), s.n - begin));
  for (int i = threadIdx.x; i < count + 2; i += kThreads) {
    const int64_t at = begin + i - 1;
    keys[i] = at >= 0 && at < s.n ? s.keys[at] : 0xffffffffu;
    if (i < count) order[i] = s.order[begin + i];
  }
  __syncthreads();
  const int64_t column = (int64_t(blockIdx.y) * kThreads + threadIdx.x) * W;
  if (column >= s.columns) return;
  constexpr int U = 4;
  C sum[W] = {};
  bool continued = keys[0] == keys[1];
  for (int i = 0; i < count; i += U) {
    cuda::Vector<T, W> x[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (i + u < count && keys[i + u + 1] < s.rows)
        x[u] = cuda::load_vector<T, W>(grad + int64_t(order[i + u]) * s.columns + column);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (i + u >= count) break;
      const uint32_t key = keys[i + u + 1], next = keys[i + u + 2];
      if (key >= s.rows) return;  // only left-out rows follow
#pragma unroll
      for (int w = 0; w < W; ++w) sum[w] += static_cast<C>(x[u].v[w]);
      const bool last = i + u + 1 == count;
      if (next == key && !last) continue;
      if (continued || next == key) {
        C* to = partial + (int64_t(blockIdx.x) * 2 + (continued ? 0 : 1)) * s.columns + column;
#pragma unroll
        for (int w = 0; w < W; ++w) to[w] = sum[w];
      } else {
        store_row<T, W>(s, out, key, column, sum);
      }
#pragma unroll
      for (int w = 0; w < W; ++w) sum[w] = C(0);
      continued = false;
    }
  }
}

// Runs that begin in this block's chunk and end in a later one.
template <class T>
__global__ void __launch_bounds__(kThreads) join_chunks(const Segments s, T* out, const cuda::compute_t<T>* partial) {
  using C = cuda::compute_t<T>;
  const int64_t chunk = blockIdx.x, end = (chunk + 1) * kChunk;
  if (end >= s.n) return;
  const uint32_t key = s.keys[end - 1];
  if (key >= s.rows || s.keys[end] != key) return;
  if (chunk > 0 && s.keys[chunk * kChunk - 1] == key) return;  // begun earlier
  const int64_t column = int64_t(blockIdx.y) * kThreads + threadIdx.x;
  if (column >= s.columns) return;
  C sum[1] = {partial[(chunk * 2 + 1) * s.columns + column]};
  for (int64_t c = chunk + 1; c * kChunk < s.n && s.keys[c * kChunk] == key; ++c)
    sum[0] += partial[c * 2 * s.columns + column];
  store_row<T, 1>(s, out, key, column, sum);
}

template <class T>
void embedding_backward_cuda(const Tensor& grad_weight, const Tensor& grad, const Tensor& index, int64_t padding_idx,
                             bool scale_grad_by_freq) {
  using C = cuda::compute_t<T>;
  const DeviceGuard guard(grad_weight.device());
  const int64_t n = index.numel(), rows = grad_weight.size(0), columns = grad_weight.size(1);
  TENON_CHECK(n < (int64_t(1) << 31) - 1 && rows < (int64_t(1) << 31), ShapeError,
              "embedding_backward: indices: expected fewer than 2^31 indices and rows, got ", n, " and ", rows);
  const int64_t chunks = cuda::ceil_div(n, kChunk), padded = cuda::ceil_div(n, 64) * 64;
  cuda::Workspace lists(4 * padded * 4), sums(chunks * 2 * columns * int64_t(sizeof(C))), temporary;
  auto* keys = reinterpret_cast<uint32_t*>(lists.data());
  auto* order = reinterpret_cast<int32_t*>(lists.data() + padded * 4);
  auto* sorted_keys = reinterpret_cast<uint32_t*>(lists.data() + padded * 8);
  auto* sorted_order = reinterpret_cast<int32_t*>(lists.data() + padded * 12);
  cuda::launch(prepare_kernel, static_cast<unsigned>(cuda::ceil_div(n, 256)), 256, 0,
               static_cast<const int64_t*>(index.data_ptr()), n, padding_idx,
               cuda::index_check("embedding_backward", "indices", rows, 0), keys, order);
  int bits = 1;
  while (bits < 32 && (rows >> bits) != 0) ++bits;
  const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA)).handle());
  std::size_t bytes = 0;
  TENON_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted_keys, order, sorted_order,
                                             static_cast<int>(n), 0, bits, stream));
  temporary.allocate(static_cast<int64_t>(bytes));
  TENON_CUDA(cub::DeviceRadixSort::SortPairs(temporary.data(), bytes, keys, sorted_keys, order, sorted_order,
                                             static_cast<int>(n), 0, bits, stream));

  const Segments s{sorted_keys, sorted_order, n, columns, static_cast<uint32_t>(rows), scale_grad_by_freq};
  auto* out = static_cast<T*>(grad_weight.data_ptr());
  const auto* from = static_cast<const T*>(grad.data_ptr());
  auto* partial = reinterpret_cast<C*>(sums.data());
  constexpr int W = 4;
  const auto wide = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * W < 16 ? sizeof(T) * W : 16) == 0;
  };
  const auto grid = [&](int64_t per_thread) {
    return dim3(static_cast<unsigned>(chunks), static_cast<unsigned>(cuda::ceil_div(columns, kThreads * per_thread)));
  };
  if (columns % W == 0 && wide(out) && wide(from))
    cuda::launch(sum_chunks<T, W>, grid(W), kThreads, 0, s, from, out, partial);
  else
    cuda::launch(sum_chunks<T, 1>, grid(1), kThreads, 0, s, from, out, partial);
  if (chunks > 1) cuda::launch(join_chunks<T>, grid(1), kThreads, 0, s, out, partial);
}

TENON_REGISTER_KERNEL(op::embedding_backward, cuda, FloatsAndHalves, embedding_backward_cuda);

}  // namespace
}  // namespace tenon

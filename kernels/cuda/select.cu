// SPDX-License-Identifier: Apache-2.0
// The k largest elements and order statistics. Short lines are sorted in shared memory. In long ones the k-th order
// key is found by radix select: eight bits a pass from the top, each pass counts the digits of the keys that agree so
// far. Then the elements before it, and as many equal ones as are wanted, are written in the order of their
// positions: the same bits every time. Any number of blocks works on a line; what they must know of one another
// stands in its Selection.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/line_sort.cuh>

#include <algorithm>

namespace tenon {
namespace {

using Ordered = Join<Numbers, Bools>;
constexpr int kThreads = 256, kDigits = 256;
constexpr int64_t kPiece = 8192;

struct Selection {
  uint64_t key;   // the digits found so far
  uint32_t rank;  // from 1, among the keys that begin with them
  uint32_t done;  // blocks that have counted
  uint32_t nans, unused;
};

// A line's elements [begin, end) are a block's piece.
struct Pieces {
  int64_t n, per_line, size;
  __device__ int64_t line() const { return blockIdx.x / per_line; }
  __device__ int64_t piece() const { return blockIdx.x % per_line; }
  __device__ int64_t begin() const { return piece() * size; }
  __device__ int64_t end() const { return ::min(n, begin() + size); }
};

template <class T>
__device__ uint64_t key_of(const T& v, bool inverted) {
  const auto key = OrderKey<T>::of(v);
  return inverted ? static_cast<order_key_t<T>>(~key) : key;
}

template <class T>
__global__ void __launch_bounds__(kThreads) count_nans_kernel(const Pieces p, const T* x, Selection* selections) {
  __shared__ unsigned count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  unsigned own = 0;
  for (int64_t i = p.begin() + threadIdx.x; i < p.end(); i += kThreads)
    own += OrderKey<T>::of(x[p.line() * p.n + i]) == OrderKey<T>::kNan ? 1 : 0;
  if (own != 0) atomicAdd(&count, own);
  __syncthreads();
  if (threadIdx.x == 0 && count != 0) atomicAdd(&selections[p.line()].nans, count);
}

// The rank of a median; runs after NaN was counted.
__global__ void __launch_bounds__(kThreads)
    rank_kernel(int64_t lines, uint32_t n, uint32_t k, OrderStatistic statistic, Selection* selections) {
  const int64_t line = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (line >= lines) return;
  Selection& s = selections[line];
  if (statistic == OrderStatistic::kth)
    s.rank = k;
  else if (statistic == OrderStatistic::median)
    s.rank = s.nans > 0 ? n - s.nans + 1 : (n - 1) / 2 + 1;
  else
    s.rank = s.nans < n ? (n - s.nans - 1) / 2 + 1 : 1;
}

// One pass: counts the digit at `shift` of the keys that begin with what was found; a line's last block to finish
// finds the next digit. `first`: nothing is found yet. counts: [lines][kDigits], zero before and after.
template <class T>
__global__ void __launch_bounds__(kThreads)
    select_digit_kernel(const Pieces p, const T* x, int shift, bool first, bool inverted, Selection* selections,
                        uint32_t* counts) {
  static_assert(kThreads == kDigits);
  // Keys of floats have few leading digits: neighbouring threads count in tables of their own.
  constexpr int kTables = 8;
  __shared__ uint32_t tables[kDigits * kTables];
  __shared__ uint32_t local[kDigits];
  __shared__ bool last;
  Selection& selection = selections[p.line()];
  uint32_t* total = counts + p.line() * kDigits;
  const int t = static_cast<int>(threadIdx.x);
  for (int i = t; i < kDigits * kTables; i += kThreads) tables[i] = 0;
  __syncthreads();
  const uint64_t found = selection.key;
  for (int64_t i = p.begin() + t; i < p.end(); i += kThreads) {
    const uint64_t key = key_of(x[p.line() * p.n + i], inverted);
    if (first || (key >> shift >> 8) == found) atomicAdd(&tables[(key >> shift & 255u) * kTables + t % kTables], 1u);
  }
  __syncthreads();
  uint32_t count = 0;
  for (int i = 0; i < kTables; ++i) count += tables[t * kTables + i];
  if (count != 0) atomicAdd(&total[t], count);
  __threadfence();
  __syncthreads();
  if (t == 0) last = atomicAdd(&selection.done, 1u) == static_cast<uint32_t>(p.per_line - 1);
  __syncthreads();
  if (!last) return;
  __threadfence();
  const uint32_t own = atomicExch(&total[t], 0u);
  local[t] = own;
  for (int step = 1; step < kDigits; step *= 2) {  // running sums
    __syncthreads();
    const uint32_t before = t >= step ? local[t - step] : 0u;
    __syncthreads();
    local[t] += before;
  }
  const uint32_t rank = selection.rank;
  __syncthreads();  // everyone has read the rank and the digits before one changes them
  if (local[t] >= rank && local[t] - own < rank) {
    selection.key = first ? static_cast<uint64_t>(t) : found << 8 | static_cast<uint64_t>(t);
    selection.rank = rank - (local[t] - own);
    selection.done = 0;
  }
}

// Elements before the found key, and equal to it, in every piece. places: [lines][per_line][2].
template <class T>
__global__ void __launch_bounds__(kThreads)
    count_kernel(const Pieces p, const T* x, bool inverted, const Selection* selections, uint32_t* places) {
  __shared__ unsigned counts[2];
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  const uint64_t found = selections[p.line()].key;
  unsigned before = 0, equal = 0;
  for (int64_t i = p.begin() + threadIdx.x; i < p.end(); i += kThreads) {
    const uint64_t key = key_of(x[p.line() * p.n + i], inverted);
    before += key < found ? 1 : 0;
    equal += key == found ? 1 : 0;
  }
  if (before != 0) atomicAdd(&counts[0], before);
  if (equal != 0) atomicAdd(&counts[1], equal);
  __syncthreads();
  if (threadIdx.x < 2) places[int64_t(blockIdx.x) * 2 + threadIdx.x] = counts[threadIdx.x];
}

// Running sums over a line's pieces, in place; one thread for each line and kind.
__global__ void __launch_bounds__(kThreads) offsets_kernel(int64_t lines, int64_t per_line, uint32_t* places) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= lines * 2) return;
  uint32_t* at = places + (i / 2 * per_line) * 2 + i % 2;
  uint32_t sum = 0;
  for (int64_t piece = 0; piece < per_line; ++piece, at += 2) {
    const uint32_t count = *at;
    *at = sum;
    sum += count;
  }
}

// Writes what was chosen, by position: k elements a line (the ones before the found key, then equal ones), or, with
// `one`, the equal one the rank names.
template <class T>
__global__ void __launch_bounds__(kThreads)
    write_kernel(const Pieces p, const T* x, bool inverted, bool one, uint32_t k, const Selection* selections,
                 const uint32_t* places, T* values, int64_t* indices) {
  constexpr int kWarps = kThreads / 32;
  __shared__ uint32_t warp_counts[2][kWarps];
  const Selection selection = selections[p.line()];
  uint32_t before = places[int64_t(blockIdx.x) * 2], equal = places[int64_t(blockIdx.x) * 2 + 1];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const unsigned lower = (1u << threadIdx.x % 32) - 1u;
  const int64_t to = one ? p.line() : p.line() * k;
  for (int64_t base = p.begin(); base < p.end(); base += kThreads) {
    const int64_t i = base + threadIdx.x;
    const bool exists = i < p.end();
    const uint64_t key = exists ? key_of(x[p.line() * p.n + i], inverted) : 0;
    const bool is_before = exists && !one && key < selection.key, is_equal = exists && key == selection.key;
    const unsigned befores = __ballot_sync(~0u, is_before), equals = __ballot_sync(~0u, is_equal);
    if (threadIdx.x % 32 == 0) warp_counts[0][warp] = __popc(befores), warp_counts[1][warp] = __popc(equals);
    __syncthreads();
    uint32_t before_here = 0, equal_here = 0, before_all = 0, equal_all = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) before_here += warp_counts[0][w], equal_here += warp_counts[1][w];
      before_all += warp_counts[0][w], equal_all += warp_counts[1][w];
    }
    if (is_before) {
      const int64_t slot = to + before + before_here + __popc(befores & lower);
      values[slot] = x[p.line() * p.n + i];
      indices[slot] = i;
    }
    if (is_equal) {
      const uint32_t rank = equal + equal_here + __popc(equals & lower);  // from 0
      if (one ? rank + 1 == selection.rank : rank < selection.rank) {
        const int64_t slot = one ? to : to + (k - selection.rank) + rank;
        values[slot] = x[p.line() * p.n + i];
        indices[slot] = i;
      }
    }
    before += before_all, equal += equal_all;
    __syncthreads();
  }
}

// What the kernels above share, for `lines` lines of n elements.
template <class T>
struct Selector {
  const T* x;
  int64_t lines;
  Pieces pieces;
  unsigned blocks;
  cuda::Workspace memory;
  Selection* selections;
  uint32_t *counts, *places;

  Selector(const T* data, int64_t line_count, int64_t n) : x(data), lines(line_count) {
    TENON_CHECK(n < (int64_t(1) << 32) - 1, ValueError,
                "topk, kthvalue: self: expected fewer than 2^32 - 1 elements in a line on CUDA, got ", n);
    const int64_t wanted = cuda::ceil_div(int64_t(cuda::device_limits().multiprocessors) * 8, lines);
    pieces.n = n;
    pieces.per_line = std::max<int64_t>(1, std::min(wanted, cuda::ceil_div(n, kPiece)));
    pieces.size = cuda::ceil_div(n, pieces.per_line);
    blocks = static_cast<unsigned>(lines * pieces.per_line);
    const int64_t states = cuda::ceil_div(lines * int64_t(sizeof(Selection)), 16) * 16, digits = lines * kDigits * 4;
    char* const at = memory.allocate(states + digits + lines * pieces.per_line * 8);
    selections = reinterpret_cast<Selection*>(at);
    counts = reinterpret_cast<uint32_t*>(at + states);
    places = reinterpret_cast<uint32_t*>(at + states + digits);
    const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA)).handle());
    TENON_CUDA(cudaMemsetAsync(at, 0, static_cast<std::size_t>(states + digits), stream));
  }

  /// `one`: the element of that rank, else the k first.
  void run(int64_t k, OrderStatistic statistic, bool inverted, bool one, T* values, int64_t* indices) {
    if (OrderKey<T>::kFloating && statistic != OrderStatistic::kth)
      cuda::launch(count_nans_kernel<T>, blocks, kThreads, 0, pieces, x, selections);
    cuda::launch(rank_kernel, static_cast<unsigned>(cuda::ceil_div(lines, kThreads)), kThreads, 0, lines,
                 static_cast<uint32_t>(pieces.n), static_cast<uint32_t>(k), statistic, selections);
    const int top = 8 * static_cast<int>(sizeof(T)) - 8;
    for (int shift = top; shift >= 0; shift -= 8)
      cuda::launch(select_digit_kernel<T>, blocks, kThreads, 0, pieces, x, shift, shift == top, inverted, selections,
                   counts);
    cuda::launch(count_kernel<T>, blocks, kThreads, 0, pieces, x, inverted, selections, places);
    cuda::launch(offsets_kernel, static_cast<unsigned>(cuda::ceil_div(lines * 2, kThreads)), kThreads, 0, lines,
                 pieces.per_line, places);
    cuda::launch(write_kernel<T>, blocks, kThreads, 0, pieces, x, inverted, one, static_cast<uint32_t>(k), selections,
                 places, values, indices);
  }
};

template <class T>
void kthvalue_cuda(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t k,
                   OrderStatistic statistic) {
  const DeviceGuard guard(self.device());
  const int64_t n = self.sizes().back(), lines = self.numel() / n;
  const auto* x = static_cast<const T*>(self.data_ptr());
  auto* to = static_cast<T*>(values.data_ptr());
  auto* where = static_cast<int64_t*>(indices.data_ptr());
  if (n <= cuda::kLineSortLimit) {
    cuda::sort_lines(x, lines, n, to, where, k - 1, 1, false, statistic);
    return;
  }
  Selector<T>(x, lines, n).run(k, statistic, false, true, to, where);
}

__global__ void __launch_bounds__(kThreads)
    pick_kernel(const int64_t* from, const int64_t* order, int64_t total, int64_t k, int64_t* to) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < total) to[i] = from[i / k * k + order[i]];
}

template <class T>
void topk_cuda(const Tensor& values, const Tensor& indices, const Tensor& self, bool largest) {
  const DeviceGuard guard(self.device());
  const int64_t n = self.sizes().back(), lines = self.numel() / n, k = values.sizes().back();
  const auto* x = static_cast<const T*>(self.data_ptr());
  auto* to = static_cast<T*>(values.data_ptr());
  auto* where = static_cast<int64_t*>(indices.data_ptr());
  if (n <= cuda::kLineSortLimit) {
    cuda::sort_lines(x, lines, n, to, where, 0, k, largest);
    return;
  }
  const Tensor chosen = dispatch::make_tensor(values.sizes(), values.dtype(), values.device());
  const Tensor places = dispatch::make_tensor(values.sizes(), kInt64, values.device());
  const Tensor order = dispatch::make_tensor(values.sizes(), kInt64, values.device());
  Selector<T> selector(x, lines, n);
  selector.run(k, OrderStatistic::kth, largest, false, static_cast<T*>(chosen.data_ptr()),
               static_cast<int64_t*>(places.data_ptr()));
  // By position now; a stable sort by value keeps that order among equals.
  op::sort.kernel(Backend::cuda, dispatch::key_of(values.dtype()))(values, order, chosen, largest);
  cuda::launch(pick_kernel, static_cast<unsigned>(cuda::ceil_div(lines * k, kThreads)), kThreads, 0,
               static_cast<const int64_t*>(places.data_ptr()), static_cast<const int64_t*>(order.data_ptr()), lines * k,
               k, where);
}

TENON_REGISTER_KERNEL(op::topk, cuda, Ordered, topk_cuda);
TENON_REGISTER_KERNEL(op::kthvalue, cuda, Ordered, kthvalue_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Scans of contiguous arrays, outer x length x inner.
//
// Note [Three shapes]. inner > 1: a thread walks a column, neighbours read side by side. inner == 1: a block walks a line,
// kTile elements at a time. Where there are too few lines or columns to fill the device, each is cut into segments: their
// totals are folded first, then every segment is scanned from what came before it. Nothing depends on timing.
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/kernels/scan.h>
#include <tenon/ops/scan.h>
#include <tenon/kernels/cuda/vector.cuh>

namespace tenon {
namespace {

constexpr int kThreads = 256, kItems = 4, kTile = kThreads * kItems;

template <class T>
using acc_t = std::conditional_t<is_complex_v<T>, complex<double>,
                                 std::conditional_t<std::is_integral_v<T>, int64_t, cuda::compute_t<T>>>;

struct ScanArgs {
  int64_t lines, length, inner;  // lines: outer * inner
  int64_t segment, segments;     // elements of a line per segment, their number
  bool reverse;
};

template <class T>
__device__ __forceinline__ auto element(const T& x) {
  if constexpr (is_complex_v<T>)
    return complex<double>(x);
  else if constexpr (std::is_same_v<cuda::compute_t<T>, T>)
    return x;
  else
    return static_cast<float>(x);
}

// Where element k (in scan order) of a line lies.
__device__ __forceinline__ int64_t address(const ScanArgs& p, int64_t line, int64_t k) {
  const int64_t outer = line / p.inner, i = p.reverse ? p.length - 1 - k : k;
  return (outer * p.length + i) * p.inner + (line - outer * p.inner);
}
template <class Op, class T>
__device__ __forceinline__ typename Op::Partial load(const ScanArgs& p, const T* x, int64_t line, int64_t k) {
  return Op::load(element(x[address(p, line, k)]), p.reverse ? p.length - 1 - k : k);
}

template <class A>
__device__ __forceinline__ A shuffle_up(const A& a, int offset) {
  constexpr int kWords = static_cast<int>((sizeof(A) + 3) / 4);
  uint32_t words[kWords] = {};
  memcpy(words, &a, sizeof(A));
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = __shfl_up_sync(0xffffffffu, words[i], offset);
  A b;
  memcpy(&b, words, sizeof(A));
  return b;
}

// The fold of all earlier threads' partials (identity for the first), and the block's total in every thread.
template <class Op>
__device__ typename Op::Partial scan_block(typename Op::Partial own, typename Op::Partial& total) {
  using P = typename Op::Partial;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  P inclusive = own;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const P before = shuffle_up(inclusive, offset);
    if (lane >= offset) inclusive = Op::fold(before, inclusive);
  }
  alignas(16) __shared__ unsigned char memory[(kThreads / 32) * sizeof(P)];
  P* warps = reinterpret_cast<P*>(memory);
  __syncthreads();
  if (lane == 31) warps[warp] = inclusive;
  __syncthreads();
  P before = Op::identity();
  total = Op::identity();
#pragma unroll 1
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w == warp) before = total;
    total = Op::fold(total, warps[w]);
  }
  const P left = shuffle_up(inclusive, 1);
  return lane == 0 ? before : Op::fold(before, left);
}

// A block per segment of a line.
template <class Op, class T, class Store>
__global__ void __launch_bounds__(kThreads)
    scan_rows(const __grid_constant__ ScanArgs p, const T* x, typename Op::Partial* totals, bool only_totals,
              const Store store) {
  using P = typename Op::Partial;
  const int64_t line = blockIdx.x / p.segments, segment = blockIdx.x % p.segments;
  const int64_t begin = segment * p.segment, end = ::min(begin + p.segment, p.length);
  P carry = totals && !only_totals ? totals[blockIdx.x] : Op::identity();
  for (int64_t tile = begin; tile < end; tile += kTile) {
    P item[kItems];
    const int64_t first = tile + static_cast<int64_t>(threadIdx.x) * kItems;
    P own = Op::identity();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (first + i < end) own = Op::fold(own, load<Op>(p, x, line, first + i));
      item[i] = own;
    }
    P total;
    const P before = Op::fold(carry, scan_block<Op>(own, total));
    if (!only_totals) {
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (first + i < end) store(address(p, line, first + i), Op::fold(before, item[i]));
    }
    carry = Op::fold(carry, total);
  }
  if (only_totals && threadIdx.x == 0) totals[blockIdx.x] = carry;
}

// A thread per segment of a column.
template <class Op, class T, class Store>
__global__ void __launch_bounds__(kThreads)
    scan_columns(const __grid_constant__ ScanArgs p, const T* x, typename Op::Partial* totals, bool only_totals,
                 const Store store) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, segment = blockIdx.y;
  if (line >= p.lines) return;
  const int64_t slot = line * p.segments + segment, begin = segment * p.segment;
  const int64_t end = ::min(begin + p.segment, p.length);
  typename Op::Partial carry = totals && !only_totals ? totals[slot] : Op::identity();
  for (int64_t k = begin; k < end; ++k) {
    carry = Op::fold(carry, load<Op>(p, x, line, k));
    if (!only_totals) store(address(p, line, k), carry);
  }
  if (only_totals) totals[slot] = carry;
}

// The segments' totals become what came before each.
template <class Op>
__global__ void __launch_bounds__(kThreads) fold_totals(typename Op::Partial* totals, int64_t lines, int64_t segments) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (line >= lines) return;
  typename Op::Partial carry = Op::identity();
  for (int64_t s = 0; s < segments; ++s) {
    const typename Op::Partial own = totals[line * segments + s];
    totals[line * segments + s] = carry;
    carry = Op::fold(carry, own);
  }
}

template <class Op, class T, class Store>
void scan(const Tensor& self, const ScanShape& s, const Store& store) {
  using P = typename Op::Partial;
  ScanArgs p{s.outer * s.inner, s.length, s.inner, s.length, 1, s.reverse};
  const bool rows = s.inner == 1;
  const int64_t wanted = int64_t{cuda::device_limits().multiprocessors} * (rows ? 4 : 4 * kThreads);
  const int64_t least = rows ? 4 * kTile : 64;  // elements of a segment
  if (p.lines < wanted && p.length >= 2 * least) {
    const int64_t most = p.length / least, want = wanted / p.lines + 1;
    p.segments = want < most ? want : most;
    const int64_t unit = rows ? kTile : 1;
    p.segment = cuda::ceil_div(cuda::ceil_div(p.length, p.segments), unit) * unit;
    p.segments = cuda::ceil_div(p.length, p.segment);
  }
  const T* x = static_cast<const T*>(self.data_ptr());
  cuda::Workspace workspace;
  P* totals = nullptr;
  if (p.segments > 1)
    totals = reinterpret_cast<P*>(workspace.allocate(p.lines * p.segments * static_cast<int64_t>(sizeof(P))));
  const auto run = [&](bool only_totals) {
    if (rows)
      cuda::launch(scan_rows<Op, T, Store>, dim3(static_cast<unsigned>(p.lines * p.segments)), kThreads, 0, p, x,
                   totals, only_totals, store);
    else
      cuda::launch(scan_columns<Op, T, Store>,
                   dim3(static_cast<unsigned>(cuda::ceil_div(p.lines, kThreads)), static_cast<unsigned>(p.segments)),
                   kThreads, 0, p, x, totals, only_totals, store);
  };
  if (p.segments > 1) {
    run(true);
    cuda::launch(fold_totals<Op>, dim3(static_cast<unsigned>(cuda::ceil_div(p.lines, kThreads))), kThreads, 0, totals,
                 p.lines, p.segments);
  }
  run(false);
}

template <class Out>
struct StoreValue {
  Out* y;
  template <class P>
  __device__ void operator()(int64_t i, const P& p) const {
    y[i] = static_cast<Out>(p);
  }
};
template <class Op, class T>
void scan_values(const Tensor& out, const Tensor& self, const ScanShape& s) {
  using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  scan<Op, T>(self, s, StoreValue<Out>{static_cast<Out*>(out.data_ptr())});
}
template <class T>
void cumsum_cuda(const Tensor& out, const Tensor& self, const ScanShape& s) {
  scan_values<scan::Sum<acc_t<T>>, T>(out, self, s);
}
template <class T>
void cumprod_cuda(const Tensor& out, const Tensor& self, const ScanShape& s) {
  scan_values<scan::Product<acc_t<T>>, T>(out, self, s);
}
template <class T>
void logcumsumexp_cuda(const Tensor& out, const Tensor& self, const ScanShape& s) {
  scan_values<scan::LogSumExp<acc_t<T>>, T>(out, self, s);
}

template <class T>
struct StorePlace {
  const T* x;
  T* values;
  int64_t* indices;
  int64_t line, inner;
  template <class P>
  __device__ void operator()(int64_t i, const P& p) const {
    indices[i] = p.position;
    values[i] = x[i / line * line + p.position * inner + i % inner];
  }
};
template <bool kMax, class T>
void scan_extreme(const Tensor& values, const Tensor& indices, const Tensor& self, const ScanShape& s) {
  scan<scan::Extreme<cuda::compute_t<T>, kMax>, T>(
      self, s,
      StorePlace<T>{static_cast<const T*>(self.data_ptr()), static_cast<T*>(values.data_ptr()),
                    static_cast<int64_t*>(indices.data_ptr()), s.length * s.inner, s.inner});
}
template <class T>
void cummax_cuda(const Tensor& values, const Tensor& indices, const Tensor& self, const ScanShape& s) {
  scan_extreme<true, T>(values, indices, self, s);
}
template <class T>
void cummin_cuda(const Tensor& values, const Tensor& indices, const Tensor& self, const ScanShape& s) {
  scan_extreme<false, T>(values, indices, self, s);
}

using FloatsAndComplexes = Join<FloatsAndHalves, Complexes>;
using Reals = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::cumsum, cuda, AllTypes, cumsum_cuda);
TENON_REGISTER_KERNEL(op::cumprod, cuda, AllTypes, cumprod_cuda);
TENON_REGISTER_KERNEL(op::logcumsumexp, cuda, FloatsAndComplexes, logcumsumexp_cuda);
TENON_REGISTER_KERNEL(op::cummax, cuda, Reals, cummax_cuda);
TENON_REGISTER_KERNEL(op::cummin, cuda, Reals, cummin_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Kernels over rows of a matrix whose elements stay in registers: a group of threads (a power of two, a part of a warp
// up to a whole block) owns a row, each thread K vectors of W elements. One read, one write.
#pragma once

#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <type_traits>

namespace tenon::cuda {

/// How rows of `vectors` vectors are spread: K vectors a thread.
struct RowShape {
  int group_log2;
  int threads;
  unsigned blocks;
};
template <int K>
RowShape row_shape(int64_t rows, int64_t vectors) {
  RowShape s{};
  while ((int64_t(K) << s.group_log2) < vectors) ++s.group_log2;
  s.threads = s.group_log2 > 8 ? 1 << s.group_log2 : 256;  // small blocks would be limited by shared memory
  s.blocks = static_cast<unsigned>(ceil_div(rows, s.threads >> s.group_log2));
  return s;
}
inline constexpr int kMostRowThreads = 1024;

template <class... Ts>
bool aligned_16(const Ts*... addresses) {
  return ((reinterpret_cast<uintptr_t>(addresses) | ...) % 16) == 0;
}
/// Whether rows may be walked in vectors from all of these: they miss the alignment alike.
template <class... Ts>
bool alike(const void* first, const Ts*... others) {
  return (((reinterpret_cast<uintptr_t>(first) ^ reinterpret_cast<uintptr_t>(others)) | ...) % 16) == 0;
}

/// Folds N values over the group by `merge(a, b)`; every thread gets the results. All threads of the group call it (of
/// the block, when the group is a part of a warp). `turn` alternates between 0 and 1 from call to call, so that one
/// barrier a call is enough. Groups of several warps have barriers of their own: at most 15 in a block.
template <int N, class C, class Merge>
__device__ __forceinline__ void fold_row(C (&v)[N], int group_log2, C identity, int turn, Merge merge) {
  __shared__ C warps[2][N][32];
  const int within = group_log2 < 5 ? group_log2 : 5;
#pragma unroll 1
  for (int offset = (1 << within) / 2; offset > 0; offset /= 2)
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = merge(v[i], __shfl_xor_sync(0xffffffffu, v[i], offset));
  if (group_log2 <= 5) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = 1 << (group_log2 - 5);
  const int group = threadIdx.x >> group_log2, first = group << (group_log2 - 5);
  if (lane == 0)
#pragma unroll
    for (int i = 0; i < N; ++i) warps[turn][i][warp] = v[i];
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(1 << group_log2) : "memory");
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = lane < count ? warps[turn][i][first + lane] : identity;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = merge(v[i], __shfl_xor_sync(0xffffffffu, v[i], offset));
}

struct Plus {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct Most {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ __forceinline__ double operator()(double a, double b) const { return fmax(a, b); }
};

/// The thread's vectors of a row of n; zero beyond its end.
template <int W, int K, class T>
__device__ __forceinline__ void load_vectors(Vector<T, W> (&x)[K], const T* row, int n, int lane, int group_log2,
                                             bool valid) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = (lane + (k << group_log2)) * W;
    x[k] = {};
    if (valid && i < n) x[k] = load_vector<T, W>(row + i);
  }
}
/// The thread's elements of a row of n, in the compute type; `fill` beyond its end.
template <int W, int K, class T>
__device__ __forceinline__ void load_row(compute_t<T> (&v)[K * W], const T* row, int n, int lane, int group_log2,
                                         bool valid, compute_t<T> fill) {
  Vector<T, W> x[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = (lane + (k << group_log2)) * W;
    if (valid && i < n) x[k] = load_vector<T, W>(row + i);
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const bool in = valid && (lane + (k << group_log2)) * W < n;
#pragma unroll
    for (int w = 0; w < W; ++w) v[k * W + w] = in ? static_cast<compute_t<T>>(x[k].v[w]) : fill;
  }
}
template <int W, int K, class T>
__device__ __forceinline__ void store_row(T* row, const compute_t<T> (&v)[K * W], int n, int lane, int group_log2) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = (lane + (k << group_log2)) * W;
    if (i >= n) continue;
    Vector<T, W> y;
#pragma unroll
    for (int w = 0; w < W; ++w) y.v[w] = static_cast<T>(v[k * W + w]);
    store_vector<T, W>(row + i, y);
  }
}

/// Walks a row of any length with the whole block: f(i, width) for `width` (a compile-time constant, W or 1) elements at
/// i. `row`: any operand's row; all must miss the alignment of a vector by as much.
template <int W, class T, class F>
__device__ __forceinline__ void walk_row(const T* row, int64_t n, F f) {
  using One = std::integral_constant<int, 1>;
  int64_t head = 0;
  if constexpr (W > 1) {
    const int past = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
    head = past == 0 ? 0 : ::min(int64_t(W - past), n);
    if (threadIdx.x < head) f(int64_t(threadIdx.x), One{});
  }
  const int64_t vectors = (n - head) / W;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < vectors; i += blockDim.x) f(head + i * W, std::integral_constant<int, W>{});
  if constexpr (W > 1) {
    const int64_t i = head + vectors * W + threadIdx.x;
    if (i < n) f(i, One{});
  }
}

}  // namespace tenon::cuda

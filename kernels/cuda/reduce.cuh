// SPDX-License-Identifier: Apache-2.0
// reduce(plan, op): folds the reduced elements of a plan into each result, on the current stream. Results do not
// depend on timing: every split is folded in a fixed order, and there are no atomics. An op has
//   using Input;  using Acc;                     element type; partial result, trivially copyable
//   Acc identity() const;
//   template <int N, int W> void add(Acc&, const Input (&v)[N], Positions<W> at) const;  v in order of position
//   void merge(Acc&, const Acc&) const;
//   void store(const Acc&, char* out0, char* out1, int64_t count) const;  writes the result of `count` elements
//
// Note [Two shapes of reduction]. When neighbours in memory belong to one result ("inner"), a group of threads (a
// part of a warp, a warp, or a block) reads each result's elements in vectors and folds across the group. When they
// belong to neighbouring results ("columns"), a thread owns a vector of results and walks down. Either splits the
// reduced range over blocks when there are too few results to fill the device; partial results then lie in a
// workspace, and a second kernel folds them in order of split.
#pragma once

#include <tenon/dispatch/reduce_plan.h>
#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/kernels/cuda/vector.cuh>

namespace tenon::cuda {

inline constexpr int kReduceThreads = 256;

/// Where the elements given to add() stand among a result's elements: W neighbours, then a step.
template <int W>
struct Positions {
  int64_t first;
  uint32_t step;
  __device__ int64_t operator()(int j) const { return first + int64_t(static_cast<uint32_t>(j / W) * step) + j % W; }
};

/// A reduction as a kernel parameter; strides in bytes. In the vector kernels, dimension 0 of the side that is read in
/// vectors (reduced for inner, kept for columns) counts in vectors.
struct ReduceArgs {
  const char* input;
  char* output[2];
  char* partial;         ///< [splits][kept], or null: results are final
  int64_t reduced;       ///< elements per result, in all splits
  int64_t chunk;         ///< of them per split, below 2^31
  int64_t split_bytes;   ///< from one split's first element to the next one's, or 0 and ...
  uint32_t split_start;  ///< ... the position at which a split begins advances by this
  uint32_t kept;         ///< results
  uint32_t splits;
  uint32_t group_log2;  ///< inner: threads per result; columns: threads side by side in a block
  int kept_ndim, reduced_ndim;
  Divider kept_sizes[kMaxDims], reduced_sizes[kMaxDims];
  int64_t kept_strides[kMaxDims], reduced_strides[kMaxDims], output_strides[2][kMaxDims];
};

/// How a plan is launched; made by plan_reduce, once for all operators.
struct ReduceLaunch {
  ReduceArgs args;
  bool columns, vectors;
  int kept_width;  ///< of the vectors that dimension 0 of the kept side counts in
  dim3 grid;
};
/// A part of a plan whose results can be counted in 32 bits.
struct ReduceRange {
  const ReducePlan* plan;
  int64_t kept_numel;
  int64_t kept_shape[kMaxDims];
  const char* input;
  char* output[2];
};
/// `width` and `column_width`: elements per vector of the two kernels.
TENON_API void plan_reduce(ReduceLaunch& launch, const ReduceRange& range, int width, int column_width);
/// Sets up `launch` for folding its partial results.
TENON_API void plan_combine(ReduceLaunch& launch);
/// Cuts a plan with too many results.
TENON_API void for_each_range(const ReducePlan& plan, void (*f)(const ReduceRange&, const void*), const void* context);

namespace detail {

template <class A>
__device__ __forceinline__ A shuffle_down(const A& a, int offset) {
  constexpr int kWords = (sizeof(A) + 3) / 4;
  uint32_t words[kWords] = {};
  memcpy(words, &a, sizeof(A));
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = __shfl_down_sync(0xffffffffu, words[i], offset);
  A b;
  memcpy(&b, words, sizeof(A));
  return b;
}

// Folds over groups of neighbouring threads (a power of two up to 32, or the whole block); the first thread of each
// group has the result. Every thread of the block must call it.
template <class Op>
__device__ __forceinline__ void fold_group(const Op& op, typename Op::Acc& acc, uint32_t group) {
  using A = typename Op::Acc;
  const int within = group < 32 ? static_cast<int>(group) : 32;
#pragma unroll 1
  for (int offset = within / 2; offset > 0; offset /= 2) op.merge(acc, shuffle_down(acc, offset));
  if (group <= 32) return;
  constexpr int kWarps = kReduceThreads / 32;
  alignas(16) __shared__ unsigned char memory[kWarps * sizeof(A)];
  A* warps = reinterpret_cast<A*>(memory);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 1; i < kWarps; ++i) op.merge(acc, warps[i]);
  }
}

template <class Op>
__device__ __forceinline__ void store_result(const ReduceArgs& p, const Op& op, const typename Op::Acc& acc,
                                             uint32_t result, uint32_t split) {
  if (p.partial) {
    reinterpret_cast<typename Op::Acc*>(p.partial)[int64_t(split) * p.kept + result] = acc;
    return;
  }
  // The divisions are repeated for each output; there is one result for many elements.
  char* out0 = p.output[0] + find_offset(p.kept_ndim, p.kept_sizes, p.output_strides[0], result);
  char* out1 =
      p.output[1] ? p.output[1] + find_offset(p.kept_ndim, p.kept_sizes, p.output_strides[1], result) : nullptr;
  op.store(acc, out0, out1, p.reduced);
}

template <class Op, int W>
__global__ void __launch_bounds__(kReduceThreads) reduce_inner(const __grid_constant__ ReduceArgs p, const Op op) {
  using T = typename Op::Input;
  constexpr int U = W > 8 ? 2 : 4;
  const uint32_t group = 1u << p.group_log2, lane = threadIdx.x & (group - 1);
  const uint32_t result = blockIdx.x * (kReduceThreads >> p.group_log2) + (threadIdx.x >> p.group_log2);
  const uint32_t split = blockIdx.y;
  auto acc = op.identity();
  if (result < p.kept) {
    const int64_t begin = split * p.chunk;
    const auto count = static_cast<uint32_t>(::min(p.chunk, p.reduced - begin));
    const char* base = p.input + find_offset(p.kept_ndim, p.kept_sizes, p.kept_strides, result) + split * p.split_bytes;
    const uint32_t start = split * p.split_start / W;  // in vectors
    const bool flat = p.reduced_ndim == 1;
    const int64_t stride = p.reduced_strides[0];
    uint32_t head = 0;
    if (W > 1 && flat) {  // one dimension may begin and end within a vector
      const uint32_t past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(base) % 16) / sizeof(T);
      head = past == 0 ? 0 : ::min(W - past, count);
      for (uint32_t e = lane; e < head; e += group) {
        const T v[1] = {reinterpret_cast<const T*>(base)[e]};
        op.add(acc, v, Positions<1>{begin + e, 0});
      }
      base += head * sizeof(T);
    }
    const uint32_t vectors = (count - head) / W;
    auto address = [&](uint32_t i) {
      return base +
             (flat ? int64_t(i) * stride : find_offset(p.reduced_ndim, p.reduced_sizes, p.reduced_strides, start + i));
    };
    uint32_t i = lane;
    for (; i + (U - 1) * group < vectors; i += U * group) {
      Vector<T, W> x[U];
#pragma unroll
      for (int u = 0; u < U; ++u) x[u] = load_vector<T, W>(address(i + u * group));
      T v[U * W];
#pragma unroll
      for (int u = 0; u < U; ++u)
#pragma unroll
        for (int w = 0; w < W; ++w) v[u * W + w] = x[u].v[w];
      op.add(acc, v, Positions<W>{begin + head + int64_t(i) * W, group * W});
    }
    for (; i < vectors; i += group) {
      const Vector<T, W> x = load_vector<T, W>(address(i));
      op.add(acc, x.v, Positions<W>{begin + head + int64_t(i) * W, 0});
    }
    if (W > 1 && flat)
      for (uint32_t e = vectors * W + lane; e < count - head; e += group) {
        const T v[1] = {reinterpret_cast<const T*>(base)[e]};
        op.add(acc, v, Positions<1>{begin + head + e, 0});
      }
  }
  fold_group(op, acc, group);
  if (lane == 0 && result < p.kept) store_result(p, op, acc, result, split);
}

template <class Op, int W>
__global__ void __launch_bounds__(kReduceThreads) reduce_columns(const __grid_constant__ ReduceArgs p, const Op op) {
  using T = typename Op::Input;
  using A = typename Op::Acc;
  constexpr int U = 4;
  const uint32_t across = 1u << p.group_log2, down = kReduceThreads >> p.group_log2;
  const uint32_t x = threadIdx.x & (across - 1), y = threadIdx.x >> p.group_log2;
  const uint32_t column = blockIdx.x * across + x, split = blockIdx.y;
  const bool valid = column * W < p.kept;
  A acc[W];
#pragma unroll
  for (int w = 0; w < W; ++w) acc[w] = op.identity();
  if (valid) {
    const int64_t begin = split * p.chunk;
    const auto count = static_cast<uint32_t>(::min(p.chunk, p.reduced - begin));
    const char* base = p.input + find_offset(p.kept_ndim, p.kept_sizes, p.kept_strides, column) + split * p.split_bytes;
    const uint32_t start = split * p.split_start;
    const bool flat = p.reduced_ndim == 1;
    const int64_t stride = p.reduced_strides[0];
    auto address = [&](uint32_t i) {
      return base +
             (flat ? int64_t(i) * stride : find_offset(p.reduced_ndim, p.reduced_sizes, p.reduced_strides, start + i));
    };
    uint32_t i = y;
    for (; i + (U - 1) * down < count; i += U * down) {
      Vector<T, W> rows[U];
#pragma unroll
      for (int u = 0; u < U; ++u) rows[u] = load_vector<T, W>(address(i + u * down));
#pragma unroll
      for (int w = 0; w < W; ++w) {
        T v[U];
#pragma unroll
        for (int u = 0; u < U; ++u) v[u] = rows[u].v[w];
        op.add(acc[w], v, Positions<1>{begin + i, down});
      }
    }
    for (; i < count; i += down) {
      const Vector<T, W> row = load_vector<T, W>(address(i));
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const T v[1] = {row.v[w]};
        op.add(acc[w], v, Positions<1>{begin + i, 0});
      }
    }
  }
  if (down > 1) {
    alignas(16) __shared__ unsigned char memory[kReduceThreads * sizeof(A)];
    A* all = reinterpret_cast<A*>(memory);
#pragma unroll
    for (int w = 0; w < W; ++w) {
      __syncthreads();
      all[threadIdx.x] = acc[w];
      for (uint32_t half = down / 2; half > 0; half /= 2) {
        __syncthreads();
        if (y < half) {
          op.merge(acc[w], all[threadIdx.x + half * across]);
          all[threadIdx.x] = acc[w];
        }
      }
    }
  }
  if (!valid || y != 0) return;
  if (p.partial) {
    A* partial = reinterpret_cast<A*>(p.partial) + int64_t(split) * p.kept + column * W;
#pragma unroll
    for (int w = 0; w < W; ++w) partial[w] = acc[w];
    return;
  }
  char* out[2];
  int64_t step[2];
  for (int o = 0; o < 2; ++o) {
    step[o] = p.kept_ndim > 0 ? p.output_strides[o][0] / W : 0;  // dimension 0 counts in vectors here too
    out[o] = p.output[o] ? p.output[o] + find_offset(p.kept_ndim, p.kept_sizes, p.output_strides[o], column) : nullptr;
  }
#pragma unroll
  for (int w = 0; w < W; ++w)
    op.store(acc[w], out[0] + w * step[0], out[1] ? out[1] + w * step[1] : nullptr, p.reduced);
}

// Folds the splits' partial results; a group of threads per result, as in reduce_inner.
template <class Op>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_combine(const __grid_constant__ ReduceArgs p, const Op op, const typename Op::Acc* partial) {
  const uint32_t group = 1u << p.group_log2, lane = threadIdx.x & (group - 1);
  const uint32_t result = blockIdx.x * (kReduceThreads >> p.group_log2) + (threadIdx.x >> p.group_log2);
  auto acc = op.identity();
  if (result < p.kept)
    for (uint32_t s = lane; s < p.splits; s += group) op.merge(acc, partial[int64_t(s) * p.kept + result]);
  fold_group(op, acc, group);
  if (lane == 0 && result < p.kept) store_result(p, op, acc, result, 0);
}

template <class Op>
void reduce_range(const ReduceRange& range, const Op& op) {
  using T = typename Op::Input;
  using A = typename Op::Acc;
  constexpr int W = static_cast<int>(16 / sizeof(T)), kColumnWidth = W > 8 ? 8 : W;
  ReduceLaunch l;
  plan_reduce(l, range, W, kColumnWidth);
  Workspace workspace;
  if (l.args.splits > 1) l.args.partial = workspace.allocate(int64_t(l.args.splits) * l.args.kept * sizeof(A));
  if (l.columns && l.vectors)
    launch(reduce_columns<Op, kColumnWidth>, l.grid, kReduceThreads, 0, l.args, op);
  else if (l.columns)
    launch(reduce_columns<Op, 1>, l.grid, kReduceThreads, 0, l.args, op);
  else if (l.vectors)
    launch(reduce_inner<Op, W>, l.grid, kReduceThreads, 0, l.args, op);
  else
    launch(reduce_inner<Op, 1>, l.grid, kReduceThreads, 0, l.args, op);
  if (l.args.splits > 1) {
    const auto* partial = reinterpret_cast<const A*>(l.args.partial);
    plan_combine(l);
    launch(reduce_combine<Op>, l.grid, kReduceThreads, 0, l.args, op, partial);
  }
}

}  // namespace detail

template <class Op>
void reduce(const ReducePlan& plan, const Op& op) {
  for_each_range(
      plan, [](const ReduceRange& range, const void* o) { detail::reduce_range(range, *static_cast<const Op*>(o)); },
      &op);
}

}  // namespace tenon::cuda

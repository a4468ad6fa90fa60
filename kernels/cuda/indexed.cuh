// SPDX-License-Identifier: Apache-2.0
// Loops over index tensors. Every operator that reads or writes along one dimension by index is one walk over three
// operands: the values, the indexed tensor at index 0, and the index itself; the place is base + index * step. A plan
// broadcasts, merges and orders the three, so that gather, index_select and scatter_add share one loop: for
// index_select the index does not move along rows, and rows are read and written in vectors.
#pragma once

#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cuda/device_error.h>
#include <tenon/kernels/cuda/loops.cuh>

namespace tenon::cuda {

struct IndexedArgs {
  LoopArgs<3> loop;  // values, indexed tensor, index
  IndexCheck check;
  const int64_t* first;  // of the index, for messages
  int64_t step;          // bytes from one index to the next
};

/// `values` against `indexed` at the positions of `index`, whose sizes `values` has or exceeds. A vector index (of one
/// dimension where `values` has more) numbers slices along `dim`, else it has as many dimensions as `values`.
inline void make_indexed_plan(LoopPlan& plan, const Tensor& values, const Tensor& indexed, int64_t dim,
                              const Tensor& index) {
  const auto rank = static_cast<std::size_t>(values.dim()), d = static_cast<std::size_t>(dim);
  const bool slices = index.dim() == 1 && rank > 1;
  DimVector sizes(slices ? values.sizes() : index.sizes()), steps(indexed.strides()), places(rank, 0);
  if (slices) sizes[d] = index.numel();
  steps[d] = 0;
  for (std::size_t k = 0; k < rank; ++k) places[k] = slices ? (k == d ? index.strides()[0] : 0) : index.strides()[k];
  const Tensor base = dispatch::make_view(indexed, sizes, steps, indexed.storage_offset());
  const Tensor by = dispatch::make_view(index, sizes, places, index.storage_offset());
  const Tensor part = dispatch::make_view(values, sizes, values.strides(), values.storage_offset());
  const PlanOperand operands[] = {
      {&part, nullptr, values.dtype()}, {&base, nullptr, indexed.dtype()}, {&by, nullptr, kInt64}};
  make_plan(plan, sizes, operands, 1);
}

namespace detail {

// exists: there is such a position; valid: and its index is in range.
template <int W, int U, class F>
__global__ void __launch_bounds__(kLoopThreads) indexed_kernel(const __grid_constant__ IndexedArgs p, const F f) {
  const Walk<W, U, 3> walk(p.loop);
  int64_t index[U];
  bool exists[U], valid[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    exists[u] = valid[u] = walk.index[u] < p.loop.vectors;
    index[u] = valid[u] ? *reinterpret_cast<const int64_t*>(p.loop.data[2] + walk.offset[u][2]) : 0;
  }
#pragma unroll
  for (int u = 0; u < U; ++u)
    if (valid[u]) {
      const auto* at = reinterpret_cast<const int64_t*>(p.loop.data[2] + walk.offset[u][2]);
      valid[u] = p.check(index[u], at - p.first);
    }
  f.template run<W, U>(p, walk.offset, index, exists, valid);
}

}  // namespace detail

/// Runs f.run<W, U>(args, offset, index, exists, valid) over all positions; vectors of W elements of `Bytes` bytes when
/// kVectors and the operands allow it.
template <int Bytes, bool kVectors, class F>
void indexed_loop(const Tensor& values, const Tensor& indexed, int64_t dim, const Tensor& index,
                  const IndexCheck& check, const F& f) {
  LoopPlan plan;
  make_indexed_plan(plan, values, indexed, dim, index);
  IndexedArgs p;
  p.check = check;
  p.first = static_cast<const int64_t*>(index.data_ptr());
  p.step = indexed.stride(dim) * Bytes;
  for_each_32bit(plan, [&](const LoopRange& range) {
    constexpr int W = kVectors ? 16 / Bytes : 1;
    if constexpr (W > 1) {
      const bool rows = make_args(p.loop, range, W) && (p.loop.splat >> 2 & 1u) != 0 && (p.loop.splat >> 1 & 1u) == 0 &&
                        p.loop.lo == 0 && p.loop.hi == p.loop.vectors * W && p.step % 16 == 0;
      if (rows) {
        constexpr int U = 4;
        launch(detail::indexed_kernel<W, U, F>, detail::walk_blocks(p.loop, U), kLoopThreads, 0, p, f);
        return;
      }
    }
    make_args(p.loop, range, 1);
    constexpr int U = kVectors ? 4 : 2;
    launch(detail::indexed_kernel<1, U, F>, detail::walk_blocks(p.loop, U), kLoopThreads, 0, p, f);
  });
}

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
// The walk of indexed.cuh in a fixed order (dispatch/deterministic.h): the indices are sorted, stably, with their positions,
// and one thread takes all elements that go to one place, in the order of their positions.
#pragma once

#include <tenon/dispatch/deterministic.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/sort.h>
#include <tenon/ops/where.h>
#include <tenon/kernels/cuda/indexed.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon::cuda {

/// Tests indices and does nothing, so that errors name positions as the user gave them.
struct CheckOnly {
  template <int W, int U>
  __device__ __forceinline__ void run(const IndexedArgs&, const int32_t (&)[U][3], const int64_t (&)[U],
                                      const bool (&)[U], const bool (&)[U]) const {}
};

/// fold(element, value) over runs of equal indices; `Fold` works on compute types.
template <class T, class Fold>
struct FoldRuns {
  using C = compute_t<T>;
  Fold fold;
  const int64_t *sorted, *order;
  int64_t n, step;  // how many; bytes from one value to the next

  template <int W, int U>
  __device__ __forceinline__ void run(const IndexedArgs& p, const int32_t (&offset)[U][3], const int64_t (&index)[U],
                                      const bool (&)[U], const bool (&valid)[U]) const {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (!valid[u]) continue;
      const int64_t first = reinterpret_cast<const int64_t*>(p.loop.data[2] + offset[u][2]) - sorted;
      if (first > 0 && sorted[first - 1] == index[u]) continue;  // within a run
      T* const to = reinterpret_cast<T*>(p.loop.data[1] + offset[u][1] + index[u] * p.step);
      const char* const values = p.loop.data[0] + offset[u][0];
      C sum = static_cast<C>(*to);
      for (int64_t i = first; i < n && sorted[i] == index[u]; ++i)
        sum = fold(sum, static_cast<C>(*reinterpret_cast<const T*>(values + order[i] * step)));
      *to = static_cast<T>(sum);
    }
  }
};

namespace detail {

/// out[index[i]] = fold(out[index[i]], values[i]) slice by slice along `dim`; index is a vector.
template <class T, class Fold>
void fold_slices(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& values, const IndexCheck& check,
                 const Fold& fold) {
  const int64_t n = index.numel();
  const Tensor sorted = dispatch::make_tensor(n, kInt64, index.device());
  const Tensor order = dispatch::make_tensor(n, kInt64, index.device());
  op::sort.kernel(Backend::cuda, dispatch::key_of(kInt64))(sorted, order, index, false);
  DimVector strides(values.strides());
  strides[static_cast<std::size_t>(dim)] = 0;  // every place starts at its first value
  const Tensor first = dispatch::make_view(values, values.sizes(), strides, values.storage_offset());
  indexed_loop<sizeof(T), false>(
      first, out, dim, sorted, check,
      FoldRuns<T, Fold>{fold, static_cast<const int64_t*>(sorted.data_ptr()),
                        static_cast<const int64_t*>(order.data_ptr()), n, values.stride(dim) * int64_t(sizeof(T))});
}

}  // namespace detail

/// What indexed_loop would do with atomics, in order. An index of several dimensions becomes a vector of positions in all of
/// `out`.
template <class T, class Fold>
void indexed_in_order(const Tensor& values, const Tensor& out, int64_t dim, const Tensor& index,
                      const IndexCheck& check, const Fold& fold) {
  indexed_loop<sizeof(T), false>(values, out, dim, index, check, CheckOnly{});
  if (index.dim() == 1) return detail::fold_slices<T>(out, dim, index.contiguous(), values, check, fold);
  Tensor places = op::where(op::logical_or(op::lt(index, 0), op::ge(index, out.size(dim))), -out.numel(), index);
  int64_t own = 1, step = 1;
  for (int64_t d = dim + 1; d < out.dim(); ++d) own *= out.size(d);
  places = op::mul(places, own);
  for (int64_t d = out.dim() - 1; d >= 0; step *= out.size(d--)) {
    if (d == dim) continue;
    DimVector sizes(static_cast<std::size_t>(out.dim()), 1);
    sizes[static_cast<std::size_t>(d)] = index.size(d);
    places = op::add(places, arange(index.size(d), TensorOptions(kInt64).device(index.device())).view(sizes), step);
  }
  const Tensor dense = out.contiguous();
  const auto flat = [](const Tensor& t) { return dispatch::make_view(t, t.numel(), 1, t.storage_offset()); };
  const Tensor part = dispatch::make_view(values, index.sizes(), values.strides(), values.storage_offset());
  IndexCheck anywhere = check;
  anywhere.size = out.numel();
  detail::fold_slices<T>(flat(dense), 0, flat(places.contiguous()), flat(part.contiguous()), anywhere, fold);
  if (!dense.is_same(out)) Tensor(out).copy_(dense);
}

}  // namespace tenon::cuda

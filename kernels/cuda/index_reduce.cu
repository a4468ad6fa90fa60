// SPDX-License-Identifier: Apache-2.0
// Products and extremes by index: scatter_reduce and index_reduce. Atomic updates, or runs of equal indices in order.
#include <tenon/ops/index.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/atomic.cuh>
#include <tenon/kernels/cuda/indexed_in_order.cuh>

namespace tenon {
namespace {

using cuda::IndexedArgs;

struct Product {
  template <class C>
  __device__ C operator()(C a, C b) const {
    if constexpr (std::is_same_v<C, bool>)
      return a && b;
    else if constexpr (std::is_integral_v<C>)
      return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};
struct Larger {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return cuda::larger(a, b);
  }
};
struct Smaller {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return cuda::smaller(a, b);
  }
};

// indexed[index] = fold(indexed[index], values).
template <class T, class Fold>
struct Update {
  using C = cuda::compute_t<T>;
  Fold fold;
  template <int W, int U>
  __device__ __forceinline__ void run(const IndexedArgs& p, const int32_t (&offset)[U][3], const int64_t (&index)[U],
                                      const bool (&)[U], const bool (&valid)[U]) const {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (!valid[u]) continue;
      const C x = static_cast<C>(*reinterpret_cast<const T*>(p.loop.data[0] + offset[u][0]));
      cuda::atomic_update(reinterpret_cast<T*>(p.loop.data[1] + offset[u][1] + index[u] * p.step),
                          [&](T old) { return static_cast<T>(fold(static_cast<C>(old), x)); });
    }
  }
};

template <class T, class Fold>
void reduce(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const char* who, const Fold& fold) {
  const DeviceGuard guard(out.device());
  const cuda::IndexCheck check = cuda::index_check(who, "index", out.size(dim), dim);
  if constexpr (sizeof(T) <= 8) {
    if (!is_deterministic())
      return cuda::indexed_loop<sizeof(T), false>(src, out, dim, index, check, Update<T, Fold>{fold});
  }
  cuda::indexed_in_order<T>(src, out, dim, index, check, fold);
}

template <class T>
void scatter_reduce_cuda(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, ScatterReduction how,
                         const char* who) {
  if (how == ScatterReduction::prod) reduce<T>(out, dim, index, src, who, Product{});
  if constexpr (!is_complex_v<T>) {
    if (how == ScatterReduction::amax) reduce<T>(out, dim, index, src, who, Larger{});
    if (how == ScatterReduction::amin) reduce<T>(out, dim, index, src, who, Smaller{});
  }
}

TENON_REGISTER_KERNEL(op::scatter_reduce, cuda, AllTypes, scatter_reduce_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Operators that add by index: index_add and scatter_add. Atomic adds: sums of floats depend on the order of threads,
// unless the order is asked for.
#include <tenon/ops/index.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/atomic.cuh>
#include <tenon/kernels/cuda/indexed_in_order.cuh>

namespace tenon {
namespace {

using cuda::IndexedArgs;

// indexed[index] += alpha * values.
template <class T, bool kScaled>
struct Add {
  cuda::compute_t<T> alpha;

  __device__ T scaled(T v) const {
    if constexpr (!kScaled)
      return v;
    else if constexpr (std::is_same_v<T, bool>)
      return v && alpha;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(v) * static_cast<uint64_t>(alpha));
    else
      return static_cast<T>(static_cast<cuda::compute_t<T>>(v) * alpha);
  }
  template <int W, int U>
  __device__ __forceinline__ void run(const IndexedArgs& p, const int32_t (&offset)[U][3], const int64_t (&index)[U],
                                      const bool (&)[U], const bool (&valid)[U]) const {
    T x[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (valid[u]) x[u] = *reinterpret_cast<const T*>(p.loop.data[0] + offset[u][0]);
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (valid[u])
        cuda::atomic_add(reinterpret_cast<T*>(p.loop.data[1] + offset[u][1] + index[u] * p.step), scaled(x[u]));
  }
};

template <class T>
struct AddScaled {
  using C = cuda::compute_t<T>;
  C alpha;
  __device__ C operator()(C sum, C v) const {
    if constexpr (std::is_same_v<T, bool>)
      return sum || (v && alpha);
    else if constexpr (std::is_integral_v<T>)
      return static_cast<C>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(v) * static_cast<uint64_t>(alpha));
    else
      return sum + v * alpha;
  }
};

template <class T, bool kScaled>
void add_by_index(const char* who, const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source,
                  const Scalar& alpha) {
  const DeviceGuard guard(out.device());
  const auto factor = alpha.to<cuda::compute_t<T>>();
  const cuda::IndexCheck check = cuda::index_check(who, "index", out.size(dim), dim);
  if (is_deterministic() && !std::is_integral_v<T>)  // sums of integers are the same in every order
    cuda::indexed_in_order<T>(source, out, dim, index, check, AddScaled<T>{factor});
  else
    cuda::indexed_loop<sizeof(T), false>(source, out, dim, index, check, Add<T, kScaled>{factor});
}
template <class T>
void index_add_cuda(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  add_by_index<T, true>("index_add", out, dim, index, source, alpha);
}
template <class T>
void scatter_add_cuda(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const char* who) {
  add_by_index<T, false>(who, out, dim, index, src, 1);
}

TENON_REGISTER_KERNEL(op::index_add, cuda, AllTypes, index_add_cuda);
TENON_REGISTER_KERNEL(op::scatter_add, cuda, AllTypes, scatter_add_cuda);

}  // namespace
}  // namespace tenon

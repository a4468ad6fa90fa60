// SPDX-License-Identifier: Apache-2.0
// Products.
#include <tenon/ops/statistics.h>
#include <tenon/kernels/cuda/reduce.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

// In float for the halves and int64 for integers.
template <class T>
struct Product {
  using Input = T;
  using Acc = std::conditional_t<std::is_integral_v<T>, int64_t, cuda::compute_t<T>>;
  using Output = std::conditional_t<std::is_integral_v<T>, int64_t, T>;

  __device__ Acc identity() const { return Acc(1); }
  template <int N, int W>
  __device__ void add(Acc& acc, const T (&v)[N], cuda::Positions<W>) const {
#pragma unroll
    for (int i = 0; i < N; ++i) merge(acc, static_cast<Acc>(v[i]));
  }
  __device__ void merge(Acc& a, const Acc& b) const {
    if constexpr (std::is_integral_v<T>)
      a = static_cast<Acc>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      a = a * b;
  }
  __device__ void store(const Acc& acc, char* out, char*, int64_t) const {
    *reinterpret_cast<Output*>(out) = static_cast<Output>(acc);
  }
};
template <class T>
void prod_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, Product<T>{});
}
TENON_REGISTER_KERNEL(op::prod, cuda, AllTypes, prod_cuda);
TENON_REGISTER_KERNEL(op::prod_dim, cuda, AllTypes, prod_cuda);

}  // namespace
}  // namespace tenon

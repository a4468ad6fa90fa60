// SPDX-License-Identifier: Apache-2.0
// Operators of three tensors. The halves compute in float and round once.
#include <tenon/ops/ternary.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using RealsAndComplexes = Join<Numbers, Complexes>;
using FloatsAndComplexes = Join<FloatsAndHalves, Complexes>;

template <class T>
struct AddProduct {
  using C = cuda::compute_t<T>;
  C value;
  __device__ T operator()(T x, T a, T b) const {
    return static_cast<T>(static_cast<C>(x) + value * static_cast<C>(a) * static_cast<C>(b));
  }
};
template <class T>
void addcmul_cuda(const LoopPlan& plan, const Scalar& value) {
  cuda::elementwise(plan, AddProduct<T>{value.to<cuda::compute_t<T>>()});
}
template <class T>
struct AddQuotient {
  using C = cuda::compute_t<T>;
  static constexpr int kUnroll = 1;
  C value;
  __device__ T operator()(T x, T a, T b) const {
    return static_cast<T>(static_cast<C>(x) + value * static_cast<C>(a) / static_cast<C>(b));
  }
};
template <class T>
void addcdiv_cuda(const LoopPlan& plan, const Scalar& value) {
  cuda::elementwise(plan, AddQuotient<T>{value.to<cuda::compute_t<T>>()});
}
template <class T>
struct Lerp {
  using C = cuda::compute_t<T>;
  __device__ T operator()(T x, T y, T z) const {
    const C a = x, b = y, w = z, distance = b - a;
    bool near;
    if constexpr (is_complex_v<C>)
      near = w.re * w.re + w.im * w.im < 0.25f;
    else
      near = ::fabs(w) < C(0.5);
    return static_cast<T>(near ? a + w * distance : b - distance * (C(1) - w));
  }
};
template <class T>
void lerp_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Lerp<T>{});
}
TENON_REGISTER_KERNEL(op::addcmul, cuda, RealsAndComplexes, addcmul_cuda);
TENON_REGISTER_KERNEL(op::addcdiv, cuda, FloatsAndComplexes, addcdiv_cuda);
TENON_REGISTER_KERNEL(op::lerp, cuda, FloatsAndComplexes, lerp_cuda);

}  // namespace
}  // namespace tenon

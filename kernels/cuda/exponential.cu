// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms of ops/exponential.h. The halves compute in float and round once, complex numbers in
// double.
#include <tenon/kernels/exponential.h>
#include <tenon/ops/exponential.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using FloatsAndComplexes = Join<FloatsAndHalves, Complexes>;

// x: the number in the dtype it computes in; z: a complex one in double.
#define TENON_EXPONENTIAL(Name, name, expression, complex_expression)       \
  template <class T>                                                        \
  struct Name {                                                             \
    static constexpr int kUnroll = sizeof(cuda::compute_t<T>) == 4 ? 2 : 1; \
    static constexpr int kWidth = is_complex_v<T> ? 1 : 8;                  \
    __device__ T operator()(T v) const {                                    \
      if constexpr (is_complex_v<T>) {                                      \
        const math::Z z(v);                                                 \
        return T(complex_expression);                                       \
      } else {                                                              \
        const cuda::compute_t<T> x = v;                                     \
        return static_cast<T>(expression);                                  \
      }                                                                     \
    }                                                                       \
  };                                                                        \
  template <class T>                                                        \
  void name##_cuda(const LoopPlan& plan) {                                  \
    cuda::elementwise(plan, Name<T>{});                                     \
  }                                                                         \
  TENON_REGISTER_KERNEL(op::name, cuda, FloatsAndComplexes, name##_cuda);

TENON_EXPONENTIAL(Exp2, exp2, ::exp2(x), math::exp2(z))
TENON_EXPONENTIAL(Expm1, expm1, ::expm1(x), math::expm1(z))
TENON_EXPONENTIAL(Log2, log2, ::log2(x), math::log_base(z, 1.4426950408889634))
TENON_EXPONENTIAL(Log10, log10, ::log10(x), math::log_base(z, 0.43429448190325183))
TENON_EXPONENTIAL(Log1p, log1p, ::log1p(x), math::log1p(z))
#undef TENON_EXPONENTIAL

template <class T>
struct Entr {
  static constexpr int kUnroll = 1;
  __device__ T operator()(T x) const { return static_cast<T>(math::entr(static_cast<cuda::compute_t<T>>(x))); }
};
template <class T>
void special_entr_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Entr<T>{});
}
TENON_REGISTER_KERNEL(op::special_entr, cuda, FloatsAndHalves, special_entr_cuda);

template <class T>
struct Logit {
  using C = cuda::compute_t<T>;
  static constexpr int kUnroll = 1;
  C eps;
  __device__ T operator()(T x) const { return static_cast<T>(math::logit(static_cast<C>(x), eps)); }
};
template <class T>
void logit_cuda(const LoopPlan& plan, const double& eps) {
  cuda::elementwise(plan, Logit<T>{static_cast<cuda::compute_t<T>>(eps)});
}
TENON_REGISTER_KERNEL(op::logit, cuda, FloatsAndHalves, logit_cuda);

#define TENON_EXPONENTIAL_BINARY(Name, name, function, Types)                        \
  template <class T>                                                                 \
  struct Name {                                                                      \
    static constexpr int kUnroll = 1, kWidth = is_complex_v<T> ? 1 : 8;              \
    __device__ T operator()(T a, T b) const {                                        \
      if constexpr (is_complex_v<T>) {                                               \
        return T(math::logaddexp(math::Z(a), math::Z(b)));                           \
      } else {                                                                       \
        using C = cuda::compute_t<T>;                                                \
        return static_cast<T>(math::function(static_cast<C>(a), static_cast<C>(b))); \
      }                                                                              \
    }                                                                                \
  };                                                                                 \
  template <class T>                                                                 \
  void name##_cuda(const LoopPlan& plan) {                                           \
    cuda::elementwise(plan, Name<T>{});                                              \
  }                                                                                  \
  TENON_REGISTER_KERNEL(op::name, cuda, Types, name##_cuda);

TENON_EXPONENTIAL_BINARY(Logaddexp, logaddexp, logaddexp, FloatsAndComplexes)
TENON_EXPONENTIAL_BINARY(Logaddexp2, logaddexp2, logaddexp2, FloatsAndHalves)
TENON_EXPONENTIAL_BINARY(Xlogy, xlogy, xlogy, FloatsAndHalves)
TENON_EXPONENTIAL_BINARY(Xlog1py, special_xlog1py, xlog1py, FloatsAndHalves)
#undef TENON_EXPONENTIAL_BINARY

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Circular and hyperbolic functions of real numbers. The halves compute in float and round once. sinh is made
// of expm1, tan computes in double; the others are CUDA's own functions.
#include <tenon/ops/trigonometric.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

// CUDA documents 4 ULP for its float tan.
template <class C, class F>
__device__ __forceinline__ C in_double(C x, F f) {
  return static_cast<C>(f(static_cast<double>(x)));
}

template <class C>
__device__ __forceinline__ C sinh_of(C x) {
  if constexpr (sizeof(C) == 8) {
    return ::sinh(x);
  } else {
    const C e = expm1f(fabsf(x));
    if (fabsf(x) > 88.f) {  // e overflows before the result does
      const C half = expf(fabsf(x) / 2);
      return copysignf(half / 2 * half, x);
    }
    return copysignf((e + e / (e + 1)) / 2, x);
  }
}

// sin(pi x) / (pi x): whole turns are taken off before the multiplication.
template <class C>
__device__ __forceinline__ C sinc_of(C x) {
  if (x == 0) return C(1);
  return ::sinpi(x) / (x * C(3.14159265358979324));
}

#define TENON_REAL_FUNCTION(Name, name, expression)                         \
  template <class T>                                                        \
  struct Name {                                                             \
    static constexpr int kUnroll = sizeof(cuda::compute_t<T>) == 4 ? 2 : 1; \
    __device__ T operator()(T v) const {                                    \
      const cuda::compute_t<T> x = v;                                       \
      return static_cast<T>(expression);                                    \
    }                                                                       \
  };                                                                        \
  template <class T>                                                        \
  void name##_cuda(const LoopPlan& plan) {                                  \
    cuda::elementwise(plan, Name<T>{});                                     \
  }                                                                         \
  TENON_REGISTER_KERNEL(op::name, cuda, FloatsAndHalves, name##_cuda);

TENON_REAL_FUNCTION(Sin, sin, ::sin(x))
TENON_REAL_FUNCTION(Cos, cos, ::cos(x))
TENON_REAL_FUNCTION(Tan, tan, in_double(x, [](double v) { return ::tan(v); }))
TENON_REAL_FUNCTION(Asin, asin, ::asin(x))
TENON_REAL_FUNCTION(Acos, acos, ::acos(x))
TENON_REAL_FUNCTION(Atan, atan, ::atan(x))
TENON_REAL_FUNCTION(Sinh, sinh, sinh_of(x))
TENON_REAL_FUNCTION(Cosh, cosh, ::cosh(x))
TENON_REAL_FUNCTION(Asinh, asinh, ::asinh(x))
TENON_REAL_FUNCTION(Acosh, acosh, ::acosh(x))
TENON_REAL_FUNCTION(Atanh, atanh, ::atanh(x))
TENON_REAL_FUNCTION(Sinc, sinc, sinc_of(x))
#undef TENON_REAL_FUNCTION

template <class T>
struct Atan2 {
  static constexpr int kUnroll = 1;
  __device__ T operator()(T a, T b) const {
    const cuda::compute_t<T> y = a, x = b;
    return static_cast<T>(::atan2(y, x));
  }
};
template <class T>
void atan2_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Atan2<T>{});
}
TENON_REGISTER_KERNEL(op::atan2, cuda, FloatsAndHalves, atan2_cuda);

template <class T>
struct Hypot {
  static constexpr int kUnroll = 1;
  __device__ T operator()(T a, T b) const {
    const cuda::compute_t<T> y = a, x = b;
    return static_cast<T>(::hypot(y, x));
  }
};
template <class T>
void hypot_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Hypot<T>{});
}
TENON_REGISTER_KERNEL(op::hypot, cuda, FloatsAndHalves, hypot_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Circular and hyperbolic functions of complex numbers, in double for both precisions: float versions lose digits near
// branch points and zeros. One element at a time, since they are long.
#include <tenon/ops/trigonometric.h>
#include <tenon/kernels/cuda/loops.cuh>

#include <cuda/std/complex>

namespace tenon {
namespace {

using Z = ::cuda::std::complex<double>;

// Odd functions are z itself near 0, where the library's formulas lose small parts.
__device__ __forceinline__ bool tiny(Z z) { return ::fabs(z.real()) < 1e-9 && ::fabs(z.imag()) < 1e-9; }

__device__ __forceinline__ Z sinc_of(Z z) {
  const Z w = z * 3.14159265358979324;
  return z == Z(0) ? Z(1) : ::cuda::std::sin(w) / w;
}

#define TENON_COMPLEX_FUNCTION(Name, name, expression)              \
  template <class T>                                                \
  struct Name {                                                     \
    static constexpr int kWidth = 1, kUnroll = 1;                   \
    __device__ T operator()(T v) const {                            \
      const Z z(v.re, v.im);                                        \
      const Z w = expression;                                       \
      using R = typename T::value_type;                             \
      return T(static_cast<R>(w.real()), static_cast<R>(w.imag())); \
    }                                                               \
  };                                                                \
  template <class T>                                                \
  void name##_complex(const LoopPlan& plan) {                       \
    cuda::elementwise(plan, Name<T>{});                             \
  }                                                                 \
  TENON_REGISTER_KERNEL(op::name, cuda, Complexes, name##_complex);

TENON_COMPLEX_FUNCTION(Sin, sin, ::cuda::std::sin(z))
TENON_COMPLEX_FUNCTION(Cos, cos, ::cuda::std::cos(z))
TENON_COMPLEX_FUNCTION(Tan, tan, tiny(z) ? z : ::cuda::std::tan(z))
TENON_COMPLEX_FUNCTION(Asin, asin, tiny(z) ? z : ::cuda::std::asin(z))
TENON_COMPLEX_FUNCTION(Acos, acos, ::cuda::std::acos(z))
TENON_COMPLEX_FUNCTION(Atan, atan, tiny(z) ? z : ::cuda::std::atan(z))
TENON_COMPLEX_FUNCTION(Sinh, sinh, ::cuda::std::sinh(z))
TENON_COMPLEX_FUNCTION(Cosh, cosh, ::cuda::std::cosh(z))
TENON_COMPLEX_FUNCTION(Asinh, asinh, tiny(z) ? z : ::cuda::std::asinh(z))
TENON_COMPLEX_FUNCTION(Acosh, acosh, ::cuda::std::acosh(z))
TENON_COMPLEX_FUNCTION(Atanh, atanh, tiny(z) ? z : ::cuda::std::atanh(z))
TENON_COMPLEX_FUNCTION(Sinc, sinc, sinc_of(z))
#undef TENON_COMPLEX_FUNCTION

}  // namespace
}  // namespace tenon

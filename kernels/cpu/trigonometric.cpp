// SPDX-License-Identifier: Apache-2.0
// Circular and hyperbolic functions (ops/trigonometric.h). float32 and the 16-bit floats compute in double vectors and
// round once; float64 and complex numbers use the C library.
#include <tenon/kernels/cpu/complex_math.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/trigonometric.h>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/trigonometric.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>
#include <tenon/kernels/cpu/simd_double_math.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr int64_t kTrigonometricGrain = 2048;  // elements of a function of some 50 instructions worth a second thread

#define TENON_TRIGONOMETRIC(name) TENON_DOUBLE_MATH_UNARY(name, wide::name(d, x), std::name(x), kTrigonometricGrain)
TENON_TRIGONOMETRIC(sin)
TENON_TRIGONOMETRIC(cos)
TENON_TRIGONOMETRIC(tan)
TENON_TRIGONOMETRIC(asin)
TENON_TRIGONOMETRIC(acos)
TENON_TRIGONOMETRIC(atan)
TENON_TRIGONOMETRIC(sinh)
TENON_TRIGONOMETRIC(cosh)
TENON_TRIGONOMETRIC(asinh)
TENON_TRIGONOMETRIC(acosh)
TENON_TRIGONOMETRIC(atanh)
#undef TENON_TRIGONOMETRIC

struct Atan2Wide {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V y, V x) const {
    return wide::atan2(d, y, x);
  }
};
struct Atan2Body {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V y, V x) const {
    return in_double(d, Atan2Wide(), y, x);
  }
};
template <class T>
void atan2_cpu(const LoopPlan& plan) {
  if constexpr (std::is_same_v<T, double>)
    elementwise(
        plan, [](double y, double x) { return std::atan2(y, x); }, kTrigonometricGrain);
  else
    elementwise<float>(plan, Atan2Body(), kTrigonometricGrain);
}
TENON_REGISTER_SIMD_KERNEL(op::atan2, FloatsAndHalves, atan2_cpu);

// Squares of floats neither overflow nor vanish in double.
struct HypotWide {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V y, V x) const {
    const V infinity = hn::Set(d, __builtin_huge_val());
    const auto infinite = hn::Or(hn::Eq(hn::Abs(x), infinity), hn::Eq(hn::Abs(y), infinity));
    return hn::IfThenElse(infinite, infinity, hn::Sqrt(hn::MulAdd(x, x, hn::Mul(y, y))));
  }
};
struct HypotBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V y, V x) const {
    return in_double(d, HypotWide(), y, x);
  }
};
template <class T>
void hypot_cpu(const LoopPlan& plan) {
  if constexpr (std::is_same_v<T, double>)
    elementwise(
        plan, [](double y, double x) { return std::hypot(y, x); }, kTrigonometricGrain);
  else
    elementwise<float>(plan, HypotBody());
}
TENON_REGISTER_SIMD_KERNEL(op::hypot, FloatsAndHalves, hypot_cpu);

// Half turns are taken off before the multiplication by pi: exact near whole numbers, and for large x too.
inline double sinc_of(double x) {
  constexpr double kPi = 3.14159265358979324;
  if (x == 0) return 1;
  const double whole = std::nearbyint(x), s = std::sin(kPi * (x - whole));
  return (std::fmod(whole, 2) != 0 ? -s : s) / (kPi * x);
}
template <class T>
void sinc_cpu(const LoopPlan& plan) {
  using C = compute_t<T>;
  elementwise(
      plan, [](C x) { return static_cast<C>(sinc_of(static_cast<double>(x))); }, kTrigonometricGrain);
}
TENON_REGISTER_SIMD_KERNEL(op::sinc, FloatsAndHalves, sinc_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;

// complex64 computes in double: the C library's float versions lose digits near branch points.
template <class T, class F>
void complex_function(const LoopPlan& plan, const F& f) {
  elementwise(
      plan,
      [f](T z) {
        const std::complex<double> w = f(std::complex<double>(z.re, z.im));
        using R = typename T::value_type;
        return T(static_cast<R>(w.real()), static_cast<R>(w.imag()));
      },
      256);
}
#define TENON_COMPLEX_FUNCTION(name)                                                \
  template <class T>                                                                \
  void name##_complex(const LoopPlan& plan) {                                       \
    complex_function<T>(plan, [](std::complex<double> z) { return std::name(z); }); \
  }                                                                                 \
  TENON_REGISTER_KERNEL(op::name, cpu, Complexes, name##_complex);
TENON_COMPLEX_FUNCTION(sin)
TENON_COMPLEX_FUNCTION(cos)
TENON_COMPLEX_FUNCTION(tan)
TENON_COMPLEX_FUNCTION(asin)
TENON_COMPLEX_FUNCTION(acos)
TENON_COMPLEX_FUNCTION(atan)
TENON_COMPLEX_FUNCTION(sinh)
TENON_COMPLEX_FUNCTION(cosh)
TENON_COMPLEX_FUNCTION(asinh)
TENON_COMPLEX_FUNCTION(acosh)
TENON_COMPLEX_FUNCTION(atanh)
#undef TENON_COMPLEX_FUNCTION

template <class T>
void sinc_complex(const LoopPlan& plan) {
  complex_function<T>(plan, [](std::complex<double> z) {
    const std::complex<double> w = 3.14159265358979324 * z;
    return z == 0.0 ? std::complex<double>(1) : std::sin(w) / w;
  });
}
TENON_REGISTER_KERNEL(op::sinc, cpu, Complexes, sinc_complex);

}  // namespace
}  // namespace tenon::cpu
#endif

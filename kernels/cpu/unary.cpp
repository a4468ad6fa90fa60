// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of one tensor (ops/unary.h). float32 and the 16-bit floats run on vectors; float64 functions
// and complex numbers use the C library; integers are compiled once, for the baseline.
#include <tenon/kernels/cpu/complex_math.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/unary.h>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/unary.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>
#include <tenon/kernels/cpu/simd_math.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr int64_t kMathGrain = 4096;  // elements of a function of some 20 instructions worth a second thread

// x as a vector of float or double.
#define TENON_VECTOR_UNARY(name, expression)                   \
  struct name##_body {                                         \
    template <class D, class V>                                \
    HWY_INLINE V operator()([[maybe_unused]] D d, V x) const { \
      return expression;                                       \
    }                                                          \
  };                                                           \
  template <class T>                                           \
  void name##_cpu(const LoopPlan& plan) {                      \
    elementwise<T>(plan, name##_body());                       \
  }                                                            \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);

// float32: x as a vector; float64: x as a double.
#define TENON_MATH_UNARY(name, vector_expression, double_expression)     \
  struct name##_body {                                                   \
    template <class D, class V>                                          \
    HWY_INLINE V operator()(D d, V x) const {                            \
      return vector_expression;                                          \
    }                                                                    \
  };                                                                     \
  template <class T>                                                     \
  void name##_cpu(const LoopPlan& plan) {                                \
    if constexpr (std::is_same_v<T, double>)                             \
      elementwise(                                                       \
          plan, [](double x) { return double_expression; }, kMathGrain); \
    else                                                                 \
      elementwise<float>(plan, name##_body(), kMathGrain);               \
  }                                                                      \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);

TENON_VECTOR_UNARY(neg, hn::Neg(x))
TENON_VECTOR_UNARY(abs, hn::Abs(x))
TENON_VECTOR_UNARY(square, hn::Mul(x, x))
TENON_VECTOR_UNARY(relu, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x))
TENON_VECTOR_UNARY(sqrt, hn::Sqrt(x))
TENON_VECTOR_UNARY(rsqrt, hn::Div(hn::Set(d, hn::TFromD<D>(1)), hn::Sqrt(x)))
TENON_VECTOR_UNARY(reciprocal, hn::Div(hn::Set(d, hn::TFromD<D>(1)), x))
TENON_MATH_UNARY(exp, exp(d, x), std::exp(x))
TENON_MATH_UNARY(log, log(d, x), std::log(x))
TENON_MATH_UNARY(tanh, tanh(d, x), std::tanh(x))
TENON_MATH_UNARY(sigmoid, sigmoid(d, x), 1 / (1 + std::exp(-x)))

#undef TENON_VECTOR_UNARY
#undef TENON_MATH_UNARY

// --- gelu ----------------------------------------------------------------------------------------------------
struct GeluBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return gelu(d, x);
  }
};
struct GeluTanhBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return gelu_tanh(d, x);
  }
};
struct GeluBackwardBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad, V x) const {
    return hn::Mul(grad, gelu_slope(d, x));
  }
};
struct GeluTanhBackwardBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad, V x) const {
    return hn::Mul(grad, gelu_tanh_slope(d, x));
  }
};

template <class T>
void gelu_cpu(const LoopPlan& plan, const bool& tanh_form) {
  if constexpr (std::is_same_v<T, double>) {
    if (tanh_form)
      elementwise(
          plan, [](double x) { return x / (1 + std::exp(-x * (1.5957691216057307 + 0.07135481627260025 * x * x))); },
          kMathGrain);
    else
      elementwise(
          plan, [](double x) { return x * 0.5 * std::erfc(x * -0.70710678118654752); }, kMathGrain);
  } else {
    tanh_form ? elementwise<float>(plan, GeluTanhBody(), kMathGrain) : elementwise<float>(plan, GeluBody(), kMathGrain);
  }
}
TENON_REGISTER_SIMD_KERNEL(op::gelu, FloatsAndHalves, gelu_cpu);

template <class T>
void gelu_backward_cpu(const LoopPlan& plan, const bool& tanh_form) {
  if constexpr (std::is_same_v<T, double>) {
    if (tanh_form)
      elementwise(
          plan,
          [](double grad, double x) {
            const double s = 1 / (1 + std::exp(-x * (1.5957691216057307 + 0.07135481627260025 * x * x)));
            return grad * (s + x * s * (1 - s) * (1.5957691216057307 + 0.21406444881780076 * x * x));
          },
          kMathGrain);
    else
      elementwise(
          plan,
          [](double grad, double x) {
            return grad * (0.5 * std::erfc(x * -0.70710678118654752) + x * 0.3989422804014327 * std::exp(-0.5 * x * x));
          },
          kMathGrain);
  } else {
    tanh_form ? elementwise<float>(plan, GeluTanhBackwardBody(), kMathGrain)
              : elementwise<float>(plan, GeluBackwardBody(), kMathGrain);
  }
}
TENON_REGISTER_SIMD_KERNEL(op::gelu_backward, FloatsAndHalves, gelu_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;

// --- integers and bool: arithmetic wraps ---------------------------------------------------------------------
template <class T>
void neg_integer(const LoopPlan& plan) {
  elementwise(plan, [](T x) { return static_cast<T>(0u - static_cast<uint64_t>(x)); });
}
template <class T>
void abs_integer(const LoopPlan& plan) {
  elementwise(plan, [](T x) { return x < 0 ? static_cast<T>(0u - static_cast<uint64_t>(x)) : x; });
}
template <class T>
void square_integer(const LoopPlan& plan) {
  elementwise(plan, [](T x) { return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x)); });
}
template <class T>
void relu_integer(const LoopPlan& plan) {
  elementwise(plan, [](T x) { return x > 0 ? x : T(0); });
}
TENON_REGISTER_KERNEL(op::neg, cpu, Integers, neg_integer);
TENON_REGISTER_KERNEL(op::abs, cpu, Integers, abs_integer);
TENON_REGISTER_KERNEL(op::square, cpu, Integers, square_integer);
TENON_REGISTER_KERNEL(op::relu, cpu, Integers, relu_integer);

using RealTypes = Join<Numbers, Bools>;
template <class T>
void sgn_real(const LoopPlan& plan) {
  using C = compute_t<T>;
  if constexpr (std::is_same_v<T, bool>)
    elementwise(plan, [](bool x) { return x; });
  else  // NaN is neither greater nor less: PyTorch gives 0
    elementwise(plan, [](C x) { return static_cast<C>((x > 0) - (x < 0)); });
}
template <class T>
void conj_real(const LoopPlan& plan) {
  using C = compute_t<T>;
  elementwise(plan, [](C x) { return x; });
}
template <class T>
void isnan_real(const LoopPlan& plan) {
  using C = compute_t<T>;
  elementwise(plan, [](C x) { return x != x; });
}
template <class T>
void logical_not_cpu(const LoopPlan& plan) {
  using C = compute_t<T>;
  elementwise(plan, [](C x) { return x == C(0); });
}
TENON_REGISTER_KERNEL(op::sgn, cpu, RealTypes, sgn_real);
TENON_REGISTER_KERNEL(op::conj, cpu, RealTypes, conj_real);
TENON_REGISTER_KERNEL(op::isnan, cpu, RealTypes, isnan_real);
TENON_REGISTER_KERNEL(op::logical_not, cpu, AllTypes, logical_not_cpu);

// --- complex -------------------------------------------------------------------------------------------------
#define TENON_COMPLEX_UNARY(name, expression)        \
  template <class T>                                 \
  void name##_complex(const LoopPlan& plan) {        \
    elementwise(                                     \
        plan, [](T x) { return expression; }, 1024); \
  }                                                  \
  TENON_REGISTER_KERNEL(op::name, cpu, Complexes, name##_complex);

TENON_COMPLEX_UNARY(neg, -x)
TENON_COMPLEX_UNARY(abs, std::hypot(x.re, x.im))
TENON_COMPLEX_UNARY(sgn, complex_sgn(x))
TENON_COMPLEX_UNARY(square, x* x)
TENON_COMPLEX_UNARY(conj, conj(x))
TENON_COMPLEX_UNARY(exp, complex_exp(x))
TENON_COMPLEX_UNARY(log, complex_log(x))
TENON_COMPLEX_UNARY(sqrt, complex_sqrt(x))
TENON_COMPLEX_UNARY(rsqrt, T(1) / complex_sqrt(x))
TENON_COMPLEX_UNARY(reciprocal, T(1) / x)
TENON_COMPLEX_UNARY(tanh, complex_tanh(x))
TENON_COMPLEX_UNARY(sigmoid, T(1) / (T(1) + complex_exp(-x)))
TENON_COMPLEX_UNARY(isnan, x.re != x.re || x.im != x.im)
#undef TENON_COMPLEX_UNARY

}  // namespace
}  // namespace tenon::cpu
#endif

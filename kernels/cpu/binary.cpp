// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic of two operands (ops/binary.h). Real floating types once per SIMD target; the compiler
// vectorises these loops. Integers (which wrap) and complex numbers are compiled once, for the baseline.
#include <tenon/kernels/cpu/complex_math.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/binary.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/binary.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

// C is float or double; the 16-bit floats share float's loops.
template <class C>
void add_scaled(const LoopPlan& plan, C alpha) {
  elementwise(plan, [alpha](C a, C b) { return a + alpha * b; });
}
template <class T>
void add_cpu(const LoopPlan& plan, const Scalar& alpha) {
  add_scaled(plan, alpha.to<compute_t<T>>());
}
template <class T>
void sub_cpu(const LoopPlan& plan, const Scalar& alpha) {
  add_scaled(plan, -alpha.to<compute_t<T>>());
}
TENON_REGISTER_SIMD_KERNEL(op::add, FloatsAndHalves, add_cpu);
TENON_REGISTER_SIMD_KERNEL(op::sub, FloatsAndHalves, sub_cpu);

#define TENON_FLOAT_BINARY(name, expression)                \
  template <class C>                                        \
  void name##_loop(const LoopPlan& plan) {                  \
    elementwise(plan, [](C a, C b) { return expression; }); \
  }                                                         \
  template <class T>                                        \
  void name##_cpu(const LoopPlan& plan) {                   \
    name##_loop<compute_t<T>>(plan);                        \
  }                                                         \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);

TENON_FLOAT_BINARY(mul, a* b)
// NaN in either operand wins: no comparison with it holds.
TENON_FLOAT_BINARY(maximum, a > b || a != a ? a : b)
TENON_FLOAT_BINARY(minimum, a < b || a != a ? a : b)
TENON_FLOAT_BINARY(tanh_backward, a*(1 - b * b))
TENON_FLOAT_BINARY(sigmoid_backward, a*(1 - b) * b)
#undef TENON_FLOAT_BINARY

template <class C>
void divide(const LoopPlan& plan) {
  elementwise(plan, [](C a, C b) { return a / b; });
}
template <class C>
void divide_rounding(const LoopPlan& plan, bool down) {
  if (down)
    elementwise(
        plan, [](C a, C b) { return math::floor_divide(a, b); }, 4096);
  else
    elementwise(
        plan, [](C a, C b) { return std::trunc(a / b); }, 4096);
}
template <class T>
void div_cpu(const LoopPlan& plan, const Rounding& rounding) {
  using C = compute_t<T>;
  rounding == Rounding::none ? divide<C>(plan) : divide_rounding<C>(plan, rounding == Rounding::floor);
}
TENON_REGISTER_SIMD_KERNEL(op::div, FloatsAndHalves, div_cpu);

template <class C>
void threshold_backward_loop(const LoopPlan& plan, C threshold) {
  elementwise(plan, [threshold](C grad, C x) { return x <= threshold ? C(0) : grad; });
}
template <class T>
void threshold_backward_cpu(const LoopPlan& plan, const Scalar& threshold) {
  threshold_backward_loop(plan, threshold.to<compute_t<T>>());
}
TENON_REGISTER_SIMD_KERNEL(op::threshold_backward, FloatsAndHalves, threshold_backward_cpu);

struct SqrtBody {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, V) const {
    return hn::Sqrt(x);
  }
};

// Powers that are a number and have a cheap exact form take it, as in PyTorch.
template <class C>
void power(const LoopPlan& plan) {
  if (plan.is_number(2) && plan.dtype[2] == dtype_of<C>()) {
    C e;
    __builtin_memcpy(&e, plan.number[2], sizeof e);
    if (e == C(2)) return elementwise(plan, [](C a, C) { return a * a; });
    if (e == C(3)) return elementwise(plan, [](C a, C) { return a * a * a; });
    if (e == C(-1)) return elementwise(plan, [](C a, C) { return 1 / a; });
    if (e == C(-2)) return elementwise(plan, [](C a, C) { return 1 / (a * a); });
    if (e == C(0.5)) return elementwise<C>(plan, SqrtBody());
  }
  elementwise(
      plan, [](C a, C b) { return std::pow(a, b); }, 1024);
}
template <class T>
void pow_cpu(const LoopPlan& plan) {
  power<compute_t<T>>(plan);
}
TENON_REGISTER_SIMD_KERNEL(op::pow, FloatsAndHalves, pow_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;

// --- integers and bool ---------------------------------------------------------------------------------------
template <class T>
void add_integer(const LoopPlan& plan, const Scalar& alpha) {
  elementwise(plan, [factor = static_cast<uint64_t>(alpha.to<T>())](T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) + factor * static_cast<uint64_t>(b));
  });
}
template <class T>
void sub_integer(const LoopPlan& plan, const Scalar& alpha) {
  elementwise(plan, [factor = 0u - static_cast<uint64_t>(alpha.to<T>())](T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) + factor * static_cast<uint64_t>(b));
  });
}
template <class T>
void add_bool(const LoopPlan& plan, const Scalar& alpha) {
  elementwise(plan, [factor = alpha.to<bool>()](T a, T b) { return static_cast<bool>(a | (factor & b)); });
}
template <class T>
void mul_integer(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b) { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); });
}
template <class T>
void mul_bool(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b) { return static_cast<bool>(a & b); });
}
template <class T>
void maximum_integer(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b) { return a > b ? a : b; });
}
template <class T>
void minimum_integer(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b) { return a < b ? a : b; });
}
template <class T>
void threshold_backward_integer(const LoopPlan& plan, const Scalar& threshold) {
  elementwise(plan, [limit = threshold.to<T>()](T grad, T x) { return x <= limit ? T(0) : grad; });
}
template <class T>
void div_integer(const LoopPlan& plan, const Rounding& rounding) {
  const auto check = [](T b) { TENON_CHECK(b != 0, ValueError, "div: other: division of integers by zero"); };
  if (rounding == Rounding::floor)
    elementwise(
        plan,
        [check](T a, T b) {
          check(b);
          return math::floor_divide(a, b);
        },
        4096);
  else
    elementwise(
        plan,
        [check](T a, T b) {
          check(b);
          return math::trunc_divide(a, b);
        },
        4096);
}
template <class T>
void pow_integer(const LoopPlan& plan) {
  elementwise(
      plan, [](T a, T b) { return math::integer_pow(a, b); }, 4096);
}
using IntegersAndBool = Join<Integers, Bools>;
TENON_REGISTER_KERNEL(op::add, cpu, Integers, add_integer);
TENON_REGISTER_KERNEL(op::add, cpu, Bools, add_bool);
TENON_REGISTER_KERNEL(op::sub, cpu, Integers, sub_integer);
TENON_REGISTER_KERNEL(op::mul, cpu, Integers, mul_integer);
TENON_REGISTER_KERNEL(op::mul, cpu, Bools, mul_bool);
TENON_REGISTER_KERNEL(op::div, cpu, Integers, div_integer);
TENON_REGISTER_KERNEL(op::pow, cpu, Integers, pow_integer);
TENON_REGISTER_KERNEL(op::maximum, cpu, IntegersAndBool, maximum_integer);
TENON_REGISTER_KERNEL(op::minimum, cpu, IntegersAndBool, minimum_integer);
TENON_REGISTER_KERNEL(op::threshold_backward, cpu, Integers, threshold_backward_integer);

// --- complex -------------------------------------------------------------------------------------------------
template <class T>
void add_complex(const LoopPlan& plan, const Scalar& alpha) {
  elementwise(plan, [factor = alpha.to<T>()](T a, T b) { return a + factor * b; });
}
template <class T>
void sub_complex(const LoopPlan& plan, const Scalar& alpha) {
  elementwise(plan, [factor = alpha.to<T>()](T a, T b) { return a - factor * b; });
}
template <class T>
void div_complex(const LoopPlan& plan, const Rounding&) {  // rounding was refused by the shape rule
  elementwise(plan, [](T a, T b) { return a / b; });
}
template <class T>
void mul_complex(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b) { return a * b; });
}
template <class T>
void pow_complex(const LoopPlan& plan) {
  if (plan.is_number(2) && plan.dtype[2] == dtype_of<T>()) {
    T e;
    __builtin_memcpy(&e, plan.number[2], sizeof e);
    if (e == T(2)) return elementwise(plan, [](T a, T) { return a * a; });
    if (e == T(3)) return elementwise(plan, [](T a, T) { return a * a * a; });
    if (e == T(-1)) return elementwise(plan, [](T a, T) { return T(1) / a; });
    using R = typename T::value_type;
    if (e == T(R(0.5)))
      return elementwise(
          plan, [](T a, T) { return complex_sqrt(a); }, 1024);
  }
  elementwise(
      plan, [](T a, T b) { return complex_pow(a, b); }, 512);
}
template <class T>
void tanh_backward_complex(const LoopPlan& plan) {
  elementwise(plan, [](T grad, T y) { return grad * conj(T(1) - y * y); });
}
template <class T>
void sigmoid_backward_complex(const LoopPlan& plan) {
  elementwise(plan, [](T grad, T y) { return grad * conj((T(1) - y) * y); });
}
TENON_REGISTER_KERNEL(op::add, cpu, Complexes, add_complex);
TENON_REGISTER_KERNEL(op::sub, cpu, Complexes, sub_complex);
TENON_REGISTER_KERNEL(op::mul, cpu, Complexes, mul_complex);
TENON_REGISTER_KERNEL(op::div, cpu, Complexes, div_complex);
TENON_REGISTER_KERNEL(op::pow, cpu, Complexes, pow_complex);
TENON_REGISTER_KERNEL(op::tanh_backward, cpu, Complexes, tanh_backward_complex);
TENON_REGISTER_KERNEL(op::sigmoid_backward, cpu, Complexes, sigmoid_backward_complex);

}  // namespace
}  // namespace tenon::cpu
#endif

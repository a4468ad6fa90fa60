// SPDX-License-Identifier: Apache-2.0
// Infinities and NaN (ops/finite.h). The compiler vectorises the loops over floats.
#include <tenon/kernels/bits.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/finite.h>

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/finite.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

template <class C>
inline constexpr C kInf = std::numeric_limits<C>::infinity();

#define TENON_FLOAT_LOOP(name, arguments, expression)       \
  template <class C>                                        \
  void name##_loop(const LoopPlan& plan) {                  \
    elementwise(plan, [] arguments { return expression; }); \
  }                                                         \
  template <class T>                                        \
  void name##_cpu(const LoopPlan& plan) {                   \
    name##_loop<compute_t<T>>(plan);                        \
  }                                                         \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);
TENON_FLOAT_LOOP(isfinite, (C x), std::fabs(x) < kInf<C>)
TENON_FLOAT_LOOP(isinf, (C x), std::fabs(x) == kInf<C>)
TENON_FLOAT_LOOP(isposinf, (C x), x == kInf<C>)
TENON_FLOAT_LOOP(isneginf, (C x), x == -kInf<C>)
TENON_FLOAT_LOOP(fmax, (C a, C b), a > b || b != b ? a : b)
TENON_FLOAT_LOOP(fmin, (C a, C b), a < b || b != b ? a : b)
#undef TENON_FLOAT_LOOP

template <class C>
void nan_to_num_loop(const LoopPlan& plan, C nan, C above, C below) {
  elementwise(plan, [=](C x) { return x != x ? nan : x == kInf<C> ? above : x == -kInf<C> ? below : x; });
}
template <class T>
void nan_to_num_cpu(const LoopPlan& plan, const double& nan, const double& posinf, const double& neginf) {
  using C = compute_t<T>;
  nan_to_num_loop<C>(plan, static_cast<C>(nan), static_cast<C>(posinf), static_cast<C>(neginf));
}
TENON_REGISTER_SIMD_KERNEL(op::nan_to_num, FloatsAndHalves, nan_to_num_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;
using IntegersAndBool = Join<Integers, Bools>;

template <class T>
void always(const LoopPlan& plan) {
  elementwise(plan, [](T) { return true; });
}
template <class T>
void never(const LoopPlan& plan) {
  elementwise(plan, [](T) { return false; });
}
TENON_REGISTER_KERNEL(op::isfinite, cpu, IntegersAndBool, always);
TENON_REGISTER_KERNEL(op::isinf, cpu, IntegersAndBool, never);
TENON_REGISTER_KERNEL(op::isposinf, cpu, IntegersAndBool, never);
TENON_REGISTER_KERNEL(op::isneginf, cpu, IntegersAndBool, never);
template <class T>
void isreal_real(const LoopPlan& plan) {
  using C = compute_t<T>;
  elementwise(plan, [](C) { return true; });
}
using Reals = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::isreal, cpu, Reals, isreal_real);

template <class T>
void isfinite_complex(const LoopPlan& plan) {
  elementwise(plan, [](T z) { return std::isfinite(z.re) && std::isfinite(z.im); });
}
template <class T>
void isinf_complex(const LoopPlan& plan) {
  elementwise(plan, [](T z) { return std::isinf(z.re) || std::isinf(z.im); });
}
template <class T>
void isreal_complex(const LoopPlan& plan) {
  elementwise(plan, [](T z) { return z.im == 0; });
}
TENON_REGISTER_KERNEL(op::isfinite, cpu, Complexes, isfinite_complex);
TENON_REGISTER_KERNEL(op::isinf, cpu, Complexes, isinf_complex);
TENON_REGISTER_KERNEL(op::isreal, cpu, Complexes, isreal_complex);

template <class T>
void fmax_integer(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b) { return a > b ? a : b; });
}
template <class T>
void fmin_integer(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b) { return a < b ? a : b; });
}
template <class T>
void unchanged(const LoopPlan& plan, const double&, const double&, const double&) {
  elementwise(plan, [](T x) { return x; });
}
TENON_REGISTER_KERNEL(op::fmax, cpu, IntegersAndBool, fmax_integer);
TENON_REGISTER_KERNEL(op::fmin, cpu, IntegersAndBool, fmin_integer);
TENON_REGISTER_KERNEL(op::nan_to_num, cpu, IntegersAndBool, unchanged);

template <class T>
void nan_to_num_complex(const LoopPlan& plan, const double& nan, const double& posinf, const double& neginf) {
  using C = typename T::value_type;
  const auto part = [n = static_cast<C>(nan), p = static_cast<C>(posinf), m = static_cast<C>(neginf)](C x) {
    return x != x ? n : std::isinf(x) ? (x > 0 ? p : m) : x;
  };
  elementwise(plan, [part](T z) { return T(part(z.re), part(z.im)); });
}
TENON_REGISTER_KERNEL(op::nan_to_num, cpu, Complexes, nan_to_num_complex);

template <class T>
void nextafter_cpu(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b) -> T {
    if constexpr (sizeof(T) == 2)
      return math::next_half(a, b);
    else
      return std::nextafter(a, b);
  });
}
TENON_REGISTER_KERNEL(op::nextafter, cpu, FloatsAndHalves, nextafter_cpu);

template <class T>
void frexp_cpu(const LoopPlan& plan) {
  using C = compute_t<T>;
  elementwise(plan, [](C x) {
    int exponent = 0;
    const C mantissa = std::frexp(x, &exponent);
    return Pair<C, int32_t>{mantissa, std::isfinite(x) ? exponent : 0};
  });
}
TENON_REGISTER_KERNEL(op::frexp, cpu, FloatsAndHalves, frexp_cpu);

}  // namespace
}  // namespace tenon::cpu
#endif

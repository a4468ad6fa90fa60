// SPDX-License-Identifier: Apache-2.0
// Rounding and remainders (ops/rounding.h). Floats on vectors; integers and remainders one by one.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/rounding.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/rounding.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

#define TENON_ROUNDING(name, expression)    \
  struct name##_body {                      \
    template <class D, class V>             \
    HWY_INLINE V operator()(D, V x) const { \
      return expression;                    \
    }                                       \
  };                                        \
  template <class T>                        \
  void name##_cpu(const LoopPlan& plan) {   \
    elementwise<T>(plan, name##_body());    \
  }                                         \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);
TENON_ROUNDING(ceil, hn::Ceil(x))
TENON_ROUNDING(floor, hn::Floor(x))
TENON_ROUNDING(trunc, hn::Trunc(x))
TENON_ROUNDING(round, hn::Round(x))
TENON_ROUNDING(frac, hn::Sub(x, hn::Trunc(x)))
#undef TENON_ROUNDING

// A quotient below 2^28 is told apart from whole numbers in double, and its whole part times b is exact there.
inline float fmod_of(float a, float b) {
  const double wide = b, q = a / wide;
  if (!(std::fabs(q) < 0x1p28 && std::fabs(b) < INFINITY)) return std::fmod(a, b);
  return static_cast<float>(std::copysign(a - static_cast<double>(static_cast<int64_t>(q)) * wide, a));
}
inline double fmod_of(double a, double b) { return std::fmod(a, b); }
template <class C>
void fmod_loop(const LoopPlan& plan) {
  elementwise(
      plan, [](C a, C b) { return fmod_of(a, b); }, 4096);
}
template <class C>
void remainder_loop(const LoopPlan& plan) {
  elementwise(
      plan,
      [](C a, C b) {
        const C r = fmod_of(a, b), moved = r + b;
        return (r != 0) & ((b < 0) != (r < 0)) ? moved : r;  // no branch: signs are hard to foretell
      },
      4096);
}
template <class T>
void fmod_cpu(const LoopPlan& plan) {
  fmod_loop<compute_t<T>>(plan);
}
template <class T>
void remainder_cpu(const LoopPlan& plan) {
  remainder_loop<compute_t<T>>(plan);
}
TENON_REGISTER_SIMD_KERNEL(op::fmod, FloatsAndHalves, fmod_cpu);
TENON_REGISTER_SIMD_KERNEL(op::remainder, FloatsAndHalves, remainder_cpu);

// A power of ten is exact up to 10^22; dividing by it, not multiplying by its inverse, rounds once.
template <class C>
void round_to(const LoopPlan& plan, int64_t decimals) {
  const C scale = static_cast<C>(std::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals)));
  if (decimals < 0)
    elementwise(plan, [scale](C x) { return std::nearbyint(x / scale) * scale; });
  else
    elementwise(plan, [scale](C x) { return std::nearbyint(x * scale) / scale; });
}
template <class T>
void round_decimals_cpu(const LoopPlan& plan, const int64_t& decimals) {
  round_to<compute_t<T>>(plan, decimals);
}
TENON_REGISTER_SIMD_KERNEL(op::round_decimals, FloatsAndHalves, round_decimals_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;

template <class T>
void unchanged(const LoopPlan& plan) {
  elementwise(plan, [](T x) { return x; });
}
template <class T>
void unchanged_decimals(const LoopPlan& plan, const int64_t&) {
  unchanged<T>(plan);
}
TENON_REGISTER_KERNEL(op::ceil, cpu, Integers, unchanged);
TENON_REGISTER_KERNEL(op::floor, cpu, Integers, unchanged);
TENON_REGISTER_KERNEL(op::trunc, cpu, Integers, unchanged);
TENON_REGISTER_KERNEL(op::round, cpu, Integers, unchanged);
TENON_REGISTER_KERNEL(op::round_decimals, cpu, Integers, unchanged_decimals);

template <class T>
void fmod_integer(const LoopPlan& plan) {
  elementwise(
      plan,
      [](T a, T b) {
        TENON_CHECK(b != 0, ValueError, "fmod: other: division of integers by zero");
        return math::fmod_integer(a, b);
      },
      4096);
}
template <class T>
void remainder_integer(const LoopPlan& plan) {
  elementwise(
      plan,
      [](T a, T b) {
        TENON_CHECK(b != 0, ValueError, "remainder: other: division of integers by zero");
        return math::remainder(a, b);
      },
      4096);
}
TENON_REGISTER_KERNEL(op::fmod, cpu, Integers, fmod_integer);
TENON_REGISTER_KERNEL(op::remainder, cpu, Integers, remainder_integer);

}  // namespace
}  // namespace tenon::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
// Rounding and remainders (ops/rounding.h). Floats on vectors; integers and remainders one by one.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/rounding.h>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/rounding.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>
#include <tenon/kernels/cpu/simd_double_math.h>

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

// Of floats, in double: a quotient below 2^28 is told apart from whole numbers, its whole part times b is exact, and so
// is what remains. Vectors with another quotient, an infinite b or NaN go through the C library.
template <bool Floored>
struct RestWide {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    const V q = hn::Div(a, b), zero = hn::Zero(d);
    V r = hn::CopySign(hn::NegMulAdd(hn::Trunc(q), b, a), a);
    const auto small = hn::And(hn::Lt(hn::Abs(q), hn::Set(d, 0x1p28)), hn::Lt(hn::Abs(b), hn::Set(d, INFINITY)));
    if (HWY_UNLIKELY(!hn::AllTrue(d, small))) {
      HWY_ALIGN double x[hn::MaxLanes(D())], y[hn::MaxLanes(D())];
      hn::Store(a, d, x), hn::Store(b, d, y);
      for (std::size_t i = 0; i < hn::Lanes(d); ++i) x[i] = std::fmod(x[i], y[i]);
      r = hn::Load(d, x);
    }
    if constexpr (!Floored) return r;
    const auto apart = hn::Xor(hn::Lt(b, zero), hn::Lt(r, zero));
    return hn::IfThenElse(hn::And(hn::Ne(r, zero), apart), hn::Add(r, b), r);
  }
};
template <bool Floored>
struct RestBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return in_double(d, RestWide<Floored>(), a, b);
  }
};
template <bool Floored, class T>
void rest_cpu(const LoopPlan& plan) {
  if constexpr (std::is_same_v<T, double>)
    elementwise(
        plan, [](T a, T b) { return Floored ? math::remainder(a, b) : std::fmod(a, b); }, 2048);
  else
    elementwise<float>(plan, RestBody<Floored>(), 8192);
}
template <class T>
void fmod_cpu(const LoopPlan& plan) {
  rest_cpu<false, T>(plan);
}
template <class T>
void remainder_cpu(const LoopPlan& plan) {
  rest_cpu<true, T>(plan);
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

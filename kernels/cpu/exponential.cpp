// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms of ops/exponential.h. float32 and the 16-bit floats compute in double and round once,
// float64 uses the C library; complex numbers compute in double.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/exponential.h>
#include <tenon/ops/exponential.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/exponential.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>
#include <tenon/kernels/cpu/simd_double_math.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr int64_t kExponentialGrain = 4096;  // elements of a function of some 25 instructions worth a second thread

#define TENON_EXPONENTIAL(name, vector_expression, double_expression) \
  TENON_DOUBLE_MATH_UNARY(name, vector_expression, double_expression, kExponentialGrain)

TENON_EXPONENTIAL(exp2, wide::exp2(d, x), std::exp2(x))
TENON_EXPONENTIAL(expm1, wide::expm1(d, x), std::expm1(x))
TENON_EXPONENTIAL(log2, hn::Mul(wide::log(d, x), hn::Set(d, 1.4426950408889634)), std::log2(x))
TENON_EXPONENTIAL(log10, hn::Mul(wide::log(d, x), hn::Set(d, 0.43429448190325183)), std::log10(x))
TENON_EXPONENTIAL(log1p, wide::log1p(d, x), std::log1p(x))
TENON_EXPONENTIAL(special_entr,
                  hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, -__builtin_huge_val()),
                                 hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Zero(d),
                                                hn::Neg(hn::Mul(x, wide::log(d, x))))),
                  math::entr(x))
#undef TENON_EXPONENTIAL

template <class T>
void logit_cpu(const LoopPlan& plan, const double& eps) {
  using C = compute_t<T>;
  elementwise(
      plan, [eps](C x) { return static_cast<C>(math::logit(static_cast<double>(x), eps)); }, kExponentialGrain);
}
TENON_REGISTER_SIMD_KERNEL(op::logit, FloatsAndHalves, logit_cpu);

// log(base^a + base^b) with 1 / log(base) = kScale.
template <bool kBinary>
struct LogAddBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return in_double(
        d,
        [](auto dd, auto x, auto y) HWY_ATTR {
          const auto top = hn::Max(x, y), less = hn::Neg(hn::Abs(hn::Sub(x, y)));
          const auto far = hn::Set(dd, kBinary ? 0.69314718055994531 : 1.0),
                     back = hn::Set(dd, kBinary ? 1.4426950408889634 : 1.0);
          const auto sum = hn::MulAdd(wide::log1p(dd, wide::exp(dd, hn::Mul(less, far))), back, top);
          // Equal infinities have no difference; NaN has no order.
          const auto same = hn::Eq(x, y);
          const auto infinite = hn::Eq(hn::Abs(top), hn::Set(dd, __builtin_huge_val()));
          return hn::IfThenElse(hn::And(same, infinite), top, hn::IfThenElse(hn::IsNaN(x), x, sum));
        },
        a, b);
  }
};
template <class T>
void logaddexp_cpu(const LoopPlan& plan) {
  if constexpr (std::is_same_v<T, double>)
    elementwise(
        plan, [](double a, double b) { return math::logaddexp(a, b); }, kExponentialGrain);
  else
    elementwise<float>(plan, LogAddBody<false>(), kExponentialGrain);
}
template <class T>
void logaddexp2_cpu(const LoopPlan& plan) {
  if constexpr (std::is_same_v<T, double>)
    elementwise(
        plan, [](double a, double b) { return math::logaddexp2(a, b); }, kExponentialGrain);
  else
    elementwise<float>(plan, LogAddBody<true>(), kExponentialGrain);
}
TENON_REGISTER_SIMD_KERNEL(op::logaddexp, FloatsAndHalves, logaddexp_cpu);
TENON_REGISTER_SIMD_KERNEL(op::logaddexp2, FloatsAndHalves, logaddexp2_cpu);

template <bool kPlusOne>
struct XlogyBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return in_double(
        d,
        [](auto dd, auto x, auto y) HWY_ATTR {
          const auto product = hn::Mul(x, kPlusOne ? wide::log1p(dd, y) : wide::log(dd, y));
          return hn::IfThenElse(hn::IsNaN(y), y, hn::IfThenZeroElse(hn::Eq(x, hn::Zero(dd)), product));
        },
        a, b);
  }
};
template <class T>
void xlogy_cpu(const LoopPlan& plan) {
  if constexpr (std::is_same_v<T, double>)
    elementwise(
        plan, [](double a, double b) { return math::xlogy(a, b); }, kExponentialGrain);
  else
    elementwise<float>(plan, XlogyBody<false>(), kExponentialGrain);
}
template <class T>
void xlog1py_cpu(const LoopPlan& plan) {
  if constexpr (std::is_same_v<T, double>)
    elementwise(
        plan, [](double a, double b) { return math::xlog1py(a, b); }, kExponentialGrain);
  else
    elementwise<float>(plan, XlogyBody<true>(), kExponentialGrain);
}
TENON_REGISTER_SIMD_KERNEL(op::xlogy, FloatsAndHalves, xlogy_cpu);
TENON_REGISTER_SIMD_KERNEL(op::special_xlog1py, FloatsAndHalves, xlog1py_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;

#define TENON_COMPLEX_EXPONENTIAL(name, expression) \
  template <class T>                                \
  void name##_complex(const LoopPlan& plan) {       \
    elementwise(                                    \
        plan,                                       \
        [](T v) {                                   \
          const math::Z z(v);                       \
          return T(expression);                     \
        },                                          \
        256);                                       \
  }                                                 \
  TENON_REGISTER_KERNEL(op::name, cpu, Complexes, name##_complex);
TENON_COMPLEX_EXPONENTIAL(exp2, math::exp2(z))
TENON_COMPLEX_EXPONENTIAL(expm1, math::expm1(z))
TENON_COMPLEX_EXPONENTIAL(log2, math::log_base(z, 1.4426950408889634))
TENON_COMPLEX_EXPONENTIAL(log10, math::log_base(z, 0.43429448190325183))
TENON_COMPLEX_EXPONENTIAL(log1p, math::log1p(z))
#undef TENON_COMPLEX_EXPONENTIAL

template <class T>
void logaddexp_complex(const LoopPlan& plan) {
  elementwise(
      plan, [](T a, T b) { return T(math::logaddexp(math::Z(a), math::Z(b))); }, 256);
}
TENON_REGISTER_KERNEL(op::logaddexp, cpu, Complexes, logaddexp_complex);

}  // namespace
}  // namespace tenon::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
// Special functions (ops/special.h): erf, erfc and the normal distribution on vectors, the others one by one in double.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/special.h>
#include <tenon/ops/special.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/special.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>
#include <tenon/kernels/cpu/simd_double_math.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr int64_t kSpecialGrain = 2048;  // elements worth a second thread

#define TENON_ERROR_FUNCTION(name, vector_expression, double_expression) \
  TENON_DOUBLE_MATH_UNARY(name, vector_expression, double_expression, kSpecialGrain)

TENON_ERROR_FUNCTION(erf, wide::erf(d, x), std::erf(x))
TENON_ERROR_FUNCTION(erfc, wide::erfc(d, x), std::erfc(x))
TENON_ERROR_FUNCTION(special_ndtr, hn::Mul(hn::Set(d, 0.5), wide::erfc(d, hn::Mul(x, hn::Set(d, -math::kSqrtHalf)))),
                     math::ndtr(x))
#undef TENON_ERROR_FUNCTION

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;

#define TENON_SPECIAL_FUNCTION(name, function)                                                  \
  template <class T>                                                                            \
  void name##_scalar(const LoopPlan& plan) {                                                    \
    using C = compute_t<T>;                                                                     \
    elementwise(                                                                                \
        plan, [](C x) { return static_cast<C>(math::function(static_cast<double>(x))); }, 512); \
  }                                                                                             \
  TENON_REGISTER_KERNEL(op::name, cpu, FloatsAndHalves, name##_scalar);
TENON_SPECIAL_FUNCTION(lgamma, lgamma)
TENON_SPECIAL_FUNCTION(digamma, digamma)
TENON_SPECIAL_FUNCTION(special_erfcx, erfcx)
TENON_SPECIAL_FUNCTION(special_log_ndtr, log_ndtr)
TENON_SPECIAL_FUNCTION(special_ndtri, ndtri)
TENON_SPECIAL_FUNCTION(i0, i0)
TENON_SPECIAL_FUNCTION(special_i0e, i0e)
TENON_SPECIAL_FUNCTION(special_i1, i1)
TENON_SPECIAL_FUNCTION(special_i1e, i1e)
#undef TENON_SPECIAL_FUNCTION

template <class T>
void erfinv_cpu(const LoopPlan& plan) {
  using C = compute_t<T>;
  elementwise(
      plan, [](C x) { return static_cast<C>(math::erfinv(static_cast<double>(x), sizeof(C) == 8)); }, 1024);
}
TENON_REGISTER_KERNEL(op::erfinv, cpu, FloatsAndHalves, erfinv_cpu);

template <class T>
void polygamma_cpu(const LoopPlan& plan, const int64_t& n) {
  using C = compute_t<T>;
  elementwise(
      plan, [n](C x) { return static_cast<C>(math::polygamma(n, static_cast<double>(x))); }, 256);
}
TENON_REGISTER_KERNEL(op::polygamma, cpu, FloatsAndHalves, polygamma_cpu);

}  // namespace
}  // namespace tenon::cpu
#endif

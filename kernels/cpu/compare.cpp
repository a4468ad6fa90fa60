// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic (ops/compare.h): two operands of one dtype, a bool result.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/compare.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/compare.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>

#define TENON_COMPARISONS(form) form(eq, ==) form(ne, !=) form(lt, <) form(le, <=) form(gt, >) form(ge, >=)

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

#define TENON_COMPARE(name, sign)                         \
  template <class C>                                      \
  void name##_loop(const LoopPlan& plan) {                \
    elementwise(plan, [](C a, C b) { return a sign b; }); \
  }                                                       \
  template <class T>                                      \
  void name##_cpu(const LoopPlan& plan) {                 \
    name##_loop<compute_t<T>>(plan);                      \
  }                                                       \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);
TENON_COMPARISONS(TENON_COMPARE)
#undef TENON_COMPARE

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;
using IntegersAndBool = Join<Integers, Bools>;

#define TENON_COMPARE(name, sign)                         \
  template <class T>                                      \
  void name##_exact(const LoopPlan& plan) {               \
    elementwise(plan, [](T a, T b) { return a sign b; }); \
  }                                                       \
  TENON_REGISTER_KERNEL(op::name, cpu, IntegersAndBool, name##_exact);
TENON_COMPARISONS(TENON_COMPARE)
TENON_REGISTER_KERNEL(op::eq, cpu, Complexes, eq_exact);
TENON_REGISTER_KERNEL(op::ne, cpu, Complexes, ne_exact);

// The operator hands both operands over in one dtype; whether they are zero is all that counts.
#define TENON_LOGICAL(name, sign)                                                    \
  template <class C>                                                                 \
  void name##_loop(const LoopPlan& plan) {                                           \
    elementwise(plan, [](C a, C b) -> bool { return (a != C(0)) sign(b != C(0)); }); \
  }                                                                                  \
  template <class T>                                                                 \
  void name##_cpu(const LoopPlan& plan) {                                            \
    name##_loop<compute_t<T>>(plan);                                                 \
  }                                                                                  \
  TENON_REGISTER_KERNEL(op::name, cpu, AllTypes, name##_cpu);
TENON_LOGICAL(logical_and, &)
TENON_LOGICAL(logical_or, |)
TENON_LOGICAL(logical_xor, !=)

}  // namespace
}  // namespace tenon::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
// Signs (ops/sign.h). The compiler vectorises these loops.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/sign.h>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/sign.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

template <class C>
void sign_loop(const LoopPlan& plan) {
  elementwise(plan, [](C x) { return static_cast<C>(static_cast<C>(x > 0) - static_cast<C>(x < 0)); });
}
template <class C>
void copysign_loop(const LoopPlan& plan) {
  elementwise(plan, [](C x, C y) { return std::copysign(x, y); });
}
template <class C>
void heaviside_loop(const LoopPlan& plan) {
  elementwise(plan, [](C x, C at_zero) { return x == 0 ? at_zero : static_cast<C>(x > 0); });
}
template <class T>
void sign_cpu(const LoopPlan& plan) {
  sign_loop<compute_t<T>>(plan);
}
template <class T>
void copysign_cpu(const LoopPlan& plan) {
  copysign_loop<compute_t<T>>(plan);
}
template <class T>
void heaviside_cpu(const LoopPlan& plan) {
  heaviside_loop<compute_t<T>>(plan);
}
TENON_REGISTER_SIMD_KERNEL(op::sign, FloatsAndHalves, sign_cpu);
TENON_REGISTER_SIMD_KERNEL(op::copysign, FloatsAndHalves, copysign_cpu);
TENON_REGISTER_SIMD_KERNEL(op::heaviside, FloatsAndHalves, heaviside_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;
using IntegersAndBool = Join<Integers, Bools>;

template <class T>
bool below_zero(T x) {
  if constexpr (std::is_signed_v<T>) return x < 0;
  return false;
}
template <class T>
void sign_integer(const LoopPlan& plan) {
  elementwise(plan, [](T x) { return static_cast<T>((x > 0) - below_zero(x)); });
}
template <class T>
void heaviside_integer(const LoopPlan& plan) {
  elementwise(plan, [](T x, T at_zero) { return x == 0 ? at_zero : static_cast<T>(x > 0); });
}
template <class T>
void signbit_cpu(const LoopPlan& plan) {
  using C = compute_t<T>;
  if constexpr (std::is_floating_point_v<C>)
    elementwise(plan, [](C x) -> bool { return std::signbit(x); });
  else
    elementwise(plan, [](C x) -> bool { return below_zero(x); });
}
TENON_REGISTER_KERNEL(op::sign, cpu, IntegersAndBool, sign_integer);
TENON_REGISTER_KERNEL(op::heaviside, cpu, IntegersAndBool, heaviside_integer);
using Reals = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::signbit, cpu, Reals, signbit_cpu);

}  // namespace
}  // namespace tenon::cpu
#endif

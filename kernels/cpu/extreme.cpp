// SPDX-License-Identifier: Apache-2.0
// The largest and smallest elements and their positions (ops/reduce.h).
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/run_reduce.h>
#include <tenon/ops/reduce.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/extreme.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/extreme.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

template <bool kMax, class T>
void extreme(const ReducePlan& plan) {
  using C = compute_t<T>;
  reduce<ExtremeBody<kMax, C>, C, T>(plan, nullptr, sizeof(C));
}
template <bool kMax, class T>
void positions(const ReducePlan& plan, bool with_value) {
  using C = compute_t<T>;
  reduce<PositionBody<kMax, C>, C, T>(plan, &with_value, PositionBody<kMax, C>::kBytes);
}
template <class T>
void amax_cpu(const ReducePlan& plan) {
  extreme<true, T>(plan);
}
template <class T>
void amin_cpu(const ReducePlan& plan) {
  extreme<false, T>(plan);
}
template <class T>
void max_dim_cpu(const ReducePlan& plan) {
  positions<true, T>(plan, true);
}
template <class T>
void min_dim_cpu(const ReducePlan& plan) {
  positions<false, T>(plan, true);
}
template <class T>
void argmax_cpu(const ReducePlan& plan) {
  positions<true, T>(plan, false);
}
template <class T>
void argmin_cpu(const ReducePlan& plan) {
  positions<false, T>(plan, false);
}

TENON_REGISTER_SIMD_KERNEL(op::amax, FloatsAndHalves, amax_cpu);
TENON_REGISTER_SIMD_KERNEL(op::amin, FloatsAndHalves, amin_cpu);
TENON_REGISTER_SIMD_KERNEL(op::max, FloatsAndHalves, amax_cpu);
TENON_REGISTER_SIMD_KERNEL(op::min, FloatsAndHalves, amin_cpu);
TENON_REGISTER_SIMD_KERNEL(op::max_dim, FloatsAndHalves, max_dim_cpu);
TENON_REGISTER_SIMD_KERNEL(op::min_dim, FloatsAndHalves, min_dim_cpu);
TENON_REGISTER_SIMD_KERNEL(op::argmax, FloatsAndHalves, argmax_cpu);
TENON_REGISTER_SIMD_KERNEL(op::argmin, FloatsAndHalves, argmin_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
namespace target = HWY_NAMESPACE;
using IntegersAndBool = Join<Integers, Bools>;

TENON_REGISTER_KERNEL(op::amax, cpu, IntegersAndBool, target::amax_cpu);
TENON_REGISTER_KERNEL(op::amin, cpu, IntegersAndBool, target::amin_cpu);
TENON_REGISTER_KERNEL(op::max, cpu, IntegersAndBool, target::amax_cpu);
TENON_REGISTER_KERNEL(op::min, cpu, IntegersAndBool, target::amin_cpu);
TENON_REGISTER_KERNEL(op::max_dim, cpu, IntegersAndBool, target::max_dim_cpu);
TENON_REGISTER_KERNEL(op::min_dim, cpu, IntegersAndBool, target::min_dim_cpu);
TENON_REGISTER_KERNEL(op::argmax, cpu, Integers, target::argmax_cpu);
TENON_REGISTER_KERNEL(op::argmin, cpu, Integers, target::argmin_cpu);

}  // namespace
}  // namespace tenon::cpu
#endif

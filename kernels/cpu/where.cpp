// SPDX-License-Identifier: Apache-2.0
// Choosing between values (ops/where.h). where moves bytes by element width; clamp orders real numbers.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/where.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/where.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

/// An element type of that width.
template <class W>
using OfWidth = std::conditional_t<
    sizeof(W) == 1, uint8_t,
    std::conditional_t<
        sizeof(W) == 2, int16_t,
        std::conditional_t<sizeof(W) == 4, int32_t, std::conditional_t<sizeof(W) == 8, int64_t, complex<double>>>>>;

template <class W>
void where_cpu(const LoopPlan& plan) {
  using T = OfWidth<W>;
  const auto choose = [](bool condition, T a, T b) { return condition ? a : b; };
  RunBody body = ScalarLoop<decltype(choose), T, bool, T, T>::body(choose, kGrain);
  for (const int i : {0, 2, 3}) body.dtype[i] = plan.dtype[i];  // whatever they are, they have this width
  run_body(plan, body, 4);
}
TENON_REGISTER_SIMD_KERNEL(op::where, Widths, where_cpu);

// NaN in any operand wins, and the upper bound wins over the lower one.
template <class C>
void clamp_loop(const LoopPlan& plan) {
  elementwise(plan, [](C x, C low, C high) {
    const C v = x < low || low != low ? low : x;
    return v > high || high != high ? high : v;
  });
}
template <class C>
void clamp_min_loop(const LoopPlan& plan) {
  elementwise(plan, [](C x, C low) { return x < low || low != low ? low : x; });
}
template <class C>
void clamp_max_loop(const LoopPlan& plan) {
  elementwise(plan, [](C x, C high) { return x > high || high != high ? high : x; });
}
template <class T>
void clamp_cpu(const LoopPlan& plan) {
  clamp_loop<compute_t<T>>(plan);
}
template <class T>
void clamp_min_cpu(const LoopPlan& plan) {
  clamp_min_loop<compute_t<T>>(plan);
}
template <class T>
void clamp_max_cpu(const LoopPlan& plan) {
  clamp_max_loop<compute_t<T>>(plan);
}
TENON_REGISTER_SIMD_KERNEL(op::clamp, FloatsAndHalves, clamp_cpu);
TENON_REGISTER_SIMD_KERNEL(op::clamp_min, FloatsAndHalves, clamp_min_cpu);
TENON_REGISTER_SIMD_KERNEL(op::clamp_max, FloatsAndHalves, clamp_max_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using IntegersAndBool = Join<Integers, Bools>;
template <class T>
void clamp_integer(const LoopPlan& plan) {
  HWY_NAMESPACE::clamp_loop<T>(plan);
}
template <class T>
void clamp_min_integer(const LoopPlan& plan) {
  HWY_NAMESPACE::clamp_min_loop<T>(plan);
}
template <class T>
void clamp_max_integer(const LoopPlan& plan) {
  HWY_NAMESPACE::clamp_max_loop<T>(plan);
}
TENON_REGISTER_KERNEL(op::clamp, cpu, IntegersAndBool, clamp_integer);
TENON_REGISTER_KERNEL(op::clamp_min, cpu, IntegersAndBool, clamp_min_integer);
TENON_REGISTER_KERNEL(op::clamp_max, cpu, IntegersAndBool, clamp_max_integer);
}  // namespace
}  // namespace tenon::cpu
#endif

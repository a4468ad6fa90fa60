// SPDX-License-Identifier: Apache-2.0
// Operators of three tensors (ops/ternary.h). Floats once per SIMD target; the compiler vectorises the loops.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/ternary.h>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/ternary.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

template <class C>
void addcmul_loop(const LoopPlan& plan, C value) {
  elementwise(plan, [value](C x, C a, C b) { return x + value * a * b; });
}
template <class C>
void addcdiv_loop(const LoopPlan& plan, C value) {
  elementwise(plan, [value](C x, C a, C b) { return x + value * a / b; });
}
// From the nearer end, so that both ends are exact.
template <class C>
void lerp_loop(const LoopPlan& plan) {
  elementwise(plan, [](C a, C b, C w) {
    const C distance = b - a;
    return std::fabs(w) < C(0.5) ? a + w * distance : b - distance * (1 - w);
  });
}
template <class T>
void addcmul_cpu(const LoopPlan& plan, const Scalar& value) {
  addcmul_loop(plan, value.to<compute_t<T>>());
}
template <class T>
void addcdiv_cpu(const LoopPlan& plan, const Scalar& value) {
  addcdiv_loop(plan, value.to<compute_t<T>>());
}
template <class T>
void lerp_cpu(const LoopPlan& plan) {
  lerp_loop<compute_t<T>>(plan);
}
TENON_REGISTER_SIMD_KERNEL(op::addcmul, FloatsAndHalves, addcmul_cpu);
TENON_REGISTER_SIMD_KERNEL(op::addcdiv, FloatsAndHalves, addcdiv_cpu);
TENON_REGISTER_SIMD_KERNEL(op::lerp, FloatsAndHalves, lerp_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
using HWY_NAMESPACE::elementwise;

template <class T>
void addcmul_integer(const LoopPlan& plan, const Scalar& value) {
  elementwise(plan, [factor = static_cast<uint64_t>(value.to<T>())](T x, T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(x) + factor * static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  });
}
template <class T>
void addcmul_complex(const LoopPlan& plan, const Scalar& value) {
  elementwise(plan, [factor = value.to<T>()](T x, T a, T b) { return x + factor * a * b; });
}
template <class T>
void addcdiv_complex(const LoopPlan& plan, const Scalar& value) {
  elementwise(plan, [factor = value.to<T>()](T x, T a, T b) { return x + factor * a / b; });
}
template <class T>
void lerp_complex(const LoopPlan& plan) {
  elementwise(plan, [](T a, T b, T w) {
    using C = typename T::value_type;
    const T distance = b - a;
    return w.re * w.re + w.im * w.im < C(0.25) ? a + w * distance : b - distance * (T(1) - w);
  });
}
TENON_REGISTER_KERNEL(op::addcmul, cpu, Integers, addcmul_integer);
TENON_REGISTER_KERNEL(op::addcmul, cpu, Complexes, addcmul_complex);
TENON_REGISTER_KERNEL(op::addcdiv, cpu, Complexes, addcdiv_complex);
TENON_REGISTER_KERNEL(op::lerp, cpu, Complexes, lerp_complex);

}  // namespace
}  // namespace tenon::cpu
#endif

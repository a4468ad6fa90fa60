// SPDX-License-Identifier: Apache-2.0
// Complex numbers from their parts, and angles of real ones (ops/complex.h).
#include <tenon/kernels/cpu/loops.h>
#include <tenon/ops/complex.h>

namespace tenon::cpu {
namespace {

template <class T>
void make_complex_cpu(const LoopPlan& plan) {
  elementwise(plan, [](T re, T im) { return complex<T>(re, im); });
}
template <class T>
void angle_cpu(const LoopPlan& plan) {
  using C = compute_t<T>;
  elementwise(plan, [](C x) { return x < 0 ? static_cast<C>(3.14159265358979324) : x != x ? x : C(0); });
}
TENON_REGISTER_KERNEL(op::make_complex, cpu, Floats, make_complex_cpu);
TENON_REGISTER_KERNEL(op::angle, cpu, FloatsAndHalves, angle_cpu);

}  // namespace
}  // namespace tenon::cpu

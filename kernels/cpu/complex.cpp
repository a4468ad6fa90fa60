// SPDX-License-Identifier: Apache-2.0
// Complex numbers from their parts, and their angles (ops/complex.h).
#include <tenon/kernels/cpu/loops.h>
#include <tenon/ops/complex.h>

#include <cmath>

namespace tenon::cpu {
namespace {

template <class T>
void make_complex_cpu(const LoopPlan& plan) {
  elementwise(plan, [](T re, T im) { return complex<T>(re, im); });
}
template <class T>
void angle_cpu(const LoopPlan& plan) {
  using C = compute_t<T>;
  if constexpr (is_complex_v<T>)
    elementwise(
        plan, [](T z) { return std::atan2(z.im, z.re); }, 1024);
  else
    elementwise(plan, [](C x) { return x < 0 ? static_cast<C>(3.14159265358979324) : x != x ? x : C(0); });
}
using Inexact = Join<FloatsAndHalves, Complexes>;
TENON_REGISTER_KERNEL(op::make_complex, cpu, Floats, make_complex_cpu);
TENON_REGISTER_KERNEL(op::angle, cpu, Inexact, angle_cpu);

}  // namespace
}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
// Products (ops/statistics.h): floats accumulate in float64 lanes, once per SIMD target; integers wrap in int64.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/run_reduce.h>
#include <tenon/ops/statistics.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/statistics.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/reduce.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

template <class In, class Acc = typename SumOf<In>::type>
struct ProductBody : SimpleBody<ProductBody<In>, In, Acc> {
  static Acc identity() { return Acc(1); }
  static Acc combine(Acc a, Acc b) {
    if constexpr (std::is_integral_v<Acc>)
      return static_cast<Acc>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
  static Acc step(Acc a, In x) { return combine(a, static_cast<Acc>(x)); }
  template <class T>
  static void store(const void*, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    const Acc* a = static_cast<const Acc*>(acc);
    if constexpr (std::is_integral_v<Acc> || is_complex_v<Acc>)
      store_values<T>(out[0], stride[0], n, [&](int64_t i) { return a[i]; });
    else
      store_values<T>(out[0], stride[0], n, [&](int64_t i) { return static_cast<compute_t<T>>(a[i]); });
  }
};
template <class T>
void prod_cpu(const ReducePlan& plan) {
  using C = compute_t<T>;
  using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  reduce<ProductBody<C>, C, Out>(plan, nullptr, sizeof(typename SumOf<C>::type));
}
TENON_REGISTER_SIMD_KERNEL(op::prod, FloatsAndHalves, prod_cpu);
TENON_REGISTER_SIMD_KERNEL(op::prod_dim, FloatsAndHalves, prod_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
namespace target = HWY_NAMESPACE;
using IntegersAndBool = Join<Integers, Bools>;
TENON_REGISTER_KERNEL(op::prod, cpu, IntegersAndBool, target::prod_cpu);
TENON_REGISTER_KERNEL(op::prod, cpu, Complexes, target::prod_cpu);
TENON_REGISTER_KERNEL(op::prod_dim, cpu, IntegersAndBool, target::prod_cpu);
TENON_REGISTER_KERNEL(op::prod_dim, cpu, Complexes, target::prod_cpu);
}  // namespace
}  // namespace tenon::cpu
#endif

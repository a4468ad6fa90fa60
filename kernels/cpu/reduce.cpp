// SPDX-License-Identifier: Apache-2.0
// Sums, means, variances and truth (ops/reduce.h); extremes are in extreme.cpp. float64, float32 and the 16-bit floats
// once per SIMD target, the rest once.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/run_reduce.h>
#include <tenon/ops/reduce.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/reduce.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/reduce.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

template <class T>
void sum_cpu(const ReducePlan& plan) {
  using C = compute_t<T>;
  using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  const double divisor = 1;
  reduce<SumBody<C>, C, Out>(plan, &divisor, sizeof(typename SumOf<C>::type));
}
template <class T>
void mean_cpu(const ReducePlan& plan) {
  using C = compute_t<T>;
  const double divisor = static_cast<double>(plan.reduced_numel);
  reduce<SumBody<C>, C, T>(plan, &divisor, sizeof(typename SumOf<C>::type));
}
template <class T>
void var_cpu(const ReducePlan& plan, const double& correction) {
  using C = compute_t<T>;
  reduce<VarianceBody<C>, C, T>(plan, &correction, VarianceBody<C>::kBytes);
}
TENON_REGISTER_SIMD_KERNEL(op::sum, FloatsAndHalves, sum_cpu);
TENON_REGISTER_SIMD_KERNEL(op::mean, FloatsAndHalves, mean_cpu);
TENON_REGISTER_SIMD_KERNEL(op::var, FloatsAndHalves, var_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
namespace target = HWY_NAMESPACE;
using IntegersAndBool = Join<Integers, Bools>;

TENON_REGISTER_KERNEL(op::sum, cpu, IntegersAndBool, target::sum_cpu);
TENON_REGISTER_KERNEL(op::sum, cpu, Complexes, target::sum_cpu);
TENON_REGISTER_KERNEL(op::mean, cpu, Complexes, target::mean_cpu);

// Complex variance: of the real and of the imaginary parts, added.
template <class R>
struct ComplexVariance {
  struct Acc {
    double re, im, sum, count;
  };
  using In = complex<R>;
  static void init(const void*, void* acc, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(acc)[i] = {0, 0, 0, 0};
  }
  static void step(Acc& a, In x) {
    a.count += 1;
    const double re = x.re - a.re, im = x.im - a.im;
    a.re += re / a.count;
    a.im += im / a.count;
    a.sum += re * (x.re - a.re) + im * (x.im - a.im);
  }
  static void run(const void*, void* acc, const void* x, int64_t n, int64_t) {
    for (int64_t i = 0; i < n; ++i) step(*static_cast<Acc*>(acc), static_cast<const In*>(x)[i]);
  }
  static void columns(const void*, void* acc, const void* x, int64_t columns, int64_t rows, int64_t row_stride,
                      int64_t) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < columns; ++j)
        step(static_cast<Acc*>(acc)[j], reinterpret_cast<const In*>(static_cast<const char*>(x) + r * row_stride)[j]);
  }
  static void merge(const void*, void* acc, const void* later, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      Acc& a = static_cast<Acc*>(acc)[i];
      const Acc& b = static_cast<const Acc*>(later)[i];
      if (b.count == 0) continue;
      const double all = a.count + b.count, re = b.re - a.re, im = b.im - a.im;
      a.re += re * (b.count / all);
      a.im += im * (b.count / all);
      a.sum += b.sum + (re * re + im * im) * (a.count * b.count / all);
      a.count = all;
    }
  }
  template <class T>
  static void store(const void* f, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    const double correction = *static_cast<const double*>(f);
    target::store_values<T>(out[0], stride[0], n, [&](int64_t i) {
      const Acc& a = static_cast<const Acc*>(acc)[i];
      return a.sum / (a.count > correction ? a.count - correction : 0);
    });
  }
};
template <class T>
void var_complex(const ReducePlan& plan, const double& correction) {
  using R = typename T::value_type;
  target::reduce<ComplexVariance<R>, T, R>(plan, &correction, sizeof(typename ComplexVariance<R>::Acc));
}
TENON_REGISTER_KERNEL(op::var, cpu, Complexes, var_complex);

// all and any: the result is a byte, 0 or 1, for bool and uint8 alike.
template <bool kAll, class In>
struct TruthBody : target::SimpleBody<TruthBody<kAll, In>, In, uint8_t> {
  using Base = target::SimpleBody<TruthBody<kAll, In>, In, uint8_t>;
  static uint8_t identity() { return kAll; }
  static uint8_t step(uint8_t a, In x) { return combine(a, x != In(0)); }
  static uint8_t combine(uint8_t a, uint8_t b) { return kAll ? a & b : a | b; }
  static void run(const void* f, void* acc, const void* x, int64_t n, int64_t position) {
    constexpr int64_t kBlock = 4096;  // between looks at whether it is decided
    uint8_t& decided = *static_cast<uint8_t*>(acc);
    for (int64_t b = 0; b < n && decided == kAll; b += kBlock)
      Base::run(f, acc, static_cast<const In*>(x) + b, n - b < kBlock ? n - b : kBlock, position);
  }
  template <class T>
  static void store(const void*, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    target::store_values<T>(out[0], stride[0], n, [&](int64_t i) { return static_cast<const uint8_t*>(acc)[i]; });
  }
};
template <class T>
void all_cpu(const ReducePlan& plan) {
  using C = compute_t<T>;
  target::reduce<TruthBody<true, C>, C, uint8_t>(plan, nullptr, 1);
}
template <class T>
void any_cpu(const ReducePlan& plan) {
  using C = compute_t<T>;
  target::reduce<TruthBody<false, C>, C, uint8_t>(plan, nullptr, 1);
}
TENON_REGISTER_KERNEL(op::all, cpu, AllTypes, all_cpu);
TENON_REGISTER_KERNEL(op::any, cpu, AllTypes, any_cpu);

}  // namespace
}  // namespace tenon::cpu
#endif

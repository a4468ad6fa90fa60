// SPDX-License-Identifier: Apache-2.0
// Vector norms (ops/vector_norm.h), accumulated in float64: squares of float32 cannot overflow there.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/run_reduce.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/vector_norm.h>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/vector_norm.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/reduce.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

enum class Norm { count, sum, squares, largest, smallest };

template <class In>
HWY_INLINE double size_of(In x) {
  if constexpr (is_complex_v<In>)
    return std::hypot(static_cast<double>(x.re), static_cast<double>(x.im));
  else
    return std::fabs(static_cast<double>(x));
}

template <Norm kNorm, class In>
struct NormBody : SimpleBody<NormBody<kNorm, In>, In, double> {
  static double identity() { return kNorm == Norm::smallest ? __builtin_huge_val() : 0; }
  static double combine(double a, double b) {
    if constexpr (kNorm == Norm::largest)
      return a > b || a != a ? a : b;
    else if constexpr (kNorm == Norm::smallest)
      return a < b || a != a ? a : b;
    else
      return a + b;
  }
  static double step(double a, In x) {
    if constexpr (kNorm == Norm::count)
      return a + (x != In(0));
    else if constexpr (kNorm == Norm::squares && is_complex_v<In>)
      return a + static_cast<double>(x.re) * x.re + static_cast<double>(x.im) * x.im;
    else if constexpr (kNorm == Norm::squares)
      return a + static_cast<double>(x) * static_cast<double>(x);
    else
      return combine(a, size_of(x));
  }
  template <class T>
  static void store(const void*, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    const double* a = static_cast<const double*>(acc);
    store_values<T>(out[0], stride[0], n, [&](int64_t i) {
      return static_cast<compute_t<T>>(kNorm == Norm::squares ? std::sqrt(a[i]) : a[i]);
    });
  }
};

// Any other power. f: the power.
template <class In>
struct PowerNorm {
  static void init(const void*, void* acc, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<double*>(acc)[i] = 0;
  }
  static void run(const void* f, void* acc, const void* x, int64_t n, int64_t) {
    const double p = *static_cast<const double*>(f);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::pow(size_of(static_cast<const In*>(x)[i]), p);
    *static_cast<double*>(acc) += sum;
  }
  static void columns(const void* f, void* acc, const void* x, int64_t columns, int64_t rows, int64_t row_stride,
                      int64_t) {
    const double p = *static_cast<const double*>(f);
    for (int64_t r = 0; r < rows; ++r) {
      const In* row = reinterpret_cast<const In*>(static_cast<const char*>(x) + r * row_stride);
      for (int64_t j = 0; j < columns; ++j) static_cast<double*>(acc)[j] += std::pow(size_of(row[j]), p);
    }
  }
  static void merge(const void*, void* acc, const void* later, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<double*>(acc)[i] += static_cast<const double*>(later)[i];
  }
  template <class T>
  static void store(const void* f, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    const double inverse = 1 / *static_cast<const double*>(f);
    const double* a = static_cast<const double*>(acc);
    store_values<T>(out[0], stride[0], n,
                    [&](int64_t i) { return static_cast<compute_t<T>>(std::pow(a[i], inverse)); });
  }
};

template <class T>
void vector_norm_cpu(const ReducePlan& plan, const double& ord) {
  using C = compute_t<T>;
  using R = math::real_t<T>;
  const auto simple = [&](auto body) { reduce<decltype(body), C, R>(plan, nullptr, sizeof(double)); };
  if (ord == 2)
    simple(NormBody<Norm::squares, C>());
  else if (ord == 1)
    simple(NormBody<Norm::sum, C>());
  else if (ord == 0)
    simple(NormBody<Norm::count, C>());
  else if (ord == __builtin_huge_val())
    simple(NormBody<Norm::largest, C>());
  else if (ord == -__builtin_huge_val())
    simple(NormBody<Norm::smallest, C>());
  else
    reduce<PowerNorm<C>, C, R>(plan, &ord, sizeof(double));
}
TENON_REGISTER_SIMD_KERNEL(op::linalg_vector_norm, FloatsAndHalves, vector_norm_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
namespace target = HWY_NAMESPACE;
TENON_REGISTER_KERNEL(op::linalg_vector_norm, cpu, Complexes, target::vector_norm_cpu);
}  // namespace
}  // namespace tenon::cpu
#endif

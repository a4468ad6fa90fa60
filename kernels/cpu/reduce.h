// SPDX-License-Identifier: Apache-2.0
// Bodies of reductions: what simple ones share, sums in float64, variance (extremes are in extreme.h). Read once per
// SIMD target (targets.h first), because their loops are what the compiler vectorises: accumulators stand in `kLanes` independent
// lanes, so that no order of floating-point operations has to be changed for it.
#include <tenon/kernels/cpu/run_reduce.h>

#if defined(TENON_KERNELS_CPU_REDUCE) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_REDUCE
#undef TENON_KERNELS_CPU_REDUCE
#else
#define TENON_KERNELS_CPU_REDUCE
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

inline constexpr int kLanes = 16;

/// The functions of a body B whose accumulator is one Acc: B has identity(), step(acc, x), combine(acc, later).
/// Store: writes one accumulator to T* outputs.
template <class B, class In, class Acc>
struct SimpleBody {
  static void init(const void*, void* acc, int64_t n) {
    Acc* a = static_cast<Acc*>(acc);
    for (int64_t i = 0; i < n; ++i) a[i] = B::identity();
  }
  static void run(const void*, void* acc, const void* x, int64_t n, int64_t) {
    const In* in = static_cast<const In*>(x);
    Acc& total = *static_cast<Acc*>(acc);
    for (int64_t i = 0; i < n;) {  // blocks, so that no lane adds more than a hundred values to one sum
      const int64_t end = n - i < 100 * kLanes ? n : i + 100 * kLanes;
      if (end - i < kLanes) {
        for (; i < end; ++i) total = B::step(total, in[i]);
        break;
      }
      Acc lane[kLanes];
      for (int k = 0; k < kLanes; ++k) lane[k] = B::identity();
      for (; i + kLanes <= end; i += kLanes)
        for (int k = 0; k < kLanes; ++k) lane[k] = B::step(lane[k], in[i + k]);
      for (int half = kLanes / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) lane[k] = B::combine(lane[k], lane[k + half]);
      total = B::combine(total, lane[0]);
    }
  }
  static void columns(const void*, void* acc, const void* x, int64_t columns, int64_t rows, int64_t row_stride,
                      int64_t) {
    Acc* a = static_cast<Acc*>(acc);
    const char* p = static_cast<const char*>(x);
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, p += 4 * row_stride) {  // four rows per visit of the accumulators
      const In *x0 = reinterpret_cast<const In*>(p), *x1 = reinterpret_cast<const In*>(p + row_stride),
               *x2 = reinterpret_cast<const In*>(p + 2 * row_stride),
               *x3 = reinterpret_cast<const In*>(p + 3 * row_stride);
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) a[j] = B::step(B::step(B::step(B::step(a[j], x0[j]), x1[j]), x2[j]), x3[j]);
    }
    for (; r < rows; ++r, p += row_stride) {
      const In* x0 = reinterpret_cast<const In*>(p);
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) a[j] = B::step(a[j], x0[j]);
    }
  }
  static void merge(const void*, void* acc, const void* later, int64_t n) {
    Acc* a = static_cast<Acc*>(acc);
    const Acc* b = static_cast<const Acc*>(later);
    for (int64_t i = 0; i < n; ++i) a[i] = B::combine(a[i], b[i]);
  }
};

/// Writes n values value(i) as T.
template <class T, class F>
void store_values(char* out, int64_t stride, int64_t n, F&& value) {
  for (int64_t i = 0; i < n; ++i, out += stride) *reinterpret_cast<T*>(out) = T(value(i));
}

/// Runs the body B over the plan; T is the dtype stored.
template <class B, class In, class T>
void reduce(const ReducePlan& plan, const void* f, int64_t accumulator_bytes) {
  const bool folds = accumulator_bytes <= 16 && requires { &B::step; };
  run_reduce(plan, {f, dtype_of<In>(), accumulator_bytes, folds, &B::init, &B::run, &B::columns, &B::merge,
                    &B::template store<T>});
}

// --- sums ----------------------------------------------------------------------------------------------------
template <class In>
struct SumOf {
  using type = int64_t;
};  // integers and bool
template <>
struct SumOf<float> {
  using type = double;
};
template <>
struct SumOf<double> {
  using type = double;
};
template <>
struct SumOf<complex<float>> {
  using type = complex<double>;
};
template <>
struct SumOf<complex<double>> {
  using type = complex<double>;
};

template <class In, class Acc = typename SumOf<In>::type>
struct SumBody : SimpleBody<SumBody<In>, In, Acc> {
  static Acc identity() { return Acc(0); }
  static Acc combine(Acc a, Acc b) {
    if constexpr (std::is_integral_v<Acc>)
      return static_cast<Acc>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
  static Acc step(Acc a, In x) { return combine(a, static_cast<Acc>(x)); }
  static void run(const void* f, void* acc, const void* x, int64_t n, int64_t position) {
    if constexpr (std::is_integral_v<In>) {  // associative: the compiler finds the lanes
      using Raw = std::conditional_t<std::is_same_v<In, bool>, uint8_t, In>;
      const Raw* in = static_cast<const Raw*>(x);
      Acc& total = *static_cast<Acc*>(acc);
      using Block = std::conditional_t<sizeof(In) <= 2, int32_t, uint64_t>;  // narrow sums of what cannot overflow them
      for (int64_t b = 0; b < n; b += 8192) {
        const int64_t end = n - b < 8192 ? n : b + 8192;
        Block sum = 0;
        for (int64_t i = b; i < end; ++i) sum += static_cast<Block>(in[i]);
        total = combine(total, static_cast<Acc>(sum));
      }
    } else {
      SimpleBody<SumBody<In>, In, Acc>::run(f, acc, x, n, position);
    }
  }
  /// f: the number to divide by (1 for sums).
  template <class T>
  static void store(const void* f, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    const double divisor = *static_cast<const double*>(f);
    const Acc* a = static_cast<const Acc*>(acc);
    if constexpr (std::is_same_v<Acc, int64_t>)
      store_values<T>(out[0], stride[0], n, [&](int64_t i) { return a[i]; });
    else if constexpr (is_complex_v<Acc>)
      store_values<T>(out[0], stride[0], n, [&](int64_t i) { return Acc(a[i].re / divisor, a[i].im / divisor); });
    else
      store_values<T>(out[0], stride[0], n, [&](int64_t i) { return static_cast<compute_t<T>>(a[i] / divisor); });
  }
};

// --- variance ------------------------------------------------------------------------------------------------
/// Mean and sum of squared distances in float64 (Welford 1962; merging: Chan, Golub and LeVeque 1979).
/// Accumulators: n means, n sums, n counts.
template <class In>
struct VarianceBody {
  static constexpr int64_t kBytes = 24;
  static void add(double& mean, double& sum, double& count, double mean2, double sum2, double count2) {
    if (count2 == 0) return;
    const double all = count + count2, delta = mean2 - mean;
    mean += delta * (count2 / all);
    sum += sum2 + delta * delta * (count * count2 / all);
    count = all;
  }
  static void init(const void*, void* acc, int64_t n) {
    double* a = static_cast<double*>(acc);
    for (int64_t i = 0; i < 3 * n; ++i) a[i] = 0;
  }
  static double sum_of(const In* x, int64_t n) {
    double total = 0;
    SumBody<In>::run(nullptr, &total, x, n, 0);
    return total;
  }
  static double squares(const In* x, int64_t n, double mean) {
    double lane[kLanes] = {}, total = 0;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int k = 0; k < kLanes; ++k) {
        const double d = static_cast<double>(x[i + k]) - mean;
        lane[k] += d * d;
      }
    for (; i < n; ++i) total += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
    for (int k = 0; k < kLanes; ++k) total += lane[k];
    return total;
  }
  static void run(const void*, void* acc, const void* x, int64_t n, int64_t) {
    double* a = static_cast<double*>(acc);
    const In* in = static_cast<const In*>(x);
    constexpr int64_t kBlock = 2048;  // twice over a block in the first-level cache
    for (int64_t b = 0; b < n; b += kBlock) {
      const int64_t m = n - b < kBlock ? n - b : kBlock;
      const double count = static_cast<double>(m), mean = sum_of(in + b, m) / count;
      add(a[0], a[1], a[2], mean, squares(in + b, m, mean), count);
    }
  }
  static void columns(const void*, void* acc, const void* x, int64_t columns, int64_t rows, int64_t row_stride,
                      int64_t) {
    double *mean = static_cast<double*>(acc), *sum = mean + columns, *count = sum + columns;
    const char* p = static_cast<const char*>(x);
    const double before = count[0];  // the same for all columns
    for (int64_t r = 0; r < rows; ++r, p += row_stride) {
      const In* in = reinterpret_cast<const In*>(p);
      const double inverse = 1 / (before + static_cast<double>(r) + 1);
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) {
        const double v = in[j], delta = v - mean[j], moved = mean[j] + delta * inverse;
        mean[j] = moved;
        sum[j] += delta * (v - moved);
      }
    }
    for (int64_t j = 0; j < columns; ++j) count[j] = before + static_cast<double>(rows);
  }
  static void merge(const void*, void* acc, const void* later, int64_t n) {
    double* a = static_cast<double*>(acc);
    const double* b = static_cast<const double*>(later);
    for (int64_t i = 0; i < n; ++i) add(a[i], a[n + i], a[2 * n + i], b[i], b[n + i], b[2 * n + i]);
  }
  /// f: the correction.
  template <class T>
  static void store(const void* f, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    const double correction = *static_cast<const double*>(f);
    const double* a = static_cast<const double*>(acc);
    store_values<T>(out[0], stride[0], n, [&](int64_t i) {
      const double divisor = a[2 * n + i] - correction;
      return static_cast<compute_t<T>>(a[n + i] / (divisor > 0 ? divisor : 0));
    });
  }
};

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

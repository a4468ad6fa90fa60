// SPDX-License-Identifier: Apache-2.0
// Bodies of reductions to the largest and smallest element, with and without its position. NaN beats every number; among
// equals the first position counts. Read once per SIMD target, like reduce.h.
#include <tenon/kernels/cpu/reduce.h>

#include <limits>

#if defined(TENON_KERNELS_CPU_EXTREME) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_EXTREME
#undef TENON_KERNELS_CPU_EXTREME
#else
#define TENON_KERNELS_CPU_EXTREME
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

/// Whether x displaces `best`: it is beyond it, or NaN where best is none.
template <bool kMax, class In>
HWY_INLINE bool displaces(In x, In best) {
  if constexpr (std::is_floating_point_v<In>) return (kMax ? x > best : x < best) || (x != x && best == best);
  else return kMax ? x > best : x < best;
}
/// What any element displaces or equals.
template <bool kMax, class In>
constexpr In weakest() {
  using L = std::numeric_limits<In>;
  if constexpr (std::is_floating_point_v<In>) return kMax ? -L::infinity() : L::infinity();
  else return kMax ? L::lowest() : L::max();
}

template <bool kMax, class In>
struct ExtremeBody : SimpleBody<ExtremeBody<kMax, In>, In, In> {
  static In identity() { return weakest<kMax, In>(); }
  static In step(In best, In x) {
    if constexpr (std::is_floating_point_v<In>)  // NaN stays: no comparison displaces it
      return (kMax ? x > best : x < best) || x != x ? x : best;
    else
      return (kMax ? x > best : x < best) ? x : best;
  }
  static In combine(In a, In b) { return step(a, b); }
  template <class T>
  static void store(const void*, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    const In* a = static_cast<const In*>(acc);
    store_values<T>(out[0], stride[0], n, [&](int64_t i) { return a[i]; });
  }
};

/// Values and first positions. Accumulators: n values, then n positions, -1 before the first element.
template <bool kMax, class In>
struct PositionBody {
  static In* values(void* acc) { return static_cast<In*>(acc); }
  static int64_t* positions(void* acc, int64_t n) {
    return reinterpret_cast<int64_t*>(static_cast<char*>(acc) + (n * static_cast<int64_t>(sizeof(In)) + 7) / 8 * 8);
  }
  static constexpr int64_t kBytes = 16;

  static void init(const void*, void* acc, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      values(acc)[i] = weakest<kMax, In>();
      positions(acc, n)[i] = -1;
    }
  }
  static void run(const void*, void* acc, const void* x, int64_t n, int64_t position) {
    const In* in = static_cast<const In*>(x);
    In best = values(acc)[0];
    int64_t found = positions(acc, 1)[0];
    // The extreme of a block first, which is a plain reduction; only a block that wins is searched for the place.
    constexpr int64_t kBlock = 2048;
    for (int64_t b = 0; b < n; b += kBlock) {
      const int64_t m = n - b < kBlock ? n - b : kBlock;
      In extreme = weakest<kMax, In>();
      if (m >= kLanes) {
        ExtremeBody<kMax, In>::run(nullptr, &extreme, in + b, m, 0);
      } else {
        for (int64_t i = b; i < b + m; ++i) extreme = ExtremeBody<kMax, In>::step(extreme, in[i]);
      }
      if (found >= 0 && !displaces<kMax>(extreme, best)) continue;
      best = extreme;
      int64_t i = b;
      if (extreme == extreme)
        while (in[i] != extreme) ++i;
      else
        while (in[i] == in[i]) ++i;
      found = position + i;
    }
    values(acc)[0] = best;
    positions(acc, 1)[0] = found;
  }
  static void columns(const void*, void* acc, const void* x, int64_t columns, int64_t rows, int64_t row_stride, int64_t position) {
    In* best = values(acc);
    int64_t* found = positions(acc, columns);
    const char* p = static_cast<const char*>(x);
    for (int64_t r = 0; r < rows; ++r, p += row_stride) {
      const In* in = reinterpret_cast<const In*>(p);
      if (found[0] < 0) {
        for (int64_t j = 0; j < columns; ++j) best[j] = in[j], found[j] = position + r;
        continue;
      }
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) {
        const bool better = displaces<kMax>(in[j], best[j]);
        best[j] = better ? in[j] : best[j];
        found[j] = better ? position + r : found[j];
      }
    }
  }
  static void merge(const void*, void* acc, const void* later, int64_t n) {
    void* other = const_cast<void*>(later);
    for (int64_t i = 0; i < n; ++i) {
      if (positions(other, n)[i] < 0 || (positions(acc, n)[i] >= 0 && !displaces<kMax>(values(other)[i], values(acc)[i]))) continue;
      values(acc)[i] = values(other)[i];
      positions(acc, n)[i] = positions(other, n)[i];
    }
  }
  /// f: whether the value is wanted too, as output 0.
  template <class T>
  static void store(const void* f, const void* acc, int64_t n, char* const* out, const int64_t* stride) {
    void* a = const_cast<void*>(acc);
    const bool with_value = *static_cast<const bool*>(f);
    if (with_value) store_values<T>(out[0], stride[0], n, [&](int64_t i) { return values(a)[i]; });
    store_values<int64_t>(out[with_value], stride[with_value], n, [&](int64_t i) { return positions(a, n)[i]; });
  }
};

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

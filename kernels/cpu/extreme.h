// SPDX-License-Identifier: Apache-2.0
// Bodies of reductions to the largest and smallest element, with and without its position. NaN beats every number;
// among equals the first position counts. Read once per SIMD target, like reduce.h.
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
namespace hn = hwy::HWY_NAMESPACE;

/// Whether x displaces `best`: it is beyond it, or NaN where best is none.
template <bool kMax, class In>
HWY_INLINE bool displaces(In x, In best) {
  if constexpr (std::is_floating_point_v<In>)
    return (kMax ? x > best : x < best) || (x != x && best == best);
  else
    return kMax ? x > best : x < best;
}
/// What any element displaces or equals.
template <bool kMax, class In>
constexpr In weakest() {
  using L = std::numeric_limits<In>;
  if constexpr (std::is_floating_point_v<In>)
    return kMax ? -L::infinity() : L::infinity();
  else
    return kMax ? L::lowest() : L::max();
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
  static void run(const void*, void* acc, const void* x, int64_t n, int64_t) {
    const In* in = static_cast<const In*>(x);
    In best = *static_cast<In*>(acc);
    int64_t i = 0;
    if constexpr (std::is_floating_point_v<In>) {
      const hn::ScalableTag<In> d;
      using V = hn::Vec<decltype(d)>;
      const auto next = [](V now, V v) HWY_ATTR {
        return hn::IfThenElse(hn::Or(kMax ? hn::Gt(v, now) : hn::Lt(v, now), hn::IsNaN(v)), v, now);
      };
      const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
      if (n >= 4 * lanes) {
        V a = hn::Set(d, best), b = a, c = a, e = a;
        for (; i + 4 * lanes <= n; i += 4 * lanes) {
          a = next(a, hn::LoadU(d, in + i));
          b = next(b, hn::LoadU(d, in + i + lanes));
          c = next(c, hn::LoadU(d, in + i + 2 * lanes));
          e = next(e, hn::LoadU(d, in + i + 3 * lanes));
        }
        HWY_ALIGN In out[HWY_MAX_BYTES / sizeof(In)];
        hn::Store(next(next(a, b), next(c, e)), d, out);
        for (int64_t k = 0; k < lanes; ++k) best = step(best, out[k]);
      }
    }
    for (; i < n; ++i) best = step(best, in[i]);
    *static_cast<In*>(acc) = best;
  }
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
    // The extreme of a block first, which is a plain reduction; only the block that won is searched for the place.
    constexpr int64_t kBlock = 2048;
    int64_t winner = -1;
    for (int64_t b = 0; b < n; b += kBlock) {
      In extreme = weakest<kMax, In>();
      ExtremeBody<kMax, In>::run(nullptr, &extreme, in + b, n - b < kBlock ? n - b : kBlock, 0);
      if ((winner >= 0 || positions(acc, 1)[0] >= 0) && !displaces<kMax>(extreme, best)) continue;
      best = extreme;
      winner = b;
    }
    if (winner < 0) return;
    int64_t i = winner;
    if (best == best)
      while (in[i] != best) ++i;
    else
      while (in[i] == in[i]) ++i;
    values(acc)[0] = best;
    positions(acc, 1)[0] = position + i;
  }
  static void columns(const void*, void* acc, const void* x, int64_t columns, int64_t rows, int64_t row_stride,
                      int64_t position) {
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
      if (positions(other, n)[i] < 0 ||
          (positions(acc, n)[i] >= 0 && !displaces<kMax>(values(other)[i], values(acc)[i])))
        continue;
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

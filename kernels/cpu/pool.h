// SPDX-License-Identifier: Apache-2.0
// What the pooling kernels share: the windows of every output in each dimension, and rows of any type as the type they are
// computed in. Read once per SIMD target, after targets.h.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/rows.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/pool.h>

#include <algorithm>
#include <vector>

#ifndef TENON_KERNELS_CPU_POOL
#define TENON_KERNELS_CPU_POOL
namespace tenon::cpu {

struct PoolSpans {
  std::vector<PoolWindows::Span> list[3];
  int64_t full[2];  ///< outputs [full[0], full[1]) of the last dimension have whole windows, `stride` apart; else empty

  explicit PoolSpans(const PoolWindows& w) : full{0, 0} {
    for (int d = 0; d < 3; ++d) {
      list[d].resize(static_cast<std::size_t>(w.out[d]));
      if (w.kind == PoolWindows::Kind::fractional) continue;
      for (int64_t o = 0; o < w.out[d]; ++o) list[d][static_cast<std::size_t>(o)] = w.span(d, o);
    }
    if (w.kind != PoolWindows::Kind::regular) return;
    const auto whole = [&](int64_t o) {
      const PoolWindows::Span& s = (*this)(2, o);
      return s.taps == w.kernel[2] && s.counted == (*this)(2, full[0]).counted;
    };
    while (full[0] < w.out[2] && (*this)(2, full[0]).taps != w.kernel[2]) ++full[0];
    full[1] = full[0];
    while (full[1] < w.out[2] && whole(full[1])) ++full[1];
  }
  const PoolWindows::Span& operator()(int d, int64_t o) const { return list[d][static_cast<std::size_t>(o)]; }
  /// Of one plane, whose random numbers these are; dimensions of planes come last one first, those of volumes first one
  /// first.
  template <class R>
  void draw(const PoolWindows& w, const R* samples, int64_t dimensions) {
    for (int d = 3 - static_cast<int>(dimensions); d < 3; ++d)
      for (int64_t o = 0; o < w.out[d]; ++o)
        list[d][static_cast<std::size_t>(o)] = {w.fractional_begin(d, samples[dimensions == 2 ? 2 - d : d], o),
                                                w.kernel[d], 1, w.kernel[d]};
    for (int d = 0; d < 3 - static_cast<int>(dimensions); ++d) list[d][0] = {0, 1, 1, 1};
  }
};

/// One output position as its three coordinates.
struct PoolPlace {
  int64_t at[3];
  PoolPlace(const PoolWindows& w, int64_t position)
      : at{position / (w.out[1] * w.out[2]), position / w.out[2] % w.out[1], position % w.out[2]} {}
};

/// Small integers are compared in 32 bits, halves in float.
template <class T>
using pool_compute_t = std::conditional_t<std::is_integral_v<T> && sizeof(T) < 8, int32_t, compute_t<T>>;

template <class T>
bool is_nan(T v) {
  if constexpr (std::is_floating_point_v<T>)
    return v != v;
  else
    return false;
}

/// n elements as another type, or the same.
template <class To, class From>
void put_row(To* to, const From* from, int64_t n) {
  if constexpr (std::is_integral_v<To>)
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
  else if constexpr (std::is_same_v<To, From>)
    std::copy(from, from + n, to);
  else if constexpr (sizeof(To) > sizeof(From))
    load_row(to, from, 1, n);
  else
    store_row(to, 1, from, n);
}
/// n elements as C: in place, or converted into `memory`.
template <class C, class T>
const C* row_as(const T* from, C* memory, int64_t n) {
  if constexpr (std::is_same_v<C, T>) {
    return from;
  } else {
    put_row(memory, from, n);
    return memory;
  }
}

/// Calls f with constants for the usual numbers (0: any other), so that the loops they count are unrolled.
template <class F>
void with_stride_and_taps(int64_t stride, int64_t taps, const F& f) {
  const auto then = [&](auto s) {
    if (taps == 2)
      f(s, std::integral_constant<int, 2>());
    else if (taps == 3)
      f(s, std::integral_constant<int, 3>());
    else
      f(s, std::integral_constant<int, 0>());
  };
  if (stride == 1)
    then(std::integral_constant<int, 1>());
  else if (stride == 2)
    then(std::integral_constant<int, 2>());
  else
    then(std::integral_constant<int, 0>());
}

}  // namespace tenon::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
// What is folded by scans on both devices: an element of the input as a partial result, the fold of two of them (the
// earlier one first; associative), and the result of a partial one.
#pragma once

#include <tenon/kernels/exponential.h>

namespace tenon::scan {

template <class Acc>
struct Sum {
  using Partial = Acc;
  template <class T>
  TENON_HOST_DEVICE static Acc load(T x, int64_t) {
    return static_cast<Acc>(x);
  }
  TENON_HOST_DEVICE static Acc identity() { return Acc(0); }
  TENON_HOST_DEVICE static Acc fold(Acc a, Acc b) {
    if constexpr (std::is_integral_v<Acc>)
      return static_cast<Acc>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
  TENON_HOST_DEVICE static Acc value(Acc a) { return a; }
};

template <class Acc>
struct Product {
  using Partial = Acc;
  template <class T>
  TENON_HOST_DEVICE static Acc load(T x, int64_t) {
    return static_cast<Acc>(x);
  }
  TENON_HOST_DEVICE static Acc identity() { return Acc(1); }
  TENON_HOST_DEVICE static Acc fold(Acc a, Acc b) {
    if constexpr (std::is_integral_v<Acc>)
      return static_cast<Acc>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
  TENON_HOST_DEVICE static Acc value(Acc a) { return a; }
};

template <class Acc>
struct LogSumExp {
  using Partial = Acc;
  template <class T>
  TENON_HOST_DEVICE static Acc load(T x, int64_t) {
    return static_cast<Acc>(x);
  }
  TENON_HOST_DEVICE static Acc identity() {
    if constexpr (is_complex_v<Acc>)
      return {-math::infinity<double>(), 0};
    else
      return -math::infinity<Acc>();
  }
  TENON_HOST_DEVICE static Acc fold(Acc a, Acc b) {
    if constexpr (is_complex_v<Acc>) {
      if (a.re == -math::infinity<double>() && a.im == 0) return b;
    } else {
      if (a == -math::infinity<Acc>()) return b;
    }
    return math::logaddexp(a, b);
  }
  TENON_HOST_DEVICE static Acc value(Acc a) { return a; }
};

/// A value and its position; -1 is none.
template <class C>
struct Place {
  C value;
  int64_t position;
};
template <class C, bool kMax>
struct Extreme {
  using Partial = Place<C>;
  template <class T>
  TENON_HOST_DEVICE static Partial load(T x, int64_t position) {
    return {static_cast<C>(x), position};
  }
  TENON_HOST_DEVICE static Partial identity() { return {C(0), -1}; }
  /// The later one wins ties; a NaN wins, and only a NaN beats it.
  TENON_HOST_DEVICE static Partial fold(const Partial& a, const Partial& b) {
    if (a.position < 0) return b;
    if (b.position < 0) return a;
    const bool nan = b.value != b.value, held = a.value != a.value;
    return nan || (!held && (kMax ? b.value >= a.value : b.value <= a.value)) ? b : a;
  }
};

}  // namespace tenon::scan

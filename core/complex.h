// SPDX-License-Identifier: Apache-2.0
// complex<T>: the layout of std::complex (real, imaginary), usable on host and device, without the
// 52,000 lines that <complex> brings. Multiplication and division are the textbook formulas; division
// scales by the larger component (Smith 1962) so that it does not overflow early.
#pragma once

#include <tenon/core/api.h>

namespace tenon {

template <class T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  T re, im;

  complex() = default;
  TENON_HOST_DEVICE constexpr complex(T real, T imag = T(0)) : re(real), im(imag) {}  // NOLINT
  template <class U>
  TENON_HOST_DEVICE explicit constexpr complex(const complex<U>& o)
      : re(static_cast<T>(o.re)), im(static_cast<T>(o.im)) {}

  TENON_HOST_DEVICE constexpr T real() const { return re; }
  TENON_HOST_DEVICE constexpr T imag() const { return im; }

  TENON_HOST_DEVICE friend constexpr complex operator+(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
  TENON_HOST_DEVICE friend constexpr complex operator-(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }
  TENON_HOST_DEVICE friend constexpr complex operator-(complex a) { return {-a.re, -a.im}; }
  TENON_HOST_DEVICE friend constexpr complex operator*(complex a, complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  TENON_HOST_DEVICE friend constexpr complex operator/(complex a, complex b) {
    const T br = b.re < 0 ? -b.re : b.re, bi = b.im < 0 ? -b.im : b.im;
    if (br >= bi) {
      if (br == 0 && bi == 0) return {a.re / br, a.im / br};
      const T ratio = b.im / b.re, scale = T(1) / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const T ratio = b.re / b.im, scale = T(1) / (b.re * ratio + b.im);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
  TENON_HOST_DEVICE complex& operator+=(complex b) { return *this = *this + b; }
  TENON_HOST_DEVICE complex& operator-=(complex b) { return *this = *this - b; }
  TENON_HOST_DEVICE complex& operator*=(complex b) { return *this = *this * b; }
  TENON_HOST_DEVICE friend constexpr bool operator==(complex a, complex b) { return a.re == b.re && a.im == b.im; }
  TENON_HOST_DEVICE friend constexpr bool operator!=(complex a, complex b) { return !(a == b); }
};

template <class T>
TENON_HOST_DEVICE constexpr complex<T> conj(complex<T> z) {
  return {z.re, -z.im};
}

template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<complex<T>> = true;

}  // namespace tenon

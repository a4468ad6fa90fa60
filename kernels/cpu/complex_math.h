// SPDX-License-Identifier: Apache-2.0
// Complex functions of the C++ library on tenon's complex numbers; for source files only (<complex> is large).
#pragma once

#include <tenon/core/complex.h>

#include <cmath>
#include <complex>

namespace tenon::cpu {

template <class T>
std::complex<T> to_std(complex<T> z) {
  return {z.re, z.im};
}
template <class T>
complex<T> from_std(std::complex<T> z) {
  return {z.real(), z.imag()};
}

template <class T>
complex<T> complex_exp(complex<T> z) {
  return from_std(std::exp(to_std(z)));
}
template <class T>
complex<T> complex_log(complex<T> z) {
  return from_std(std::log(to_std(z)));
}
template <class T>
complex<T> complex_sqrt(complex<T> z) {
  return from_std(std::sqrt(to_std(z)));
}
template <class T>
complex<T> complex_tanh(complex<T> z) {
  return from_std(std::tanh(to_std(z)));
}
template <class T>
complex<T> complex_pow(complex<T> a, complex<T> b) {
  if (b == complex<T>(0)) return complex<T>(1);  // at 0 and infinity too
  return from_std(std::pow(to_std(a), to_std(b)));
}
/// z / |z|, 0 at 0.
template <class T>
complex<T> complex_sgn(complex<T> z) {
  const T size = std::hypot(z.re, z.im);
  return size == 0 ? complex<T>(0) : complex<T>(z.re / size, z.im / size);
}

}  // namespace tenon::cpu

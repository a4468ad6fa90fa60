// SPDX-License-Identifier: Apache-2.0
// Scalar exponentials and logarithms that both devices compute alike: the functions of ops/exponential.h with their
// limits, for float and double, and complex ones in double.
#pragma once

#include <tenon/kernels/math.h>

namespace tenon::math {

template <class T>
TENON_HOST_DEVICE inline T entr(T x) {
  if (x > 0) return -x * log(x);
  return x == 0 ? T(0) : x < 0 ? -infinity<T>() : x;
}

template <class T>
TENON_HOST_DEVICE inline T logit(T x, T eps) {
  if (eps >= 0) x = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
  // Near 1/2 the quotient is near 1, and its logarithm a small difference.
  return x > T(0.3) && x < T(0.7) ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x));
}

template <class T>
TENON_HOST_DEVICE inline T xlogy(T x, T y) {
  if (y != y) return y;
  return x == 0 ? T(0) : x * log(y);
}
template <class T>
TENON_HOST_DEVICE inline T xlog1py(T x, T y) {
  if (y != y) return y;
  return x == 0 ? T(0) : x * log1p(y);
}

template <class T>
TENON_HOST_DEVICE inline T logaddexp(T a, T b) {
  if (a == b && fabs(a) == infinity<T>()) return a;
  return (a > b ? a : b) + log1p(exp(-fabs(a - b)));  // NaN comes through the difference
}
template <class T>
TENON_HOST_DEVICE inline T logaddexp2(T a, T b) {
  if (a == b && fabs(a) == infinity<T>()) return a;
  return (a > b ? a : b) + log1p(exp(-fabs(a - b) * T(0.69314718055994531))) * T(1.4426950408889634);
}

using Z = complex<double>;
TENON_HOST_DEVICE inline Z expm1(Z z) {
  // exp(x) cos(y) - 1 without the cancellation at 0.
  const double s = sin(z.im / 2), e = exp(z.re);
  if (fabs(z.im) <= largest<double>() && z.re > 700) return exp(z) - Z(1);
  return {expm1(z.re) * cos(z.im) - 2 * s * s, z.im == 0 ? z.im : e * sin(z.im)};
}
TENON_HOST_DEVICE inline Z log1p(Z z) {
  const double most = fabs(z.re) > fabs(z.im) ? fabs(z.re) : fabs(z.im);
  if (!(most < 0.5)) return log(Z(1 + z.re, z.im));  // a sum would lose the sign of -0 i
  return {log1p(z.re * (2 + z.re) + z.im * z.im) / 2, atan2(z.im, 1 + z.re)};
}
TENON_HOST_DEVICE inline Z exp2(Z z) { return exp(Z(z.re * 0.69314718055994531, z.im * 0.69314718055994531)); }
TENON_HOST_DEVICE inline Z log_base(Z z, double inverse) {
  const Z w = log(z);
  return {w.re * inverse, w.im * inverse};
}
/// The one with the larger real part first.
TENON_HOST_DEVICE inline Z logaddexp(Z a, Z b) {
  if (a.re < b.re) return logaddexp(b, a);
  if (fabs(a.re) == infinity<double>() && a.re == b.re) {
    // Both vanish, or both are infinite: only the larger of the two terms has a direction.
    return a.re < 0 ? a : log(exp(Z(0, a.im)) + exp(Z(0, b.im))) + Z(a.re, 0);
  }
  return a + log1p(exp(b - a));
}

}  // namespace tenon::math

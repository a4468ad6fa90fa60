// SPDX-License-Identifier: Apache-2.0
// Scalar functions both devices compute alike: complex ones with the right limits at zero, infinity and overflow,
// and the integer rules of power, division and remainder. float and double, host and device; a small float works
// through float. In namespace tenon::math; no state, any thread.
#pragma once

#include <tenon/core/complex.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tenon::math {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<complex<T>> {
  using type = T;
};
/// The type of a complex number's parts; T itself when it is real.
template <class T>
using real_t = typename RealOf<T>::type;

// CUDA's and the C library's functions by one name for both precisions.
#define TENON_MATH_1(name)                                              \
  TENON_HOST_DEVICE inline float name(float x) { return ::name##f(x); } \
  TENON_HOST_DEVICE inline double name(double x) { return ::name(x); }
#define TENON_MATH_2(name)                                                          \
  TENON_HOST_DEVICE inline float name(float x, float y) { return ::name##f(x, y); } \
  TENON_HOST_DEVICE inline double name(double x, double y) { return ::name(x, y); }
TENON_MATH_1(exp)
TENON_MATH_1(expm1)
TENON_MATH_1(log)
TENON_MATH_1(log1p)
TENON_MATH_1(sqrt)
TENON_MATH_1(tanh)
TENON_MATH_1(sinh)
TENON_MATH_1(sin)
TENON_MATH_1(cos)
TENON_MATH_1(tan)
TENON_MATH_1(erf)
TENON_MATH_1(floor)
TENON_MATH_1(trunc)
TENON_MATH_1(fabs)
TENON_MATH_2(hypot)
TENON_MATH_2(atan2)
TENON_MATH_2(pow)
TENON_MATH_2(fmod)
TENON_MATH_2(copysign)
#undef TENON_MATH_1
#undef TENON_MATH_2

template <class T>
TENON_HOST_DEVICE inline T infinity() {
  return static_cast<T>(__builtin_huge_valf());
}
template <class T>
TENON_HOST_DEVICE inline T largest() {
  return static_cast<T>(std::is_same_v<T, float> ? 3.402823466e+38 : 1.7976931348623157e+308);
}

template <class T>
TENON_HOST_DEVICE inline T abs(complex<T> z) {
  return hypot(z.re, z.im);
}

template <class T>
TENON_HOST_DEVICE inline complex<T> exp(complex<T> z) {
  if (z.im == 0) return {exp(z.re), z.im};
  if (!(fabs(z.im) <= largest<T>())) {  // infinite or NaN angle
    if (z.re == -infinity<T>()) return {T(0), T(0)};
    if (z.re == infinity<T>()) return {infinity<T>(), z.im - z.im};
    return {z.im - z.im, z.im - z.im};
  }
  const T c = cos(z.im), s = sin(z.im);
  const T top = std::is_same_v<T, float> ? T(88) : T(709);
  if (z.re > top && z.re < 2 * top) {  // exp(re) may overflow where the product does not
    const T half = exp(z.re / 2);
    return {half * c * half, half * s * half};
  }
  const T e = exp(z.re);
  return {e * c, e * s};
}

template <class T>
TENON_HOST_DEVICE inline complex<T> log(complex<T> z) {
  const T x = fabs(z.re), y = fabs(z.im), most = x > y ? x : y, least = x > y ? y : x;
  const T angle = atan2(z.im, z.re);
  if (most > T(0.5) && most < T(2))  // near the unit circle log|z| is a small difference
    return {log1p((most - 1) * (most + 1) + least * least) / 2, angle};
  if (most > largest<T>() / 2 && most <= largest<T>())
    return {log(hypot(z.re / 4, z.im / 4)) + T(1.3862943611198906), angle};
  return {log(hypot(z.re, z.im)), angle};
}

template <class T>
TENON_HOST_DEVICE inline complex<T> sqrt(complex<T> z) {
  if (z.re == 0 && z.im == 0) return {T(0), z.im};
  if (fabs(z.im) == infinity<T>()) return {infinity<T>(), z.im};
  if (z.re == infinity<T>()) return {z.re, z.im == z.im ? copysign(T(0), z.im) : z.im};
  if (z.re == -infinity<T>()) return {z.im == z.im ? T(0) : z.im, copysign(infinity<T>(), z.im)};
  // Powers of four keep hypot and the sum in range and are exact.
  T scale = 1, back = 1;
  const T x = fabs(z.re), y = fabs(z.im), most = x > y ? x : y;
  const T tiny = std::is_same_v<T, float> ? T(1e-30) : T(1e-290);
  if (most > largest<T>() / 8) {
    scale = T(0.0625), back = T(4);
  } else if (most < tiny) {
    scale = T(68719476736.0), back = T(3.814697265625e-06);  // 2^36 and 2^-18
  }
  const T re = z.re * scale, im = z.im * scale;
  const T t = sqrt((fabs(re) + hypot(re, im)) / 2);
  if (re >= 0) return {t * back, im / (2 * t) * back};
  return {fabs(im) / (2 * t) * back, copysign(t, im) * back};
}

template <class T>
TENON_HOST_DEVICE inline complex<T> tanh(complex<T> z) {
  // Kahan's form: exact limits for large |re| and no cancellation near the poles.
  const T most = std::is_same_v<T, float> ? T(11) : T(22);
  if (fabs(z.re) > most) {
    if (!(fabs(z.im) <= largest<T>())) return {copysign(T(1), z.re), copysign(T(0), z.im)};
    return {copysign(T(1), z.re), 4 * sin(z.im) * cos(z.im) * exp(-2 * fabs(z.re))};
  }
  if (z.im == 0) return {tanh(z.re), z.im};
  if (!(fabs(z.im) <= largest<T>())) return {z.re == 0 ? z.re : z.im - z.im, z.im - z.im};
  const T t = tan(z.im), beta = 1 + t * t, s = sinh(z.re), rho = sqrt(1 + s * s);
  if (!(fabs(t) < infinity<T>())) return {z.re == z.re && t == t ? rho / s : t - t, t == t ? 1 / t : t};
  const T scale = 1 / (1 + beta * s * s);
  return {beta * rho * s * scale, t * scale};
}

template <class T>
TENON_HOST_DEVICE inline complex<T> sigmoid(complex<T> z) {
  if (z.re < 0) {
    const complex<T> e = exp(z);
    return e / (complex<T>(1) + e);
  }
  return complex<T>(1) / (complex<T>(1) + exp(-z));
}

template <class T>
TENON_HOST_DEVICE inline complex<T> pow(complex<T> a, complex<T> b) {
  if (b.re == 0 && b.im == 0) return {T(1), T(0)};
  if (a.re == 0 && a.im == 0) {
    if (b.re > 0) return {T(0), T(0)};
    const T nan = infinity<T>() - infinity<T>();
    return {b.re < 0 && b.im == 0 ? infinity<T>() : nan, nan};
  }
  if (b.im == 0) {  // small whole powers by multiplication: exact where the result is
    if (b.re == 1) return a;
    if (b.re == 2) return a * a;
    if (b.re == -1) return complex<T>(1) / a;
    if (b.re == T(0.5)) return sqrt(a);
  }
  if constexpr (sizeof(T) == sizeof(float)) {
    // The exponent magnifies the rounding of the logarithm.
    return complex<T>(exp(complex<double>(b) * log(complex<double>(a))));
  } else {
    return exp(b * log(a));
  }
}

template <class T>
TENON_HOST_DEVICE inline T sigmoid(T x) {
  const T e = exp(-fabs(x));  // never overflows, so the smallest results are right too
  return (x < 0 ? e : T(1)) / (1 + e);
}

/// 0.5 x (1 + erf(x / sqrt 2)).
template <class T>
TENON_HOST_DEVICE inline T gelu(T x) {
  return x / 2 * (1 + erf(x * T(0.70710678118654752)));
}
/// The form with tanh.
template <class T>
TENON_HOST_DEVICE inline T gelu_tanh(T x) {
  const T inner = T(0.79788456080286536) * (x + T(0.044715) * x * x * x);
  return x / 2 * (1 + tanh(inner));
}

/// Derivatives: Phi(x) + x phi(x), and that of the form with tanh.
template <class T>
TENON_HOST_DEVICE inline T gelu_derivative(T x) {
  const T phi = T(0.39894228040143268) * exp(x * x / -2);
  return (1 + erf(x * T(0.70710678118654752))) / 2 + x * phi;
}
template <class T>
TENON_HOST_DEVICE inline T gelu_tanh_derivative(T x) {
  const T k = T(0.79788456080286536), c = T(0.044715);
  const T t = tanh(k * (x + c * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * c * x * x);
}

/// Whole powers in T's own arithmetic (wrapping). A negative exponent gives 0 but for bases 1 and -1.
template <class T>
TENON_HOST_DEVICE inline T integer_pow(T base, T exponent) {
  static_assert(std::is_integral_v<T>);
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) return base == 1 ? T(1) : base == T(-1) ? (exponent % 2 != 0 ? T(-1) : T(1)) : T(0);
  }
  uint64_t result = 1, power = static_cast<uint64_t>(base);
  for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1, power *= power)
    if (e & 1u) result *= power;
  return static_cast<T>(result);
}

/// Division rounded down; a divisor of 0 gives 0 here and is an error above. The smallest number over -1 wraps.
template <class T>
TENON_HOST_DEVICE inline T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(0 - static_cast<uint64_t>(a));
      const T q = a / b;
      return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
    }
    return a / b;
  } else {
    if (b == 0) return a / b;
    T mod = fmod(a, b), q = (a - mod) / b;
    if (mod != 0 && ((b < 0) != (mod < 0))) q -= 1;
    if (q == 0) return copysign(T(0), a / b);
    T down = floor(q);
    if (q - down > T(0.5)) down += 1;
    return down;
  }
}

template <class T>
TENON_HOST_DEVICE inline T trunc_divide(T a, T b) {
  static_assert(std::is_integral_v<T>);
  if (b == 0) return T(0);
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<uint64_t>(a));
  }
  return a / b;
}

/// a - b trunc(a / b): the sign of a.
template <class T>
TENON_HOST_DEVICE inline T fmod_integer(T a, T b) {
  if (b == 0) return T(0);
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return T(0);  // the smallest number over -1 would trap
  }
  return a % b;
}

/// a - b floor(a / b): the sign of b.
template <class T>
TENON_HOST_DEVICE inline T remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return T(0);
      const T r = a % b;
      return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
    }
    return a % b;
  } else {
    const T r = fmod(a, b);
    return r != 0 && ((b < 0) != (r < 0)) ? r + b : r;
  }
}

}  // namespace tenon::math

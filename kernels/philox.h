// SPDX-License-Identifier: Apache-2.0
// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw 2011) and what is made of its numbers, the same on host and device.
//
// Note [Layout]. An operator reserves whole blocks of four 32-bit words. Block b of an operator whose PhiloxState says
// (seed, offset) is generate(seed, offset + b). Element i in row-major order gets
//   a 32-bit number: word i % 4 of block i / 4;
//   a 64-bit number: words 2 (i % 2) and 2 (i % 2) + 1 (low, high) of block i / 2.
// A complex element i is the real elements 2i and 2i + 1. Normal numbers come in pairs: elements 2j and 2j + 1 are the
// cosine and the sine branch of Box and Muller over the numbers of elements 2j and 2j + 1.
// Doubles use 64-bit numbers; so do integers of a range beyond kNarrowRange, int64 numbers of geometric, and randperm's
// keys; all else 32-bit ones.
#pragma once

#include <tenon/core/dtype.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/generator.h>

#include <cmath>

namespace tenon::philox {

struct Block {
  uint32_t word[4];
  TENON_HOST_DEVICE uint64_t wide(int i) const { return word[2 * i] | (static_cast<uint64_t>(word[2 * i + 1]) << 32); }
};

/// Ten rounds; the counter's upper 64 bits are zero.
TENON_HOST_DEVICE inline Block generate(uint64_t seed, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0, p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The counter of the first block; on the device it reads the base of a replayed graph.
TENON_HOST_DEVICE inline uint64_t first_block(const PhiloxState& state) {
  return state.offset + (state.base ? *state.base : 0);
}

// --- uniform numbers in [0, 1): as many bits as the type's mantissa holds, so that 1 never comes out ---------------
template <class T>
TENON_HOST_DEVICE inline T uniform(uint32_t w) {
  if constexpr (sizeof(T) == 4)
    return static_cast<T>(static_cast<float>(w >> 8) * 5.9604644775390625e-8f);
  else if constexpr (dtype_of<T>() == kFloat16)
    return T(static_cast<float>(w >> 21) * 4.8828125e-4f);
  else
    return T(static_cast<float>(w >> 24) * 3.90625e-3f);
}
TENON_HOST_DEVICE inline double uniform_double(uint64_t w) {
  return static_cast<double>(w >> 11) * 1.1102230246251565e-16;
}
/// 32 bits of [0, 1), for comparisons with a probability.
TENON_HOST_DEVICE inline double fraction(uint32_t w) { return w * 2.3283064365386963e-10; }

/// from + u (to - from) for float and smaller types. The product is exact in double, so a fused and a plain multiply-add
/// round alike.
TENON_HOST_DEVICE inline float affine(float u, double from, double width) {
  return static_cast<float>(from + static_cast<double>(u) * static_cast<double>(static_cast<float>(width)));
}
/// The same for double, without fusing.
TENON_HOST_DEVICE inline double affine(double u, double from, double width) {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(from, __dmul_rn(u, width));
#else
  const volatile double product = u * width;  // keeps the compiler from fusing
  return from + product;
#endif
}

/// What uniform(from, to) gives in the end: rounding must not lead to `to`.
template <class T>
TENON_HOST_DEVICE inline T below(T x, double from, double to) {
  using C = std::conditional_t<sizeof(T) == 8, double, float>;
  return static_cast<double>(static_cast<C>(x)) < to ? x : T(static_cast<C>(from));
}

// --- functions of one number of (0, 1), in double: exact at both ends, never 0 or 1 --------------------------------
TENON_HOST_DEVICE inline double open_uniform(uint32_t w) { return (w + 0.5) * 2.3283064365386963e-10; }
TENON_HOST_DEVICE inline double open_uniform(uint64_t w) {
  return (static_cast<double>(w >> 12) + 0.5) * 2.220446049250313e-16;
}
/// The nearest T; integers end at their largest.
template <class T>
TENON_HOST_DEVICE inline T rounded(double v) {
  if constexpr (std::is_integral_v<T>) {
    constexpr T kTop = static_cast<T>(~uint64_t{0} >> (std::is_signed_v<T> ? 65 - 8 * sizeof(T) : 64 - 8 * sizeof(T)));
    return v < static_cast<double>(kTop) ? static_cast<T>(v) : kTop;
  } else if constexpr (sizeof(T) == 8) {
    return v;
  } else {
    return T(static_cast<float>(v));
  }
}
/// A distribution takes one number `of` u, the logarithm or the tangent, and makes the rest of that.
struct OfLogarithm {
  static constexpr bool kLogarithm = true;
  TENON_HOST_DEVICE static double of(double u) { return ::log(u); }
};
template <class T>
struct Exponential : OfLogarithm {  // of rate a, positive and finite in T
  double a;
  TENON_HOST_DEVICE Exponential(double rate, double) : a(rate) {}
  TENON_HOST_DEVICE double operator()(double logarithm) const {
    constexpr DType t = dtype_of<T>();
    constexpr double kLow = t == kFloat64   ? 4.9406564584124654e-324
                            : t == kFloat32 ? 1.401298464324817e-45
                            : t == kFloat16 ? 5.9604644775390625e-8
                                            : 9.183549615799121e-41;
    constexpr double kHigh = t == kFloat64   ? 1.7976931348623157e308
                             : t == kFloat32 ? 3.4028234663852886e38
                             : t == kFloat16 ? 65504.0
                                             : 3.3895313892515355e38;
    const double v = -logarithm / a;
    return v < kLow ? kLow : v > kHigh ? kHigh : v;
  }
};
template <class T>
struct Geometric : OfLogarithm {  // a: log(1 - p)
  double a;
  TENON_HOST_DEVICE Geometric(double log_failure, double) : a(log_failure) {}
  TENON_HOST_DEVICE double operator()(double logarithm) const { return ::ceil(logarithm / a); }
};
template <class T>
struct Cauchy {  // of median a and scale b
  static constexpr bool kLogarithm = false;
  double a, b;
  TENON_HOST_DEVICE static double of(double u) {
    constexpr double kPi = 3.14159265358979324;
    return u < 0.25 ? -1 / ::tan(kPi * u) : u > 0.75 ? 1 / ::tan(kPi * (1 - u)) : ::tan(kPi * (u - 0.5));
  }
  TENON_HOST_DEVICE double operator()(double tangent) const { return a + b * tangent; }
};

// --- integers: low + a number below range (0: all of 64 bits) ------------------------------------------------------
TENON_HOST_DEVICE inline uint64_t high_product(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
#endif
}
TENON_HOST_DEVICE inline int64_t integer(uint32_t w, int64_t low, uint64_t range) {
  return static_cast<int64_t>(static_cast<uint64_t>(low) + ((w * range) >> 32));
}
TENON_HOST_DEVICE inline int64_t integer_wide(uint64_t w, int64_t low, uint64_t range) {
  return static_cast<int64_t>(static_cast<uint64_t>(low) + (range == 0 ? w : high_product(w, range)));
}

// --- normal numbers ----------------------------------------------------------------------------------------------
/// Natural logarithm of a normal float in (0, 1]. Own polynomials here and below (interpolation at Chebyshev nodes), so
/// that host and device differ by the fusing of multiply-adds alone.
TENON_HOST_DEVICE inline float log_unit(float x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2))
  const uint32_t bits = tenon::detail::float_bits(x);
  const int32_t e = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = tenon::detail::bits_float(bits - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  float p = 6.971611471e-02f;
  p = p * f - 1.147973385e-01f;
  p = p * f + 1.168541992e-01f;
  p = p * f - 1.242568733e-01f;
  p = p * f + 1.424905765e-01f;
  p = p * f - 1.666780232e-01f;
  p = p * f + 2.000071575e-01f;
  p = p * f - 2.499999696e-01f;
  p = p * f + 3.333333118e-01f;
  const float square = f * f, whole = static_cast<float>(e);
  const float small = p * f * square - 0.5f * square + whole * -2.12194440e-4f;
  return f + small + whole * 0.693359375f;
}

/// Cosine and sine of 2 pi times w / 2^32.
TENON_HOST_DEVICE inline void turn(uint32_t w, float& cosine, float& sine) {
  // The eighth turns around each quadrant's axis: t in [-1/4, 1/4] half turns, exact in 24 bits after rounding.
  const uint32_t quadrant = (w + 0x20000000u) >> 30;
  const float t = static_cast<float>(static_cast<int32_t>(w - (quadrant << 30))) * 4.656612873077393e-10f;
  const float z = t * t;
  float s = 8.100162742e-02f;
  s = s * z - 5.992020809e-01f;
  s = s * z + 2.550162647e+00f;
  s = s * z - 5.167712769e+00f;
  s = s * z + 3.141592654e+00f;
  s *= t;
  float c = 2.313287850e-01f;
  c = c * z - 1.335044448e+00f;
  c = c * z + 4.058707258e+00f;
  c = c * z - 4.934802163e+00f;
  c = c * z + 1.0f;
  const float a = quadrant & 1u ? s : c, b = quadrant & 1u ? c : s;
  cosine = quadrant == 1 || quadrant == 2 ? -a : a;
  sine = quadrant >= 2 ? -b : b;
}

/// Two standard normal numbers from the 32-bit numbers of their elements.
TENON_HOST_DEVICE inline void normal_pair(uint32_t w0, uint32_t w1, float& first, float& second) {
  const float u = static_cast<float>(w0) * 2.3283064365386963e-10f + 1.1641532182693481e-10f;  // (0, 1]
  const float radius = ::sqrtf(-2.0f * log_unit(u));
  float c, s;
  turn(w1, c, s);
  first = radius * c;
  second = radius * s;
}
TENON_HOST_DEVICE inline void normal_pair(uint64_t w0, uint64_t w1, double& first, double& second) {
  const double u = static_cast<double>((w0 >> 11) + 1) * 1.1102230246251565e-16;  // (0, 1]
  const double radius = ::sqrt(-2.0 * ::log(u));
  const double angle = uniform_double(w1) * 6.283185307179586;
  first = radius * ::cos(angle);
  second = radius * ::sin(angle);
}
/// mean + std * z, rounded once for float (see affine).
TENON_HOST_DEVICE inline float scaled_normal(float z, double mean, double std) {
  return static_cast<float>(mean + static_cast<double>(z) * static_cast<double>(static_cast<float>(std)));
}
TENON_HOST_DEVICE inline double scaled_normal(double z, double mean, double std) { return affine(z, mean, std); }

}  // namespace tenon::philox

// SPDX-License-Identifier: Apache-2.0
// Scalar functions of bits both devices compute alike: shifts of any distance, divisors, the next 16-bit float.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>
#include <type_traits>

namespace tenon::math {

/// Distances below 0 or beyond the width shift everything out.
template <class T>
TENON_HOST_DEVICE inline T left_shift(T a, T n) {
  constexpr int kWidth = 8 * static_cast<int>(sizeof(T));
  if (n < T(0) || n >= static_cast<T>(kWidth)) return T(0);
  return static_cast<T>(static_cast<uint64_t>(a) << static_cast<int>(n));
}
template <class T>
TENON_HOST_DEVICE inline T right_shift(T a, T n) {
  constexpr int kLast = 8 * static_cast<int>(sizeof(T)) - 1;
  if (n < T(0) || n > static_cast<T>(kLast)) return std::is_signed_v<T> ? static_cast<T>(a >> kLast) : T(0);
  return static_cast<T>(a >> static_cast<int>(n));
}

/// In uint64: the magnitude of the most negative number has no signed form.
template <class T>
TENON_HOST_DEVICE inline uint64_t magnitude(T a) {
  return a < T(0) ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
}
template <class T>
TENON_HOST_DEVICE inline T gcd(T a, T b) {
  uint64_t x = magnitude(a), y = magnitude(b);
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return static_cast<T>(x);
}
template <class T>
TENON_HOST_DEVICE inline T lcm(T a, T b) {
  if (a == T(0) || b == T(0)) return T(0);
  const T product = static_cast<T>(magnitude(a) / magnitude(gcd(a, b)) * magnitude(b));
  return static_cast<T>(magnitude(product));
}

/// The 16-bit float after a toward b, by its bits: floats of one sign are ordered as integers.
template <class T>
TENON_HOST_DEVICE inline T next_half(T a, T b) {
  const float x = static_cast<float>(a), y = static_cast<float>(b);
  if (x != x) return a;
  if (y != y || x == y) return b;
  uint16_t bits;
  __builtin_memcpy(&bits, &a, sizeof bits);
  if (x == 0)
    bits = static_cast<uint16_t>(y < 0 ? 0x8001u : 1u);
  else
    bits = static_cast<uint16_t>((x < y) == (x > 0) ? bits + 1 : bits - 1);
  T next;
  __builtin_memcpy(&next, &bits, sizeof bits);
  return next;
}

}  // namespace tenon::math

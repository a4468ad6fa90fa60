// SPDX-License-Identifier: Apache-2.0
// float16, bfloat16 and the two 8-bit floats: storage types with exact conversions to and from float
// (round to nearest even), the same on host and device. Arithmetic happens in float: every operator of
// these types converts, computes and rounds once.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>

namespace tenon {
namespace detail {

TENON_HOST_DEVICE inline uint32_t float_bits(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, sizeof u);
  return u;
}
TENON_HOST_DEVICE inline float bits_float(uint32_t u) {
  float f;
  __builtin_memcpy(&f, &u, sizeof f);
  return f;
}

TENON_HOST_DEVICE inline float float16_to_float(uint16_t h) {
#if defined(__CUDA_ARCH__)
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
#else
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity or NaN; a NaN comes back quiet
    return bits_float(sign | 0x7f800000u | (magnitude << 13) | (magnitude > 0x7c00u ? 0x400000u : 0u));
  if (magnitude >= 0x0400u) return bits_float(sign | ((magnitude << 13) + 0x38000000u));
  // Subnormal: the integer magnitude times 2^-24, exact in float.
  const float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
  return sign ? -value : value;
#endif
}

TENON_HOST_DEVICE inline uint16_t float_to_float16(float f) {
#if defined(__CUDA_ARCH__)
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  const uint32_t bits = float_bits(f);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65536 or beyond
  if (magnitude >= 0x38800000u) {                       // normal: add half an ulp, ties to even
    const uint32_t rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  // Subnormal or zero: adding 0.5 aligns the last bit of the sum with 2^-24, so the FPU does the rounding.
  const float aligned = bits_float(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (float_bits(aligned) - 0x3f000000u));
#endif
}

TENON_HOST_DEVICE inline float bfloat16_to_float(uint16_t b) { return bits_float(static_cast<uint32_t>(b) << 16); }
TENON_HOST_DEVICE inline uint16_t float_to_bfloat16(float f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(f));  // any NaN becomes 0x7fff
  return b;
#else
  const uint32_t bits = float_bits(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

/// E exponent bits, M mantissa bits, 8 bits in all. `kFinite` types (e4m3fn) have no infinity: values beyond
/// the largest one become NaN, as in PyTorch.
template <int E, int M, bool kFinite>
TENON_HOST_DEVICE inline float float8_to_float(uint8_t v) {
  constexpr int kBias = (1 << (E - 1)) - 1;
  const uint32_t sign = static_cast<uint32_t>(v & 0x80u) << 24;
  const uint32_t magnitude = v & 0x7fu;
  if (kFinite ? magnitude == 0x7fu : magnitude > (((1u << E) - 1) << M)) return bits_float(sign | 0x7fc00000u);
  if (!kFinite && magnitude == (((1u << E) - 1) << M)) return bits_float(sign | 0x7f800000u);
  if (magnitude >= (1u << M))
    return bits_float(sign | ((magnitude << (23 - M)) + (static_cast<uint32_t>(127 - kBias) << 23)));
  const float unit = bits_float(static_cast<uint32_t>(127 + 1 - kBias - M) << 23);
  const float value = static_cast<float>(magnitude) * unit;
  return sign ? -value : value;
}

template <int E, int M, bool kFinite>
TENON_HOST_DEVICE inline uint8_t float_to_float8(float f) {
  constexpr int kBias = (1 << (E - 1)) - 1;
  constexpr uint32_t kLargest = kFinite ? 0x7eu : ((((1u << E) - 1) << M) - 1);
  constexpr uint32_t kOverflow = kFinite ? 0x7fu : (((1u << E) - 1) << M);
  const uint32_t bits = float_bits(f);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7fu;
  constexpr uint32_t kMinNormal = static_cast<uint32_t>(127 + 1 - kBias) << 23;
  if (magnitude >= kMinNormal) {
    const uint32_t half = (1u << (22 - M)) - 1;
    const uint32_t rounded = magnitude + half + ((magnitude >> (23 - M)) & 1u);
    const uint32_t code = (rounded - (static_cast<uint32_t>(127 - kBias) << 23)) >> (23 - M);
    return static_cast<uint8_t>(sign | (code > kLargest ? kOverflow : code));
  }
  // Subnormal: the magic constant's last mantissa bit is worth one subnormal step.
  const uint32_t magic = static_cast<uint32_t>(127 + 1 - kBias - M + 23) << 23;
  const float aligned = bits_float(magnitude) + bits_float(magic);
  return static_cast<uint8_t>(sign | (float_bits(aligned) - magic));
}
}  // namespace detail

#define TENON_SMALL_FLOAT(Name, Bits, to_float, from_float)                          \
  struct Name {                                                                      \
    Bits bits;                                                                       \
    Name() = default;                                                                \
    TENON_HOST_DEVICE Name(float f) : bits(from_float(f)) {}            /* NOLINT */ \
    TENON_HOST_DEVICE operator float() const { return to_float(bits); } /* NOLINT */ \
    TENON_HOST_DEVICE static constexpr Name from_bits(Bits b) { return Name(b, 0); } \
                                                                                     \
   private:                                                                          \
    TENON_HOST_DEVICE constexpr Name(Bits b, int) : bits(b) {}                       \
  }
TENON_SMALL_FLOAT(float16, uint16_t, detail::float16_to_float, detail::float_to_float16);
TENON_SMALL_FLOAT(bfloat16, uint16_t, detail::bfloat16_to_float, detail::float_to_bfloat16);
TENON_SMALL_FLOAT(float8_e4m3fn, uint8_t, (detail::float8_to_float<4, 3, true>), (detail::float_to_float8<4, 3, true>));
TENON_SMALL_FLOAT(float8_e5m2, uint8_t, (detail::float8_to_float<5, 2, false>), (detail::float_to_float8<5, 2, false>));
#undef TENON_SMALL_FLOAT

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// The 16- and 8-bit floats over all their codes: values by the definition of sign, exponent and mantissa in double
// arithmetic; rounding to nearest even decided at every midpoint between neighbours and just beside it.
#include <tenon/core/half.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/reference.h"

using namespace tenon;

namespace {

struct Format {
  int exponent_bits, mantissa_bits;
  bool finite;
  double value(uint32_t code) const { return testing::decode_small_float(code, exponent_bits, mantissa_bits, finite); }
  uint32_t nearest(double v) const { return testing::encode_small_float(v, exponent_bits, mantissa_bits, finite); }
  uint32_t codes() const { return 2u << (exponent_bits + mantissa_bits); }
};

template <class T>
void check_values(const Format& f) {
  int wrong = 0;
  for (uint32_t code = 0; code < f.codes(); ++code) {
    const double expected = f.value(code),
                 got = double{static_cast<float>(T::from_bits(static_cast<decltype(T::bits)>(code)))};
    const bool same =
        std::isnan(expected) ? std::isnan(got) : got == expected && std::signbit(got) == std::signbit(expected);
    if (!same && wrong++ < 3) FAIL_CHECK("code " << code << " is " << got << ", expected " << expected);
    if (std::isnan(expected)) continue;
    if (T(static_cast<float>(got)).bits != code && wrong++ < 3) FAIL_CHECK("code " << code << " does not come back");
  }
  CHECK(wrong == 0);
}

// Midpoints of neighbours, exact in float, go to the even code; the floats beside them to the nearer one.
template <class T>
void check_rounding(const Format& f) {
  int wrong = 0, midpoints = 0;
  const auto check = [&](float v) {
    const uint32_t got = T(v).bits, expected = f.nearest(v);
    if (got != expected && wrong++ < 3) FAIL_CHECK(v << " became " << got << ", expected " << expected);
  };
  for (uint32_t code = 0; code + 1 < f.codes() / 2; ++code) {
    const double low = f.value(code), high = f.value(code + 1);
    if (!std::isfinite(low)) continue;
    // Beyond the last finite value the next step would be as large as the one before.
    const double next = std::isfinite(high) ? high : low + (low - f.value(code - 1));
    const double middle = (low + next) / 2;
    const auto m = static_cast<float>(middle);
    for (const float v : {m, std::nextafter(m, 0.0f), std::nextafter(m, HUGE_VALF), static_cast<float>(low),
                          std::nextafter(static_cast<float>(low), HUGE_VALF)}) {
      check(v);
      check(-v);
    }
    if (middle == double{m}) {
      ++midpoints;
      const uint32_t tie = T(m).bits;
      if (std::isfinite(high) && tie != (code % 2 == 0 ? code : code + 1) && wrong++ < 3)
        FAIL_CHECK("the tie after code " << code << " went to " << tie);
    }
  }
  CHECK(wrong == 0);
  CHECK(midpoints > static_cast<int>(f.codes() / 2 - f.codes() / 8));
  std::mt19937 random(testing::seed());
  for (int i = 0; i < 200000; ++i) {
    const uint32_t bits = random();
    float v;
    std::memcpy(&v, &bits, sizeof v);
    if (!std::isnan(v)) check(v);
  }
  CHECK(wrong == 0);
}

constexpr Format kHalfFormat{5, 10, false}, kBrainFormat{8, 7, false}, kE4M3{4, 3, true}, kE5M2{5, 2, false};

}  // namespace

TEST_CASE("every code of a small float has the value of its definition and comes back") {
  check_values<float16>(kHalfFormat);
  check_values<bfloat16>(kBrainFormat);
  check_values<float8_e4m3fn>(kE4M3);
  check_values<float8_e5m2>(kE5M2);
}

TEST_CASE("floats round to the nearest small float, ties to even, overflow included") {
  check_rounding<float16>(kHalfFormat);
  check_rounding<bfloat16>(kBrainFormat);
  check_rounding<float8_e4m3fn>(kE4M3);
  check_rounding<float8_e5m2>(kE5M2);
}

#if defined(__FLT16_MAX__)
TEST_CASE("float16 agrees with the compiler's own type for every code and a sample of floats") {
  int wrong = 0;
  for (uint32_t code = 0; code < 65536; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    _Float16 h;
    std::memcpy(&h, &bits, sizeof h);
    const auto expected = static_cast<float>(h);
    const float got = float16::from_bits(bits);
    wrong += std::isnan(expected) ? !std::isnan(got) : got != expected;
  }
  std::mt19937 random(testing::seed());
  for (int i = 0; i < 1000000; ++i) {
    const uint32_t bits = random();
    float v;
    std::memcpy(&v, &bits, sizeof v);
    if (std::isnan(v)) continue;
    const auto h = static_cast<_Float16>(v);
    uint16_t expected;
    std::memcpy(&expected, &h, sizeof h);
    wrong += float16(v).bits != expected;
  }
  CHECK(wrong == 0);
}
#endif

TEST_CASE("NaN stays NaN with its sign, infinities and limits are where they belong") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  CHECK(std::isnan(float(float16(nan))));
  CHECK(std::isnan(float(bfloat16(nan))));
  CHECK(std::isnan(float(float8_e4m3fn(nan))));
  CHECK(std::isnan(float(float8_e5m2(nan))));
  CHECK(std::signbit(float(float16(-nan))) == std::signbit(-nan));
  CHECK(float(float16(inf)) == inf);
  CHECK(float(bfloat16(-inf)) == -inf);
  CHECK(std::isnan(float(float8_e4m3fn(inf))));  // it has no infinity
  CHECK(float(float8_e5m2(inf)) == inf);
  CHECK(float(float16(65519.0f)) == 65504.0f);
  CHECK(float(float16(65520.0f)) == inf);
  CHECK(float(float16(std::ldexp(1.0f, -25))) == 0.0f);
  CHECK(float(float16(std::ldexp(1.5f, -24))) == std::ldexp(1.0f, -23));
  CHECK(float(bfloat16(1 + std::ldexp(1.0f, -8))) == 1.0f);
  CHECK(float(bfloat16(1 + 3 * std::ldexp(1.0f, -8))) == 1 + std::ldexp(1.0f, -6));
  CHECK(float(bfloat16(std::numeric_limits<float>::max())) == inf);
  CHECK(float(float8_e4m3fn(448.0f)) == 448.0f);
  CHECK(float(float8_e4m3fn(464.0f)) == 448.0f);
  CHECK(std::isnan(float(float8_e4m3fn(465.0f))));
  // A NaN whose payload sits below the bits that are kept must not become infinite.
  uint32_t bits = 0x7f800001u;
  float small_payload;
  std::memcpy(&small_payload, &bits, sizeof bits);
  CHECK(std::isnan(float(float16(small_payload))));
  CHECK(std::isnan(float(bfloat16(small_payload))));
}

// SPDX-License-Identifier: Apache-2.0
// Promotion: PyTorch's table, entry by entry; castability; names.
#include <tenon/core/dtype.h>

#include <string>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

constexpr DType kDtypes[] = {kUInt8,   kInt8,      kInt16,      kInt32, kInt64,    kFloat16,       kFloat32,
                             kFloat64, kComplex64, kComplex128, kBool,  kBFloat16, kFloat8_e4m3fn, kFloat8_e5m2};
// Row and column in the order above. u1 i1 i2 i4 i8 f2 f4 f8 c4 c8 b1 bf e4 e5; -- is an error.
constexpr const char* kTable[] = {
    "u1 i2 i2 i4 i8 f2 f4 f8 c4 c8 u1 bf -- --",  // uint8
    "i2 i1 i2 i4 i8 f2 f4 f8 c4 c8 i1 bf -- --",  // int8
    "i2 i2 i2 i4 i8 f2 f4 f8 c4 c8 i2 bf -- --",  // int16
    "i4 i4 i4 i4 i8 f2 f4 f8 c4 c8 i4 bf -- --",  // int32
    "i8 i8 i8 i8 i8 f2 f4 f8 c4 c8 i8 bf -- --",  // int64
    "f2 f2 f2 f2 f2 f2 f4 f8 c4 c8 f2 f4 -- --",  // float16
    "f4 f4 f4 f4 f4 f4 f4 f8 c4 c8 f4 f4 -- --",  // float32
    "f8 f8 f8 f8 f8 f8 f8 f8 c8 c8 f8 f8 -- --",  // float64
    "c4 c4 c4 c4 c4 c4 c4 c8 c4 c8 c4 c4 -- --",  // complex64
    "c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 -- --",  // complex128
    "u1 i1 i2 i4 i8 f2 f4 f8 c4 c8 b1 bf -- --",  // bool
    "bf bf bf bf bf f4 f4 f8 c4 c8 bf bf -- --",  // bfloat16
    "-- -- -- -- -- -- -- -- -- -- -- -- e4 --",  // float8_e4m3fn
    "-- -- -- -- -- -- -- -- -- -- -- -- -- e5",  // float8_e5m2
};
constexpr const char* kCodes[] = {"u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c4", "c8", "b1", "bf", "e4", "e5"};

}  // namespace

TEST_CASE("promotion is PyTorch's table") {
  for (int a = 0; a < kDTypes; ++a)
    for (int b = 0; b < kDTypes; ++b) {
      const std::string code(kTable[a] + 3 * b, 2);
      INFO(name(kDtypes[a]) << " with " << name(kDtypes[b]));
      if (code == "--") {
        CHECK_THROWS_AS(promote_types(kDtypes[a], kDtypes[b]), DtypeError);
        continue;
      }
      int expected = 0;
      while (code != kCodes[expected]) ++expected;
      CHECK(promote_types(kDtypes[a], kDtypes[b]) == kDtypes[expected]);
    }
}

TEST_CASE("a result may be written to its own kind or a higher one, and to bool only from bool") {
  const auto kind = [](DType t) { return is_complex(t) ? 3 : is_floating_point(t) ? 2 : t == kBool ? 0 : 1; };
  for (const DType from : kDtypes)
    for (const DType to : kDtypes) {
      INFO(name(from) << " to " << name(to));
      CHECK(can_cast(from, to) == (kind(from) <= kind(to)));
    }
}

TEST_CASE("names parse back, and sizes are what they say") {
  const int sizes[] = {1, 1, 2, 4, 8, 2, 4, 8, 8, 16, 1, 2, 1, 1};
  for (int i = 0; i < kDTypes; ++i) {
    CHECK(parse_dtype(name(kDtypes[i])) == kDtypes[i]);
    CHECK(item_size(kDtypes[i]) == sizes[i]);
  }
  CHECK(contains(error_of<DtypeError>([] { parse_dtype("float31"); }), "float31"));
  CHECK_THROWS_AS(parse_dtype(""), DtypeError);
}

TEST_CASE("kinds and related types") {
  CHECK(real_of(kComplex64) == kFloat32);
  CHECK(real_of(kComplex128) == kFloat64);
  CHECK(real_of(kInt8) == kInt8);
  CHECK(complex_of(kFloat64) == kComplex128);
  CHECK(complex_of(kFloat16) == kComplex64);
  CHECK(is_integral(kInt64));
  CHECK_FALSE(is_integral(kBool));
  CHECK(is_integral(kBool, true));
  CHECK(is_floating_point(kFloat8_e5m2));
  CHECK_FALSE(is_differentiable(kInt32));
  CHECK(is_differentiable(kComplex64));
}

TEST_CASE("the default dtype is float32 until it is changed, and integers never are it") {
  REQUIRE(default_dtype() == kFloat32);
  set_default_dtype(kFloat64);
  CHECK(default_dtype() == kFloat64);
  set_default_dtype(kFloat32);
  CHECK_THROWS_AS(set_default_dtype(kInt64), DtypeError);
  CHECK(default_dtype() == kFloat32);
}

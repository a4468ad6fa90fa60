// SPDX-License-Identifier: Apache-2.0
// The error macros: what they throw, what they say, and that messages cost nothing on success.
#include "tests/support/catch.h"

#include <tenon/core/error.h>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

TEST_CASE("TENON_CHECK throws the named type with the joined text", "[error]") {
  const int rank = 3;
  const auto text =
      error_of<ShapeError>([&] { TENON_CHECK(rank == 2, ShapeError, "mm: self: expected 2-D, got ", rank, "-D"); });
  CHECK(text == "mm: self: expected 2-D, got 3-D");
  CHECK_NOTHROW([&] { TENON_CHECK(rank == 3, ShapeError, "never"); }());
}

TEST_CASE("TENON_CHECK evaluates its message only on failure", "[error]") {
  int evaluated = 0;
  auto expensive = [&] { return ++evaluated; };
  TENON_CHECK(true, ValueError, expensive());
  CHECK(evaluated == 0);
  CHECK_THROWS_AS([&] { TENON_CHECK(false, ValueError, expensive()); }(), ValueError);
  CHECK(evaluated == 1);
}

TEST_CASE("TENON_ASSERT names condition, file and line", "[error]") {
  const auto text = error_of<InternalError>([] { TENON_ASSERT(1 + 1 == 3, "arithmetic ", 42); });
  CHECK(contains(text, "1 + 1 == 3"));
  CHECK(contains(text, "error_test.cpp:"));
  CHECK(contains(text, "arithmetic 42"));
}

TEST_CASE("errors form a hierarchy and carry numbers", "[error]") {
  CHECK_THROWS_AS([] { throw ArchError("x"); }(), CudaError);
  CHECK_THROWS_AS([] { throw CaptureError("x"); }(), Error);
  MemoryNumbers numbers;
  numbers.requested = 1024;
  try {
    throw OutOfMemoryError("out of memory", numbers);
  } catch (const Error& e) {
    const auto* oom = dynamic_cast<const OutOfMemoryError*>(&e);
    REQUIRE(oom != nullptr);
    CHECK(oom->numbers().requested == 1024);
    CHECK(e.detail() == e.what());
  }
}

TEST_CASE("Message formats numbers, booleans and null text", "[error]") {
  Message m;
  m << 1 << ' ' << -2L << ' ' << 3ULL << ' ' << true << ' ' << 0.5 << ' ' << static_cast<const char*>(nullptr);
  CHECK(m.take() == "1 -2 3 true 0.5 (null)");
}

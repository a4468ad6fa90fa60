// SPDX-License-Identifier: Apache-2.0
// Catch2 for every test, version 2.13 or 3.x: include this and use what both have (TEST_CASE, SECTION, REQUIRE,
// CHECK, REQUIRE_THROWS_AS, TEMPLATE_TEST_CASE, GENERATE, INFO, CAPTURE, Catch::Approx). Assertions belong on the
// main thread. TENON_SKIP(reason) leaves a test and shows it as skipped; TENON_REQUIRE_CUDA() does so without a GPU.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdint>
#include <string>

namespace tenon::testing {

/// Counts a skipped test and prints the reason; the runner reports the sum, and 77 when everything was skipped.
void note_skip(const char* reason);
/// The run's random seed: new each time unless --rng-seed gives it, and printed. Derive every generator from it.
uint32_t seed();
/// A usable CUDA device is present.
bool cuda_available();

/// The text of the exception of type E that `f` throws; fails the test when it throws none or another one.
template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  FAIL("expected an exception");
  return {};
}
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tenon::testing

/// Only in the body of a test case (it returns).
#define TENON_SKIP(reason)               \
  do {                                   \
    ::tenon::testing::note_skip(reason); \
    return;                              \
  } while (false)
#define TENON_REQUIRE_CUDA() \
  if (!::tenon::testing::cuda_available()) TENON_SKIP("no CUDA device")

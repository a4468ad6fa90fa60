// SPDX-License-Identifier: Apache-2.0
// What the random programs throw when something is wrong, and the loop over many of them.
#pragma once

#include <tenon/core/error.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace tenon::testing {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};
template <class... Parts>
void require(bool fine, const Parts&... parts) {
  if (!fine) throw Violation(tenon::detail::concat(parts...));
}

/// The first violation of a program under `count` seeds from `base` on, with the seed and how to run it alone; empty
/// when there is none. TENON_SIM_SEED runs one seed, TENON_SIM_SCHEDULES sets the number.
template <class Program>
std::string first_violation(const char* test, uint64_t base, int64_t count, uint64_t* seed = nullptr) {
  if (const char* text = std::getenv("TENON_SIM_SCHEDULES"); text && !seed) count = std::atoll(text);
  if (const char* text = std::getenv("TENON_SIM_SEED"); text && !seed)
    base = std::strtoull(text, nullptr, 0), count = 1;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t s = base + static_cast<uint64_t>(i);
    std::string what;
    try {
      Program(s).run();
      continue;
    } catch (const std::exception& e) {
      what = e.what();
    }
    if (seed) *seed = s;
    return tenon::detail::concat("schedule ", s, ": ", what, "\n  again: TENON_SIM_SEED=", s, " ", test);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!seed)
    std::printf("%s: %lld schedules, %.0f per second\n", test, static_cast<long long>(count),
                static_cast<double>(count) / seconds);
  return {};
}

}  // namespace tenon::testing

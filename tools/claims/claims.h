// SPDX-License-Identifier: Apache-2.0
// tenon-claims: what is said of a library like this one, measured here and now. A claim is one entry in a table: a
// number (rows of one subject share a hundred), what is claimed, and the function that measures it. The verdict is
// what came out: claims that fail stay in the list.
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/error.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace tenon::claims {

enum class Verdict { holds, fails, cannot_run };

struct Outcome {
  Verdict verdict = Verdict::holds;
  std::string measured;  ///< figures with units, or why it cannot run here
};
struct Claim {
  int number;
  const char* text;
  Outcome (*measure)();
};

/// Static tables of the other files register themselves.
struct Area {
  Area(const char* name, std::initializer_list<Claim> claims);
};

inline Outcome judge(bool holds, std::string measured) {
  return {holds ? Verdict::holds : Verdict::fails, std::move(measured)};
}
inline Outcome cannot_run(std::string reason) { return {Verdict::cannot_run, std::move(reason)}; }

/// The GPU, or null when there is none that works.
const Device* gpu();
/// Both devices that exist here, the CPU first.
std::vector<Device> devices();
std::string number(double value, int digits = 1);
std::string mib(int64_t bytes);

/// Nanoseconds per call: the lowest of several rounds, which other load disturbs least.
template <class F>
double nanoseconds(F f, double seconds = 0.15) {
  using Clock = std::chrono::steady_clock;
  const auto elapsed = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  int calls = 1;
  for (;; calls *= 2) {  // a round of about a millisecond
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) f();
    if (elapsed(start) > 1e-3 || calls > (1 << 24)) break;
  }
  double best = 1e30;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) f();
    best = std::min(best, elapsed(start) / calls);
  } while (elapsed(begin) < seconds);
  return best * 1e9;
}

}  // namespace tenon::claims

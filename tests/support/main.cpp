// SPDX-License-Identifier: Apache-2.0
// The one main of all test programs. Ends with a line of skipped tests, if any; returns 77 (ctest: skipped) when
// nothing was selected or everything selected was skipped. The random seed is always printed; it is new each time unless
// --rng-seed or the environment's TENON_TEST_SEED says otherwise.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using ListenerBase = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using ListenerBase = Catch::TestEventListenerBase;
#endif

#include <tenon/testing/catch.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace {
int g_cases = 0, g_skipped = 0;
uint32_t g_seed = 0;

class Counter : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    name_ = info.name;
    ++g_cases;
  }
  static std::string name_;
};
std::string Counter::name_;
CATCH_REGISTER_LISTENER(Counter)
}  // namespace

namespace tenon::testing {
void note_skip(const char* reason) {
  ++g_skipped;
  std::printf("skipped: %s (%s)\n", Counter::name_.c_str(), reason);
  SUCCEED("skipped");  // a test without an assertion would count as unchecked
}
uint32_t seed() { return g_seed; }
}  // namespace tenon::testing

int main(int argc, char** argv) {
  Catch::Session session;
  const int bad_arguments = session.applyCommandLine(argc, argv);
  if (bad_arguments != 0) return bad_arguments;
  bool chosen = false;
  for (int i = 1; i < argc; ++i) chosen = chosen || std::strncmp(argv[i], "--rng-seed", 10) == 0;
  if (!chosen) {
    session.configData().rngSeed = std::random_device{}() | 1U;
    if (const char* given = std::getenv("TENON_TEST_SEED")) {
      char* end = nullptr;
      const unsigned long seed = std::strtoul(given, &end, 10);
      if (end == given || *end != 0 || seed > UINT32_MAX) {
        std::fprintf(stderr, "TENON_TEST_SEED: expected a number below 2^32, got \"%s\"\n", given);
        return 2;
      }
      session.configData().rngSeed = static_cast<uint32_t>(seed);
    }
  }
  g_seed = static_cast<uint32_t>(session.configData().rngSeed);
  std::printf("seed %u (--rng-seed repeats it)\n", g_seed);
  const int failed = session.run();
  std::printf("%d test cases, %d skipped\n", g_cases, g_skipped);
  const bool listing = g_cases == 0 && argc > 1 && std::string(argv[1]).rfind("-", 0) == 0;
  if (listing) return failed;
  if (g_cases == 0) return 77;  // Catch2 3 reports a failure here
  if (failed != 0) return 1;
  return g_cases == g_skipped ? 77 : 0;
}

// SPDX-License-Identifier: Apache-2.0
// Giving memory back while work on it is queued: poisoned blocks, waiting that leaves errors where they are, frees inside
// callbacks and kernels, frees that cannot be waited for.
#include <tenon/memory/allocator.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <stdexcept>

#include "tests/support/catch.h"

using namespace tenon;

namespace {

const Device kSim0(kSim, 0);

// Settings for a scope.
struct Settings {
  explicit Settings(const char* conf) : before(memory::allocator_settings()) { memory::set_allocator_settings(conf); }
  ~Settings() { memory::set_allocator_settings(before); }
  std::string before;
};

}  // namespace

TEST_CASE("sim frees: poison goes behind the kernels that still read the block") {
  const Settings settings("poison_free:True");
  for (const auto schedule : {sim::Schedule::lazy, sim::Schedule::seeded, sim::Schedule::eager}) {
    for (uint64_t s = 0; s < 30; ++s) {
      const uint64_t seed = s + tenon::testing::seed();
      CAPTURE(seed);
      sim::configure({.devices = 1, .seed = seed, .schedule = schedule});
      Tensor x = ones({1000}, device(kSim0));
      const auto* at = static_cast<const unsigned char*>(x.data_ptr());
      const Tensor y = x.mul(2);
      x = Tensor();
      CHECK(y.sum().item<float>() == 2000.0f);
      synchronize(kSim0);
      CHECK(int{*at} == 0xDB);  // nobody has it yet, and whoever read it now would notice
    }
  }
}

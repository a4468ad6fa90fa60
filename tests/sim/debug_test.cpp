// SPDX-License-Identifier: Apache-2.0
// Checkpoints and the report, on the simulated device: also when it is broken.
#include "tests/support/catch.h"

#include <tenon/memory/debug.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <algorithm>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
const Device kSim0(kSim, 0);

struct Checking {
  std::vector<std::string> lines;
  Checking() {
    sim::configure({.schedule = sim::Schedule::lazy});
    debug::set_checkpoint_output([this](const std::string& line) { lines.push_back(line); });
  }
  ~Checking() {
    debug::enable_checkpoints(false);
    debug::set_checkpoint_output({});
    set_blame_mode(false);
    sim::configure({});
  }
  bool has(const std::string& part) const {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& l) { return contains(l, part); });
  }
};
}  // namespace

TEST_CASE("checkpoint: nothing when disabled; else it waits and writes a line of each device, in order", "[debug]") {
  Checking checking;
  const Tensor x = ones({1024}, TensorOptions(kSim0));
  debug::enable_checkpoints(false);
  const int64_t run = sim::counters().run;
  debug::checkpoint("nothing");
  CHECK(checking.lines.empty());
  CHECK(sim::counters().run == run);
  debug::enable_checkpoints(true);
  debug::checkpoint("forward");
  CHECK(sim::counters().run > run);
  CHECK(sim::counters().run == sim::counters().queued);
  const std::size_t devices = checking.lines.size();
  CHECK(devices == launched_devices().size());
  debug::checkpoint("backward");
  REQUIRE(checking.lines.size() == 2 * devices);
  CHECK(contains(checking.lines[0], "] forward: "));
  CHECK(contains(checking.lines.back(), "] backward: "));
  CHECK(checking.has("forward: sim:0 live 4.00 KiB"));
  CHECK(checking.lines[0].substr(0, 12) == "[checkpoint ");
}

TEST_CASE("checkpoint: a fault is thrown at the first one behind it", "[debug]") {
  Checking checking;
  set_blame_mode(true);
  debug::enable_checkpoints(true);
  const Tensor x = ones({4}, TensorOptions(kSim0));
  debug::checkpoint("before");
  sim::fault_kernel();
  const Tensor y = x.exp();
  const std::string text = error_of<CudaError>([] { debug::checkpoint("after exp"); });
  CHECK(text.rfind("checkpoint after exp: ", 0) == 0);
  CHECK(contains(text, " exp on sim:0"));
  CHECK(checking.has("] before: "));
  CHECK_FALSE(checking.has("] after exp: sim:0"));
}

TEST_CASE("report: environment, devices, streams, launches, memory; also of a broken device", "[debug]") {
  const Checking checking;
  set_blame_mode(true);
  const Tensor x = ones({4}, TensorOptions(kSim0));
  const Tensor y = x.tanh();
  std::string text = debug::report();
  for (const char* part :
       {"\nCPU\n", "\nCUDA\n", "\nCards\n", "\nDevices in use\n  ", "sim:0: works", "unfinished: #",
        "blame mode on, watchdog off", "\nStreams\n", "\nLaunches\nLast launches, newest first:\n  #",
        " tanh on sim:0 stream 0", "Memory of sim:0", "Memory of cpu"}) {
    CAPTURE(part);
    CHECK(contains(text, part));
  }
  sim::fault_kernel();
  const Tensor z = x.exp();
  CHECK_THROWS_AS(synchronize(kSim0), CudaError);
  text = debug::report();
  CHECK(contains(text, "sim:0: broken; first cause: "));
  CHECK(contains(text, " exp on sim:0"));
  CHECK(contains(text, "Memory of sim:0"));
}

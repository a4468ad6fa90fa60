// SPDX-License-Identifier: Apache-2.0
// The drill for an illegal memory access, on the simulated device, where one can be had on demand. docs/errors.md quotes
// the marked parts. It checks what it says: exit status 1 when something else comes out.
#include <tenon/memory/debug.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/sim.h>
#include <tenon/streams/watchdog.h>
#include <tenon/tenon.h>

#include <iostream>

using namespace tenon;

namespace {

const Device device_in_use(kSim, 0);

// [program]
// Some layers; the exponential of the third breaks the device.
Tensor forward(Tensor x) {
  for (int layer = 0; layer < 4; ++layer) {
    x = x.matmul(x).mul(0.1);
    debug::checkpoint("matmul");
    x = x.exp();
    debug::checkpoint("exp");
  }
  return x;
}
// [program]

bool expect(bool condition, const char* what) {
  if (!condition) std::cerr << "not as the text says: " << what << "\n";
  return condition;
}

// A device that works, with work queued to come, and a fault in the ninth kernel: matmul, mul, exp of layer 2.
Tensor fresh() {
  sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
  Tensor x = full({4, 4}, 0.1, TensorOptions(device_in_use));
  synchronize(device_in_use);
  sim::fault_kernel(9);
  return x;
}

}  // namespace

int main() {
  bool good = true;
  {
    const Tensor x = fresh();
    // [message]
    try {
      std::cout << forward(x).sum().item<float>() << "\n";
    } catch (const CudaError& e) {
      std::cout << e.what() << "\n";    // three lines: which call heard of it, and what was launched last
      std::cout << e.detail() << "\n";  // the last 64 launches besides, newest first
    }
    // [message]
    good &= expect(device_failure(device_in_use).find("may be the cause (last: ") != std::string::npos,
                   "the last launches");
  }
  {
    const Tensor x = fresh();
    // [blame]
    set_blame_mode(true);  // or TENON_BLAME=1 in the environment
    try {
      forward(x).sum().item();
    } catch (const CudaError& e) {
      const CudaFailure& f = e.failure();
      std::cout << f.name << " in " << f.op << " on stream " << f.stream << "\n";
    }
    try {
      x.add(1);  // every later call fails at once
    } catch (const CudaError& e) {
      std::cout << e.what() << "\n";  // and quotes the first cause
    }
    // [blame]
    good &= expect(device_failure(device_in_use).find(" exp on sim:0") != std::string::npos, "blame mode names exp");
    // [report]
    std::cout << debug::report();  // environment, cards, devices, streams, launches, memory
    // [report]
  }
  {
    set_blame_mode(false);
    const Tensor x = fresh();
    std::string text;
    // [checkpoints]
    debug::enable_checkpoints(true);  // or TENON_CHECKPOINTS=1
    try {
      forward(x);
    } catch (const CudaError& e) {
      text = e.what();  // "checkpoint exp: ...": the third of that name
    }
    debug::enable_checkpoints(false);
    // [checkpoints]
    good &= expect(text.rfind("checkpoint exp: ", 0) == 0, "the checkpoint that throws");
  }
  {
    const Tensor x = fresh();
    int reports = 0;
    // [watchdog]
    start_watchdog({.period_ms = 20, .hang_ms = 60000, .report = [&](const std::string& text) {
                      std::cerr << text << "\n";
                      ++reports;
                    }});
    // ... the program; a device that breaks down is reported even while nothing is called
    stop_watchdog();
    // [watchdog]
    good &= expect(reports == 0 && !watchdog_running(), "nothing to report");
  }
  set_blame_mode(false);
  sim::configure({});
  return good ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Finding a missing record_stream without a GPU: the same program under a hundred orders of its two streams, with the
// mistake and without. docs/simulated_device.md quotes the marked parts.
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <iostream>

using namespace tenon;

namespace {
bool tell_the_allocator = false;
}

// [program]
// Doubles a batch on a side stream. The batch is a temporary of the default stream.
float doubled_sum() {
  const Device device(kSim, 0);
  const Stream side = Stream::from_pool(0, device);
  Tensor batch = ones({1000}, TensorOptions(device));
  side.wait_stream(current_stream(device));  // the batch is made before it is read
  Tensor result;
  {
    StreamGuard guard(side);
    result = (batch * 2).sum();
  }
  if (tell_the_allocator) batch.record_stream(side);
  batch = Tensor();                                          // its memory may be used again: for what?
  Tensor next = full({1000}, 100.0, TensorOptions(device));  // for this, before `side` has read the batch
  current_stream(device).wait_stream(side);
  result.record_stream(current_stream(device));
  return result.item<float>();
}
// [program]

// [search]
// The seeds under which the program gives something else.
std::vector<uint64_t> wrong_seeds(float (*program)(), float expected) {
  std::vector<uint64_t> wrong;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    sim::configure({.devices = 1, .seed = seed});
    if (program() != expected) wrong.push_back(seed);
  }
  return wrong;
}
// [search]

int main() {
  {
    // [first]
    sim::configure({.devices = 2, .memory_bytes = 64 << 20, .seed = 7});
    Tensor x = ones({4}, TensorOptions(Device(kSim, 0)));
    Tensor y = x.to(Device(kSim, 1));
    // [first]
    if (y.sum().item<float>() != 4) return 1;
  }
  const std::vector<uint64_t> before = wrong_seeds(doubled_sum, 2000);
  std::cout << before.size() << " of 100 orders give a wrong sum";
  if (before.empty()) return 1;
  std::cout << ", the first with seed " << before[0] << "; what ran:\n";

  // [replay]
  sim::configure({.devices = 1, .seed = before[0], .log = true});
  doubled_sum();
  for (const std::string& line : sim::log()) std::cout << "  " << line << "\n";
  // [replay]

  tell_the_allocator = true;
  const std::vector<uint64_t> after = wrong_seeds(doubled_sum, 2000);
  std::cout << after.size() << " with record_stream\n";

  // [faults]
  // Every call of the program fails once; each time the error is typed, nothing leaks, and the next run is right.
  sim::configure({.devices = 1});
  doubled_sum();
  int64_t calls = 0;
  for (const int64_t n : sim::counters().calls) calls += n;
  int caught = 0;
  for (int64_t i = 1; i <= calls; ++i) {
    sim::configure({.devices = 1});
    sim::fail_any(i);
    try {
      doubled_sum();
    } catch (const Error&) {
      ++caught;
    }
    sim::clear_faults();
    if (doubled_sum() != 2000 || memory::memory_allocated(Device(kSim, 0)) != 0) return 1;
  }
  // [faults]
  std::cout << caught << " of " << calls << " calls that failed were reported\n";
  return after.empty() && caught > 0 ? 0 : 1;
}

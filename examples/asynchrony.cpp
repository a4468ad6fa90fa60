// SPDX-License-Identifier: Apache-2.0
// How asynchrony works: streams, events, copies, races and what finds them, waits and what names them. On the GPU if
// there is one, else on the simulated device. docs/streams.md quotes the marked parts.
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <cstdlib>
#include <iostream>

using namespace tenon;

namespace {

void expect(bool fine, const char* what) {
  if (fine) return;
  std::cout << "wrong: " << what << "\n";
  std::exit(1);
}

}  // namespace

int main() {
  const Device device = cuda::is_available() ? Device(kCUDA, 0) : Device(kSim, 0);
  {
    // [queue]
    Tensor x = ones({1000, 1000}, TensorOptions(device));
    Tensor y = (x * 2).sum();       // queued: both calls have returned, perhaps neither kernel has run
    float value = y.item<float>();  // the host needs the number, so it waits here
    // [queue]
    expect(value == 2e6f, "the sum");
  }
  {
    const Tensor batch = ones({1000, 1000}, TensorOptions(device));
    // [order]
    Stream side = Stream::from_pool(/*priority=*/-1, device);
    side.wait_stream(current_stream(device));  // the batch is made before it is read
    Tensor result;
    Event ready(/*enable_timing=*/false, device);
    {
      StreamGuard guard(side);  // this thread's operators go to `side`
      result = batch.matmul(batch);
      ready.record(side);
    }
    batch.record_stream(side);  // freed, it is not used again before `side` is done with it
    // ... other work on the current stream, at the same time ...
    current_stream(device).wait_event(ready);  // the stream waits, the host does not
    result.record_stream(current_stream(device));
    float first = result[0][0].item<float>();
    // [order]
    expect(first == 1000, "the product");
  }
  {
    // [transfer]
    Tensor host = ones({1000}).pin_memory();                // page-locked: the device reads it by itself
    Tensor there = host.to(device, /*non_blocking=*/true);  // returns at once; do not write to `host` yet
    Tensor back = there.mul(3).to(kCPU, true);              // page-locked memory, still empty
    current_stream(device).synchronize();                   // now it has landed
    float sum = back.sum().item<float>();
    // [transfer]
    expect(sum == 3000, "what came back");
  }
  {
    // [callback]
    int reached = 0;
    Stream stream = current_stream(device);
    stream.add_callback([&] { ++reached; });  // on the host, when the stream gets there; it must not use the device
    stream.add_callback([] { throw ValueError("the file is full"); });
    try {
      stream.synchronize();
    } catch (const ValueError& error) {
      std::cout << error.what() << ", after " << reached << "\n";
    }
    // [callback]
    expect(reached == 1, "the callbacks");
  }
  // [check]
  set_stream_safety(StreamSafety::check, /*sites=*/true);
  Tensor x = ones({1000}, TensorOptions(device));
  Stream side = Stream::from_pool(0, device);
  try {
    StreamGuard guard(side);
    x.mul_(2);  // nothing says that `x` has been made by now
  } catch (const RaceError& race) {
    std::cout << race.what() << "\n";
  }
  // [check]
  expect(stream_races() == 1, "one race");

  // [auto]
  set_stream_safety(StreamSafety::automatic);
  {
    StreamGuard guard(side);
    x.mul_(2);  // waits for the stream that made `x`
  }
  float sum = x.sum().item<float>();  // and this for `side`
  set_stream_safety(StreamSafety::off);
  // [auto]
  expect(sum == 2000, "the mended program");

  // [waits]
  set_sync_debug_mode(SyncDebugMode::warn);
  for (int step = 0; step < 3; ++step) {
    Tensor loss = x.mul(0.5).mean();
    if (loss.item<float>() < 0) break;  // costs a wait in every step: the device runs dry
  }
  for (const SyncSite& place : sync_sites()) {
    std::cout << place.op << " waited " << place.count << " times at " << place.site << "\n";
  }
  set_sync_debug_mode(SyncDebugMode::off);
  // [waits]

  // [context]
  std::cout << Context::of(device).str();
  // [context]
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Where the memory goes: summary, live tensors, history, replay. docs/memory_tools.md and docs/memory.md quote
// the marked parts.
//   memory_tools [SNAPSHOT.json]   also saves the history of some training steps there
#include <tenon/memory/live_tensors.h>
#include <tenon/memory/replay.h>
#include <tenon/memory/snapshot.h>
#include <tenon/memory/summary.h>
#include <tenon/tenon.h>

#include <iostream>
#include <random>

using namespace tenon;

namespace {

// Steps of a small network on batches of random size, as with sentences of random length.
void train(Device device, int steps) {
  std::mt19937 random(1);
  Tensor w1 = randn({256, 512}, TensorOptions(device)) * 0.05, w2 = randn({512, 64}, TensorOptions(device)) * 0.05;
  w1.requires_grad_(true);
  w2.requires_grad_(true);
  for (int i = 0; i < steps; ++i) {
    const int64_t batch = std::uniform_int_distribution<int64_t>(50, 1500)(random);
    const Tensor x = randn({batch, 256}, TensorOptions(device));
    const Tensor y = x.matmul(w1).relu().matmul(w2);
    (y * y).mean().backward();
    NoGradGuard guard;
    for (Tensor* w : {&w1, &w2}) {
      w->sub_(w->grad() * 0.1);
      w->set_grad({});
    }
  }
}

std::vector<Tensor> losses;  // a leak: each keeps the graph of its step

int64_t leaked_tensors(Device device) {
  // [live]
  memory::record_live_tensors(true);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = ones({100, 100}, TensorOptions(device));
    losses.push_back((x * 2.0).sum());
  }
  for (const memory::LiveTensor& t : memory::live_tensors()) {
    std::cout << t.str() << "\n";  // sizes, bytes, operator, and the functions it was called from
  }
  // [live]
  const auto count = static_cast<int64_t>(memory::live_tensors().size());
  memory::record_live_tensors(false);
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const Device device = cuda::is_available() ? Device(kCUDA, 0) : Device(kCPU);
  const std::string path = argc > 1 ? argv[1] : "";
  if (leaked_tensors(device) != 3) return 1;

  // [history]
  memory::record_memory_history(true);
  train(device, 20);
  if (!path.empty()) memory::save_memory_snapshot(path);
  // [history]
  // [replay]
  const memory::MemorySnapshot snapshot = memory::memory_snapshot();
  memory::record_memory_history(false);
  int index = 0;
  while (snapshot.allocators[static_cast<size_t>(index)].name != device.str()) ++index;
  const memory::ReplayResult was = memory::recorded_usage(snapshot, index);
  const memory::ReplayResult rounded = memory::replay(snapshot, index, "roundup_power2_divisions:4");
  const memory::ReplayResult best = memory::tune(snapshot, index).front();
  std::cout << was.peak_reserved << " bytes reserved, " << rounded.peak_reserved << " with coarser sizes; best "
            << best.peak_reserved << " with " << best.settings << "\n";
  // [replay]
  // [summary]
  std::cout << memory::memory_summary(device);
  // [summary]
  // [callback]
  std::vector<Tensor> cache = {zeros({1000, 1000}, TensorOptions(device))};  // what can be made again
  const int64_t id = memory::add_out_of_memory_callback([&](Device, int64_t) { cache.clear(); });
  train(device, 2);
  memory::remove_out_of_memory_callback(id);
  // [callback]
  return was.peak_reserved > 0 && best.peak_reserved > 0 && rounded.failed == 0 ? 0 : 1;
}

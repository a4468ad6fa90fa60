// SPDX-License-Identifier: Apache-2.0
// Copies between host and GPU, and what stream safety adds to a training step. "h2d transposed 67108864": direction, kind
// of host memory, bytes.
#include "bench.h"

#include <tenon/tenon.h>

#include <memory>

namespace tenon::bench {
namespace {

std::function<void()> copies(bool to_device, const std::string& kind, int64_t bytes) {
  const int64_t n = bytes / 4, side = 1024;
  Tensor host = ones({n}), device = empty({n}, TensorOptions(Device(kCUDA, 0)));
  if (kind == "pinned") host = host.pin_memory();
  if (kind == "transposed") {
    host = host.view({side, n / side}).transpose(0, 1);
    device = device.view({n / side, side});
  }
  return [to = to_device ? device : host, from = to_device ? host : device]() mutable {
    to.copy_(from);
    synchronize();
  };
}

// The step of "mlp step sgd" with a mode of stream safety.
std::function<void()> mlp(Device device, StreamSafety mode) {
  struct State {
    nn::Sequential net{nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(), nn::Linear(512, 10)};
    Tensor x, y;
    std::unique_ptr<optim::Optimizer> optimizer;
  };
  auto s = std::make_shared<State>();
  s->net.to(device);
  s->x = randn({128, 784}, TensorOptions(device));
  s->y = randint(10, {128}, TensorOptions(device).dtype(kInt64));
  s->optimizer = std::make_unique<optim::SGD>(s->net.parameters(), optim::SGDOptions{.lr = 1e-4});
  return [s, mode] {
    set_stream_safety(mode);
    const Tensor loss = cross_entropy(s->net(s->x), s->y);
    s->optimizer->zero_grad();
    loss.backward();
    s->optimizer->step();
    set_stream_safety(StreamSafety::off);
  };
}

const bool registered = [] {
  for (const char* direction : {"h2d", "d2h"}) {
    for (const char* kind : {"pinned", "pageable", "transposed"}) {
      for (int64_t bytes = 4096; bytes <= int64_t{1} << 30; bytes *= 16) {
        const std::string name = std::string(direction) + " " + kind + " " + std::to_string(bytes);
        add_row({name, "cuda", Bound::host, 0, [=] { return copies(direction[0] == 'h', kind, bytes); }});
      }
    }
  }
  for (const char* device : {"cpu", "sim", "cuda"}) {
    for (const auto& [name, mode] : {std::pair("off", StreamSafety::off), std::pair("check", StreamSafety::check),
                                     std::pair("automatic", StreamSafety::automatic)}) {
      add_row({std::string("mlp step, stream safety ") + name, device, Bound::host, 0,
               [=, mode = mode] { return mlp(Device(device), mode); }});
    }
  }
  return true;
}();

}  // namespace
}  // namespace tenon::bench

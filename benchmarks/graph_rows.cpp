// SPDX-License-Identifier: Apache-2.0
// Graphs against the same work queued call by call: tiny operators, where the host is the limit, and a training step.
#include "bench.h"

#include <tenon/tenon.h>

#include <memory>

namespace tenon::bench {
namespace {

const Device kGpu(kCUDA, 0);

// One iteration is one call of `f` as a graph; what it refers to lives in the closure.
std::function<void()> captured(GraphFunction::Body f) {
  auto step = std::make_shared<GraphFunction>(std::move(f), GraphFunctionOptions{.warm_up = 3, .device = kGpu});
  for (int i = 0; i < 4; ++i) (void)(*step)({});
  return [step] { (void)(*step)({}); };
}

Tensor chain(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 100; ++i) y = y + 1.0;
  return y;
}

// 784-512-512-10, batch 128, as the rows without a graph.
std::function<void()> mlp(bool adamw) {
  struct State {
    nn::Sequential net{nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(), nn::Linear(512, 10)};
    Tensor x, y;
    std::unique_ptr<optim::Optimizer> optimizer;
  };
  auto s = std::make_shared<State>();
  s->net.to(kGpu);
  s->x = randn({128, 784}, TensorOptions(kGpu));
  s->y = randint(10, {128}, TensorOptions(kGpu).dtype(kInt64));
  if (adamw)
    s->optimizer =
        std::make_unique<optim::AdamW>(s->net.parameters(), optim::AdamWOptions{.lr = 1e-4, .capturable = true});
  else
    s->optimizer = std::make_unique<optim::SGD>(s->net.parameters(), optim::SGDOptions{.lr = 1e-4});
  return captured([s](TensorList) -> std::vector<Tensor> {
    const Tensor loss = cross_entropy(s->net(s->x), s->y);
    s->optimizer->zero_grad();
    loss.backward();
    s->optimizer->step();
    return {loss};
  });
}

const bool registered = [] {
  const auto row = [](const char* name, std::function<std::function<void()>()> prepare) {
    add_row({name, "cuda", Bound::host, 0, std::move(prepare)});
  };
  row("100 tiny operators", [] {
    return std::function<void()>([x = ones({1}, TensorOptions(kGpu)), y = Tensor()]() mutable { y = chain(x); });
  });
  row("100 tiny operators graph", [] {
    return captured([x = ones({1}, TensorOptions(kGpu))](TensorList) -> std::vector<Tensor> { return {chain(x)}; });
  });
  row("mlp step sgd graph", [] { return mlp(false); });
  row("mlp step adamw graph", [] { return mlp(true); });
  return true;
}();

}  // namespace
}  // namespace tenon::bench

// SPDX-License-Identifier: Apache-2.0
// Gradients: backward, grad, second derivatives, functions of your own, a training loop with nn and optim.
// docs/index.md quotes the marked parts.
#include <tenon/autograd/function.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/tenon.h>

#include <cmath>
#include <iostream>

using namespace tenon;

namespace {

void expect(bool held) { TENON_CHECK(held, ValueError, "02_autograd: a comment is wrong"); }

void differentiate() {
  // [backward]
  Tensor w = full({3}, 2.0).requires_grad_();
  (w * w).sum().backward();
  std::cout << w.grad() << "\n";  // 4, 4, 4
  // [backward]
  expect(w.grad()[0].item<float>() == 4);

  // [second]
  Tensor x = full({}, 3.0).requires_grad_();
  Tensor first = autograd::grad(x * x * x, x, {.create_graph = true})[0];  // 3 x^2 = 27, itself differentiable
  Tensor second = autograd::grad(first, x)[0];                             // 6 x = 18
  // [second]
  expect(first.item<float>() == 27 && second.item<float>() == 18);
}

// [function]
struct Cube : autograd::Function<Cube> {
  Tensor forward(const Tensor& x) {
    save(x);
    return x * x * x;
  }
  Tensor backward(const Tensor& grad) { return grad * saved(0) * saved(0) * 3; }
};
// [function]

void train() {
  manual_seed(1);
  const Tensor x = linspace(-1, 1, 64).view({64, 1}), y = x.mul(3).tanh();
  // [train]
  nn::Sequential model(nn::Linear(1, 16), nn::Tanh(), nn::Linear(16, 1));
  optim::AdamW optimizer(model.parameters(), {.lr = 0.02});
  for (int step = 0; step < 300; ++step) {
    optimizer.zero_grad();
    Tensor loss = mse_loss(model.forward(x), y);
    loss.backward();
    optimizer.step();
  }
  // [train]
  const NoGradGuard no_grad;
  const double loss = mse_loss(model.forward(x), y).item<double>();
  std::cout << "loss " << loss << "\n";
  expect(loss < 0.01);
}

}  // namespace

int main() {
  differentiate();
  const Tensor x = randn({5}, TensorOptions(kFloat64)).requires_grad_();
  autograd::gradcheck([](TensorList in) { return std::vector<Tensor>{Cube::apply(in[0])}; }, {{x}});
  train();
}

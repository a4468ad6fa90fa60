// SPDX-License-Identifier: Apache-2.0
// The program in README.md, which quotes what is between the marks; tools/check_tree compares them.
// [readme]
#include <tenon/tenon.h>

#include <iostream>

int main() {
  const auto device = tenon::cuda::is_available() ? tenon::kCUDA : tenon::kCPU;
  auto x = tenon::randn({256, 64}, device), target = x.sum({1}, true).tanh();
  auto w = tenon::zeros({64, 1}, device).requires_grad_();
  for (int step = 1; step <= 200; ++step) {
    auto loss = tenon::mse_loss(x.matmul(w).tanh(), target);
    loss.backward();
    tenon::NoGradGuard no_grad;
    w -= w.grad() * 0.5;
    w.set_grad({});
    if (step % 50 == 0) std::cout << "step " << step << ": loss " << loss.item<float>() << "\n";
  }
}
// [readme]

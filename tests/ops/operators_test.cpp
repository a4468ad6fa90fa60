// SPDX-License-Identifier: Apache-2.0
// Runs the rows of this folder's *_cases.cpp.
#include <tenon/testing/op_tests.h>

TEST_CASE("float16 tensors combine with numbers that float16 cannot hold", "[operators]") {
  const TensorOptions half(kFloat16);
  CHECK(full({3}, 1.0, half).div(100000.0).to_vector<double>()[0] == Approx(1e-5).epsilon(5e-3));
  CHECK(full({1}, 60000.0, half).mul(1e-8).item<double>() == Approx(6e-4).epsilon(1e-3));
  Tensor x = full({2}, 60000.0, half);
  x.mul_(1e-8);
  CHECK(x.dtype() == kFloat16);
  CHECK(x.to_vector<double>()[1] == Approx(6e-4).epsilon(1e-3));
  CHECK(std::isinf(full({1}, 2.0, half).mul(1e5).item<double>()));
  const Tensor many = full({100000}, 1.0, half).requires_grad_(true);
  many.mean().backward();
  CHECK(many.grad().to_vector<double>()[7] == Approx(1e-5).epsilon(5e-3));
}

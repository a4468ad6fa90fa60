// SPDX-License-Identifier: Apache-2.0
// nn::init against moments and bounds of the distributions, and against what the matrices must satisfy.
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>

#include "tests/support/catch.h"

#include <cmath>

using namespace tenon;
namespace init = nn::init;

namespace {
struct Moments {
  double mean = 0, deviation = 0, largest = 0;
  explicit Moments(const Tensor& t) {
    const auto v = t.to_vector<double>();
    for (const double x : v) mean += x / static_cast<double>(v.size()), largest = std::max(largest, std::abs(x));
    for (const double x : v) deviation += (x - mean) * (x - mean) / static_cast<double>(v.size());
    deviation = std::sqrt(deviation);
  }
};
// Of n = 40,000 values the sample mean deviates by sigma / 200, the sample deviation by about sigma / 280 (normal).
bool is_about(const Tensor& t, double mean, double deviation) {
  const Moments m(t);
  return std::abs(m.mean - mean) < 6 * deviation / 200 && std::abs(m.deviation - deviation) < 6 * deviation / 250;
}
double distance_from_identity(const Tensor& product, double scale) {
  const int64_t n = product.size(0);
  return product.sub(eye(n, TensorOptions(product.dtype())).mul(scale)).abs().max().item<double>();
}
}  // namespace

TEST_CASE("init: distributions have their moments") {
  Tensor w = nn::parameter(empty({200, 50, 4}));  // fan_in 200, fan_out 800
  CHECK(init::fan_in(w) == 200);
  CHECK(init::fan_out(w) == 800);
  init::uniform_(w, -1, 3);
  CHECK(is_about(w, 1, 4 / std::sqrt(12.0)));
  init::normal_(w, 2, 0.5);
  CHECK(is_about(w, 2, 0.5));
  init::xavier_uniform_(w, 2);
  const double xavier = 2 * std::sqrt(6.0 / 1000);
  CHECK(is_about(w, 0, xavier / std::sqrt(3.0)));
  CHECK(Moments(w).largest <= xavier * (1 + 1e-6));
  init::xavier_normal_(w, 2);
  CHECK(is_about(w, 0, 2 * std::sqrt(2.0 / 1000)));
  init::kaiming_uniform_(w, 0, "fan_out", "relu");
  CHECK(is_about(w, 0, std::sqrt(2.0 / 800)));
  CHECK(Moments(w).largest <= std::sqrt(6.0 / 800) * (1 + 1e-6));
  init::kaiming_normal_(w, 1);
  CHECK(is_about(w, 0, 1 / std::sqrt(200.0)));
  init::trunc_normal_(w, 0, 1, -1, 1);
  // Variance of a standard normal within [-1, 1]: 1 - 2 phi(1) / (2 Phi(1) - 1) = 0.29112.
  CHECK(is_about(w, 0, std::sqrt(0.2911250947)));
  CHECK(Moments(w).largest <= 1);
  CHECK(w.requires_grad());
  CHECK(w.is_leaf());
}

TEST_CASE("init: exact values") {
  Tensor w = nn::parameter(empty({2, 3}));
  init::eye_(w);
  CHECK(w.to_vector<double>() == std::vector<double>{1, 0, 0, 0, 1, 0});
  init::ones_(w);
  CHECK(w.to_vector<double>() == std::vector<double>(6, 1));
  init::zeros_(w);
  CHECK(w.to_vector<double>() == std::vector<double>(6, 0));
  Tensor kernel = nn::parameter(empty({4, 2, 3}));
  init::dirac_(kernel, 2);
  std::vector<double> expected(24, 0);
  for (const int at : {0 * 6 + 1, 1 * 6 + 4, 2 * 6 + 1, 3 * 6 + 4}) expected[static_cast<std::size_t>(at)] = 1;
  CHECK(kernel.to_vector<double>() == expected);
  CHECK(init::calculate_gain("tanh") == Approx(5.0 / 3).margin(0));
  CHECK(init::calculate_gain("leaky_relu", 2) == Approx(std::sqrt(0.4)).margin(1e-15));
  CHECK_THROWS_AS(init::calculate_gain("step"), ValueError);
  CHECK_THROWS_AS(init::kaiming_normal_(w, 0, "fan"), ValueError);
  CHECK_THROWS_AS(init::xavier_normal_(zeros({3})), ShapeError);
  CHECK_THROWS_AS(init::eye_(kernel), ShapeError);
  CHECK_THROWS_AS(init::dirac_(w), ShapeError);
  CHECK_THROWS_AS(init::dirac_(kernel, 3), ValueError);
}

TEST_CASE("init: orthogonal and sparse matrices") {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{5, 12}, {12, 5}, {8, 8}, {1, 3}}) {
    const Tensor w = nn::parameter(empty({rows, columns}, kFloat64));
    init::orthogonal_(w, 3);
    const Tensor d = w.detach();
    CHECK(distance_from_identity(rows <= columns ? d.matmul(d.t()) : d.t().matmul(d), 9) < 1e-12);
  }
  const Tensor w = nn::parameter(empty({50, 20}));
  init::sparse_(w, 0.31, 1);
  for (int64_t j = 0; j < 20; ++j) CHECK(w.detach().select(1, j).eq(0).sum().item<int64_t>() == 16);
  CHECK_THROWS_AS(init::sparse_(w, 1.5), ValueError);
}

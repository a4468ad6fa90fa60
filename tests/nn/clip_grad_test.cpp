// SPDX-License-Identifier: Apache-2.0
// Clipping of gradients, and gradient accumulation with it, against what the numbers say.
#include <tenon/autograd/autograd.h>
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/loss.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>

#include "tests/support/catch.h"

#include <cmath>
#include <limits>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor with_grad(V gradient, DType dtype = kFloat64) {
  Tensor p = zeros({static_cast<int64_t>(gradient.size())}, dtype).requires_grad_();
  p.set_grad(from_vector(std::move(gradient)).to(dtype));
  return p;
}
bool near(const Tensor& t, V expected, double tolerance = 1e-12) {
  const V got = t.to_vector<double>();
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])))) return false;
  return got.size() == expected.size();
}
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("clip_grad_norm_: the norm of all gradients, and the scale") {
  const struct { double p, norm; } rows[] = {{2, 13}, {1, 19}, {kInf, 12}, {3, std::cbrt(27.0 + 64 + 1728)}};
  for (const auto& row : rows) {
    INFO("p " << row.p);
    std::vector<Tensor> ps{with_grad({3, -4}), with_grad({12}), zeros({3}, kFloat64).requires_grad_(), with_grad({})};
    const Tensor norm = nn::clip_grad_norm_(ps, 2.0, row.p);
    CHECK(near(norm.view({1}), {row.norm}));
    const double k = 2 / (row.norm + 1e-6);
    CHECK(near(ps[0].grad(), {3 * k, -4 * k}));
    CHECK(near(ps[1].grad(), {12 * k}));
    CHECK_FALSE(ps[2].grad().defined());
    CHECK_FALSE(norm.requires_grad());
  }
  std::vector<Tensor> small{with_grad({3, -4})};
  nn::clip_grad_norm_(small, 10);
  CHECK(near(small[0].grad(), {3, -4}, 0));
  std::vector<Tensor> none{zeros({2}).requires_grad_()};
  CHECK(nn::clip_grad_norm_(none, 1).item<double>() == 0);
}

TEST_CASE("clip_grad_norm_: half precision, mixed dtypes, what is not finite") {
  // The sum of squares would overflow float16.
  std::vector<Tensor> ps{with_grad(V(1024, 100), kFloat16), with_grad({0}, kFloat32)};
  CHECK(near(nn::clip_grad_norm_(ps, 32).view({1}), {3200}, 1e-6));
  CHECK(ps[0].grad().dtype() == kFloat16);
  CHECK(near(ps[0].grad(), V(1024, 1), 1e-3));
  std::vector<Tensor> bad{with_grad({1, kInf})};
  CHECK(contains(error_of<ValueError>([&] { nn::clip_grad_norm_(bad, 1, 2, true); }), "inf"));
  CHECK(near(bad[0].grad().slice(0, 0, 1), {1}));  // untouched
  CHECK(std::isinf(nn::clip_grad_norm_(bad, 1).item<double>()));
  CHECK_THROWS_AS(nn::clip_grad_norm_(bad, -1), ValueError);
  CHECK_THROWS_AS(nn::clip_grad_norm_(bad, std::nan("")), ValueError);
  CHECK_THROWS_AS(nn::clip_grad_norm_(bad, 1, 0), ValueError);
}

TEST_CASE("clip_grad_value_") {
  std::vector<Tensor> ps{with_grad({3, -4, 0.5}), zeros({1}).requires_grad_()};
  nn::clip_grad_value_(ps, 1);
  CHECK(near(ps[0].grad(), {1, -1, 0.5}, 0));
  CHECK_THROWS_AS(nn::clip_grad_value_(ps, -1), ValueError);
}

TEST_CASE("gradients of parts of a batch add up to the whole's") {
  const uint32_t seed = tenon::testing::seed();
  INFO("seed " << seed);
  manual_seed(seed);
  const TensorOptions f64 = TensorOptions(kFloat64);
  nn::Sequential model(nn::Linear(6, 16), nn::Tanh(), nn::Linear(16, 2));
  model.to(kFloat64);
  const Tensor x = randn({24, 6}, f64), y = randn({24, 2}, f64);
  const auto gradients = [&](int parts) {
    model.zero_grad();
    const int64_t size = 24 / parts;
    for (int i = 0; i < parts; ++i)
      (mse_loss(model.forward(x.narrow(0, i * size, size)), y.narrow(0, i * size, size)) / parts).backward();
    const Tensor norm = nn::clip_grad_norm_(model.parameters(), 0.1);
    std::vector<Tensor> all{norm};
    for (const Tensor& p : model.parameters()) all.push_back(p.grad());
    return all;
  };
  const std::vector<Tensor> whole = gradients(1);
  for (const int parts : {2, 4, 24}) {
    const std::vector<Tensor> got = gradients(parts);
    for (std::size_t i = 0; i < whole.size(); ++i)
      CHECK((got[i] - whole[i]).abs().max().item<double>() < 1e-13 * (1 + whole[0].item<double>()));
  }
}

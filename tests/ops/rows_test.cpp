// SPDX-License-Identifier: Apache-2.0
// softmax, layer norm and losses against formulas in float64, along every dimension and in every layout, and their
// backward operators against the derivative of those formulas.
#include "tests/support/catch.h"

#include <tenon/tenon.h>

#include <algorithm>
#include <cmath>

using namespace tenon;

namespace {
double apart(const Tensor& a, const Tensor& b) {
  return a.to(kFloat64).sub(b.to(kFloat64)).abs().amax().item<double>();
}
bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b)); }
double bound(DType t) { return t == kFloat64 ? 1e-12 : t == kFloat32 ? 2e-6 : t == kFloat16 ? 2e-3 : 2e-2; }
Tensor softmax_by_parts(const Tensor& x, int64_t dim) {
  const Tensor e = x.sub(x.amax(dim, true)).exp();
  return e.div(e.sum(dim, true));
}
}  // namespace

TEST_CASE("softmax and log_softmax agree with their definition", "[ops]") {
  manual_seed(tenon::testing::seed());
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const std::vector<int64_t>& s : {std::vector<int64_t>{3, 40, 5}, {7, 1, 33}, {2, 129, 70}})
      for (int64_t dim = 0; dim < 3; ++dim)
        for (const bool transposed : {false, true}) {
          Tensor x = randn(s, t).mul(4);
          if (transposed) x = x.permute({2, 1, 0}).contiguous().permute({2, 1, 0});
          CAPTURE(name(t), s[0], dim, transposed);
          const Tensor exact = softmax_by_parts(x.to(kFloat64), dim), y = softmax(x, dim), logs = log_softmax(x, dim);
          CHECK(apart(y, exact) <= bound(t));
          CHECK(apart(logs, exact.log()) <= 20 * bound(t));
          const Tensor g = randn(s, t);
          const Tensor g64 = g.to(kFloat64), y64 = y.to(kFloat64);
          const Tensor dx = y64.mul(g64.sub(g64.mul(y64).sum(dim, true)));
          CHECK(apart(op::softmax_backward(g, y, dim, t), dx) <= 10 * bound(t));
          const Tensor dlog = g64.sub(logs.to(kFloat64).exp().mul(g64.sum(dim, true)));
          CHECK(apart(op::log_softmax_backward(g, logs, dim, t), dlog) <= 50 * bound(t));
        }
}

TEST_CASE("softmax at the edges", "[ops]") {
  for (const int64_t dim : {0, 1}) {
    const Tensor masked = softmax(full({40, 40}, -INFINITY), dim);
    CHECK(masked.ne(masked).all().item<bool>());
    Tensor one = zeros({40, 40});
    one[3][5].fill_(std::nan(""));
    const Tensor y = softmax(one, dim);
    CHECK(y.ne(y).to(kInt64).sum().item<int64_t>() == 40);
    CHECK(softmax(full({8, 8}, 1e30), dim).to_vector<float>() == std::vector<float>(64, 0.125f));
  }
  CHECK_THROWS_AS(softmax(zeros({2}, kInt64), 0), DtypeError);
  CHECK_THROWS_AS(softmax(zeros({2}), 1), IndexError);
  CHECK(softmax(zeros({2}, kInt64), 0, kFloat64).dtype() == kFloat64);
  CHECK(softmax(zeros({0, 3}), 0).sizes() == IntArrayRef{0, 3});
}

TEST_CASE("layer norm and its gradients", "[ops]") {
  manual_seed(tenon::testing::seed());
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const std::vector<int64_t>& s : {std::vector<int64_t>{5, 3, 7}, {1, 2, 100}, {40, 1, 33}}) {
      CAPTURE(name(t), s[0]);
      const Tensor x = randn(s, t).add(3), w = randn({s[1], s[2]}, t), b = randn({s[1], s[2]}, t), g = randn(s, t);
      const auto [y, mean, rstd] = op::native_layer_norm(x, {s[1], s[2]}, w, b, 1e-5);
      const int64_t n = s[1] * s[2];
      const Tensor x64 = x.to(kFloat64), w64 = w.to(kFloat64), g64 = g.to(kFloat64);
      const Tensor m = x64.mean({1, 2}, true), v = x64.sub(m).pow(2).mean({1, 2}, true);
      const Tensor r = v.add(1e-5).pow(-0.5), hat = x64.sub(m).mul(r);
      CHECK(apart(y, hat.mul(w64).add(b.to(kFloat64))) <= 20 * bound(t));
      CHECK(mean.sizes() == IntArrayRef{s[0], 1, 1});
      const auto [dx, dw, db] = op::native_layer_norm_backward(g, x, {s[1], s[2]}, mean, rstd, w, b, 7);
      const Tensor gw = g64.mul(w64);
      const Tensor expected = gw.sub(gw.mean({1, 2}, true)).sub(hat.mul(gw.mul(hat).mean({1, 2}, true))).mul(r);
      // Saved statistics of the 16-bit types are rounded, which the gradients feel.
      const double slack = is_half(t) ? 60 : 20;
      CHECK(apart(dx, expected) <= slack * bound(t));
      CHECK(apart(dw, g64.mul(hat).sum(IntArrayRef(0))) <= slack * 5 * bound(t));
      CHECK(apart(db, g64.sum(IntArrayRef(0))) <= slack * bound(t));
      CHECK(!std::get<1>(op::native_layer_norm_backward(g, x, {s[1], s[2]}, mean, rstd, w, b, 1)).defined());
      CHECK(n > 0);
    }
  CHECK_THROWS_AS(layer_norm(rand({2, 3}), {2}), ShapeError);
  CHECK_THROWS_AS(layer_norm(rand({2, 3}), {3}, rand({2})), ShapeError);
}

TEST_CASE("losses", "[ops]") {
  manual_seed(tenon::testing::seed());
  const int64_t n = 30, classes = 7;
  const Tensor x = randn({n, classes}, kFloat64), weight = rand(classes, kFloat64);
  Tensor target = randint(classes, n);
  target[4].fill_(-100);
  const auto t = target.to_vector<int64_t>();
  const auto logs = softmax_by_parts(x, 1).log().to_vector<double>(), w = weight.to_vector<double>();
  double sum = 0, total = 0, smooth = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = t[static_cast<std::size_t>(i)];
    if (c < 0) continue;
    const auto at = [&](int64_t k) { return logs[static_cast<std::size_t>(i * classes + k)]; };
    sum -= at(c) * w[static_cast<std::size_t>(c)];
    total += w[static_cast<std::size_t>(c)];
    for (int64_t k = 0; k < classes; ++k) smooth -= at(k) * w[static_cast<std::size_t>(k)];
  }
  CHECK(close(cross_entropy(x, target, weight, "sum").item<double>(), sum));
  CHECK(close(cross_entropy(x, target, weight).item<double>(), sum / total));
  CHECK(close(cross_entropy(x, target, weight, "mean", -100, 0.2).item<double>(),
              0.8 * sum / total + 0.2 / static_cast<double>(classes) * smooth / total));
  CHECK(close(cross_entropy(x, target, weight, "none").sum().item<double>(), sum));
  CHECK(close(cross_entropy(x.view({n, classes, 1, 1}), target.view({n, 1, 1}), weight).item<double>(), sum / total));
  const Tensor p = softmax(randn({n, classes}, kFloat64), 1);
  CHECK(close(cross_entropy(x, p).item<double>(),
              -p.mul(log_softmax(x, 1)).sum().item<double>() / static_cast<double>(n)));
  const Tensor a = randn({4, 5}, kFloat64), b = randn({5}, kFloat64);
  CHECK(close(mse_loss(a, b).item<double>(), a.sub(b).pow(2).mean().item<double>()));
  CHECK(std::isnan(nll_loss(zeros({1, 2}), full({1}, -100, kInt64)).item<float>()));
  CHECK_THROWS_AS(cross_entropy(x, target, {}, "average"), ValueError);
  CHECK_THROWS_AS(nll_loss(x, randint(classes, n + 1)), ShapeError);
  CHECK_THROWS_AS(mse_loss(a.to(kInt64), b.to(kInt64)), DtypeError);
}

// SPDX-License-Identifier: Apache-2.0
// Every gradient against central differences, first and second order, as rows; kinks and ties against PyTorch's choice.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/dispatch/gradient.h>
#include <tenon/dispatch/registry.h>
#include <tenon/ops/backward.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/loss.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/norm.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/scan.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include "tests/support/catch.h"

#include <cmath>
#include <random>

using namespace tenon;

namespace {
using V = std::vector<double>;
V values(const Tensor& t) { return t.detach().to_vector<double>(); }

struct Row {
  const char* name;
  std::vector<Tensor> (*f)(TensorList);
  std::vector<std::vector<int64_t>> shapes;
  double low = -1, high = 1;
  bool complex = false;  ///< also with complex128 inputs
  bool second = true;
};

Tensor random(std::mt19937_64& rng, IntArrayRef sizes, double low, double high, bool is_complex) {
  std::uniform_real_distribution<double> d(low, high);
  const int64_t n = checked_numel(sizes, "random");
  if (!is_complex) {
    V v(static_cast<std::size_t>(n));
    for (double& e : v) e = d(rng);
    return from_vector(std::move(v), sizes).requires_grad_();
  }
  std::vector<complex<double>> v(static_cast<std::size_t>(n));
  for (auto& e : v) e = {d(rng), d(rng)};
  return from_vector(std::move(v), sizes).requires_grad_();
}

Tensor ints(std::vector<int64_t> v) { return from_vector(std::move(v)); }
Tensor ints(std::vector<int64_t> v, IntArrayRef sizes) { return from_vector(std::move(v), sizes); }

#define F(...) [](TensorList x) -> std::vector<Tensor> { return {__VA_ARGS__}; }
#define LIST(...) [](TensorList x) -> std::vector<Tensor> { return __VA_ARGS__; }
const Row kRows[] = {
    {"add", F(add(x[0], x[1], 2.5)), {{2, 3}, {3}}, -1, 1, true},
    {"sub", F(sub(x[0], x[1], 2), 1.0 - x[0]), {{2, 1}, {1, 3}}, -1, 1, true},
    {"mul", F(x[0] * x[1], x[0] * 3), {{2, 3}, {2, 1}}, -1, 1, true},
    {"mul by itself", F(x[0] * x[0] * x[0]), {{3}}, -1, 1, true},
    {"div", F(x[0] / x[1], x[0] / 2, 2.0 / x[1]), {{2, 2}, {2}}, 0.5, 2, true},
    {"div rounded", F(div(x[0], 0.3, "floor") + x[0]), {{3}}},
    {"pow number",
     F(pow(x[0], 3), pow(x[0], 2), pow(x[0], 1), pow(x[0], 0) + x[0], pow(x[0], -1.5)),
     {{3}},
     0.5,
     2,
     true},
    {"pow tensor", F(pow(x[0], x[1]), pow(2.0, x[1])), {{2, 2}, {2}}, 0.5, 2, true},
    {"maximum", F(maximum(x[0], x[1]), minimum(x[0], x[1])), {{4}, {4}}},
    {"neg abs", F(-x[0], x[0].abs()), {{5}}, 0.2, 1, true},
    {"sgn", F(sgn(x[0]) * x[0]), {{3}}, 0.2, 1, true},
    {"square", F(square(x[0])), {{3}}, -1, 1, true},
    {"relu", F(x[0].relu()), {{6}}},
    {"conj", F(conj(x[0]) * x[0]), {{3}}, -1, 1, true},
    {"exp log sqrt", F(x[0].exp(), x[0].log(), x[0].sqrt()), {{3}}, 0.5, 2, true},
    {"rsqrt reciprocal", F(rsqrt(x[0]), reciprocal(x[0])), {{3}}, 0.5, 2, true},
    {"tanh sigmoid", F(x[0].tanh(), x[0].sigmoid()), {{3}}, -1, 1, true},
    {"gelu", F(gelu(x[0]), gelu(x[0], "tanh")), {{4}}, -2, 2},
    {"where", F(where(x[0].gt(x[1]), x[0], x[1]), where(x[0].gt(0), x[0], 2)), {{3}, {2, 3}}},
    {"masked_fill", F(masked_fill(x[0], x[0].gt(0), 5), masked_fill(x[0], x[0].gt(0), x[1])), {{4}, {}}},
    {"clamp",
     F(clamp(x[0], -0.5, 0.5), clamp_min(x[0], 0.1), clamp_max(x[0], x[1]), clamp(x[0], x[1], x[2])),
     {{5}, {5}, {1}}},
    {"sum mean",
     F(x[0].sum(), x[0].sum(1), x[0].sum({0, 2}, true), x[0].mean(), x[0].mean({-1})),
     {{2, 3, 2}},
     -1,
     1,
     true},
    {"var",
     F(var(x[0]), var(x[0], IntArrayRef({1}), 0), var(x[0], IntArrayRef({0, 1}), 1, true),
       op::std(x[0], {}, {}, false)),
     {{3, 4}}},
    {"amax", F(amax(x[0]), amax(x[0], {1}), amin(x[0], {0}, true)), {{3, 4}}},
    {"max", F(max(x[0]), min(x[0]), std::get<0>(max(x[0], 1)), std::get<0>(min(x[0], 0, true))), {{3, 4}}},
    {"view", F(x[0].view({3, 2}), x[0].reshape(-1), x[0].flatten()), {{2, 3}}, -1, 1, true},
    {"permute", F(x[0].permute({2, 0, 1}) * x[0].permute({2, 0, 1}), x[0].transpose(0, -1)), {{2, 3, 2}}},
    {"expand", F(x[0].expand({4, 2, 3}) * x[0]), {{2, 1}}},
    {"squeeze", F(x[0].squeeze(), x[0].squeeze({0}), x[0].unsqueeze(-1) * 2), {{1, 3, 1}}},
    {"select slice",
     F(x[0][1] * x[0][0], x[0].slice(1, 1, 4, 2), x[0].select(-1, -1), x[0].narrow(1, -2, 2)),
     {{2, 4}}},
    {"split", LIST((x[0] * x[0]).split(2, 1)), {{2, 5}}},
    {"split_with_sizes", LIST(split_with_sizes(x[0], {1, 0, 3})), {{4, 2}}},
    {"chunk", LIST(chunk(x[0] * x[0], 3)), {{4, 2}}},
    {"unbind", LIST((x[0] * x[0]).unbind(1)), {{2, 3}}},
    {"as_strided",
     F((x[0] * x[0]).as_strided({2, 2}, {3, 1}, 1), (x[0] * x[0]).as_strided({3, 2}, {1, 1}),
       (x[0] * 1).as_strided({2, 2}, {0, 2})),
     {{2, 3}}},
    {"as_strided of transposed", F((x[0] * x[0]).t().clone().as_strided({2}, {2}, 1)), {{2, 3}}},
    {"clone contiguous", F((x[0] * x[0]).t().contiguous(), x[0].clone()), {{2, 3}}},
    {"to", F((x[0] * x[0]).to(kComplex128), x[0].to(kFloat64, false, true)), {{3}}},
    {"copy", F(op::copy(x[0], x[1], false)), {{2, 3}, {3}}},
    {"cat stack", F(cat({x[0], x[1], x[0]}, 1) * 2, stack({x[0], x[0]}, 1)), {{2, 3}, {2, 1}}},
    {"index_select", F(index_select(x[0] * x[0], 1, ints({2, 0, 2}))), {{2, 3}}},
    {"gather", F(gather(x[0] * x[0], 1, ints({2, 0, 1, 1}, {2, 2}))), {{2, 3}}},
    {"index_add", F(index_add(x[0], 0, ints({1, 1}), x[1] * x[1], 2)), {{3, 2}, {2, 2}}},
    {"index_copy", F(index_copy(x[0], 0, ints({2, 0}), x[1] * x[1])), {{3, 2}, {2, 2}}},
    {"scatter_add", F(scatter_add(x[0], 1, ints({2, 0, 1, 1}, {2, 2}), x[1] * x[1])), {{2, 3}, {3, 2}}},
    {"embedding", F(embedding(ints({1, 0, 1, 3}, {2, 2}), x[0] * x[0]), embedding(ints({1, 2, 1}), x[0], 0)), {{4, 2}}},
    {"index", F(index(x[0] * x[0], std::vector<Tensor>{ints({1, 0, 1}), ints({2, 2, 0})})), {{2, 3}}},
    {"mm", F(mm(x[0], x[1])), {{2, 3}, {3, 2}}, -1, 1, true},
    {"bmm", F(bmm(x[0], x[1])), {{2, 2, 3}, {2, 3, 2}}, -1, 1, true},
    {"addmm",
     F(addmm(x[0], x[1], x[2], 2, 3), baddbmm(x[0], x[1].unsqueeze(0), x[2].unsqueeze(0), 0.5, 2)),
     {{2}, {2, 3}, {3, 2}},
     -1,
     1,
     true},
    {"matmul",
     F(matmul(x[0], x[1]), matmul(x[1].transpose(-1, -2), x[2]), matmul(x[2], x[2])),
     {{2, 3}, {2, 3, 2}, {3}}},
    {"linear", F(linear(x[0], x[1], x[2]), linear(x[0], x[1])), {{2, 2, 3}, {2, 3}, {2}}},
    {"softmax", F(softmax(x[0], 1), softmax(x[0], 0)), {{2, 3}}},
    {"log_softmax", F(log_softmax(x[0], -1)), {{2, 3}}},
    {"nll_loss",
     F(nll_loss(log_softmax(x[0], 1), ints({2, 0})), nll_loss(x[0], ints({2, 0}), {}, "none"),
       nll_loss(x[0], ints({2, 1}), from_vector(V{1, 2, 3}), "mean", 1)),
     {{2, 3}}},
    {"cross_entropy",
     F(cross_entropy(x[0], ints({2, 0})), cross_entropy(x[0], ints({2, 0}), {}, "sum", -100, 0.1)),
     {{2, 3}}},
    {"cross_entropy of probabilities",  // target and weight have gradients, too
     F(cross_entropy(x[0], x[1], x[2]), cross_entropy(x[0], x[1], x[2], "sum", -100, 0.2),
       cross_entropy(x[0], x[1], {}, "none")),
     {{2, 3}, {2, 3}, {3}},
     0.1,
     1},
    {"mse_loss", F(mse_loss(x[0], x[1]), mse_loss(x[0], x[1], "sum"), mse_loss(x[0], x[1], "none")), {{2, 3}, {2, 3}}},
    {"layer_norm",
     F(layer_norm(x[0], {3}, x[1], x[2]), layer_norm(x[0], {2, 3}), layer_norm(x[0], {3}, {}, {}, 1e-2)),
     {{2, 3}, {3}, {3}}},
    {"native_layer_norm",
     [](TensorList x) -> std::
                          vector<Tensor> {
                            const auto [y, mean, rstd] = op::native_layer_norm(x[0], {3}, x[1], x[2], 1e-3);
                            return {y * rstd, mean, rstd, mean * rstd};
                          },
     {{2, 3}, {3}, {3}}},
    {"native_layer_norm statistics",
     LIST({std::get<1>(op::native_layer_norm(x[0], {2, 3}, {}, {}, 1e-3)),
           std::get<2>(op::native_layer_norm(x[0], {3}, {}, {}, 1e-3))}),
     {{2, 3}}},
    {"fill", F(op::fill(x[0], x[1])), {{2, 3}, {}}},
};
}  // namespace

TEST_CASE("gradients agree with central differences, first and second order") {
  std::mt19937_64 rng(tenon::testing::seed());
  for (const Row& row : kRows) {
    for (const bool is_complex : {false, true}) {
      if (is_complex && !row.complex) continue;
      std::vector<Tensor> inputs;
      for (const auto& shape : row.shapes) inputs.push_back(random(rng, shape, row.low, row.high, is_complex));
      INFO(row.name << (is_complex ? " (complex)" : ""));
      std::string report;
      autograd::GradcheckOptions o;
      o.raise = false;
      o.report = &report;
      o.seed = tenon::testing::seed();
      const autograd::CheckedFunction f = row.f;
      try {
        CHECK(autograd::gradcheck(f, inputs, o));
        CHECK(report == "");
        if (row.second) CHECK(autograd::gradgradcheck(f, inputs, o));
        CHECK(report == "");
      } catch (const Error& e) {
        FAIL_CHECK(row.name << ": " << e.what());
      }
    }
  }
}

TEST_CASE("every differentiable operator has a gradient, or says that it has none") {
  for (const dispatch::OpBase* op : dispatch::Registry::all()) {
    if (op->kind() == dispatch::Kind::composite || op->has(dispatch::kNonDifferentiable)) continue;
    INFO(op->name());
    CHECK(op->gradient() != nullptr);
  }
}

TEST_CASE("embedding: the padding row gets nothing, scale_grad_by_freq divides by the counts") {
  Tensor w = from_vector(V{1, 2, 3}, {3, 1}).requires_grad_();
  embedding(ints({0, 1, 1, 2}), w, 2, true).sum().backward();
  CHECK(values(w.grad()) == V{1, 1, 0});
}

TEST_CASE("kinks and ties follow PyTorch") {
  const auto gradient = [](Tensor x, Tensor (*f)(const Tensor&)) {
    x.requires_grad_();
    f(x).sum().backward();
    return values(x.grad());
  };
  CHECK(gradient(from_vector(V{-1, 0, 2}), [](const Tensor& x) { return x.relu(); }) == V{0, 0, 1});
  CHECK(gradient(from_vector(V{-1, 0, 2}), [](const Tensor& x) { return x.abs(); }) == V{-1, 0, 1});
  CHECK(gradient(from_vector(V{-1, 0, 1, 2}), [](const Tensor& x) { return clamp(x, 0, 1); }) == V{0, 1, 1, 0});
  CHECK(gradient(from_vector(V{3, 3, 1}), [](const Tensor& x) { return amax(x); }) == V{0.5, 0.5, 0});
  CHECK(gradient(from_vector(V{3, 3, 1}), [](const Tensor& x) { return max(x); }) == V{0.5, 0.5, 0});
  CHECK(gradient(from_vector(V{3, 3, 1}), [](const Tensor& x) { return std::get<0>(max(x, 0)); }) == V{1, 0, 0});
  CHECK(gradient(from_vector(V{1, 2}), [](const Tensor& x) { return maximum(x, ones({2}, kFloat64)); }) == V{0.5, 1});
  CHECK(gradient(from_vector(V{NAN}), [](const Tensor& x) { return x.relu(); }) == V{1});
  CHECK(gradient(from_vector(V{NAN, 0}), [](const Tensor& x) {
          return maximum(x, from_vector(V{0, NAN}));
        }) == V{1, 1});
  CHECK(gradient(from_vector(V{NAN, 0}), [](const Tensor& x) {
          return minimum(x, from_vector(V{0, NAN}));
        }) == V{1, 1});
  // Infinite gradients from above stay where they belong.
  const auto infinite = [](const Tensor& t) { return t * INFINITY; };
  Tensor inside = from_vector(V{-2, 0.5}).requires_grad_(), top = from_vector(V{1, 3}).requires_grad_();
  infinite(clamp(inside, -1, 1)).sum().backward();
  CHECK(values(inside.grad()) == V{0, INFINITY});
  infinite(amax(top)).sum().backward();
  CHECK(values(top.grad()) == V{0, INFINITY});
  CHECK(gradient(from_vector(V{0, 2}), [](const Tensor& x) { return pow(x, 0); }) == V{0, 0});
  CHECK(gradient(from_vector(V{0, 2}), [](const Tensor& x) { return pow(x, from_vector(V{0, 1})); }) == V{0, 1});
  CHECK(gradient(from_vector(V{2, 3}), [](const Tensor& x) { return pow(zeros({2}, kFloat64), x); }) == V{0, 0});
}

TEST_CASE("pow: second derivatives where the base or the exponent is zero") {
  // d2/dx2 = e (e - 1) x^(e - 2), d2/dx de = x^(e - 1) (1 + e log x), d2/de2 = x^e log^2 x.
  Tensor x = from_vector(V{0, 0, 2, 0}).requires_grad_(), e = from_vector(V{0, 2, 0, 3}).requires_grad_();
  const auto first = autograd::grad({pow(x, e).sum()}, {x, e}, {}, true, true);
  CHECK(values(first[0].detach()) == V{0, 0, 0, 0});
  CHECK(values(first[1].detach())[1] == 0);
  CHECK(std::abs(values(first[1].detach())[2] - std::log(2)) < 1e-15);
  const auto of_x = autograd::grad({first[0].sum()}, {x, e}, {}, true);
  CHECK(values(of_x[0]) == V{0, 2, 0, 0});
  CHECK(values(of_x[1])[2] == 0.5);
  const auto of_e = autograd::grad({first[1].sum()}, {x, e}, {}, true);
  CHECK(values(of_e[0])[1] == 0);
  CHECK(values(of_e[0])[2] == 0.5);
  CHECK(values(of_e[1])[0] == 0);
  CHECK(std::abs(values(of_e[1])[2] - std::log(2) * std::log(2)) < 1e-12);
}

TEST_CASE("logcumsumexp: gradients of both orders over more than the exponent's range") {
  Tensor x = from_vector(V{-3000, 0, 3000, 2999}).requires_grad_();
  const Tensor y = logcumsumexp(x, 0);
  const Tensor g = autograd::grad({mul(y, from_vector(V{1, -2, 0, 4})).sum()}, {x}, {}, true, true)[0];
  const double p = 1 / (1 + std::exp(-1)), q = 1 - p;  // shares of the last two in the last result
  const V want = {1, -2, 4 * p, 4 * q}, got = values(g.detach());
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(got[i] - want[i]) < 1e-9);
  const V twice = values(autograd::grad({mul(g, from_vector(V{1, 1, 1, 0})).sum()}, {x})[0]);
  const V curved = {0, 0, 4 * p * q, -4 * p * q};
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(twice[i] - curved[i]) < 1e-9);
}

TEST_CASE("clamp between tensors: every element's gradient goes to one of the three") {
  Tensor x = from_vector(V{0, 1, 2, 0, 3}).requires_grad_(), low = from_vector(V{1, 1, 1, 2, 2}).requires_grad_(),
         high = from_vector(V{1, 1, 1, 1, 1}).requires_grad_();
  const auto g = autograd::grad({clamp(x, low, high).sum()}, {x, low, high});
  CHECK(values(g[0]) == V{0, 1, 0, 0, 0});
  CHECK(values(g[1]) == V{1, 0, 0, 0, 0});
  CHECK(values(g[2]) == V{0, 0, 1, 1, 1});  // crossed bounds: high wins
}

TEST_CASE("std and var where nothing varies, or nothing is left to estimate from") {
  const auto slope = [](V v, double correction, bool root) {
    Tensor x = from_vector(std::move(v)).requires_grad_();
    const Tensor y = root ? op::std(x, {}, Scalar(correction), false) : var(x, {}, Scalar(correction));
    return values(autograd::grad({y}, {x})[0]);
  };
  CHECK(slope({2, 2, 2}, 1, true) == V{0, 0, 0});
  CHECK(slope({2, 2, 2}, 0, true) == V{0, 0, 0});
  CHECK(slope({2}, 0, true) == V{0});
  CHECK(slope({2}, 0, false) == V{0});
  CHECK(std::isnan(slope({2}, 1, true)[0]));
  CHECK(std::isnan(slope({2}, 1, false)[0]));
  CHECK(slope({2, 3}, 2, false) == V{INFINITY, INFINITY});
  CHECK(std::isnan(slope({2, 3}, 2, true)[0]));
  Tensor x = from_vector(V{2, 2, 1, 3}, {2, 2}).requires_grad_();  // one row of two varies
  const Tensor y = op::std(x, {{1}}, Scalar(0), false);
  CHECK(values(y) == V{0, 1});
  const Tensor first = autograd::grad({y.sum()}, {x}, {}, {}, true)[0];
  CHECK(values(first) == V{0, 0, -0.5, 0.5});
  CHECK(values(autograd::grad({first.select(1, 0).sum()}, {x})[0])[0] == 0);
  Tensor none = zeros({0, 2}, kFloat64).requires_grad_();
  CHECK(autograd::grad({op::std(none, {{0}}, {}, false).sum()}, {none})[0].sizes() == IntArrayRef({0, 2}));
}

TEST_CASE("losses: the weight of classes is not differentiable, and says so") {
  const Tensor x = from_vector(V{1, 2, 3, 4}, {2, 2}).requires_grad_(), weight = from_vector(V{1, 2}).requires_grad_();
  const Tensor target = ints({0, 1});
  using tenon::testing::error_of;
  const auto refused = [&](auto&& f) { return error_of<AutogradError>(f); };
  CHECK(refused([&] { nll_loss(x, target, weight); }).starts_with("nll_loss: weight"));
  CHECK(refused([&] { nll_loss(x.detach(), target, weight); }).starts_with("nll_loss: weight"));
  CHECK(refused([&] { cross_entropy(x, target, weight); }).starts_with("cross_entropy: weight"));
  CHECK(refused([&] { cross_entropy(x, target, weight, "mean", -100, 0.1); }).starts_with("cross_entropy: weight"));
  const Tensor direct = std::get<0>(op::nll_loss_forward(x, target, weight, 1, -100));
  CHECK(refused([&] { direct.backward(); }).starts_with("nll_loss: weight"));
  CHECK_NOTHROW(nll_loss(x, target, weight.detach()).backward());
  const NoGradGuard guard;
  CHECK_NOTHROW(nll_loss(x, target, weight));
}

TEST_CASE("gradients seen wrong elsewhere: empty dimensions, ignored targets, infinite and duplicate places") {
  const auto slope = [](const Tensor& y, const Tensor& x) {
    return autograd::grad({y.sum()}, {x}, {}, true)[0].contiguous();
  };
  const Tensor none = zeros({2, 0}, kFloat64).requires_grad_(), x = from_vector(V{1, 2, 3}).requires_grad_();
  for (const Tensor& y : {none.sum(1), none * 2, index_select(none, 0, ints({1, 1, 0})), cat({none, none}, 1), none.t(),
                          softmax(none, 1), std::get<0>(max(none, 0)), none.reshape({0, 3})}) {
    INFO(y.grad_fn_name());
    CHECK(slope(y, none).sizes() == IntArrayRef({2, 0}));
  }
  CHECK(values(slope(cat({x, zeros({0}, kFloat64)}), x)) == V{1, 1, 1});
  // All targets ignored: no loss, no gradient.
  const Tensor logits = from_vector(V{-1, -2}, {1, 2}).requires_grad_();
  CHECK(values(slope(nll_loss(logits, ints({-100}), {}, "sum"), logits)) == V{0, 0});
  CHECK(values(slope(nll_loss(logits, ints({-100}), {}, "none"), logits)) == V{0, 0});
  CHECK(std::isnan(nll_loss(logits, ints({-100})).item<double>()));
  // dropout that keeps nothing divides by nothing.
  CHECK(values(slope(dropout(x, 1.0, true), x)) == V{0, 0, 0});
  CHECK(values(slope(dropout(x, 0.0, true), x)) == V{1, 1, 1});
  // scatter_add reads a corner of a larger source: the rest has no gradient.
  const Tensor src = from_vector(V{5, 6, 7, 8}).requires_grad_();
  const Tensor out = scatter_add(zeros({3}, kFloat64), 0, ints({2, 0}), src);
  CHECK(values(out) == V{6, 0, 5});
  CHECK(values(slope(out * from_vector(V{1, 10, 100}), src)) == V{100, 1, 0, 0});
  // The last of several writes to one place wins the value; each source keeps its gradient, as PyTorch does it.
  const Tensor two = from_vector(V{3, 4}).requires_grad_();
  const Tensor copied = index_copy(x, 0, ints({1, 1}), two);
  CHECK(values(slope(copied, x)) == V{1, 0, 1});
  CHECK(values(slope(copied, two)) == V{1, 1});
}

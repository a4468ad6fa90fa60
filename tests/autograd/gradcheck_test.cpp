// SPDX-License-Identifier: Apache-2.0
// gradcheck as a tool: what it accepts, what it finds, what it says. Derivatives of third order, gradients of
// operators that save results, dtypes.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <cmath>

using namespace tenon;
using autograd::gradcheck;
using autograd::GradcheckOptions;
using autograd::gradgradcheck;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
using C = complex<double>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
Tensor complex_leaf(std::vector<C> values) { return from_vector(std::move(values)).requires_grad_(); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }

/// x * x whose gradient is `factor` * x, plus noise that differs from call to call.
Tensor square(const Tensor& x, double factor, double noise = 0) {
  const Tensor y = x.detach() * x.detach();
  Tensor out = x + (y - x.detach());  // the value of the square, the gradient 1
  if (!out.requires_grad()) return out;
  autograd::register_hook(
      out, [=, at = x.detach(), calls = 0.0](const Tensor& g) mutable { return g * at * (factor + noise * ++calls); });
  return out;
}
}  // namespace

TEST_CASE("gradcheck finds a wrong gradient and shows both Jacobians") {
  const Tensor x = leaf({1, 2});
  const auto right = [](TensorList in) { return std::vector<Tensor>{square(in[0], 2)}; };
  const auto wrong = [](TensorList in) { return std::vector<Tensor>{square(in[0], 3)}; };
  CHECK(gradcheck(right, {&x, 1}));
  const std::string text = error_of<AutogradError>([&] { gradcheck(wrong, {&x, 1}); });
  for (const char* part :
       {"output 0, input 0 element 0", "numeric 2", "analytic 3", "numeric [[2", "analytic [[3, 0], [0, 6]]"})
    CHECK(contains(text, part));
  GradcheckOptions quiet;
  quiet.raise = false;
  std::string report = "old";
  quiet.report = &report;
  CHECK_FALSE(gradcheck(wrong, {&x, 1}, quiet));
  CHECK(report == text);
  CHECK(gradcheck(right, {&x, 1}, quiet));
  CHECK(report.empty());
  GradcheckOptions loose;
  loose.rtol = 0.6;
  CHECK(gradcheck(wrong, {&x, 1}, loose));
  GradcheckOptions fast;
  fast.fast_mode = true;
  CHECK(gradcheck(right, {&x, 1}, fast));
  CHECK(contains(error_of<AutogradError>([&] { gradcheck(wrong, {&x, 1}, fast); }), "random directions"));
  CHECK(values(x) == V{1, 2});
  CHECK(x.version() == 0);
}

TEST_CASE("gradcheck notices a backward that is not deterministic") {
  const Tensor x = leaf({1, 2});
  double drift = 0;
  const auto f = [&](TensorList in) {
    drift += 1e-7;
    return std::vector<Tensor>{square(in[0], 2 + drift)};
  };
  CHECK(contains(error_of<AutogradError>([&] { gradcheck(f, {&x, 1}); }), "not deterministic"));
  GradcheckOptions tolerant;
  tolerant.nondet_tol = 1e-5;
  CHECK(gradcheck(f, {&x, 1}, tolerant));
  tolerant.nondet_tol = 0;
  tolerant.check_determinism = false;
  CHECK(gradcheck(f, {&x, 1}, tolerant));
}

TEST_CASE("gradcheck takes complex, expanded, empty and computed inputs, and several outputs") {
  const Tensor z = complex_leaf({C(1, 2), C(-0.5, 0.25)}), x = leaf({0.5, 2});
  const Tensor wide = leaf({1.5}).detach().expand({3}).requires_grad_();
  const Tensor computed = leaf({1, 2}) * 0.5;
  const Tensor none = zeros({0, 2}, kFloat64).requires_grad_();
  const auto f = [](TensorList in) {
    return std::vector<Tensor>{in[0] * in[1] * in[0].abs(), in[1].exp(),           (in[1] > 0),
                               conj(in[0]) * in[3],         (in[2] * in[2]).sum(), in[4] * 2};
  };
  const Tensor inputs[] = {z, x, wide, computed, none};
  for (const bool fast : {false, true}) {
    GradcheckOptions o;
    o.fast_mode = fast;
    CHECK(gradcheck(f, inputs, o));
    CHECK(gradgradcheck(f, inputs, o));
  }
  const auto holomorphic_only = [](TensorList in) {  // right for real numbers only
    Tensor y = in[0] * 1;
    if (y.requires_grad()) autograd::register_hook(y, [](const Tensor& g) { return conj(g); });
    return std::vector<Tensor>{y};
  };
  CHECK(gradcheck(holomorphic_only, {&x, 1}));
  CHECK(contains(error_of<AutogradError>([&] { gradcheck(holomorphic_only, {&z, 1}); }), "(imaginary)"));
}

TEST_CASE("gradcheck refuses single precision and inputs without grad") {
  const auto f = [](TensorList in) { return std::vector<Tensor>{in[0] * 2}; };
  const Tensor half = ones({2}, kFloat16).requires_grad_(), constant = ones({2}, kFloat64);
  CHECK(contains(error_of<DtypeError>([&] { gradcheck(f, {&half, 1}); }), "input 0"));
  CHECK_THROWS_AS(gradcheck(f, {&constant, 1}), ValueError);
}

TEST_CASE("third derivatives against closed forms") {
  const Tensor x = leaf({0.3, 1.2, 2.5});
  const auto third = [&](const Tensor& y) {
    Tensor d = y;
    for (int i = 0; i < 3; ++i) d = autograd::grad({d.sum()}, {x}, {}, {}, true)[0];
    return values(d);
  };
  const auto agrees = [&](const Tensor& y, double (*expected)(double)) {
    const V found = third(y), at = values(x);
    bool good = true;
    for (std::size_t i = 0; i < at.size(); ++i)
      good = good && std::abs(found[i] - expected(at[i])) <= 1e-11 * (1 + std::abs(expected(at[i])));
    return good;
  };
  CHECK(agrees(x.exp(), [](double v) { return std::exp(v); }));
  CHECK(agrees(x.log(), [](double v) { return 2 / (v * v * v); }));
  CHECK(agrees(x.sqrt(), [](double v) { return 0.375 * std::pow(v, -2.5); }));
  CHECK(agrees(rsqrt(x), [](double v) { return -1.875 * std::pow(v, -3.5); }));
  CHECK(agrees(reciprocal(x), [](double v) { return -6 / (v * v * v * v); }));
  CHECK(agrees(pow(x, 4), [](double v) { return 24 * v; }));
  CHECK(agrees(pow(x, 2.5), [](double v) { return 2.5 * 1.5 * 0.5 * std::pow(v, -0.5); }));
  CHECK(agrees(pow(2.0, x), [](double v) { return std::pow(std::log(2.0), 3) * std::pow(2.0, v); }));
  CHECK(agrees(x.tanh(), [](double v) {
    const double t = std::tanh(v), s = 1 - t * t;
    return s * (6 * t * t - 2);
  }));
  CHECK(agrees(x.sigmoid(), [](double v) {
    const double s = 1 / (1 + std::exp(-v));
    return s * (1 - s) * (1 - 6 * s + 6 * s * s);
  }));
  CHECK(agrees(1.0 / x + x * x * x, [](double v) { return -6 / (v * v * v * v) + 6; }));
  // A chain of matrix products: L = sum (A^3) has third derivative 6 sum(D^3) along any direction D.
  const Tensor a = from_vector(V{0.5, -1, 2, 0.25}, {2, 2}).requires_grad_();
  const Tensor d = from_vector(V{1, 2, -0.5, 1.5}, {2, 2});
  Tensor along = matmul(matmul(a, a), a).sum();
  for (int i = 0; i < 3; ++i) along = (autograd::grad({along}, {a}, {}, {}, true)[0] * d).sum();
  CHECK(std::abs(along.item<double>() - 6 * matmul(matmul(d, d), d).sum().item<double>()) < 1e-10);
}

TEST_CASE("saving a result, or something computed on the way, keeps double backward right") {
  const Tensor x = leaf({0.3, 0.7});
  const auto f = [](TensorList in) {  // results saved by exp, tanh, sqrt, sigmoid, softmax-like ratios, in place too
    const Tensor e = in[0].exp();
    Tensor t = e.tanh() * 1;
    t.sqrt_();
    Tensor view = (t * e).unsqueeze(0);
    view.select(0, 0).sigmoid_();
    return std::vector<Tensor>{e / e.sum(), t, view};
  };
  CHECK(gradcheck(f, {&x, 1}));
  CHECK(gradgradcheck(f, {&x, 1}));
  // The derivative of the derivative of exp(x)^2 is 4 exp(2x), and not 2 exp(2x), which a detached result would give.
  const Tensor y = x.exp();
  const Tensor first = autograd::grad({(y * y).sum()}, {x}, {}, {}, true)[0];
  const V second = values(autograd::grad({first.sum()}, {x})[0]);
  for (std::size_t i = 0; i < 2; ++i) CHECK(std::abs(second[i] - 4 * std::exp(2 * values(x)[i])) < 1e-12);
}

TEST_CASE("gradients have the dtype of their leaf; integers and bool have none") {
  for (const DType t : {kFloat16, kBFloat16, kFloat32, kFloat64, kComplex64, kComplex128}) {
    const Tensor x = ones({3}, t).requires_grad_();
    (x * x).sum().abs().backward();
    CHECK(x.grad().dtype() == t);
    CHECK(x.grad().to(kFloat64).to_vector<double>() == V{2, 2, 2});
    const Tensor mixed = (x * ones({3}, kFloat64)).sum().abs();
    CHECK(autograd::grad({mixed}, {x})[0].dtype() == t);
  }
  for (const DType t : {kUInt8, kInt8, kInt16, kInt32, kInt64, kBool})
    CHECK(contains(error_of<AutogradError>([&] { ones({2}, t).requires_grad_(); }), "requires_grad_"));
  const Tensor x = leaf({1.5, -2});
  CHECK_FALSE(x.to(kInt32).requires_grad());
  CHECK_FALSE(x.gt(0).requires_grad());
  CHECK_FALSE(x.argmax().requires_grad());
  CHECK((x.to(kInt32) * x).requires_grad());
}

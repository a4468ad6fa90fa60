// SPDX-License-Identifier: Apache-2.0
// Jacobians, Hessians and products with them, against closed forms in double precision; the text of graphs.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/functional.h>
#include <tenon/autograd/graph_dot.h>
#include <tenon/autograd/saved_hooks.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
using Tensors = std::vector<Tensor>;
const TensorOptions f64 = TensorOptions(kFloat64);
Tensor random(IntArrayRef sizes) { return randn(sizes, f64); }
bool close(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  if (!(a.sizes() == b.sizes()) || a.dtype() != b.dtype()) return false;
  return a.numel() == 0 || (a - b).abs().max().item<double>() <= tolerance * (1 + b.abs().max().item<double>());
}
Tensor diagonal(const Tensor& v) { return eye(v.numel(), f64) * v; }
}  // namespace

TEST_CASE("functional: a quadratic form") {
  const uint32_t seed = tenon::testing::seed();
  INFO("seed " << seed);
  manual_seed(seed);
  const Tensor A = random({4, 4}), x = random({4}), v = random({4});
  const auto f = [&](const Tensor& t) { return t.matmul(A).matmul(t); };
  const Tensor S = A + A.t();
  CHECK(close(autograd::jacobian(f, x), S.matmul(x)));
  CHECK(close(autograd::hessian(f, x), S));
  const auto [y, Hv] = autograd::hvp(f, x, v);
  CHECK(close(y, f(x)));
  CHECK(close(Hv, S.matmul(v)));
  CHECK(close(autograd::vhp(f, x, v).second, S.matmul(v)));
  CHECK(close(autograd::vjp(f, x).second, S.matmul(x)));
  CHECK(close(autograd::jvp(f, x, v).second, S.matmul(x).matmul(v)));
  CHECK_FALSE(y.requires_grad());
  CHECK_FALSE(x.requires_grad());
}

TEST_CASE("functional: functions linear in their input, and the identity") {
  manual_seed(3);
  const Tensor W = random({3, 5}), x = random({2, 3}), v = random({2, 3}), u = random({2, 5});
  const auto linear = [&](const Tensor& t) { return t.matmul(W); };
  CHECK(close(autograd::jvp(linear, x, v, false, true).second, v.matmul(W)));
  CHECK(close(autograd::vjp(linear, x, u, false, true).second, u.matmul(W.t())));
  const Tensor J = autograd::jacobian(linear, x);
  CHECK(J.sizes() == IntArrayRef({2, 5, 2, 3}));
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 2; ++j) CHECK(close(J.select(0, i).select(1, j), i == j ? W.t() * 1 : zeros({5, 3}, f64)));
  const auto identity = [](const Tensor& t) { return t; };
  CHECK(close(autograd::jvp(identity, x, v).second, v));
  CHECK(close(autograd::jacobian(identity, x[0]), eye(3, f64)));
  CHECK(close(autograd::jvp([](const Tensor& t) { return t.t().sum(IntArrayRef{0}); }, x, v).second,
              v.sum(IntArrayRef{1})));
}

TEST_CASE("functional: softmax and a tanh network") {
  const uint32_t seed = tenon::testing::seed();
  INFO("seed " << seed);
  manual_seed(seed);
  const Tensor x = random({5}), v = random({5});
  const auto soft = [](const Tensor& t) { return t.softmax(0); };
  const Tensor p = soft(x);
  const Tensor expected = diagonal(p) - p.unsqueeze(1) * p.unsqueeze(0);
  CHECK(close(autograd::jacobian(soft, x), expected));
  CHECK(close(autograd::jvp(soft, x, v).second, expected.matmul(v)));
  CHECK(close(autograd::vjp(soft, x, v).second, expected.matmul(v)));
  // log-sum-exp: its Hessian is the Jacobian of softmax.
  CHECK(close(autograd::hessian([](const Tensor& t) { return t.exp().sum().log(); }, x), expected));

  const Tensor A = random({6, 5}), B = random({4, 6});
  const auto net = [&](const Tensor& t) { return B.matmul(A.matmul(t).tanh()); };
  const Tensor h = A.matmul(x).tanh(), slope = 1 - h * h;
  const Tensor J = B.matmul(diagonal(slope)).matmul(A);
  CHECK(close(autograd::jacobian(net, x), J));
  CHECK(close(autograd::jvp(net, x, v).second, J.matmul(v)));
  // sum of outputs: H = A^T diag(-2 h (1 - h^2) s) A, s the column sums of B.
  const Tensor H = A.t().matmul(diagonal(h * slope * B.sum(IntArrayRef{0}) * -2)).matmul(A);
  const auto total = [&](const Tensor& t) { return net(t).sum(); };
  CHECK(close(autograd::hessian(total, x), H));
  CHECK(close(autograd::hvp(total, x, v).second, H.matmul(v)));
  CHECK(close(autograd::vhp(total, x, v).second, H.matmul(v)));
}

TEST_CASE("functional: several inputs and outputs") {
  manual_seed(5);
  const Tensors in{random({2, 3}), random({3})};
  const Tensors v{random({2, 3}), random({3})};
  const auto f = [](TensorList t) { return Tensors{t[0].matmul(t[1]), t[1] * t[1], t[0].sum() * 3}; };
  const auto J = autograd::jacobian(f, in);
  REQUIRE(J.size() == 3);
  CHECK(J[0][0].sizes() == IntArrayRef({2, 2, 3}));
  CHECK(close(J[0][1], in[0]));
  CHECK(close(J[1][0], zeros({3, 2, 3}, f64)));
  CHECK(close(J[1][1], diagonal(in[1] * 2)));
  CHECK(close(J[2][0], full({2, 3}, 3.0, f64)));
  const auto [y, Jv] = autograd::jvp(f, in, v);
  CHECK(close(y[0], in[0].matmul(in[1])));
  CHECK(close(Jv[0], v[0].matmul(in[1]) + in[0].matmul(v[1])));
  CHECK(close(Jv[1], in[1] * v[1] * 2));
  CHECK(close(Jv[2], v[0].sum() * 3));
  const Tensors u{random({2}), random({3}), random({})};
  const auto tuple = [](const auto& t) { return std::tuple<Tensor, Tensor>{t[0].matmul(t[1]), t[1].sum()}; };
  CHECK(close(autograd::jacobian(tuple, in)[0][1], in[0]));
  CHECK(close(autograd::jacobian([](const auto& t) { return t * 2; }, in[1]), eye(3, f64) * 2));
  const auto uJ = autograd::vjp(f, in, u).second;
  CHECK(close(uJ[0], u[0].unsqueeze(1) * in[1] + u[2] * 3));
  CHECK(close(uJ[1], u[0].matmul(in[0]) + u[1] * in[1] * 2));
  // z = a b^2 of numbers: H = [[0, 2b], [2b, 2a]].
  const auto z = [](TensorList t) { return t[0] * t[1] * t[1]; };
  const Tensors ab{full({}, 2.0, f64), full({}, 3.0, f64)};
  const auto H = autograd::hessian(z, ab);
  CHECK(H[0][0].item<double>() == 0);
  CHECK(H[0][1].item<double>() == 6);
  CHECK(H[1][0].item<double>() == 6);
  CHECK(H[1][1].item<double>() == 4);
  const Tensors w{full({}, 5.0, f64), full({}, 7.0, f64)};
  const auto Hw = autograd::hvp(z, ab, w).second;
  CHECK(Hw[0].item<double>() == 42);
  CHECK(Hw[1].item<double>() == 30 + 28);
}

TEST_CASE("functional: create_graph, to third order") {
  const auto f = [](const Tensor& t) { return (t * t * t * t).sum(); };
  Tensor x = tensor({0.5, -2.0}, f64).requires_grad_();
  const Tensor H = autograd::hessian(f, x, true);
  REQUIRE(H.requires_grad());
  CHECK(close(H.detach(), diagonal(x.detach() * x.detach() * 12)));
  CHECK(close(autograd::grad({H.sum()}, {x})[0], x.detach() * 24));
  const auto hessian = [&](const Tensor& t) { return autograd::hessian(f, t, true).sum(IntArrayRef{0}); };
  CHECK(close(autograd::jacobian(hessian, x), diagonal(x.detach() * 24)));
  // With respect to what else went in.
  Tensor k = full({}, 3.0, f64).requires_grad_();
  const Tensor J = autograd::jacobian([&](const Tensor& t) { return t * t * k; }, x, true);
  CHECK(close(autograd::grad({J.sum()}, {k})[0], x.detach().sum() * 2));
  const auto [y, t] = autograd::jvp([](const Tensor& a) { return a * a * a; }, x, ones({2}, f64), true);
  CHECK(close(autograd::grad({t.sum()}, {x})[0], x.detach() * 6));
  CHECK(y.requires_grad());
  CHECK_FALSE(x.grad().defined());
  // Results are not recorded otherwise, nor is anything hindered by no-grad mode.
  CHECK_FALSE(autograd::hessian(f, x).requires_grad());
  const NoGradGuard guard;
  CHECK(close(autograd::hessian(f, x), diagonal(x.detach() * x.detach() * 12)));
}

TEST_CASE("functional: empty and 0-dim") {
  const auto cube = [](const Tensor& t) { return t * t * t; };
  const Tensor one = full({}, 2.0, f64);
  CHECK(autograd::jacobian(cube, one).sizes() == IntArrayRef());
  CHECK(autograd::jacobian(cube, one).item<double>() == 12);
  CHECK(autograd::hessian(cube, one).item<double>() == 12);
  CHECK(autograd::vjp(cube, one).second.item<double>() == 12);
  CHECK(autograd::jvp(cube, one).second.item<double>() == 12);
  const Tensor none = zeros({0, 3}, f64);
  CHECK(autograd::jacobian(cube, none).sizes() == IntArrayRef({0, 3, 0, 3}));
  CHECK(autograd::jacobian([](const Tensor& t) { return t.sum(); }, none).sizes() == IntArrayRef({0, 3}));
  CHECK(autograd::hessian([](const Tensor& t) { return (t * t).sum(); }, none).sizes() == IntArrayRef({0, 3, 0, 3}));
  CHECK(autograd::jvp(cube, none, none).second.sizes() == IntArrayRef({0, 3}));
}

TEST_CASE("functional: independence is zeros, and an error when strict") {
  const Tensor x = ones({2}, f64);
  const Tensors both{x, x};
  const auto constant = [](const Tensor&) { return full({}, 1.0, f64); };
  CHECK(close(autograd::jacobian(constant, x), zeros({2}, f64)));
  CHECK(close(autograd::jvp(constant, x, x).second, zeros({}, f64)));
  CHECK(close(autograd::vjp(constant, x).second, zeros({2}, f64)));
  CHECK(close(autograd::hessian([](const Tensor& t) { return t.sum(); }, x), zeros({2, 2}, f64)));
  CHECK(close(autograd::hvp([](const Tensor& t) { return t.sum(); }, x, x).second, zeros({2}, f64)));
  const auto text = [](auto&& f) { return error_of<AutogradError>(f); };
  CHECK(text([&] { autograd::jacobian(constant, x, false, true); }) ==
        "jacobian: output 0 is independent of the inputs");
  CHECK(contains(text([&] { autograd::jacobian([](TensorList t) { return t[0] * 2; }, both, false, true); }),
                 "jacobian: output 0 does not depend on input 1"));
  CHECK(contains(text([&] { autograd::vjp([](TensorList t) { return t[0].sum(); }, both, {}, false, true); }),
                 "vjp: input 1 is independent of the outputs"));
  CHECK(
      contains(text([&] { autograd::hessian([](const Tensor& t) { return t.sum(); }, x, false, true); }), "hessian:"));
}

TEST_CASE("functional: what does not fit is a typed error") {
  const Tensor x = ones({2}, f64);
  const auto square = [](const Tensor& t) { return t * t; };
  CHECK(
      contains(error_of<ValueError>([&] { autograd::vjp(square, x); }), "vjp: v: can be left out for a single output"));
  CHECK(
      contains(error_of<ValueError>([&] { autograd::jvp(square, x); }), "jvp: v: can be left out for a single input"));
  CHECK(
      contains(error_of<ShapeError>([&] { autograd::vjp(square, x, ones({3}, f64)); }), "expected sizes [2], got [3]"));
  CHECK(contains(error_of<ValueError>([&] { autograd::hessian(square, x); }),
                 "one one-element output, got 1 of sizes [2]"));
  CHECK(contains(error_of<ValueError>([&] { autograd::hvp(square, x, x); }), "hvp:"));
  CHECK(contains(error_of<DtypeError>([&] { autograd::jacobian(square, arange(3)); }), "got int64"));
  CHECK(contains(error_of<ValueError>([&] { autograd::jacobian(square, Tensor()); }), "undefined"));
  CHECK_THROWS_AS(autograd::jacobian([](TensorList) { return Tensors{}; }, Tensors{x}), ValueError);
}

TEST_CASE("graph_dot: names, sizes, what is kept; the same text every time") {
  struct Split : autograd::Function<Split> {
    std::tuple<Tensor, Tensor> forward(const Tensor& t) {
      save(t);
      return {t * 1, t * 2};
    }
    Tensors backward(std::span<const Tensor> g) { return {g[0] + g[1] * 2}; }
  };
  const auto make = [](bool saved) {
    Tensor x = ones({2, 3}, f64).requires_grad_();
    Tensor h = x * x;
    h[0].mul_(3);
    const auto [a, b] = Split::apply(h);
    const Tensor loss = (a * b).sum();
    autograd::GraphDotOptions options;
    options.names = {{"x \"raw\"", x}, {"h", h}, {"loss", loss}};
    options.saved = saved;
    return autograd::graph_dot(loss, options);
  };
  const std::string text = make(false);
  CHECK(text == make(false));
  INFO(text);
  CHECK(text.substr(0, 18) == "digraph autograd {");
  CHECK(contains(text, "n0 [label=\"sum\\nloss\"]"));
  CHECK(contains(text, "label=\"x \\\"raw\\\"\\nfloat64 [2, 3]\", shape=box"));
  CHECK(contains(text, "mul_ (through a view)\\nh"));
  CHECK(contains(text, "output 1"));
  CHECK_FALSE(contains(text, "keeps"));
  const std::string full = make(true);
  CHECK(contains(full, "keeps self: float64 [2, 3], 48 B"));
  CHECK(contains(full, "Split\\nkeeps input: float64 [2, 3], 48 B"));
  {
    autograd::SavedTensorHooksGuard guard([](const Tensor& t) { return t.clone(); }, [](const Tensor& t) { return t; });
    const std::string packed = make(true);
    CHECK(contains(packed, "keeps self: float64 [2, 3], 48 B"));
    CHECK(contains(packed, "Split\\nkeeps input"));
  }
  CHECK(autograd::graph_dot(ones({2})) == autograd::graph_dot(Tensor()));
  CHECK(contains(autograd::graph_dot(ones({2}).requires_grad_()), "n0 [label=\"leaf\""));
}

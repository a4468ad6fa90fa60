// SPDX-License-Identifier: Apache-2.0
// In-place writes, views and version counters under autograd: what PyTorch gives, and what it refuses.
#include <tenon/autograd/autograd.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <cmath>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
Tensor leaf(V values, IntArrayRef sizes) { return from_vector(std::move(values), sizes).requires_grad_(); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }
V gradient(const Tensor& y, const Tensor& x) {
  x.set_grad({});
  y.sum().backward({}, true);
  return values(x.grad());
}
}  // namespace

TEST_CASE("in place: a tensor's history goes on through the write") {
  Tensor x = leaf({1, 2});
  Tensor h = x * 3;
  h.mul_(2);
  CHECK(gradient(h, x) == V{6, 6});
  h.exp_();  // uses its result
  CHECK(gradient(h, x) == V{6 * std::exp(6.0), 6 * std::exp(12.0)});
  Tensor k = x * 1;
  k.mul_(k);  // the factor is the tensor itself
  CHECK(gradient(k, x) == V{2, 4});
  Tensor m = x * 1;
  m.abs_();  // needs what it overwrites
  CHECK(gradient(m, x) == V{1, 1});
}

TEST_CASE("in place: a tensor without history gets one from the operand") {
  Tensor x = leaf({1, 2});
  Tensor b = zeros({2}, kFloat64);
  b.add_(x);
  CHECK(b.requires_grad());
  CHECK(gradient(b * b, x) == V{2, 4});
}

TEST_CASE("in place: leaves and their views are refused while recording") {
  Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  CHECK(contains(error_of<AutogradError>([&] { x.mul_(2); }), "leaf"));
  CHECK(contains(error_of<AutogradError>([&] { x[0].mul_(2); }), "view of a leaf"));
  CHECK(values(x) == V{1, 2, 3, 4});
  const NoGradGuard guard;
  x.mul_(2);
  x[1].mul_(2);
  CHECK(values(x) == V{2, 4, 12, 16});
  CHECK(x.is_leaf());
}

TEST_CASE("in place through a view rewrites the base's history") {
  Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  Tensor h = x * 1;
  h[0].mul_(10);
  CHECK(values(h) == V{10, 20, 3, 4});
  CHECK(gradient(h, x) == V{10, 10, 1, 1});
  CHECK(gradient(h[0], x) == V{10, 10, 0, 0});
  CHECK(gradient(h * h, x) == V{200, 400, 6, 8});

  SECTION("a view taken before the write follows it") {
    Tensor y = x * 1;
    const Tensor row = y[0], column = y.select(1, 0);
    y.mul_(3);
    CHECK(gradient(row, x) == V{3, 3, 0, 0});
    y[0].mul_(2);
    CHECK(gradient(row, x) == V{6, 6, 0, 0});
    CHECK(gradient(column, x) == V{6, 0, 3, 0});
    CHECK(row.grad_fn()->name() == "as_strided");
  }
  SECTION("views of views") {
    Tensor y = x * 1;
    Tensor inner = y.view({4}).slice(0, 1, 4).slice(0, 0, 3, 2);  // elements 1 and 3
    inner.mul_(5);
    CHECK(gradient(y, x) == V{1, 5, 1, 5});
    CHECK(gradient(inner, x) == V{0, 5, 0, 5});
    CHECK(y.is_same(inner.base()));
  }
  SECTION("a view of a base without history") {
    Tensor base = zeros({2, 2}, kFloat64);
    Tensor row = base[1];
    CHECK_FALSE(row.requires_grad());
    row.add_(x[0] * 2);
    CHECK(base.requires_grad());
    CHECK(row.requires_grad());
    CHECK(base[0].requires_grad());
    CHECK(gradient(base, x) == V{2, 2, 0, 0});
    base[0].copy_(x[1]);
    CHECK(gradient(base, x) == V{2, 2, 1, 1});
    base.select(1, 0).zero_();
    CHECK(gradient(base, x) == V{0, 2, 0, 1});
  }
  SECTION("a base that is not contiguous") {
    Tensor y = (x * 1).t().clone();  // keeps the transposed strides
    REQUIRE_FALSE(y.is_contiguous());
    y[0].mul_(7);
    CHECK(gradient(y, x) == V{7, 1, 7, 1});
  }
  SECTION("x[i] += v") {
    Tensor y = x * 2, v = leaf({100, 200});
    Tensor row = y[1];
    row += v;
    CHECK(gradient(y, v) == V{1, 1});
    CHECK(gradient(y, x) == V{2, 2, 2, 2});
  }
}

TEST_CASE("in place through a view: second derivatives") {
  Tensor x = leaf({2, 3});
  const Tensor one = ones({2}, kFloat64);
  Tensor y = x * x;
  y.slice(0, 0, 1).mul_(x.slice(0, 0, 1));  // x0^3, x1^2
  const Tensor first = autograd::grad({&y, 1}, {&x, 1}, {&one, 1}, {}, true)[0];
  CHECK(values(first) == V{12, 6});
  CHECK(values(autograd::grad({&first, 1}, {&x, 1}, {&one, 1})[0]) == V{12, 2});
  Tensor z = x * 1;
  z.slice(0, 0, 1).exp_();  // the saved output is a part of the rewritten base
  const Tensor dz = autograd::grad({&z, 1}, {&x, 1}, {&one, 1}, {}, true)[0];
  CHECK(std::abs(values(autograd::grad({&dz, 1}, {&x, 1}, {&one, 1})[0])[0] - std::exp(2.0)) < 1e-12);
}

TEST_CASE("saved tensors written since are found at backward, with versions") {
  Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tensor h = x * 1;
  const Tensor y = h * w;
  h.add_(1);
  const std::string text = error_of<AutogradError>([&] { y.sum().backward(); });
  CHECK(contains(text, "mul"));
  CHECK(contains(text, "self"));
  CHECK(contains(text, "float64 of sizes [2]"));
  CHECK(contains(text, "it is at version 1; expected version 0"));

  Tensor e = x.exp();
  e.detach().mul_(2);  // detach shares the version counter
  CHECK(contains(error_of<AutogradError>([&] { e.sum().backward(); }), "exp"));

  Tensor s = x * 1;
  const Tensor t = s[0] * w[0];
  s[1].mul_(2);  // another part of the same storage counts too
  CHECK_THROWS_AS(t.backward(), AutogradError);

  Tensor a = x * 1;
  const Tensor b = a + w;  // saves nothing
  a.mul_(2);
  CHECK_NOTHROW(b.sum().backward());
  const Tensor c = x * w;
  {
    const NoGradGuard guard;
    w.mul_(2);
  }
  CHECK_THROWS_AS(c.sum().backward(), AutogradError);
}

TEST_CASE("a factor is saved only if the other side needs it") {
  Tensor x = leaf({1, 2});
  Tensor constant = from_vector(V{5, 6});
  Tensor h = x * 1;
  const Tensor y = h * constant;
  h.add_(1);  // not saved: the constant needs no gradient
  CHECK(gradient(y, x) == V{5, 6});
}

TEST_CASE("detach shares memory, not history") {
  Tensor x = leaf({1, 2});
  Tensor h = x * 2, d = h.detach();
  CHECK_FALSE(d.requires_grad());
  CHECK(d.is_leaf());
  CHECK(d.data_ptr() == h.data_ptr());
  const uint32_t before = h.version();
  d.mul_(1);
  CHECK(h.version() == before + 1);
}

TEST_CASE("views that may not be written while recording") {
  Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  Tensor h = x * 1;
  std::vector<Tensor> parts = h.unbind(0);
  CHECK(parts[0].requires_grad());
  CHECK(contains(error_of<AutogradError>([&] { parts[0].mul_(2); }), "unbind"));
  CHECK_THROWS_AS(h.split(1)[1].mul_(2), AutogradError);
  CHECK_THROWS_AS(h.split(1)[1].select(1, 0).mul_(2), AutogradError);
  h.mul_(2);
  CHECK(gradient(parts[1], x) == V{0, 0, 2, 2});
  Tensor quiet;
  {
    const NoGradGuard guard;
    quiet = h[0];
  }
  CHECK_FALSE(quiet.requires_grad());
  CHECK_FALSE((quiet * 2).requires_grad());
  CHECK(contains(error_of<AutogradError>([&] { quiet.mul_(x[0]); }), "no-grad"));
  CHECK_THROWS_AS(h.select(0, 0).unsqueeze(0).expand({3, 2}).mul_(2), AliasError);
}

TEST_CASE("out= with differentiable arguments is refused") {
  Tensor x = leaf({1, 2});
  Tensor out = zeros({2}, kFloat64);
  CHECK(contains(error_of<AutogradError>([&] { op::mul.out(out, x, 2.0); }), "out="));
  const NoGradGuard guard;
  op::mul.out(out, x, 2.0);
  CHECK(values(out) == V{2, 4});
}

TEST_CASE("comparisons in place cut the gradient, without an error") {
  Tensor x = leaf({1, 2});
  Tensor h = x * 1;
  h.zero_();
  CHECK(h.requires_grad());
  CHECK(gradient(h + x, x) == V{1, 1});
}

TEST_CASE("retain_grad moves with the history") {
  Tensor x = leaf({1, 2});
  Tensor h = x * 2;
  h.retain_grad();
  h.mul_(3);
  (h * h).sum().backward();
  CHECK(values(h.grad()) == V{12, 24});
}

TEST_CASE("requires_grad on a view made before the base required it") {
  Tensor x = from_vector(V{1, 2});
  const Tensor early = x[0];
  x.requires_grad_();
  CHECK_FALSE(early.requires_grad());
  CHECK_FALSE((early * 2).requires_grad());
  CHECK(x[0].requires_grad());
}

// SPDX-License-Identifier: Apache-2.0
// The engine on small graphs with known gradients: accumulation, retaining, grad(), hooks, modes, order, errors.
#include <tenon/autograd/autograd.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
Tensor leaf(std::vector<double> values) { return from_vector(std::move(values)).requires_grad_(); }
std::vector<double> values(const Tensor& t) { return t.detach().to_vector<double>(); }
using V = std::vector<double>;
}  // namespace

TEST_CASE("backward accumulates into leaves and adds up over calls") {
  Tensor x = leaf({1, 2, 3}), y = leaf({4, 5, 6});
  REQUIRE(x.is_leaf());
  REQUIRE_FALSE(x.grad().defined());
  const Tensor z = (x * y + x).sum();
  REQUIRE_FALSE(z.is_leaf());
  REQUIRE(z.requires_grad());
  CHECK(z.grad_fn()->name() == "sum");
  z.backward();
  CHECK(values(x.grad()) == V{5, 6, 7});
  CHECK(values(y.grad()) == V{1, 2, 3});
  CHECK_FALSE(x.grad().requires_grad());
  (x * x).sum().backward();
  CHECK(values(x.grad()) == V{7, 10, 13});
  x.set_grad({});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("a gradient is reduced over broadcast dimensions and cast to the input's dtype") {
  Tensor row = from_vector(std::vector<float>{1, 2}).requires_grad_();
  Tensor scalar = from_vector(std::vector<double>{3.0}, IntArrayRef{}).requires_grad_();
  Tensor column = from_vector(std::vector<double>{1, 10, 100}, {3, 1}).requires_grad_();
  const Tensor out = row * column * scalar;
  REQUIRE(out.dtype() == kFloat64);
  out.sum().backward();
  CHECK(row.grad().dtype() == kFloat32);
  CHECK(row.grad().to_vector<double>() == V{333, 333});
  CHECK(column.grad().sizes() == IntArrayRef({3, 1}));
  CHECK(values(column.grad()) == V{9, 9, 9});
  CHECK(scalar.grad().dim() == 0);
  CHECK(values(scalar.grad()) == V{333});
}

TEST_CASE("a second backward through a freed graph names the operator and the remedy") {
  Tensor x = leaf({2});
  const Tensor y = (x * x).sum();
  y.backward();
  const std::string text = error_of<AutogradError>([&] { y.backward(); });
  CHECK(contains(text, "mul"));
  CHECK(contains(text, "retain_graph"));
  const Tensor z = (x * x).sum();
  x.set_grad({});
  z.backward({}, true);
  z.backward({}, true);
  z.backward();
  CHECK(values(x.grad()) == V{12});
}

TEST_CASE("grad returns gradients without touching the leaves, and runs only what leads to the inputs") {
  Tensor x = leaf({3}), w = leaf({5}), unused = leaf({1});
  const Tensor h = x * w, y = h * h;
  int ran = 0;
  autograd::register_hook(w, [&](const Tensor&) {
    ++ran;
    return Tensor();
  });
  const Tensor inputs[] = {x, h};
  const auto g = autograd::grad({&y, 1}, inputs);
  CHECK(values(g[0]) == V{2 * 15 * 5});
  CHECK(values(g[1]) == V{30});
  CHECK(ran == 0);
  CHECK_FALSE(x.grad().defined());
  const Tensor z = x * 2;
  CHECK(contains(error_of<AutogradError>([&] { autograd::grad({&z, 1}, {&unused, 1}); }), "allow_unused"));
  CHECK_FALSE(autograd::grad({&z, 1}, {&unused, 1}, {}, true, false, true)[0].defined());
  CHECK(values(autograd::grad({&x, 1}, {&x, 1})[0]) == V{1});
}

TEST_CASE("create_graph gives derivatives of any order") {
  Tensor x = leaf({2, -1});
  const Tensor y = x * x * x;
  const Tensor one = ones({2}, kFloat64);
  const Tensor first = autograd::grad({&y, 1}, {&x, 1}, {&one, 1}, {}, true)[0];
  CHECK(values(first) == V{12, 3});
  REQUIRE(first.requires_grad());
  const Tensor second = autograd::grad({&first, 1}, {&x, 1}, {&one, 1}, {}, true)[0];
  CHECK(values(second) == V{12, -6});
  const Tensor third = autograd::grad({&second, 1}, {&x, 1}, {&one, 1})[0];
  CHECK(values(third) == V{6, 6});
  const Tensor e = x.exp();  // a saved output
  const Tensor de = autograd::grad({&e, 1}, {&x, 1}, {&one, 1}, {}, true)[0];
  const Tensor dde = autograd::grad({&de, 1}, {&x, 1}, {&one, 1})[0];
  CHECK(values(dde) == values(e));
}

TEST_CASE("modes: no_grad, enable_grad, inference") {
  Tensor x = leaf({1});
  {
    const NoGradGuard guard;
    CHECK_FALSE((x * 2).requires_grad());
    const EnableGradGuard enabled;
    CHECK((x * 2).requires_grad());
  }
  CHECK((x * 2).requires_grad());
  Tensor made;
  {
    const InferenceMode inference;
    made = x * 3;
    CHECK_FALSE(made.requires_grad());
  }
  CHECK(contains(error_of<AutogradError>([&] { (void)(x * made); }), "inference"));
  CHECK((x + made).requires_grad());
  CHECK_THROWS_AS(made.mul_(x), AutogradError);
  CHECK_THROWS_AS(made.requires_grad_(), AutogradError);
}

TEST_CASE("hooks on tensors and nodes see and change gradients") {
  Tensor x = leaf({1, 2});
  const Tensor h = x * 3;
  V seen;
  autograd::HookHandle handle = autograd::register_hook(h, [&](const Tensor& g) {
    seen = values(g);
    return g * 10;
  });
  h.retain_grad();
  int post = 0;
  h.grad_fn()->add_post_hook(
      [&](std::span<Tensor>, std::span<const Tensor> grads) { post += static_cast<int>(grads.size()); });
  h.sum().backward({}, true);
  CHECK(seen == V{1, 1});
  CHECK(values(h.grad()) == V{10, 10});
  CHECK(values(x.grad()) == V{30, 30});
  CHECK(post == 1);
  handle.remove();
  h.sum().backward();
  CHECK(values(x.grad()) == V{33, 33});
  int accumulated = 0;
  autograd::register_post_accumulate_grad_hook(x, [&](const Tensor& leaf) {
    ++accumulated;
    CHECK(values(leaf.grad()) == V{36, 36});
    CHECK(values(leaf) == V{1, 2});
  });
  ((x * 2).sum() + x.sum()).backward();  // one accumulation, whatever the number of uses
  CHECK(accumulated == 1);
  CHECK_THROWS_AS(autograd::register_hook(x.detach(), [](const Tensor& g) { return g; }), AutogradError);
  const Tensor k = x * 1;
  autograd::register_hook(k, [](const Tensor& g) { return g.sum(); });
  CHECK_THROWS_AS(k.sum().backward(), ShapeError);
}

TEST_CASE("errors of roots: no grad, missing gradient, wrong sizes") {
  Tensor x = leaf({1, 2});
  CHECK_THROWS_AS(x.detach().backward(), AutogradError);
  CHECK_THROWS_AS((x * 2).backward(), AutogradError);
  CHECK_THROWS_AS((x * 2).backward(ones({3}, kFloat64)), ShapeError);
  CHECK_THROWS_AS(from_vector(std::vector<int64_t>{1}).requires_grad_(), AutogradError);
  Tensor y = x * 2;
  CHECK_THROWS_AS(y.requires_grad_(false), AutogradError);
  y.backward(ones({2}, kFloat64));
  CHECK(values(x.grad()) == V{2, 2});
}

TEST_CASE("an exception in a node leaves everything usable") {
  Tensor x = leaf({1});
  const Tensor h = x * 2;
  bool fail = true;
  autograd::register_hook(h, [&](const Tensor&) -> Tensor {
    if (fail) throw ValueError("planted");
    return {};
  });
  CHECK_THROWS_AS((h * 3).backward(), ValueError);
  CHECK_FALSE(x.grad().defined());
  CHECK(grad_enabled());
  fail = false;
  (h * 3).backward();
  CHECK(values(x.grad()) == V{6});
}

TEST_CASE("a node may run another backward") {
  Tensor x = leaf({3}), w = leaf({2});
  const Tensor h = x * 1;
  autograd::register_hook(h, [&](const Tensor& g) {
    const EnableGradGuard enabled;
    (w * w).backward();
    return g * 2;
  });
  h.backward();
  CHECK(values(w.grad()) == V{4});
  CHECK(values(x.grad()) == V{2});
}

TEST_CASE("an undefined or shared gradient is neither lost nor aliased") {
  Tensor x = leaf({1, 2}), y = leaf({1, 2});
  const Tensor g = ones({2}, kFloat64);
  (x + y).backward(g);
  x.grad().mul_(5);
  CHECK(values(y.grad()) == V{1, 1});
  CHECK(values(g) == V{1, 1});
}

TEST_CASE("the graph outlives its leaves") {
  Tensor y;
  int called = 0;
  {
    Tensor x = leaf({2});
    autograd::register_hook(x, [&](const Tensor& g) {
      ++called;
      CHECK(values(g) == V{4});
      return Tensor();
    });
    y = x * x;
  }
  y.backward();
  CHECK(called == 1);
}

TEST_CASE("anomaly mode names the operator that made a NaN") {
  Tensor x = leaf({0});
  const autograd::AnomalyMode anomaly;
  const Tensor y = (x.sqrt() * x).sum();
  const std::string text = error_of<AutogradError>([&] { y.backward(); });
  CHECK(contains(text, "sqrt"));
  CHECK(contains(text, "NaN"));
}

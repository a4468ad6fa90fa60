// SPDX-License-Identifier: Apache-2.0
// The engine on small graphs with known gradients: accumulation, retaining, grad(), hooks, modes, order, errors.
#include <tenon/autograd/autograd.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <thread>

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

TEST_CASE("grad: repeated inputs, results and roots as inputs, output gradients") {
  Tensor x = leaf({1, 2}), unused = leaf({1});
  const Tensor h = x * 3, y = (h * h).sum();
  const auto g = autograd::grad({y}, {x, x, h}, {}, true);
  CHECK(values(g[0]) == V{18, 36});
  CHECK(values(g[1]) == V{18, 36});
  CHECK(values(g[2]) == V{6, 12});
  const auto self = autograd::grad({y}, {y, x}, {}, true);
  CHECK(values(self[0]) == V{1});
  CHECK(values(self[1]) == V{18, 36});
  CHECK(values(autograd::grad({y, y}, {x}, {}, true)[0]) == V{36, 72});
  const Tensor given[] = {Tensor(), ones({2}, kFloat64)};  // left out where the output has one element
  CHECK(values(autograd::grad({y, h}, {x}, given, true)[0]) == V{21, 39});
  const Tensor single = ones({2}, kFloat32);
  CHECK(values(autograd::grad({h}, {x}, {&single, 1}, true)[0]) == V{3, 3});

  const auto refuse = [&](const Tensor& gradient) { autograd::grad({h}, {x}, {&gradient, 1}, true); };
  CHECK(contains(error_of<AutogradError>([&] { autograd::grad({h}, {x}); }), "grad: tensor 0 has sizes [2]"));
  CHECK(contains(error_of<ShapeError>([&] { refuse(ones({3}, kFloat64)); }), "expected sizes [2], got [3]"));
  CHECK_THROWS_AS(refuse(ones({2}, kComplex128)), DtypeError);
  CHECK_THROWS_AS(refuse(ones({2}, kInt64)), DtypeError);
  CHECK_THROWS_AS(autograd::grad({y, h}, {x}, {&given[1], 1}), ValueError);
  CHECK(contains(error_of<AutogradError>([&] { autograd::grad({y}, {ones({1})}); }), "input 0"));
  CHECK(contains(error_of<AutogradError>([&] { autograd::grad({y, ones({})}, {x}); }), "tensor 1"));
  CHECK_THROWS_AS(autograd::grad(TensorList(&y, 1), TensorList()), ValueError);
  CHECK_THROWS_AS(autograd::grad(TensorList(), TensorList(&x, 1)), AutogradError);

  const auto loose = autograd::grad({y}, {unused, x}, {}, true, false, true);
  CHECK_FALSE(loose[0].defined());
  const auto filled = autograd::grad({y}, {unused, x}, {}, true, false, false, true);
  CHECK(values(filled[0]) == V{0});
  CHECK(values(filled[1]) == V{18, 36});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("backward: inputs") {
  Tensor x = leaf({1, 2}), y = leaf({3, 4}), apart = leaf({1});
  const Tensor h = x * 2, out = (h * y).sum();
  autograd::backward({out}, {}, true, false, TensorList(&y, 1));
  CHECK_FALSE(x.grad().defined());
  CHECK(values(y.grad()) == V{2, 4});
  const Tensor some[] = {h, x, h};
  autograd::backward({out}, {}, true, false, some);
  CHECK(values(h.grad()) == V{3, 4});  // a result's gradient, without retain_grad
  CHECK(values(x.grad()) == V{6, 8});
  CHECK(values(y.grad()) == V{2, 4});
  autograd::backward({out}, {}, true, false, TensorList(&apart, 1));  // nothing leads there
  CHECK_FALSE(apart.grad().defined());
  CHECK_THROWS_AS(autograd::backward({out}, {}, true, false, TensorList()), ValueError);
  int accumulated = 0;
  autograd::register_post_accumulate_grad_hook(x, [&](const Tensor&) { ++accumulated; });
  autograd::backward({out}, {}, true, true, TensorList(&x, 1));
  CHECK(accumulated == 1);
  CHECK(values(x.grad()) == V{12, 16});
  CHECK(x.grad().requires_grad());  // recorded
}

TEST_CASE("the gradient of an output gradient") {
  const Tensor x = leaf({1, 2}), v = leaf({1, 1});
  const Tensor y = x * x;
  const Tensor g = autograd::grad({y}, {x}, {&v, 1}, {}, true)[0];
  const auto second = autograd::grad({g.sum()}, {x, v});
  CHECK(values(second[0]) == V{2, 2});
  CHECK(values(second[1]) == V{2, 4});
}

TEST_CASE("hooks: tensor hooks, then the retained gradient, then node hooks, in the order they were added") {
  Tensor x = leaf({1, 2});
  const Tensor h = x * 2;
  std::vector<std::string> events;
  autograd::register_hook(h, [&](const Tensor& g) { return events.push_back("first"), g * 2; });
  autograd::register_hook(h, [&](const Tensor& g) {
    events.push_back("second");
    CHECK(values(g) == V{2, 2});
    return Tensor();
  });
  h.grad_fn()->add_pre_hook([&](std::span<Tensor> g) { events.push_back("pre"), g[0] = g[0] * 3; });
  h.grad_fn()->add_post_hook([&](std::span<Tensor> results, std::span<const Tensor> g) {
    events.push_back("post");
    CHECK(values(g[0]) == V{6, 6});
    CHECK(values(results[0]) == V{12, 12});
  });
  h.retain_grad();
  h.sum().backward({}, true);
  CHECK(events == std::vector<std::string>{"first", "second", "pre", "post"});
  CHECK(values(h.grad()) == V{2, 2});
  CHECK(values(x.grad()) == V{12, 12});
  // What grad() returns has passed the tensor's hooks; the node's run only where its step does.
  events.clear();
  CHECK(values(autograd::grad({h.sum()}, {h}, {}, true)[0]) == V{2, 2});
  CHECK(events == std::vector<std::string>{"first", "second"});
  CHECK(values(autograd::grad({h.sum()}, {x}, {}, true)[0]) == V{12, 12});
}

TEST_CASE("hooks of leaves: under grad, before accumulation, after it") {
  const Tensor x = leaf({1, 2});
  std::vector<std::string> events;
  autograd::register_post_accumulate_grad_hook(x, [&](const Tensor& t) {
    events.push_back("after");
    CHECK(values(t.grad()) == V{10, 10});
  });
  autograd::register_hook(x, [&](const Tensor& g) { return events.push_back("leaf"), g * 5; });
  CHECK(values(autograd::grad({(x * 2).sum()}, {x})[0]) == V{10, 10});
  CHECK(events == std::vector<std::string>{"leaf"});
  CHECK_FALSE(x.grad().defined());
  (x * 2).sum().backward();
  CHECK(events == std::vector<std::string>{"leaf", "leaf", "after"});
  CHECK(values(x.grad()) == V{10, 10});
}

TEST_CASE("hooks stay with the value they were put on") {
  const Tensor x = leaf({1, 2});
  Tensor h = x * 2;
  std::vector<std::string> events;
  autograd::register_hook(h, [&](const Tensor& g) {
    CHECK(values(g) == V{3, 3});
    return events.push_back("before the write"), Tensor();
  });
  h.mul_(3);
  autograd::register_hook(h, [&](const Tensor& g) {
    CHECK(values(g) == V{1, 1});
    return events.push_back("after the write"), Tensor();
  });
  h.sum().backward();
  CHECK(events == std::vector<std::string>{"after the write", "before the write"});
}

TEST_CASE("modes nest, end with exceptions and belong to their thread") {
  const Tensor x = leaf({1, 2});
  CHECK(grad_enabled());
  try {
    const NoGradGuard guard;
    const GradModeGuard on(true);
    CHECK(grad_enabled());
    throw ValueError("leave");
  } catch (const ValueError&) {
  }
  CHECK(grad_enabled());
  {
    const GradModeGuard off(false);
    CHECK_FALSE((x * 2).requires_grad());
    set_grad_enabled(true);  // until the guard ends
    CHECK((x * 2).requires_grad());
    set_grad_enabled(false);
  }
  CHECK(grad_enabled());
  const NoGradGuard guard;
  bool elsewhere = false;
  std::thread([&] { elsewhere = grad_enabled() && (x * 2).requires_grad(); }).join();
  CHECK(elsewhere);
  bool inside = true;
  {
    const EnableGradGuard on;
    const Tensor h = x * 2;
    autograd::register_hook(h, [&](const Tensor&) { return inside = grad_enabled(), Tensor(); });
    h.sum().backward();
  }
  CHECK_FALSE(inside);  // backward records only under create_graph
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("anomaly mode says where a failing step was recorded, also through views and in higher orders") {
  const autograd::AnomalyMode anomaly;
  Tensor x = leaf({0, 1});
  Tensor h = x * 1;
  h.slice(0, 0, 1).sqrt_();
  const std::string text = error_of<AutogradError>([&] { (h * 0).sum().backward(); });
  INFO(text);
  CHECK(contains(text, "sqrt"));
  CHECK(contains(text, "NaN"));
  CHECK(contains(text, "recorded at"));
  const Tensor y = (x * x).sqrt();  // finite, its gradient at 0 is not
  CHECK(contains(error_of<AutogradError>([&] { autograd::grad({y.sum()}, {x}, {}, {}, true); }), "backward of"));
  Tensor k = x + 1;
  const Tensor l = k * k;
  k.add_(1);
  const std::string stale = error_of<AutogradError>([&] { l.sum().backward(); });
  CHECK(contains(stale, "mul"));
  CHECK(contains(stale, "recorded at"));
  {
    const autograd::AnomalyMode places_only(false);
    CHECK_NOTHROW((x.sqrt() * 0).sum().backward());
  }
  CHECK_THROWS_AS((x.sqrt() * 0).sum().backward(), AutogradError);
}

// SPDX-License-Identifier: Apache-2.0
// What errors of autograd say, and what anomaly mode adds to them.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/functional.h>
#include <tenon/autograd/graph_dot.h>
#include <tenon/core/operand.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <cmath>
#include <stdexcept>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }

struct Failing : autograd::Function<Failing> {
  int how = 0;
  Tensor forward(const Tensor& x, int h) {
    how = h;
    return x * 2;
  }
  Tensor backward(const Tensor& g) {
    if (how == 0) throw std::out_of_range("mine");
    if (how == 1) return g.view({7});
    if (how == 2) return g * std::nan("");
    if (how == 3) throw 42;
    return g;
  }
};
}  // namespace

TEST_CASE("messages: nothing to differentiate, sizes, freed graphs") {
  Tensor x = leaf({1, 2});
  const std::string detached = error_of<AutogradError>([&] { x.detach().sum().backward(); });
  CHECK(contains(detached, "detach()"));
  CHECK(contains(detached, "create_graph=true"));
  CHECK(contains(error_of<AutogradError>([&] { (x * x).backward(); }), "call sum()"));
  const Tensor y = (x * x).sum();
  y.backward();
  const std::string freed = error_of<AutogradError>([&] { y.backward(); });
  CHECK(contains(freed, "perhaps not to its end"));
  CHECK(contains(freed, "or detach() what is carried from one step to the next"));
  CHECK(contains(error_of<ValueError>([&] { x* Tensor(); }),
                 "mul: argument other: expected a tensor, got an undefined "
                 "one (default-constructed, or a gradient that is absent)"));
}

TEST_CASE("messages: hooks, strict Hessians, writes in place") {
  Tensor x = leaf({1, 2});
  const Tensor h = x * 2;
  autograd::HookHandle on_leaf = x.register_hook([](const Tensor&) { return zeros({3}, kFloat64); });
  CHECK(contains(error_of<ShapeError>([&] { h.sum().backward({}, true); }),
                 "register_hook: a hook on a leaf of sizes [2] returned sizes [3]"));
  on_leaf.remove();
  h.register_hook([](const Tensor&) { return zeros({2}, kFloat32); });
  CHECK(contains(error_of<DtypeError>([&] { h.sum().backward(); }), "a hook on the result of mul of dtype"));

  const auto linear = [](const Tensor& t) { return t.sum(); };
  CHECK(contains(error_of<AutogradError>([&] { autograd::hessian(linear, x, false, true); }),
                 "hessian: the gradient for input 0 does not depend on input 0 (strict)"));
  const auto constant = [](const Tensor& t) { return (t * 0).detach().sum(); };
  CHECK(contains(error_of<AutogradError>([&] { autograd::hessian(constant, x, false, true); }), "hessian: output 0"));

  Tensor k = zeros({2, 2}, kFloat64);
  CHECK_NOTHROW(k += k[0].clone());
  const std::string overlap = error_of<AliasError>([&] { k += k[0]; });
  CHECK(contains(overlap, "add_: "));
  CHECK(contains(overlap, "clone() the input first"));
  Tensor wide = zeros({1}, kFloat64).expand({3});
  CHECK(contains(error_of<AliasError>([&] { wide += 1; }), "add_: "));
}

TEST_CASE("anomaly mode: Functions have places, errors keep their types, hooks count too") {
  const autograd::AnomalyMode anomaly;
  Tensor x = leaf({1, 2});
  const auto failing = [&](int how) { return [&x, how] { Failing::apply(x, how).sum().backward(); }; };
  const std::string other = error_of<std::out_of_range>(failing(0));
  CHECK(contains(other, "backward of Failing: mine"));
  CHECK(contains(other, "recorded at"));
  CHECK(contains(error_of<ShapeError>(failing(1)), "recorded at"));
  const std::string nan = error_of<AutogradError>(failing(2));
  CHECK(contains(nan, "backward of Failing gave NaN"));
  CHECK(contains(nan, "recorded at"));
  CHECK_FALSE(contains(nan, "tenon::"));
  CHECK_FALSE(contains(nan, "libc"));
  CHECK_FALSE(contains(nan, "_start"));
  CHECK(contains(nan, "autograd_tests"));
  CHECK_THROWS_AS(failing(3)(), int);  // a type whose text cannot be added to
  CHECK(contains(autograd::anomaly_place(), "recorded at"));
  CHECK_NOTHROW(failing(4)());

  const Tensor h = x * 2;
  h.register_hook([](const Tensor&) -> Tensor { throw DtypeError("from a hook"); });
  const std::string hook = error_of<DtypeError>([&] { h.sum().backward(); });
  CHECK(contains(hook, "backward of mul: from a hook"));
  CHECK(contains(hook, "recorded at"));
}

TEST_CASE("graph_dot: names of several lines") {
  Tensor w = leaf({1, 2});
  autograd::GraphDotOptions options;
  options.names = {{"first\nsecond \"line\"", w}};
  const std::string text = autograd::graph_dot((w * 2).sum(), options);
  CHECK(contains(text, "first\\nsecond \\\"line\\\""));
  CHECK_FALSE(contains(text, "first\nsecond"));
}

// SPDX-License-Identifier: Apache-2.0
// Functions with gradients of their own.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }

struct Cube : autograd::Function<Cube> {
  Tensor forward(const Tensor& x) {
    save(x);
    return x * x * x;
  }
  Tensor backward(const Tensor& grad) { return grad * saved(0) * saved(0) * 3; }
};

// Saves its output; keeps a number as a member; takes a number argument.
struct ScaledExp : autograd::Function<ScaledExp> {
  double k = 0;
  Tensor forward(const Tensor& x, double factor) {
    k = factor;
    const Tensor y = (x * k).exp();
    save(y);
    return y;
  }
  Tensor backward(const Tensor& grad) { return grad * saved(0) * k; }
};

struct SumAndProduct : autograd::Function<SumAndProduct> {
  std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& a, const std::vector<Tensor>& rest) {
    save(a, rest[0]);
    const Tensor index = a.gt(0).to(kInt64), constant = a * 0;
    mark_non_differentiable(constant);
    return {a + rest[0], a * rest[0], constant};
  }
  std::vector<Tensor> backward(std::span<const Tensor> g) {
    return {g[0] + g[1] * saved(1), needs(1) ? g[0] + g[1] * saved(0) : Tensor()};
  }
};

struct Intermediate : autograd::Function<Intermediate> {
  Tensor forward(const Tensor& x) {
    const Tensor slope = x * 2;  // neither input nor output
    save(slope);
    return x * x;
  }
  Tensor backward(const Tensor& grad) { return grad * saved(0); }
};

struct AddOne : autograd::Function<AddOne> {
  Tensor forward(Tensor x) {
    x.add_(1);
    mark_dirty(x);
    return x;
  }
  Tensor backward(const Tensor& grad) { return grad; }
};

struct Wrong : autograd::Function<Wrong> {
  Tensor forward(const Tensor& x, const Tensor& y) { return x + y; }
  std::vector<Tensor> backward(std::span<const Tensor> g) { return {g[0]}; }
};
}  // namespace

TEST_CASE("a function in a few lines, differentiated twice") {
  Tensor x = leaf({2, -1});
  const Tensor y = Cube::apply(x);
  CHECK(y.grad_fn()->name() == "Cube");
  const autograd::CheckedFunction cube = [](TensorList in) { return std::vector<Tensor>{Cube::apply(in[0])}; };
  CHECK(autograd::gradcheck(cube, {&x, 1}));
  CHECK(autograd::gradgradcheck(cube, {&x, 1}));
  y.backward(ones({2}, kFloat64));
  CHECK(values(x.grad()) == V{12, 3});
  CHECK(contains(error_of<AutogradError>([&] { y.backward(ones({2}, kFloat64)); }), "Cube: the graph was freed"));
}

TEST_CASE("saved outputs and members") {
  Tensor x = leaf({0.5, -1});
  const autograd::CheckedFunction f = [](TensorList in) { return std::vector<Tensor>{ScaledExp::apply(in[0], 1.5)}; };
  CHECK(autograd::gradcheck(f, {&x, 1}));
  CHECK(autograd::gradgradcheck(f, {&x, 1}));
  const Tensor y = ScaledExp::apply(x, 2.0);
  y.detach().mul_(2);
  CHECK(contains(error_of<AutogradError>([&] { y.backward(ones({2}, kFloat64)); }), "version"));
}

TEST_CASE("several outputs, lists of inputs, outputs without a gradient") {
  Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const auto [s, p, constant] = SumAndProduct::apply(a, std::vector<Tensor>{b});
  CHECK_FALSE(constant.requires_grad());
  p.backward(ones({2}, kFloat64), true);  // the gradient of s is zeros
  CHECK(values(a.grad()) == V{3, 4});
  CHECK(values(b.grad()) == V{1, 2});
  (s + p).backward(ones({2}, kFloat64));
  CHECK(values(a.grad()) == V{7, 9});
}

TEST_CASE("nothing is recorded without need") {
  CHECK_FALSE(Cube::apply(from_vector(V{1})).requires_grad());
  const NoGradGuard guard;
  CHECK_FALSE(Cube::apply(leaf({1})).requires_grad());
}

TEST_CASE("a saved intermediate cannot be differentiated through silently") {
  Tensor x = leaf({3});
  const Tensor y = Intermediate::apply(x);
  const Tensor g = autograd::grad({&y, 1}, {&x, 1}, {}, {}, true)[0];
  CHECK(values(g) == V{6});
  CHECK(contains(error_of<AutogradError>([&] { autograd::grad({&g, 1}, {&x, 1}); }), "intermediate"));
}

TEST_CASE("a function that writes its input") {
  Tensor x = leaf({1, 2});
  Tensor h = x * 2;
  const Tensor out = AddOne::apply(h);
  CHECK(out.is_same(h));
  (h * h).sum().backward();
  CHECK(values(x.grad()) == V{12, 20});
  CHECK_THROWS_AS(AddOne::apply(x), AutogradError);
}

TEST_CASE("a wrong number of gradients is an error") {
  Tensor x = leaf({1}), y = leaf({2});
  CHECK(contains(error_of<AutogradError>([&] { Wrong::apply(x, y).backward(); }), "expected 2"));
}

TEST_CASE("gradcheck finds a wrong gradient") {
  struct Off : autograd::Function<Off> {
    Tensor forward(const Tensor& v) { return v * v; }
    Tensor backward(const Tensor& grad) { return grad * 2.1; }
  };
  Tensor x = leaf({1});
  const autograd::CheckedFunction f = [](TensorList in) { return std::vector<Tensor>{Off::apply(in[0])}; };
  CHECK_THROWS_AS(autograd::gradcheck(f, {&x, 1}), AutogradError);
  autograd::GradcheckOptions quiet;
  quiet.raise = false;
  std::string report;
  quiet.report = &report;
  CHECK_FALSE(autograd::gradcheck(f, {&x, 1}, quiet));
  CHECK(contains(report, "numeric 2"));
}

TEST_CASE("Function: an exception in forward or backward leaves everything usable") {
  struct Throws : autograd::Function<Throws> {
    Tensor forward(const Tensor& x, int when) {
      at = when;
      if (at == 0) throw std::runtime_error("forward");
      save(x);
      return x * x;
    }
    Tensor backward(const Tensor& g) {
      if (at == 1) throw std::runtime_error("backward");
      return g * saved(0) * 2;
    }
    int at = 0;
  };
  Tensor x = leaf({3});
  CHECK_THROWS_AS(Throws::apply(x, 0), std::runtime_error);
  CHECK(grad_enabled());
  const Tensor y = Throws::apply(x, 1);
  CHECK_THROWS_AS(y.backward(), std::runtime_error);
  CHECK_FALSE(x.grad().defined());
  Throws::apply(x, 2).backward();
  CHECK(values(x.grad()) == V{6});
}

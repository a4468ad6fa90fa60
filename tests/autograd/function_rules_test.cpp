// SPDX-License-Identifier: Apache-2.0
// Functions of users, case by case as PyTorch's autograd.Function: what forward may hand back, write to and mark, and what
// is refused.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
using Grads = std::span<const Tensor>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }

// x -> k x in place, the tensor being the second of the arguments.
struct ScaleInPlace : autograd::Function<ScaleInPlace> {
  double k = 0;
  Tensor forward(const Tensor& other, Tensor x, double factor) {
    k = factor;
    save(other);
    x.mul_(k).add_(other);
    mark_dirty(x);
    return x;
  }
  std::vector<Tensor> backward(Grads g) { return {g[0], g[0] * k}; }
};

// y = exp(x) in place; backward reads the output.
struct ExpInPlace : autograd::Function<ExpInPlace> {
  Tensor forward(Tensor x) {
    x.exp_();
    mark_dirty(x);
    save(x);
    return x;
  }
  Tensor backward(const Tensor& grad) { return grad * saved(0); }
};

// Writes by address, as a kernel of the user's own would.
struct RawDouble : autograd::Function<RawDouble> {
  Tensor forward(Tensor x) {
    double* p = x.data_ptr<double>();
    for (int64_t i = 0; i < x.numel(); ++i) p[i] *= 2;
    mark_dirty(x);
    return x;
  }
  Tensor backward(const Tensor& grad) { return grad * 2; }
};

struct Asks : autograd::Function<Asks> {
  Tensor forward(const Tensor& a, const Tensor& b) {
    wants = std::string(needs(0) ? "a" : "") + (needs(1) ? "b" : "") + (needs(2) ? "?" : "");
    return a * b;
  }
  std::vector<Tensor> backward(Grads g) {
    wants = std::string(needs(0) ? "a" : "") + (needs(1) ? "b" : "");
    return {g[0], g[0]};
  }
  static inline std::string wants;
};
struct Identity : autograd::Function<Identity> {
  Tensor forward(const Tensor& x) { return x; }
  Tensor backward(const Tensor& grad) { return grad * 10; }
};
struct Row : autograd::Function<Row> {
  Tensor forward(const Tensor& x) { return x[0]; }
  Tensor backward(const Tensor& grad) { return stack_rows(grad); }
  static Tensor stack_rows(const Tensor& g) { return g.unsqueeze(0).expand({2, g.size(0)}) * 1; }
};

struct Product : autograd::Function<Product> {
  Tensor forward(const Tensor& a, const Tensor& b) {
    save(a, b);
    return a * b;
  }
  std::vector<Tensor> backward(Grads g) { return {g[0] * saved(1), g[0] * saved(0)}; }
};

struct Optional : autograd::Function<Optional> {
  bool has = false;
  Tensor forward(const Tensor& x, const std::optional<Tensor>& scale, const Tensor& bias) {
    has = scale.has_value();
    save(scale ? *scale : Tensor(), x);
    Tensor y = has ? x * *scale : x * 1;
    return bias.defined() ? y + bias : y;
  }
  std::vector<Tensor> backward(Grads g) {
    const Tensor scale = saved(0);
    return {scale.defined() ? g[0] * scale : g[0], needs(1) ? g[0] * saved(1) : Tensor(), g[0]};
  }
};

struct Pieces : autograd::Function<Pieces> {
  bool first = false, second = false, rest = false;
  std::tuple<Tensor, std::vector<Tensor>> forward(const Tensor& x, bool zeros) {
    materialize_grads(zeros);
    return {x * 1, {x * 2, x * 3}};
  }
  std::vector<Tensor> backward(Grads g) {
    Tensor sum = zeros({2}, kFloat64);
    for (std::size_t i = 0; i < g.size(); ++i)
      if (g[i].defined()) sum = sum + g[i] * static_cast<double>(i + 1);
    seen = 0;
    for (const Tensor& t : g) seen += t.defined() ? 1 : 0;
    return {sum};
  }
  static inline int seen = 0;
};

struct Once : autograd::Function<Once> {
  Tensor forward(const Tensor& x) {
    once_differentiable();
    save(x);
    return x * x;
  }
  Tensor backward(const Tensor& grad) {
    recorded = grad_enabled();
    return grad * saved(0) * 2;
  }
  static inline bool recorded = false;
};

// Gives whatever the test wants for its one input.
struct Gives : autograd::Function<Gives> {
  std::vector<Tensor> given;
  Tensor forward(const Tensor& x, const std::vector<double>&) { return x * 1; }
  std::vector<Tensor> backward(Grads) { return next; }
  static inline std::vector<Tensor> next;
};
std::string refusal(std::vector<Tensor> given) {
  Gives::next = std::move(given);
  Tensor x = leaf({1, 2});
  return error_of<AutogradError>([&] { Gives::apply(x, V{}).sum().backward(); });
}
}  // namespace

TEST_CASE("Function: writing to a view goes on in the base's history") {
  Tensor x = leaf({1, 2, 3, 4}), w = leaf({10, 20});
  const auto f = [](TensorList in) {
    Tensor base = in[0].mul(1).view({2, 2});
    Tensor row = base[1];
    const Tensor before = base.select(1, 0);
    const Tensor out = ScaleInPlace::apply(in[1], row, 3.0);
    TENON_CHECK(out.is_same(row) && (row.grad_fn() || !grad_enabled()), ValueError, "the view itself is handed back");
    return std::vector<Tensor>{base * base, row * 2, before * base.sum()};
  };
  std::vector<Tensor> in{x, w};
  CHECK(autograd::gradcheck(f, in));
  CHECK(autograd::gradgradcheck(f, in));

  const auto g = [](TensorList v) {
    Tensor base = v[0].mul(1);
    Tensor part = base.slice(0, 1, 3);
    RawDouble::apply(part);
    ExpInPlace::apply(part.select(0, 0));
    return std::vector<Tensor>{base * base};
  };
  Tensor small = leaf({0.1, 0.2, 0.3, 0.4});
  CHECK(autograd::gradcheck(g, {&small, 1}));
  CHECK(autograd::gradgradcheck(g, {&small, 1}));
  CHECK(contains(g({&small, 1})[0].grad_fn()->name(), "mul"));
}

TEST_CASE("Function: a write makes a tensor without history part of the graph") {
  Tensor w = leaf({1, 1});
  Tensor b = zeros({2, 2}, kFloat64);
  Tensor row = b[0];
  ScaleInPlace::apply(w, row, 2.0);
  CHECK(b.requires_grad());
  (b * b).sum().backward();
  CHECK(values(w.grad()) == V{2, 2});
}

TEST_CASE("Function: writes that are refused") {
  Tensor x = leaf({1, 2}), w = leaf({1, 1});
  const auto text = [](auto&& f) { return error_of<AutogradError>(f); };
  CHECK(contains(text([&] { ExpInPlace::apply(x); }), "leaf that requires grad"));
  CHECK(contains(text([&] { ExpInPlace::apply(x.view({1, 2})); }), "ExpInPlace: mark_dirty: self is a view of a leaf"));
  CHECK(contains(text([&] { ExpInPlace::apply((x * 1).split(1)[0]); }), "several views"));
  struct Unmarked : autograd::Function<Unmarked> {
    Tensor forward(Tensor t) { return t.mul_(2) * 1; }
    Tensor backward(const Tensor& g) { return g * 2; }
  };
  CHECK(contains(text([&] { Unmarked::apply(x * 1); }),
                 "Unmarked: forward wrote to input 0 in place without mark_dirty"));
  struct Lost : autograd::Function<Lost> {
    Tensor forward(Tensor t) {
      mark_dirty(t.mul_(2));
      return t * 1;
    }
    Tensor backward(const Tensor& g) { return g * 2; }
  };
  CHECK(contains(text([&] { Lost::apply(x * 1); }), "Lost: mark_dirty: an input written in place must be returned"));
  struct Stranger : autograd::Function<Stranger> {
    Tensor forward(const Tensor& t) {
      const Tensor y = t * 2;
      mark_dirty(y);
      return y;
    }
    Tensor backward(const Tensor& g) { return g * 2; }
  };
  CHECK(contains(text([&] { Stranger::apply(x); }), "not an input"));
  struct Two : autograd::Function<Two> {
    std::tuple<Tensor, Tensor> forward(Tensor t) {
      mark_dirty(t.mul_(2));
      return {t, t * 1};
    }
    std::vector<Tensor> backward(Grads g) { return {g[0] + g[1]}; }
  };
  CHECK(contains(text([&] { Two::apply((x * 1).view({1, 2})); }), "one output"));
  CHECK_NOTHROW(Two::apply(x * 1));
}

TEST_CASE("Function: a write by address counts as one") {
  Tensor x = leaf({1, 2});
  Tensor h = x * 1;
  const Tensor y = h * h;  // saves h
  RawDouble::apply(h);
  CHECK(values(h) == V{2, 4});
  CHECK(contains(error_of<AutogradError>([&] { y.sum().backward(); }), "written in place"));
  h.sum().backward();
  CHECK(values(x.grad()) == V{2, 2});
}

TEST_CASE("Function: an input, or a view of it, handed back") {
  Tensor x = leaf({1, 2, 3, 4}).detach().view({2, 2}).requires_grad_();
  Tensor h = x * 1;
  const Tensor y = Identity::apply(h);
  CHECK_FALSE(y.is_same(h));
  CHECK(y.data_ptr() == h.data_ptr());
  CHECK(y.grad_fn()->name() == "Identity");
  CHECK(h.grad_fn()->name() == "mul");
  y.sum().backward();
  CHECK(values(x.grad()) == V{10, 10, 10, 10});
  Tensor z = Identity::apply(h);
  CHECK(contains(error_of<AutogradError>([&] { z.mul_(2); }), "a Function returned"));

  Tensor row = Row::apply(h);
  CHECK(row.is_view());
  x.set_grad({});
  row.sum().backward({}, true);
  CHECK(values(x.grad()) == V{1, 1, 1, 1});  // as Row's backward says
  CHECK(contains(error_of<AutogradError>([&] { row.mul_(2); }), "a Function returned"));
  CHECK(contains(error_of<AutogradError>([&] { row[0].mul_(2); }), "a Function returned"));
  h.mul_(2);
  CHECK(contains(error_of<AutogradError>([&] { row.sum().backward(); }), "Row: its output is a view"));
  CHECK(contains(row.str(), "invalid"));
}

TEST_CASE("Function: what it hands back from elsewhere keeps its own history") {
  Tensor x = leaf({1, 2});
  static Tensor parameter;
  parameter = leaf({5, 6});
  struct Foreign : autograd::Function<Foreign> {
    std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& t) {
      const Tensor y = t * 2;
      return {parameter, y, y};
    }
    std::vector<Tensor> backward(Grads g) { return {g[0] + g[1] * 2 + g[2] * 4}; }
  };
  const auto [p, y, again] = Foreign::apply(x);
  CHECK(parameter.is_leaf());
  CHECK_FALSE(y.is_same(again));
  (y + again).sum().backward({}, true);
  CHECK(values(x.grad()) == V{6, 6});
  p.sum().backward();
  CHECK(values(x.grad()) == V{7, 7});
  parameter = Tensor();
}

TEST_CASE("Function: optional and undefined inputs, lists, several outputs") {
  Tensor x = leaf({1, 2}), s = leaf({3, 4}), b = leaf({5, 6});
  Optional::apply(x, std::optional<Tensor>(s), b).sum().backward();
  CHECK(values(x.grad()) == V{3, 4});
  CHECK(values(s.grad()) == V{1, 2});
  CHECK(values(b.grad()) == V{1, 1});
  x.set_grad({});
  Optional::apply(x, std::optional<Tensor>(), Tensor()).sum().backward();  // extra gradients go nowhere
  CHECK(values(x.grad()) == V{1, 1});

  x.set_grad({});
  auto [one, more] = Pieces::apply(x, true);
  REQUIRE(more.size() == 2);
  CHECK(autograd::output_number(more[1]) == 2);
  more[1].sum().backward();
  CHECK(Pieces::seen == 3);
  CHECK(values(x.grad()) == V{3, 3});
  auto [first, others] = Pieces::apply(x, false);
  others[0].sum().backward();
  CHECK(Pieces::seen == 1);
  CHECK(values(x.grad()) == V{5, 5});
}

TEST_CASE("Function: needs, in forward and in backward") {
  Tensor a = leaf({1}), b = leaf({2});
  const Tensor y = Asks::apply(a, b);
  CHECK(Asks::wants == "ab");
  autograd::grad({y}, {b});
  CHECK(Asks::wants == "b");
  Asks::apply(a, b.detach());
  CHECK(Asks::wants == "a");
  Asks::apply(a.detach(), b.detach());
  CHECK(Asks::wants.empty());
}

TEST_CASE("Function: tensors of inference mode cannot be saved") {
  Tensor a = leaf({1}), c;
  {
    const InferenceMode guard;
    c = ones({1}, kFloat64);
  }
  CHECK(contains(error_of<AutogradError>([&] { Product::apply(a, c); }),
                 "Product: save: the tensor was made in inference"));
}

TEST_CASE("Function: outputs without a gradient") {
  struct Sorted : autograd::Function<Sorted> {
    std::tuple<Tensor, Tensor, Tensor, Tensor> forward(const Tensor& x) {
      const Tensor positive = x.gt(0), index = positive.to(kInt64), constant = x * 2;
      mark_non_differentiable(constant);
      mark_non_differentiable(x);
      return {x * 1, index, constant, x};
    }
    std::vector<Tensor> backward(Grads g) {
      dtype = g[1].dtype();
      return {g[0]};
    }
    DType dtype = DType::undefined;
  };
  Tensor x = leaf({1, -2});
  const auto [y, index, constant, same] = Sorted::apply(x);
  CHECK(y.requires_grad());
  CHECK_FALSE(index.requires_grad());
  CHECK_FALSE(constant.requires_grad());
  CHECK_FALSE(same.requires_grad());
  CHECK(x.requires_grad());
  y.sum().backward();
  CHECK(values(x.grad()) == V{1, 1});
}

TEST_CASE("Function: once_differentiable") {
  Tensor x = leaf({3});
  Once::apply(x).backward();
  CHECK(values(x.grad()) == V{6});
  const Tensor g = autograd::grad({Once::apply(x)}, {x}, {}, {}, true)[0];
  CHECK_FALSE(Once::recorded);
  CHECK(values(g) == V{6});
  // Also when only the saved input requires grad, where a graph would miss the dependence.
  CHECK(contains(error_of<AutogradError>([&] { autograd::grad({g}, {x}); }), "Once: its backward is marked once_diff"));
}

TEST_CASE("Function: wrong gradients are refused with the function's name") {
  const auto t = [](IntArrayRef sizes, DType dtype = kFloat64) { return ones(sizes, dtype); };
  CHECK(contains(refusal({}), "Gives: backward: expected 1 gradients"));
  CHECK(contains(refusal({t({2}), t({2})}), "got 2"));
  CHECK(contains(refusal({t({3})}), "Gives: backward: gradient 0: the gradient has sizes [3]"));
  CHECK(contains(refusal({t({})}), "do not reduce"));
  CHECK(contains(refusal({t({2}, kComplex128)}), "Gives: backward: gradient 0: expected float64, got complex128"));
  CHECK(contains(refusal({empty({2}, TensorOptions(kFloat64).device(kMeta))}),
                 "expected a tensor on cpu, got one on meta"));

  Tensor x = leaf({1, 2});
  const auto gives = [&](std::vector<Tensor> given) {
    Gives::next = std::move(given);
    x.set_grad({});
    Gives::apply(x, V{}).sum().backward();
    return x.grad().defined() ? values(x.grad()) : V{};
  };
  CHECK(gives({t({2}), Tensor()}) == V{1, 1});  // undefined ones too many
  CHECK(gives({t({3, 2})}) == V{3, 3});         // summed to the input's sizes
  CHECK(gives({t({2}, kFloat32)}) == V{1, 1});  // cast
  CHECK(gives({Tensor()}).empty());
}

TEST_CASE("Function: hooks on it and on its outputs") {
  Tensor x = leaf({1, 2});
  const Tensor y = Identity::apply(x * 1);
  int calls = 0;
  autograd::HookHandle handle = y.register_hook([&](const Tensor&) { ++calls; });
  y.register_hook([](const Tensor& g) { return g * 2; });
  y.retain_grad();
  CHECK(y.retains_grad());
  CHECK(y.grad_fn_name() == "Identity");
  y.sum().backward({}, true);
  CHECK(calls == 1);
  CHECK(values(y.grad()) == V{2, 2});
  CHECK(values(x.grad()) == V{20, 20});
  handle.remove();
  y.sum().backward();
  CHECK(calls == 1);
}

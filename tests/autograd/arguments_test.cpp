// SPDX-License-Identifier: Apache-2.0
// What calls accept: lists of tensors in every form, options by name, and the arguments, results and backward functions of
// users' Functions and of checkpoint. What is refused is refused by a message that names the class and the cure.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/checkpoint.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/functional.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/core/index.h>
#include <tenon/core/operand.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <array>
#include <map>
#include <memory>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
using Grads = std::span<const Tensor>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
Tensor plain(V values) { return from_vector(std::move(values)); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }

// Two outputs, 2 a and 3 b, of inputs given in some container.
struct OfArray : autograd::Function<OfArray> {
  std::array<Tensor, 2> forward(const std::array<Tensor, 2>& in) { return {in[0] * 2, in[1] * 3}; }
  std::array<Tensor, 2> backward(const std::vector<Tensor>& g) { return {g[0] * 2, g[1] * 3}; }
};
struct OfPair : autograd::Function<OfPair> {
  std::pair<Tensor, Tensor> forward(const std::pair<Tensor, Tensor>& in) { return {in.first * 2, in.second * 3}; }
  std::tuple<Tensor, Tensor> backward(Grads g) { return {g[0] * 2, g[1] * 3}; }
};
struct OfSpan : autograd::Function<OfSpan> {
  std::vector<Tensor> forward(std::span<Tensor> in) { return {in[0] * 2, in[1] * 3}; }
  std::vector<Tensor> backward(Grads g) { return {g[0] * 2, g[1] * 3}; }
};
struct OfTuple : autograd::Function<OfTuple> {
  std::vector<Tensor> forward(const std::tuple<Tensor, int, std::vector<Tensor>>& in) {
    return {std::get<0>(in) * 2, std::get<2>(in)[0] * std::get<1>(in)};
  }
  std::vector<Tensor> backward(Grads g) { return {g[0] * 2, g[1] * 3}; }
};
// Two inputs of which one may be absent; one gradient of one output gives two.
struct Shifted : autograd::Function<Shifted> {
  Tensor forward(const Tensor& x, const std::optional<Tensor>& by) {
    given = by.has_value();
    return given ? x * 2 + *by : x * 2;
  }
  std::vector<Tensor> backward(const Tensor& g) { return {g * 2, given ? g : Tensor()}; }
  bool given = false;
};
struct OneOfTwo : autograd::Function<OneOfTwo> {  // backward written for one output
  std::tuple<Tensor, Tensor> forward(const Tensor& x) { return {x * 2, x * 3}; }
  Tensor backward(const Tensor& g) { return g * 2; }
};
struct WithIndices : autograd::Function<WithIndices> {  // one of two outputs is differentiable, and not the first
  std::tuple<Tensor, Tensor> forward(const Tensor& x) { return {x.to(kInt64), x * 3}; }
  Tensor backward(const Tensor& g) { return g * 3; }
};
struct Whole : autograd::Function<Whole> {
  Tensor forward(const Tensor& x) { return x; }
  Tensor backward(const Tensor& g) { return g * 10; }
};
struct Doubled : autograd::Function<Doubled> {
  Tensor forward(Tensor x) {
    x.mul_(2);
    mark_dirty(x);
    return x;
  }
  Tensor backward(const Tensor& g) { return g * 2; }
};
struct Forgetful : autograd::Function<Forgetful> {
  Tensor forward(const Tensor& x) { return x * 2; }
  Tensor backward(const Tensor& g) { return g * saved(0); }
};
struct TwoArguments {
  Tensor backward(const Tensor& a, const Tensor& b);
};
class Hidden {
  Tensor backward(const Tensor& g);
};
struct ByReference {
  Tensor backward(Tensor& g);
};

template <class F, class... Args>
void check_two(const Tensor& a, const Tensor& b, const Args&... args) {
  const auto out = F::apply(args...);
  Tensor y, z;
  if constexpr (requires { out.size(); })
    y = out[0], z = out[1];
  else
    y = std::get<0>(out), z = std::get<1>(out);
  CHECK(y.grad_fn_name() == z.grad_fn_name());
  const auto g = autograd::grad({y, z}, {a, b}, {plain({1, 1}), plain({1, 10})});
  CHECK(values(g[0]) == V{2, 2});
  CHECK(values(g[1]) == V{3, 30});
}
}  // namespace

TEST_CASE("Function: tensors in arrays, pairs, spans and tuples are inputs, and may be results") {
  Tensor a = leaf({1, 2}), b = leaf({3, 4});
  check_two<OfArray>(a, b, std::array<Tensor, 2>{a, b});
  check_two<OfPair>(a, b, std::pair<Tensor, Tensor>(a, b));
  std::vector<Tensor> list{a, b};
  check_two<OfSpan>(a, b, std::span<Tensor>(list));
  check_two<OfTuple>(a, b, std::tuple<Tensor, int, std::vector<Tensor>>(a, 3, {b}));
  STATIC_REQUIRE(autograd::internal::kTensorsIn<std::vector<std::optional<Tensor>>>);
  STATIC_REQUIRE_FALSE(autograd::internal::kTensorsIn<std::pair<int, std::string>>);
  // Refused when the program is compiled, instead of overlooked.
  STATIC_REQUIRE(autograd::internal::Parts<std::map<std::string, Tensor>>::kOther);
  STATIC_REQUIRE(autograd::internal::Parts<std::vector<std::map<int, Tensor>>>::kOther);
  STATIC_REQUIRE_FALSE(autograd::internal::Parts<std::map<std::string, int>>::kOther);
}

TEST_CASE("Function: an optional tensor is one input, also given as nullopt") {
  Tensor x = leaf({1, 2}), by = leaf({5, 5});
  Shifted::apply(x, std::nullopt).sum().backward();
  CHECK(values(x.grad()) == V{2, 2});
  Shifted::apply(x, std::optional<Tensor>()).sum().backward();
  Shifted::apply(x, std::optional<Tensor>(by)).sum().backward();
  CHECK(values(x.grad()) == V{6, 6});
  CHECK(values(by.grad()) == V{1, 1});
}

TEST_CASE("Function: a backward of one gradient goes with one differentiable output") {
  Tensor x = leaf({1, 2});
  const std::string text = error_of<AutogradError>([&] { OneOfTwo::apply(x); });
  CHECK(contains(text, "OneOfTwo: forward returned 2 differentiable outputs"));
  CHECK(contains(text, "std::span<const Tensor>"));
  const auto [indices, y] = WithIndices::apply(x);
  CHECK_FALSE(indices.requires_grad());
  y.backward(plain({1, 10}));
  CHECK(values(x.grad()) == V{3, 30});
  STATIC_REQUIRE(autograd::internal::HasBackward<OneOfTwo>);
  STATIC_REQUIRE_FALSE(autograd::internal::HasBackward<TwoArguments>);
  STATIC_REQUIRE_FALSE(autograd::internal::HasBackward<Hidden>);
  STATIC_REQUIRE_FALSE(autograd::internal::HasBackward<ByReference>);
  STATIC_REQUIRE_FALSE(autograd::internal::HasForward<OneOfTwo, int>);
}

TEST_CASE("Function: without recording, a returned input is an alias that leads nowhere") {
  Tensor x = leaf({1, 2});
  {
    const NoGradGuard guard;
    Tensor y = Whole::apply(x);
    CHECK_FALSE(y.is_same(x));
    CHECK_FALSE(y.requires_grad());
    CHECK(y.data_ptr() == x.data_ptr());
    const Tensor z = Doubled::apply(x);  // written in place, and said so: the tensor itself
    CHECK(z.is_same(x));
  }
  CHECK(x.requires_grad());
  CHECK(values(x) == V{2, 4});
}

TEST_CASE("Function: messages name the cure") {
  Tensor x = leaf({1, 2});
  CHECK(contains(error_of<IndexError>([&] { Forgetful::apply(x).sum().backward(); }),
                 "Forgetful: saved(0): forward saved 0 tensors"));
  CHECK(contains(error_of<AutogradError>([&] { Doubled::apply(x); }), "Doubled: mark_dirty: input 0 is a leaf"));
}

TEST_CASE("lists of tensors: one tensor, braces, vectors, arrays, spans") {
  Tensor w = leaf({2, 3}), v = leaf({5, 7});
  const std::vector<Tensor> params{w, v};
  const std::array<Tensor, 2> array{w, v};
  const Tensor y = w * v, loss = y.sum();
  const Tensor seed = plain({1, 10});
  CHECK(values(autograd::grad(loss, w, {}, true)[0]) == V{5, 7});
  CHECK(values(autograd::grad({loss}, params, {}, true)[1]) == V{2, 3});
  CHECK(values(autograd::grad(loss, array, {}, true)[1]) == V{2, 3});
  CHECK(values(autograd::grad(loss, TensorList(params), {}, true)[1]) == V{2, 3});
  CHECK(values(autograd::grad({y}, {w}, {seed}, true)[0]) == V{5, 70});
  CHECK(values(autograd::grad(y, w, seed, true)[0]) == V{5, 70});
  CHECK(values(autograd::grad(y, w, std::vector<Tensor>{seed}, true)[0]) == V{5, 70});
  CHECK(contains(error_of<ValueError>([&] { autograd::grad(loss, {}); }), "inputs: expected at least one"));

  autograd::backward(loss, {}, true);
  autograd::backward({y}, {seed}, true);
  CHECK(values(w.grad()) == V{10, 77});
  autograd::backward({loss}, {}, true, false, {w});
  CHECK(values(w.grad()) == V{15, 84});
  CHECK(values(v.grad()) == V{4, 33});
  CHECK(contains(error_of<ValueError>([&] { autograd::backward(loss, {}, true, false, std::vector<Tensor>()); }),
                 "inputs: expected at least one"));

  // What was made of braces, a single tensor or a temporary owns them.
  const autograd::TensorArgs braces{w * 2, v}, one(w * 3), moved(std::vector<Tensor>{w * 4}), none{};
  CHECK(values(braces[0]) == V{4, 6});
  CHECK(values(one[0]) == V{6, 9});
  CHECK(values(moved[0]) == V{8, 12});
  CHECK_FALSE(none.given());
  CHECK(autograd::TensorArgs(std::vector<Tensor>()).given());
}

TEST_CASE("grad, backward: options by name") {
  Tensor w = leaf({2, 3});
  const Tensor loss = (w * w * w).sum();
  const Tensor g = autograd::grad(loss, w, {.create_graph = true})[0];
  CHECK(g.requires_grad());
  CHECK(values(autograd::grad(g.sum(), w)[0]) == V{12, 18});
  const auto unused = autograd::grad((w * w).sum(), {w, leaf({1})}, {.allow_unused = true});
  CHECK(values(unused[0]) == V{4, 6});
  CHECK_FALSE(unused[1].defined());
  const Tensor z = (w * w).sum();
  autograd::backward(z, {.retain_graph = true});
  autograd::backward(z, {});
  CHECK(values(w.grad()) == V{8, 12});
  CHECK_THROWS_AS(autograd::backward(z), AutogradError);
}

TEST_CASE("jacobian, hvp, gradcheck: functions of lists, vectors and several tensors") {
  Tensor w = leaf({2, 3}), v = leaf({5, 7});
  const auto product = [](const Tensor& a, const Tensor& b) { return (a * b).sum(); };
  const auto of_list = [](TensorList in) { return in[0] * in[1]; };
  const auto of_vector = [](const std::vector<Tensor>& in) { return std::tuple(in[0] * in[1], in[0].sum()); };
  CHECK(values(autograd::jacobian(product, {w, v})[0][1]) == V{2, 3});
  CHECK(values(autograd::jacobian(of_list, {w, v})[0][0]) == V{5, 0, 0, 7});
  CHECK(values(autograd::jacobian(of_vector, std::vector<Tensor>{w, v})[1][0]) == V{1, 1});
  const auto hv = autograd::hvp(product, {w, v}, {plain({1, 0}), plain({0, 1})});
  CHECK(values(hv.second[0]) == V{0, 1});
  CHECK(values(hv.second[1]) == V{1, 0});
  CHECK(contains(error_of<ValueError>([&] { autograd::jacobian(product, {w, v, w}); }), "takes 2 tensors"));

  const auto square = [](const Tensor& x) { return x * x; };
  CHECK(autograd::gradcheck(square, w));
  CHECK(autograd::gradcheck(square, {w}));
  CHECK(autograd::gradgradcheck(square, w));
  CHECK(autograd::gradcheck(product, {w, v}));
  CHECK(autograd::gradgradcheck(of_vector, {w, v}));
  CHECK(autograd::gradcheck([](TensorList in) -> std::vector<Tensor> { return {in[0] * in[1]}; }, {w, v}));
  const auto wrong = [](const Tensor& x) { return x * x.detach(); };
  CHECK_FALSE(autograd::gradcheck(wrong, w, {.raise = false}));
}

TEST_CASE("jacobian, gradcheck: recording is on inside, whatever the caller's mode") {
  Tensor x = leaf({2, 3});
  const auto square = [](const Tensor& t) { return t * t; };
  const auto check = [&] {
    CHECK(values(autograd::jacobian(square, x)) == V{4, 0, 0, 6});
    CHECK(values(autograd::hvp([&](const Tensor& t) { return square(t * t).sum(); }, x, plain({1, 0})).second) ==
          V{48, 0});
    CHECK(values(autograd::hessian([&](const Tensor& t) { return square(t).sum(); }, x)) == V{2, 0, 0, 2});
    CHECK(autograd::gradcheck(square, x));
    CHECK(autograd::gradgradcheck(square, x));
  };
  {
    const NoGradGuard guard;
    check();
    CHECK_FALSE(grad_enabled());
  }
  const InferenceMode mode;
  check();
  CHECK(InferenceMode::is_enabled());
  Tensor made_here = plain({2, 3}) * 1;
  CHECK(values(autograd::jacobian(square, made_here)) == V{4, 0, 0, 6});
  made_here.requires_grad_();
  CHECK(
      contains(error_of<ValueError>([&] { autograd::gradcheck(square, made_here); }), "input 0 was made in inference"));
}

TEST_CASE("checkpoint: what arguments only refer to is kept") {
  Tensor x = leaf({1, 2, 3, 4}), w = leaf({2, 2, 2, 2});
  const auto fn = [](const Tensor& t, IntArrayRef sizes, std::string_view how, const char* also,
                     std::span<const double> factors, std::optional<IntArrayRef> maybe, TensorList more,
                     const std::pair<Tensor, int>& pair) {
    Tensor y = t.view(sizes) * factors[0] * factors[1];
    if (maybe) y = y.view(*maybe);
    if (how == "squared, and this text is too long to be kept inline") y = y * y;
    if (std::string_view(also) == "and doubled, with a text of the same kind") y = y * 2;
    return y * more[0].view(y.sizes()) * pair.first.view(y.sizes()) * pair.second;
  };
  Tensor y;
  {
    auto sizes = std::make_unique<std::vector<int64_t>>(std::vector<int64_t>{2, 2});
    auto again = std::make_unique<std::vector<int64_t>>(std::vector<int64_t>{4, 1});
    auto how = std::make_unique<std::string>("squared, and this text is too long to be kept inline");
    auto also = std::make_unique<std::string>("and doubled, with a text of the same kind");
    auto factors = std::make_unique<std::vector<double>>(V{3, 1});
    auto more = std::make_unique<std::vector<Tensor>>(std::vector<Tensor>{w});
    y = autograd::checkpoint(fn, x, IntArrayRef(*sizes), std::string_view(*how), also->c_str(),
                             std::span<const double>(*factors), std::optional<IntArrayRef>(*again), TensorList(*more),
                             std::pair<Tensor, int>(w, 5));
    // What is left behind would be read by a second call that kept no copies.
    sizes->assign(2, -7), again->assign(2, -7), factors->assign(2, -7.0);
    how->assign(how->size(), '?'), also->assign(also->size(), '?');
    (*more)[0] = Tensor();
  }
  y.sum().backward();  // y = 2 (3 x)^2 w w 5 = 90 x^2 w^2
  CHECK(values(x.grad()) == V{720, 1440, 2160, 2880});
  CHECK(values(w.grad()) == V{360, 1440, 3240, 5760});
}

TEST_CASE("hooks after accumulation: a handle, a method, and writing to the leaf") {
  Tensor w = leaf({1, 2});
  int calls = 0;
  autograd::HookHandle step = w.register_post_accumulate_grad_hook([](Tensor& p) {
    p -= p.grad();
    p.set_grad({});
  });
  autograd::HookHandle count = autograd::register_post_accumulate_grad_hook(w, [&](Tensor) { ++calls; });
  w.register_post_accumulate_grad_hook([&](const Tensor& p) { calls += p.grad().defined() ? 100 : 0; });
  (w * 2).sum().backward();
  CHECK(values(w) == V{-1, 0});
  CHECK_FALSE(w.grad().defined());
  CHECK(calls == 1);
  step.remove();
  count.remove();
  (w * 2).sum().backward();
  CHECK(values(w) == V{-1, 0});
  CHECK(calls == 101);
}

TEST_CASE("requires_grad_ on a temporary gives a tensor, not a reference to it") {
  const Tensor& w = zeros({3}, kFloat64).requires_grad_();
  const Tensor& v = (w + 1).detach().set_requires_grad(true);
  CHECK(w.is_leaf());
  (w * v).sum().backward();
  CHECK(values(w.grad()) == V{1, 1, 1});
  STATIC_REQUIRE(std::is_same_v<decltype(zeros({1}).requires_grad_()), Tensor>);
  Tensor named = zeros({1});
  STATIC_REQUIRE(std::is_same_v<decltype(named.requires_grad_()), Tensor&>);
}

TEST_CASE("assignment to a temporary that is no view is an error") {
  Tensor x = plain({1, 2, 3});
  const Tensor mask = x.gt(1);
  CHECK(contains(error_of<ValueError>([&] { x.index({mask}) = 0; }), "index_put_"));
  CHECK_THROWS_AS((x * 2) = x, ValueError);
  CHECK(values(x) == V{1, 2, 3});
  x[0] = 5;
  x.index({Slice(1, 3)}) = plain({6, 7});
  CHECK(values(x) == V{5, 6, 7});
  {
    const InferenceMode mode;
    x[0] = 1;
    Tensor y = x * 2;
    y.view({3})[1] = 9;
    CHECK(values(y) == V{2, 9, 14});
  }
  double memory[2] = {0, 0};
  from_blob(memory, {2}, kFloat64) = 4.0;  // a place of the caller's own
  CHECK(memory[1] == 4);
  Tensor w = leaf({1, 2});
  CHECK(contains(error_of<ValueError>([&] { w.grad() = x; }), "set_grad()"));
  (w * 2).sum().backward();
  w.grad() = 7.0;  // there now, and shared
  CHECK(values(w.grad()) == V{7, 7});
}

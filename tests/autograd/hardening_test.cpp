// SPDX-License-Identifier: Apache-2.0
// What breaks an engine when it is not refused or kept apart: views that reach too far, hooks that free, change or leave out
// what is in use, functions that give something else every time, gradients that share memory.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/checkpoint.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/autograd/saved_hooks.h>
#include <tenon/core/operand.h>
#include <tenon/memory/allocator.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <thread>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
using Tensors = std::vector<Tensor>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
Tensor plain(V values) { return from_vector(std::move(values)); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }

struct Tripled : autograd::Function<Tripled> {
  Tensor forward(const Tensor& x) {
    save(x);
    return x * 3;
  }
  Tensor backward(const Tensor& g) { return g * 3 + saved(0) * 0; }
};
struct TwoOfView : autograd::Function<TwoOfView> {  // refused: it writes to a view and has two outputs
  std::tuple<Tensor, Tensor> forward(const Tensor& other, Tensor x) {
    mark_dirty(other);
    mark_dirty(x);
    other.data_ptr<double>()[0] = 1;
    return {other, x};
  }
  Tensors backward(std::span<const Tensor> g) { return {g[0], g[1]}; }
};
}  // namespace

TEST_CASE("as_strided: a view that reaches outside of what was differentiated has no gradient") {
  const Tensor raw = full({600}, 1.0, kFloat64);
  Tensor first = raw.narrow(0, 0, 2).detach().requires_grad_(), later = raw.narrow(0, 100, 2).detach().requires_grad_();
  CHECK(contains(error_of<AutogradError>([&] { first.as_strided({500}, {1}, 100).sum().backward(); }),
                 "as_strided: sizes [500]"));
  CHECK_THROWS_AS(later.as_strided({50}, {1}, 0).sum().backward(), AutogradError);
  CHECK_FALSE(first.grad().defined());
  first.as_strided({2}, {1}, 0).sum().backward();
  later.as_strided({3, 2}, {0, 1}, 100).sum().backward();
  CHECK(values(first.grad()) == V{1, 1});
  CHECK(values(later.grad()) == V{3, 3});
}

TEST_CASE("hooks of nodes: none, wrong outputs, and what they may leave") {
  Tensor w = leaf({1, 2});
  const auto fresh = [&] { return w * 2; };
  CHECK_THROWS_AS(fresh().grad_fn()->add_pre_hook({}), ValueError);
  CHECK_THROWS_AS(fresh().grad_fn()->add_post_hook({}), ValueError);
  CHECK_THROWS_AS(fresh().grad_fn()->add_tensor_hook(0, {}), ValueError);
  CHECK_THROWS_AS(fresh().grad_fn()->add_tensor_hook(7, [](const Tensor& g) { return g; }), IndexError);
  const auto with_pre = [](Tensor h, autograd::PreHook hook) {
    h.grad_fn()->add_pre_hook(std::move(hook));
    h.sum().backward();
  };
  const auto drop = [](std::span<Tensor> g) { g[0].reset(); };
  with_pre(fresh(), drop);
  with_pre(w.exp(), drop);
  with_pre(Tripled::apply(w), drop);
  Tensor written = w * 1;
  written[0].mul_(3);
  with_pre(written, drop);
  CHECK_FALSE(w.grad().defined());  // as if nothing had arrived
  CHECK(contains(
      error_of<ShapeError>([&] { with_pre(w.exp(), [](std::span<Tensor> g) { g[0] = zeros({3}, kFloat64); }); }),
      "add_pre_hook: a hook on exp"));
  const Tensor h = fresh();
  h.grad_fn()->add_post_hook([](std::span<Tensor> r, std::span<const Tensor>) { r[0] = r[0].to(kFloat32); });
  CHECK(contains(error_of<DtypeError>([&] { h.sum().backward(); }), "add_post_hook: a hook on mul"));
  const autograd::Edge edge = autograd::gradient_edge(w);
  autograd::HookHandle on_leaf = edge.node->add_pre_hook([](std::span<Tensor> g) { g[0] = g[0].to(kFloat16); });
  CHECK_THROWS_AS(w.sum().backward(), DtypeError);
  on_leaf.remove();
  autograd::HookHandle dropping = edge.node->add_pre_hook(drop);
  w.sum().backward();
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("hooks that remove themselves are freed") {
  Tensor w = leaf({1, 2});
  const int64_t before = memory::memory_allocated(kCPU);
  for (int i = 0; i < 10; ++i) {
    autograd::HookHandle handle;
    const Tensor ballast = zeros({1000}, kFloat64);
    handle = w.register_hook([&handle, ballast](const Tensor&) { handle.remove(); });
    (w * 2).sum().backward();
    w.set_grad({});
  }
  w.register_hook([](const Tensor&) {}).remove();
  CHECK(memory::memory_allocated(kCPU) == before);
}

TEST_CASE("saved-tensor hooks: unpacking may run backward through the node that is unpacked") {
  for (const bool custom : {false, true}) {
    Tensor w = leaf({2, 3}), y;
    Tensor* root = nullptr;
    bool inside = false;
    {
      const autograd::SavedTensorHooksGuard guard([](const Tensor& t) { return t.clone(); },
                                                  [&](const Tensor& t) {
                                                    if (!std::exchange(inside, true)) root->backward();
                                                    return t;
                                                  });
      y = (custom ? Tripled::apply(w) : w.exp()).sum();
    }
    root = &y;
    CHECK(contains(error_of<AutogradError>([&] { y.backward(); }), "the graph was freed"));
    CHECK(w.grad().defined());  // of the inner run
  }
}

TEST_CASE("gradcheck: functions that are none, or give something else every time") {
  const Tensor x = leaf({0.5, 1.5});
  int calls = 0;
  const auto shrinking = [&](TensorList in) {
    return ++calls < 3 ? Tensors{in[0] * 2, in[0] * 3} : Tensors{in[0] * 2};
  };
  CHECK_THROWS_AS(autograd::gradcheck(shrinking, x), ValueError);
  calls = 2;
  CHECK_NOTHROW(autograd::gradcheck(shrinking, x));
  calls = 1;
  CHECK_THROWS_AS(autograd::gradcheck(shrinking, x, {.fast_mode = true}), ValueError);
  calls = 1;
  CHECK_THROWS_AS(autograd::gradgradcheck(shrinking, x), ValueError);
  calls = 0;
  CHECK_THROWS_AS(autograd::gradcheck([&](TensorList in) { return ++calls > 1 ? in[0][0] : in[0] * 2; }, x),
                  ValueError);
  CHECK_THROWS_AS(autograd::gradcheck([](TensorList) { return Tensors(); }, x), ValueError);
  CHECK_THROWS_AS(autograd::gradgradcheck([](TensorList) { return Tensors(); }, x), ValueError);
  CHECK(autograd::gradgradcheck([](const Tensor& t) { return t.detach() * 1; }, x));  // no gradient, so none to check
  CHECK_THROWS_AS(autograd::gradcheck(autograd::CheckedFunction(), x), ValueError);
  CHECK_THROWS_AS(autograd::gradgradcheck(autograd::CheckedFunction(), x), ValueError);
}

TEST_CASE("retained gradients have memory of their own, and lose nothing to other threads") {
  Tensor w = leaf({1, 2});
  const Tensor seed = plain({1, 1});
  Tensor h = w * 2;
  h.retain_grad();
  const Tensor y = h + 0;
  y.backward(seed, true);
  h.grad().mul_(100);
  CHECK(values(seed) == V{1, 1});
  CHECK(values(w.grad()) == V{2, 2});
  h.set_grad({});
  h.sum().backward({}, true);  // the gradient of sum is expanded
  CHECK(h.grad().is_contiguous());
  CHECK_NOTHROW(h.grad().mul_(2));
  autograd::backward(y, seed, true, false, {h});
  CHECK(values(seed) == V{1, 1});

  Tensor k = w * 2;
  k.retain_grad();
  const Tensor z = k.sum();
  constexpr int kThreads = 4, kRuns = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int r = 0; r < kRuns; ++r) z.backward({}, true);
    });
  for (std::thread& t : threads) t.join();
  CHECK(values(k.grad()) == V{kThreads * kRuns, kThreads * kRuns});
}

TEST_CASE("set_grad refuses the tensor itself; float8 has no gradients") {
  Tensor w = leaf({1, 2});
  CHECK(contains(error_of<ValueError>([&] { w.set_grad(w); }), "set_grad: the gradient is the tensor itself"));
  CHECK_THROWS_AS(w.set_grad(w.view({2})), ValueError);
  CHECK_NOTHROW(w.set_grad(w.detach().clone()));
  CHECK_THROWS_AS(zeros({2}).to(kFloat8_e4m3fn).requires_grad_(), DtypeError);
}

TEST_CASE("Function: a forward that is refused changes no history; local classes have their names") {
  struct Local : autograd::Function<Local> {
    Tensor forward(const Tensor& x) { return x * 1; }
    Tensors backward(std::span<const Tensor>) { return {}; }
  };
  Tensor w = leaf({1, 2}), first = w * 2, base = w * 3;
  CHECK(Local::apply(w).grad_fn_name() == "Local");
  CHECK(contains(error_of<AutogradError>([&] { TwoOfView::apply(first, base.view({2})); }), "must have one output"));
  CHECK(first.grad_fn_name() == "mul");
  CHECK(base.grad_fn_name() == "mul");
}

TEST_CASE("checkpoint: a captured tensor written since, and inputs that come to lead back") {
  Tensor w = leaf({1, 2}), k = plain({3, 4});
  const Tensor y = autograd::checkpoint([k](const Tensor& t) { return (t * k).exp(); }, w);
  k.zero_();
  CHECK(contains(error_of<AutogradError>([&] { y.sum().backward(); }), "fn captured"));
  const int64_t before = memory::memory_allocated(kCPU);
  {
    Tensor h = leaf({1, 2}) * 2;
    h.add_(autograd::checkpoint([](const Tensor& t) { return t.exp(); }, h));
  }
  CHECK(memory::memory_allocated(kCPU) == before);
}

TEST_CASE("backward from very many roots") {
  Tensor w = leaf({1});
  Tensors roots;
  for (int i = 0; i < 100000; ++i) roots.push_back(w * 1);
  autograd::backward(roots);
  CHECK(values(w.grad()) == V{100000});
}

TEST_CASE("cat: a vector without elements was used too") {
  Tensor none = zeros({0}, kFloat64).requires_grad_(), w = zeros({2, 3}, kFloat64).requires_grad_();
  const Tensors g = autograd::grad(cat({none, w}, 0).sum(), {none, w});
  CHECK(g[0].sizes() == IntArrayRef({0}));
  CHECK(g[1].sizes() == IntArrayRef({2, 3}));
}

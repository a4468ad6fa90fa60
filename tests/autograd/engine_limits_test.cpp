// SPDX-License-Identifier: Apache-2.0
// What the engine promises under strain: no recursion however a chain hangs together, one order, many threads, backward
// inside backward, errors anywhere, and how many bytes a deep network takes.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/function.h>
#include <tenon/memory/allocator.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }
int64_t allocated() { return memory::memory_allocated(kCPU); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kMany = 100'000;  // frames are larger there
#else
constexpr int kMany = 300'000;  // 8 MiB of stack give each 27 bytes
#endif

struct Twice : autograd::Function<Twice> {
  Tensor forward(const Tensor& x) {
    const Tensor y = x * 1.0;
    save(x, y);
    return y;
  }
  Tensor backward(const Tensor& g) { return g + saved(1) * 0.0; }
};

// A chain of kMany nodes, run backward, and another destroyed before that.
template <class Grow>
void chain(Grow grow, int length = kMany) {
  Tensor x = leaf({1, 1});
  for (const bool run : {true, false}) {
    Tensor y = x * 1.0;
    for (int i = 0; i < length; ++i) grow(y);
    if (run) y.sum().backward();
  }
  CHECK(values(x.grad()) == V{1, 1});
}
}  // namespace

TEST_CASE("limits: chains of views, writes and functions, and chains that hang on what they saved, need no stack") {
  SECTION("views") {
    chain([](Tensor& y) { y = y.view({2}); });
  }
  SECTION("writes through views") {
    chain([](Tensor& y) { y.slice(0, 0, 1).mul_(1.0); });
  }
  SECTION("custom functions") {
    chain([](Tensor& y) { y = Twice::apply(y); }, kMany / 3);
  }
  SECTION("saved inputs and outputs") {
    chain([one = ones({2}, kFloat64), i = 0](Tensor& y) mutable { y = i++ % 2 ? y * one : (y - 1.0).exp(); });
  }
  SECTION("hooks that hold the tensor before") {
    chain(
        [](Tensor& y) {
          Tensor next = y + 0.0;
          autograd::register_hook(next, [before = y](const Tensor&) { return before.defined() ? Tensor() : before; });
          y = static_cast<Tensor&&>(next);
        },
        kMany / 3);
  }
}

TEST_CASE("limits: graphs of gradients, and of retained gradients, need no stack") {
  Tensor x = leaf({1, 1}), w = leaf({1, 1});
  Tensor y = x * w;
  for (int i = 0; i < kMany / 4; ++i) y = y * w;
  const Tensor total = y.sum(), inputs[] = {x};
  Tensor g = autograd::grad({&total, 1}, inputs, {}, {}, true)[0];
  Tensor second = g.sum();
  g.reset();
  second.backward();
  CHECK(values(w.grad())[0] == kMany / 4 + 1);
  y = x;
  for (int i = 0; i < kMany / 4; ++i) {
    y = y + 0.0;
    y.retain_grad();
  }
  y.sum().backward({}, {}, true);  // the gradient has a graph, which the leaf holds
  x.set_grad({});
}

TEST_CASE("limits: the same gradients bit for bit in every run") {
  const auto run = [] {
    manual_seed(7);
    Tensor a = randn({5, 5}), b = randn({5, 5}), c = randn({5});
    for (Tensor* t : {&a, &b, &c}) t->requires_grad_();
    Tensor h = a;
    for (int i = 0; i < 6; ++i) h = (h.mm(b) + c).tanh() * a + h.sum(0) * c;
    const Tensor roots[] = {h.sum(), (h * h).mean(), (h * c).sum(), h.sum()};
    autograd::backward(roots);
    std::vector<float> bits;
    for (const Tensor* t : {&a, &b, &c})
      for (const float v : t->grad().to_vector<float>()) bits.push_back(v);
    return bits;
  };
  const std::vector<float> first = run();
  for (int i = 0; i < 100; ++i) {
    const std::vector<float> again = run();
    REQUIRE(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("limits: sixteen threads over shared leaves and over one retained graph") {
  constexpr int kThreads = 16, kRounds = 50;
  Tensor w = leaf({1, 2, 3}), v = leaf({2});
  const Tensor shared = ((w * v).exp().log() * w).sum();  // 2 w^2
  std::atomic<int> failures{0};
  const auto all = [&](auto work) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        try {
          for (int i = 0; i < kRounds; ++i) work(t);
        } catch (...) {
          ++failures;
        }
      });
    for (std::thread& t : threads) t.join();
    REQUIRE(failures == 0);
  };
  all([&](int t) { (w * static_cast<double>(t) + w * w).sum().backward(); });
  V expected;
  for (const double each : {1.0, 2.0, 3.0}) expected.push_back(kRounds * (120.0 + 2 * each * kThreads));
  CHECK(values(w.grad()) == expected);
  w.set_grad({});
  all([&](int t) {
    if (t % 2) return shared.backward({}, true);
    const Tensor inputs[] = {w};
    const Tensor g = autograd::grad({&shared, 1}, inputs, {}, true, t % 4 == 0)[0];
    if (std::abs(values(g)[1] - 8) > 1e-9) ++failures;
  });
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(std::abs(values(w.grad())[i] - 4.0 * static_cast<double>(i + 1) * kThreads / 2 * kRounds) < 1e-6);
}

TEST_CASE("limits: a graph recorded in several threads runs in a right order") {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 20; ++i) std::thread([&] { y = y * 2.0 + x; }).join();
  const Tensor inputs[] = {x};
  CHECK(values(autograd::grad({&y, 1}, inputs)[0]) == V{(1 << 21) - 1.0});
}

namespace {
// Backward inside backward, `depth` deep.
struct Nested : autograd::Function<Nested> {
  int depth = 0;
  Tensor forward(const Tensor& x, int levels) {
    depth = levels;
    return x * 1.0;
  }
  Tensor backward(const Tensor& g) {
    if (depth == 0) return g;
    const EnableGradGuard guard;
    Tensor inner = leaf({1});
    Nested::apply(inner, depth - 1).backward();
    return g * inner.grad();
  }
};
}  // namespace

TEST_CASE("limits: backward inside backward works, to a depth that is an error of its own") {
  Tensor x = leaf({1});
  Nested::apply(x, 150).backward();
  CHECK(values(x.grad()) == V{1});
  CHECK_THROWS_AS(Nested::apply(x, 250).backward(), AutogradError);
  CHECK(contains(error_of<AutogradError>([&] { Nested::apply(x, 250).backward(); }), "inside one another"));
  Nested::apply(x, 3).backward();  // nothing is left behind
  CHECK(values(x.grad()) == V{2});
  // In a hook, over the very leaf that is being accumulated into.
  Tensor w = leaf({3});
  Tensor h = w * 2.0;
  autograd::register_hook(h, [&](const Tensor&) {
    const EnableGradGuard guard;
    (w * 5.0).backward();
    return Tensor();
  });
  h.backward();
  CHECK(values(w.grad()) == V{7});
}

TEST_CASE("limits: an error in any node, from the node or its hooks, leaves everything usable") {
  constexpr int kNodes = 8;
  enum class From { before, after, tensor };
  const int64_t start = allocated();
  const int64_t one_gradient = [&] {
    const Tensor t = zeros({100}, kFloat64);
    return allocated() - start;
  }();
  for (const From from : {From::before, From::after, From::tensor})
    for (int k = 0; k < kNodes; ++k) {
      CAPTURE(static_cast<int>(from), k);
      Tensor x = leaf(V(100, 1.0));
      std::vector<Tensor> weights;
      bool armed = true;
      const auto fail = [&armed] {
        if (armed) throw ValueError("planted");
      };
      Tensor y = x;
      for (int i = 0; i < kNodes; ++i) {
        weights.push_back(leaf(V(100, 2.0)));
        y = y * weights.back();
        if (i != k) continue;
        if (from == From::before) y.grad_fn()->add_pre_hook([fail](std::span<Tensor>) { fail(); });
        if (from == From::after)
          y.grad_fn()->add_post_hook([fail](std::span<Tensor>, std::span<const Tensor>) { fail(); });
        if (from == From::tensor)
          autograd::register_hook(y, [fail](const Tensor&) {
            fail();
            return Tensor();
          });
      }
      const Tensor loss = y.sum();
      const int64_t before = allocated();
      CHECK_THROWS_AS(loss.backward({}, true), ValueError);
      CHECK(grad_enabled());
      // What was reached before the error has its gradient, the rest has none, and nothing else is held.
      const double value = 1 << (kNodes - 1);
      int64_t held = 0;
      for (int i = 0; i < kNodes; ++i) {
        const Tensor g = weights[static_cast<std::size_t>(i)].grad();
        REQUIRE(g.defined() == (i > k));
        if (g.defined()) {
          CHECK(values(g)[0] == value);
          held += one_gradient;
        }
      }
      CHECK(allocated() - before == held);
      armed = false;
      loss.backward({}, true);
      loss.backward();
      for (int i = 0; i < kNodes; ++i)
        CHECK(values(weights[static_cast<std::size_t>(i)].grad())[0] == value * (i > k ? 3 : 2));
      CHECK(values(x.grad())[0] == 2.0 * (1 << kNodes));
    }
  CHECK(allocated() == start);
}

TEST_CASE("limits: a tensor written from what was computed of it is freed") {
  const int64_t start = allocated();
  for (int kind = 0; kind < 6; ++kind) {
    CAPTURE(kind);
    Tensor x = leaf(V(1000, 1.0)), w = leaf(V(1000, 3.0));
    Tensor h = x * 2.0, plain = zeros({1000}, kFloat64) + 1.0;
    Tensor y;
    if (kind == 0) h.add_(h * w);
    if (kind == 1) h.view({10, 100}).add_((h * w).view({10, 100}));
    if (kind == 2) {
      const Tensor part = h.slice(0, 0, 500);
      h.slice(0, 0, 500).add_(part * w.slice(0, 0, 500));
    }
    if (kind == 3) plain.add_(plain * w);  // had no history before
    if (kind == 4) {
      y = h * w;
      h.mul_(y);
    }
    if (kind == 5) {
      y = h.t() * w;
      h.add_(y + y.exp());
    }
    if (kind == 0) CHECK_THROWS_AS(h.sum().backward(), AutogradError);  // the product needs the old value
    y.reset();
    x.reset(), w.reset(), h.reset(), plain.reset();
    CHECK(allocated() == start);
  }
}

TEST_CASE("limits: a deep network takes the bytes it must") {
  constexpr int64_t kLayers = 50, kWidth = 256;
  constexpr int64_t kUnit = kWidth * kWidth * 4;  // an activation, a weight, a gradient
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < kLayers; ++i) weights.push_back((ones({kWidth, kWidth}) * 0.004).requires_grad_());
  const Tensor x = ones({kWidth, kWidth});
  const auto step = [&] {
    Tensor h = x;
    for (const Tensor& w : weights) h = h.mm(w).relu();
    const Tensor loss = h.sum();
    h.reset();
    return loss;
  };
  step().backward();  // scratch memory of the kernels comes into being
  for (const Tensor& w : weights) w.set_grad({});
  const int64_t start = allocated();
  const auto peak = [&] { return memory::max_memory_allocated(kCPU) - start; };
  constexpr int64_t kSmall = 4 * 1024;  // the scalars

  memory::reset_peak_memory_stats(kCPU);
  {
    const Tensor loss = step();
    // relu keeps its output, which is the next product's input; the products' own outputs are gone.
    CHECK((allocated() - start) / kUnit == kLayers);
    CHECK((peak() - (kLayers + 1) * kUnit) < kSmall);
    CHECK((peak() - (kLayers + 1) * kUnit) >= -kUnit);
    memory::reset_peak_memory_stats(kCPU);
    loss.backward();
    // Layer by layer an activation goes and a weight's gradient comes; beside them live the gradient that arrives and
    // what is made of it: relu's one, or the product's two.
    CHECK((peak() - (kLayers + 2) * kUnit) < kSmall);
    CHECK((peak() - (kLayers + 2) * kUnit) >= 0);
    CHECK((allocated() - start) / kUnit == kLayers);  // only the weights' gradients, with the graph still there
  }
  for (const Tensor& w : weights) w.set_grad({});
  CHECK(allocated() == start);
}

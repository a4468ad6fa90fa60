// SPDX-License-Identifier: Apache-2.0
// The engine under load: long chains, wide graphs, many threads, memory given back early.
#include <tenon/autograd/autograd.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <atomic>
#include <thread>

using namespace tenon;

namespace {
using V = std::vector<double>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }
}  // namespace

TEST_CASE("a chain of a million nodes needs no stack, forward, backward and destroyed") {
  constexpr int kLength = 1'000'000;
  Tensor x = leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < kLength; ++i) y = y + 1.0;
    CHECK(values(y) == V{kLength + 1.0});
    y.backward();
    CHECK(values(x.grad()) == V{1});
  }
  Tensor z = x;
  for (int i = 0; i < kLength; ++i) z = z * 1.0;
  z.reset();  // never run backward
  SUCCEED("destroyed");
}

TEST_CASE("a leaf used many times gets one sum") {
  Tensor x = leaf({2});
  Tensor total = zeros({1}, kFloat64);
  for (int i = 0; i < 1000; ++i) total = total + x * static_cast<double>(i % 3);
  total.backward();
  CHECK(values(x.grad()) == V{999});
}

TEST_CASE("backward is concurrent over shared leaves") {
  constexpr int kThreads = 4, kRounds = 200;
  Tensor w = leaf({1, 2, 3});
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      try {
        for (int i = 0; i < kRounds; ++i) (w * static_cast<double>(t + 1) + w).sum().backward();
      } catch (...) {
        ++failures;
      }
    });
  for (std::thread& t : threads) t.join();
  REQUIRE(failures == 0);
  CHECK(values(w.grad()) == V(3, kRounds * (2 + 3 + 4 + 5)));
}

TEST_CASE("backward is concurrent over one retained graph, and views are brought up to date by many readers") {
  constexpr int kThreads = 4, kRounds = 100;
  Tensor w = leaf({1, 2, 3, 4});
  Tensor h = w * 1;
  const Tensor part = h.slice(0, 1, 3);
  h.mul_(2);  // part's node is to be remade
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      try {
        for (int i = 0; i < kRounds; ++i) (part * 3).sum().backward({}, true);
      } catch (...) {
        ++failures;
      }
    });
  for (std::thread& t : threads) t.join();
  REQUIRE(failures == 0);
  CHECK(values(w.grad()) == V{0, 6.0 * kThreads * kRounds, 6.0 * kThreads * kRounds, 0});
}

TEST_CASE("grad mode belongs to the thread") {
  const NoGradGuard guard;
  bool enabled = false;
  std::thread([&] { enabled = grad_enabled(); }).join();
  CHECK(enabled);
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("what was saved is freed while backward goes on") {
  Tensor x = leaf(V(1000, 1.0));
  Tensor h = x.exp();
  const Storage storage = h.storage();
  Tensor y = h * h;
  h.reset();
  CHECK(storage->use_count() > 1);
  bool freed_early = false;
  autograd::register_hook(x, [&](const Tensor&) {
    freed_early = storage->use_count() == 1;
    return Tensor();
  });
  y.sum().backward();
  CHECK(freed_early);
}

TEST_CASE("a sole gradient is taken over by the leaf, not copied") {
  Tensor x = leaf({1, 2});
  const void* arrived = nullptr;
  autograd::register_hook(x, [&](const Tensor& g) {
    arrived = g.data_ptr();
    return Tensor();
  });
  (x * 3).sum().backward();
  CHECK(x.grad().data_ptr() == arrived);
}

TEST_CASE("several roots, and a root inside another's graph") {
  Tensor x = leaf({2});
  const Tensor h = x * 3, y = h * h;
  const Tensor roots[] = {y, h, h};
  autograd::backward(roots);
  CHECK(values(x.grad()) == V{36 + 3 + 3});
}

TEST_CASE("a part of the graph without gradient is not run") {
  Tensor x = leaf({4}), y = leaf({9});
  const Tensor h = x.sqrt(), dead = y.sqrt();
  int ran = 0;
  dead.grad_fn()->add_pre_hook([&](std::span<Tensor>) { ++ran; });
  const std::vector<Tensor> parts = (h * 1).unbind(0);
  (parts[0] + 0.0).backward();
  CHECK(values(x.grad()) == V{0.25});
  CHECK(ran == 0);
}

TEST_CASE("nothing keeps a graph alive but its tensors") {
  // Each builds on the leaf, whose storage is held by nobody else afterwards.
  void (*const scenarios[])(Tensor) = {
      [](Tensor x) { const Tensor y = (x.exp() * x).sum(); },
      [](Tensor x) { (x.exp() * x).sum().backward(); },
      [](Tensor x) { (x.exp() * x).sum().backward({}, true); },
      [](Tensor x) {
        const Tensor y = (x * x).sum(), g = autograd::grad({&y, 1}, {&x, 1}, {}, {}, true)[0];
        g.sum().backward();
      },
      [](Tensor x) {
        Tensor h = x * x;
        const Tensor row = h.slice(0, 0, 1), all = h.view({-1});
        row.detach();
        h.slice(0, 0, 1).mul_(2);
        h.add_(x);
        (row + 0.0).sum().backward({}, true);
        (all * all).sum().backward();
      },
      [](Tensor x) {
        Tensor h = x * 2;
        h.retain_grad();
        autograd::register_hook(h, [](const Tensor& g) { return g * 2; });
        h.mul_(2);
        h.sum().backward();
      },
      [](Tensor x) {
        autograd::register_post_accumulate_grad_hook(x, [](const Tensor& leaf) { leaf.set_grad({}); });
        x.exp().sum().backward();
        CHECK_FALSE(x.grad().defined());
      },
      [](Tensor x) {
        Tensor h = x * x;
        const Tensor y = (h * h).sum();
        h.mul_(2);
        CHECK_THROWS_AS(y.backward(), AutogradError);
      },
  };
  int number = 0;
  for (const auto scenario : scenarios) {
    CAPTURE(number++);
    Storage storage;
    {
      Tensor x = leaf({1, 2});
      storage = x.storage();
      scenario(static_cast<Tensor&&>(x));
    }
    CHECK(storage->use_count() == 1);
  }
}

TEST_CASE("engine: grad() through a view whose history was made late") {
  // The view's node is made when the product asks for it, after the product's own.
  Tensor x = ones({2, 3});
  x.requires_grad_();
  Tensor b = x * 1;
  const Tensor v = b[0];
  b.mul_(2);
  const Tensor inputs[] = {x}, outputs[] = {(v * 3).sum()};
  CHECK(autograd::grad(outputs, inputs)[0].to_vector<float>() == std::vector<float>{6, 6, 6, 0, 0, 0});
}

TEST_CASE("hooks: may remove themselves and add others while they run") {
  Tensor x = ones({3});
  x.requires_grad_();
  const Tensor y = x * 2;
  const std::string ballast(100, 'a');
  int calls = 0;
  autograd::HookHandle own;
  own = autograd::register_hook(y, [&, ballast](const Tensor& g) {
    own.remove();
    for (int i = 0; i < 100; ++i) autograd::register_hook(y, [](const Tensor&) { return Tensor(); });
    calls += ballast == std::string(100, 'a') ? 1 : 100;
    return g * 2;
  });
  y.sum().backward({}, true);
  CHECK(calls == 1);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{4, 4, 4});
  y.sum().backward();
  CHECK(calls == 1);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{6, 6, 6});
  CHECK_THROWS_AS(autograd::register_hook(x, nullptr), ValueError);
}

TEST_CASE("hooks: what replaces a gradient has its sizes, dtype and device") {
  const auto with = [](autograd::TensorHook hook) {
    Tensor x = ones({2});
    x.requires_grad_();
    autograd::register_hook(x, std::move(hook));
    (x * 2).sum().backward();
  };
  CHECK_THROWS_AS(with([](const Tensor&) { return ones({3}); }), ShapeError);
  CHECK_THROWS_AS(with([](const Tensor& g) { return g.to(kFloat64); }), DtypeError);
  CHECK_THROWS_AS(with([](const Tensor& g) { return empty_like(g, Device(kMeta)); }), DeviceError);
}

TEST_CASE("in place: a view made in no-grad mode is refused even when nothing would be recorded") {
  Tensor x = ones({3});
  x.requires_grad_();
  const Tensor b = x * 1;
  Tensor v;
  {
    const NoGradGuard guard;
    v = b[0];
    v.add_(1);  // fine here
  }
  CHECK_THROWS_AS(v.mul_(2), AutogradError);
}

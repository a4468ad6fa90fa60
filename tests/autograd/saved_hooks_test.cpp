// SPDX-License-Identifier: Apache-2.0
// Saved-tensor hooks: what goes through them, in which order, and what is refused.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/autograd/saved_hooks.h>
#include <tenon/memory/allocator.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/sim.h>

#include "tests/support/catch.h"

#include <cmath>
#include <map>
#include <thread>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }
Tensor same(const Tensor& t) { return t; }
bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

struct Product : autograd::Function<Product> {
  Tensor forward(const Tensor& a, const Tensor& b) {
    const Tensor y = a * b;
    save(a, b, y);
    return y;
  }
  std::vector<Tensor> backward(std::span<const Tensor> g) {
    if (saved(2).numel() != saved(2).numel()) return {};
    return {g[0] * saved(1), g[0] * saved(0)};
  }
};
}  // namespace

TEST_CASE("hooks see what operators save, parameters too, without history") {
  Tensor x = leaf({2, 3}), w = leaf({4, 5});
  int packed = 0, unpacked = 0;
  bool plain = true;
  std::map<int, Tensor> store;
  Tensor y;
  {
    autograd::SavedTensorHooksGuard guard(
        [&](const Tensor& t) {
          plain = plain && !t.requires_grad() && !grad_enabled();
          store[packed] = t.clone();
          return packed++;
        },
        [&](int key) {
          ++unpacked;
          return store.at(key);
        });
    y = (x * w).exp();  // both factors, the result of exp
  }
  CHECK(packed == 3);
  CHECK(plain);
  const Tensor z = y * y;  // outside
  CHECK(packed == 3);
  z.sum().backward();
  CHECK(unpacked == 3);
  CHECK(near(values(x.grad())[0], 2 * std::exp(16.0) * 4));
  CHECK(near(values(w.grad())[1], 2 * std::exp(30.0) * 3));
}

TEST_CASE("hooks: lists, in-place calls, writes through views, second derivatives") {
  const uint32_t seed = tenon::testing::seed();
  INFO("seed " << seed);
  manual_seed(seed);
  Tensor a = rand({3, 2}, TensorOptions(kFloat64)).requires_grad_(),
         b = rand({3, 2}, TensorOptions(kFloat64)).requires_grad_();
  std::vector<Tensor> in{a, b};
  const auto f = [](TensorList v) {
    autograd::SavedTensorHooksGuard guard(same, same);
    Tensor h = v[0] * 2;
    h.mul_(v[1]);
    h.select(1, 0).mul_(v[1].select(1, 1));
    h.select(0, 1).exp_();
    return std::vector<Tensor>{cat({{h, v[1].tanh()}}, 0).mul(v[0].sum()), Product::apply(h, v[1])};
  };
  CHECK(autograd::gradcheck(f, in));
  CHECK(autograd::gradgradcheck(f, in));
}

TEST_CASE("hooks nest, the innermost acts") {
  Tensor x = leaf({2});
  std::string trace;
  const auto named = [&](char c) { return [&trace, c](const Tensor& t) { return trace += c, t; }; };
  Tensor y;
  {
    autograd::SavedTensorHooksGuard outer(named('o'), same);
    y = x.exp();
    {
      autograd::SavedTensorHooksGuard inner(named('i'), same);
      y = y.exp();
    }
    y = y.exp();
  }
  y = y.exp();
  CHECK(trace == "oio");
  y.backward();
  CHECK(x.grad().defined());
}

TEST_CASE("hooks belong to their thread, and outlive it in what they packed") {
  Tensor x = leaf({2});
  int packed = 0;
  autograd::SavedTensorHooksGuard guard([&](const Tensor& t) { return ++packed, t; }, same);
  Tensor y;
  std::thread([&] { y = x.exp(); }).join();
  CHECK(packed == 0);
  std::thread([&] {
    autograd::SavedTensorHooksGuard own([](const Tensor& t) { return t.mul(2); },
                                        [](const Tensor& t) { return t.div(2); });
    y = x.exp();
  }).join();
  y.backward();
  CHECK(near(values(x.grad())[0], std::exp(2.0)));
  CHECK(packed == 0);
}

TEST_CASE("hooks: a graph run twice unpacks twice") {
  Tensor x = leaf({2});
  int unpacked = 0;
  Tensor y;
  {
    autograd::SavedTensorHooksGuard guard(same, [&](const Tensor& t) { return ++unpacked, t; });
    y = Product::apply(x, x);
  }
  y.backward({}, true);
  CHECK(unpacked == 3);  // saved(2) is read twice
  y.backward();
  CHECK(unpacked == 6);
  CHECK(values(x.grad()) == V{8});
  CHECK(contains(error_of<AutogradError>([&] { y.backward(); }), "freed"));
}

TEST_CASE("hooks: what is refused") {
  Tensor x = leaf({2, 1});
  SECTION("a pack that writes to its argument") {
    autograd::SavedTensorHooksGuard guard([](Tensor t) { return t.mul_(2); }, same);
    CHECK(contains(error_of<AutogradError>([&] { x.exp(); }), "exp: saved-tensor hooks: pack wrote in place"));
  }
  SECTION("an unpack that gives something else") {
    const auto run = [&](auto unpack) {
      Tensor y;
      {
        autograd::SavedTensorHooksGuard guard(same, unpack);
        y = x.exp();
      }
      y.sum().backward();
    };
    CHECK(contains(error_of<AutogradError>([&] { run([](const Tensor& t) { return t[0]; }); }), "expected sizes [2]"));
    CHECK(contains(error_of<AutogradError>([&] { run([](const Tensor& t) { return t.to(kFloat32); }); }), "float64"));
    CHECK(contains(error_of<AutogradError>([&] { run([](const Tensor&) { return Tensor(); }); }), "undefined"));
    CHECK_FALSE(x.grad().defined());
  }
  SECTION("a packed tensor that shares memory and is written") {
    Tensor y;
    {
      autograd::SavedTensorHooksGuard guard(same, same);
      y = x.exp();
    }
    y.detach().mul_(2);
    CHECK(contains(error_of<AutogradError>([&] { y.sum().backward(); }), "written in place"));
  }
  SECTION("hooks where they are disabled") {
    {
      autograd::DisableSavedTensorHooksGuard off("no hooks under vmap");
      CHECK(error_of<AutogradError>([&] { autograd::SavedTensorHooksGuard guard(same, same); }) ==
            "no hooks under vmap");
      CHECK(error_of<AutogradError>([&] { autograd::save_on_cpu(); }) == "no hooks under vmap");
      x.exp();
    }
    autograd::SavedTensorHooksGuard guard(same, same);
    CHECK(error_of<AutogradError>([&] { autograd::DisableSavedTensorHooksGuard off("here"); }) == "here");
  }
}

TEST_CASE("hooks: an exception leaves everything usable") {
  Tensor x = leaf({2});
  bool fail = true;
  {
    autograd::SavedTensorHooksGuard guard([&](const Tensor& t) { return fail ? throw std::runtime_error("full") : t; },
                                          same);
    CHECK_THROWS_AS(x.exp(), std::runtime_error);
    Tensor h = x * 1;
    fail = false;
    h = h * h;
    fail = true;
    CHECK_THROWS_AS(h.mul_(h), std::runtime_error);  // the write has happened and is recorded
    CHECK(values(h) == V{16});
    fail = false;
    h.sum().backward();
    CHECK(values(x.grad()) == V{32});
  }
  Tensor y;
  {
    autograd::SavedTensorHooksGuard guard(same,
                                          [&](const Tensor& t) { return fail ? throw std::runtime_error("gone") : t; });
    y = x.exp();
  }
  fail = true;
  x.set_grad({});
  CHECK_THROWS_AS(y.backward({}, true), std::runtime_error);
  CHECK_FALSE(x.grad().defined());
  fail = false;
  y.backward();
  CHECK(x.grad().defined());
  CHECK(autograd::saved_tensor_hooks() == nullptr);
}

TEST_CASE("save_on_cpu keeps tensors of the CPU as they are") {
  Tensor x = leaf({2});
  Tensor y;
  {
    const auto guard = autograd::save_on_cpu(true);
    y = x.exp();
  }
  y.backward({}, true);
  CHECK(near(values(x.grad())[0], std::exp(2.0)));
  y.detach().zero_();
  CHECK(contains(error_of<AutogradError>([&] { y.backward(); }), "save_on_cpu"));
}

namespace {
// Four layers tanh(h w): each keeps its result, which is the next one's factor.
void check_offloading(Device device, bool pin) {
  const TensorOptions options = TensorOptions(kFloat32).device(device);
  constexpr int64_t kBytes = 64 * 64 * 4;
  manual_seed(1);
  Tensor w = (randn({64, 64}) / 8).to(device).requires_grad_();
  const Tensor x = full({64, 64}, 1.0, options);
  int64_t held[2];
  Tensor gradients[2];
  for (int offload : {0, 0, 1}) {  // once more for what is made at first use
    w.set_grad({});
    const int64_t before = memory::memory_allocated(device);
    Tensor h = x;
    {
      const auto forward = [&] {
        for (int i = 0; i < 4; ++i) h = h.matmul(w).tanh();
      };
      if (offload) {
        const auto guard = autograd::save_on_cpu(pin);
        forward();
      } else {
        forward();
      }
    }
    held[offload] = memory::memory_allocated(device) - before;
    h.sum().backward();
    gradients[offload] = w.grad().cpu();
  }
  CHECK(held[0] == 4 * kBytes);
  CHECK(held[1] == kBytes);  // h itself
  CHECK(gradients[0].eq(gradients[1]).all().item<bool>());
}
}  // namespace

TEST_CASE("save_on_cpu frees device memory until backward", "[sim]") {
  const uint32_t seed = tenon::testing::seed();
  for (uint32_t k = 0; k < 8; ++k) {
    INFO("seed " << seed + k);
    sim::reset(seed + k);
    const StreamGuard guard(Stream::from_pool(0, kSim));
    check_offloading(Device(kSim, 0), false);
  }
}

TEST_CASE("save_on_cpu frees CUDA memory until backward", "[cuda]") {
  TENON_REQUIRE_CUDA();
  check_offloading(Device(kCUDA, 0), GENERATE(false, true));
}

// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the same gradients from less memory, with the same random numbers, under nesting and of any order.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/checkpoint.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/memory/allocator.h>
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/sim.h>

#include "tests/support/catch.h"

#include <thread>

using namespace tenon;
using autograd::checkpoint;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }
Tensor random(IntArrayRef sizes) { return randn(sizes, TensorOptions(kFloat64)).requires_grad_(); }
}  // namespace

TEST_CASE("checkpoint: gradients of inputs and of what fn refers to") {
  const uint32_t seed = tenon::testing::seed();
  INFO("seed " << seed);
  manual_seed(seed);
  Tensor x = random({4, 3}), w = random({3, 3}), b = random({3});
  int calls = 0;
  const auto layer = [&](const Tensor& t) { return ++calls, (t.matmul(w) + b).tanh(); };
  std::vector<Tensor> in{x, w, b};
  const std::vector<Tensor> expected = autograd::grad({layer(x).exp().sum()}, {x, w, b});
  calls = 0;
  const Tensor y = checkpoint(layer, x).exp().sum();
  CHECK(calls == 1);
  const std::vector<Tensor> got = autograd::grad({y}, {x, w, b}, {}, true);
  CHECK(calls == 2);
  for (std::size_t i = 0; i < 3; ++i) CHECK(got[i].eq(expected[i]).all().item<bool>());
  // Inputs that need no gradient; backward into leaves; another run of a retained graph.
  autograd::grad({y}, {w});
  CHECK(calls == 3);
  CHECK(contains(error_of<AutogradError>([&] { y.backward(); }), "freed"));
  checkpoint(layer, x.detach()).exp().sum().backward();
  CHECK(w.grad().eq(expected[1]).all().item<bool>());
  CHECK_FALSE(x.grad().defined());
  // Nothing is kept, or called again, without recording.
  calls = 0;
  {
    const NoGradGuard guard;
    CHECK_FALSE(checkpoint(layer, x).requires_grad());
  }
  CHECK(calls == 1);
}

TEST_CASE("checkpoint: derivatives of higher order") {
  const uint32_t seed = tenon::testing::seed();
  INFO("seed " << seed);
  manual_seed(seed);
  std::vector<Tensor> in{random({2, 3}), random({3, 2})};
  const auto f = [](TensorList v) {
    return std::vector<Tensor>{checkpoint(
        [w = v[1]](const Tensor& a) {
          return checkpoint([&](const Tensor& t) { return t.tanh().matmul(w); }, a * 2).sigmoid();
        },
        v[0])};
  };
  CHECK(autograd::gradcheck(f, in));
  CHECK(autograd::gradgradcheck(f, in));
  Tensor x = leaf({0.7});
  const auto cube = [](const Tensor& t) { return t * t * t * t; };
  const Tensor first = autograd::grad({checkpoint(cube, x)}, {x}, {}, {}, true)[0];
  const Tensor second = autograd::grad({first}, {x}, {}, {}, true)[0];
  const Tensor third = autograd::grad({second}, {x})[0];
  CHECK(std::abs(third.item<double>() - 24 * 0.7) < 1e-12);
}

TEST_CASE("checkpoint: tuples, vectors, optional and other arguments") {
  Tensor a = leaf({1, 2}), b = leaf({3, 4}), c = leaf({5, 6});
  const auto [sum, product] = checkpoint(
      [](const Tensor& x, const std::vector<Tensor>& list, double k, const std::optional<Tensor>& extra) {
        const Tensor y = x * list[0] * k;
        return std::tuple<Tensor, Tensor>{y + *extra, y * list[1]};
      },
      a, std::vector<Tensor>{b, c}, 2.0, std::optional<Tensor>(c));
  (sum + product).sum().backward();
  CHECK(values(a.grad()) == V{2 * 3 * 6, 2 * 4 * 7});
  CHECK(values(c.grad()) == V{1 + 6, 1 + 16});
  const std::vector<Tensor> list = checkpoint(
      [](const Tensor& x, const std::optional<Tensor>& none, const std::string& name) {
        TENON_CHECK(!none && name == "twice", ValueError, "arguments are kept");
        return std::vector<Tensor>{x * x, x.exp()};
      },
      a, std::optional<Tensor>(), "twice");
  a.set_grad({});
  list[0].sum().backward();
  CHECK(values(a.grad()) == V{2, 4});
}

TEST_CASE("checkpoint: the same random numbers again, and nobody else's disturbed") {
  manual_seed(7);
  Tensor x = ones({1000}, kFloat64).requires_grad_();
  const auto drop = [](const Tensor& t) { return dropout(t, 0.5) * t; };
  const Tensor y = checkpoint([&](const Tensor& t) { return drop(drop(t)); }, x);
  const Tensor noise = rand({3});
  const uint64_t position = default_generator().offset();
  y.sum().backward();
  CHECK(default_generator().offset() == position);
  manual_seed(7);
  Tensor z = ones({1000}, kFloat64).requires_grad_();
  drop(drop(z)).sum().backward();
  CHECK(x.grad().eq(z.grad()).all().item<bool>());
  CHECK(noise.eq(rand({3})).all().item<bool>());
  SECTION("a generator of the caller's own") {
    Generator own;
    own.manual_seed(3);
    Tensor u = ones({1000}, kFloat64).requires_grad_(), v = ones({1000}, kFloat64).requires_grad_();
    Tensor kept;
    {
      const GeneratorGuard guard(own);
      kept = checkpoint(drop, u);
    }
    kept.sum().backward();
    own.manual_seed(3);
    {
      const GeneratorGuard guard(own);
      drop(v).sum().backward();
    }
    CHECK(u.grad().eq(v.grad()).all().item<bool>());
  }
  SECTION("not preserved: the second call draws anew") {
    Tensor u = ones({1000}, kFloat64).requires_grad_();
    const Tensor kept = checkpoint(autograd::CheckpointOptions{.preserve_rng = false}, drop, u);
    const uint64_t before = default_generator().offset();
    kept.sum().backward();
    CHECK(default_generator().offset() > before);
  }
}

TEST_CASE("checkpoint: fn must do the same, and inputs stay as they were") {
  Tensor x = leaf({1, 2});
  const auto text = [](auto&& f) { return error_of<AutogradError>(f); };
  int calls = 0;
  CHECK(contains(
      text([&] {
        checkpoint([&](const Tensor& t) { return ++calls > 1 ? t.exp().tanh() : t.exp(); }, x).sum().backward();
      }),
      "saved more than the 1 tensors"));
  calls = 0;
  CHECK(contains(
      text([&] {
        checkpoint([&](const Tensor& t) { return ++calls > 1 ? t.exp() : t.exp().tanh(); }, x).sum().backward();
      }),
      "it saved 1 tensors, but 2 the first time"));
  calls = 0;
  CHECK(contains(
      text([&] { checkpoint([&](const Tensor& t) { return (++calls > 1 ? t[0] : t).exp().sum(); }, x).backward(); }),
      "expected float64 of sizes [2] on cpu, got float64 of sizes []"));
  Tensor h = x * 1;
  const Tensor y = checkpoint([](const Tensor& t) { return t.exp(); }, h);
  h.mul_(2);
  CHECK(contains(text([&] { y.sum().backward(); }), "checkpoint: input 0 has been written in place"));
  const Tensor z = checkpoint(
      [](const Tensor& t) {
        Tensor e = t.exp();
        e.mul_(2);  // overwrites what exp saved
        return e;
      },
      x);
  CHECK(contains(text([&] { z.sum().backward(); }), "written in place"));
  CHECK_FALSE(x.grad().defined());
  const autograd::DisableSavedTensorHooksGuard off("no checkpoints here");
  CHECK(text([&] { checkpoint([](const Tensor& t) { return t.exp(); }, x); }) == "no checkpoints here");
}

TEST_CASE("checkpoint: exceptions from fn leave everything usable") {
  Tensor x = leaf({1, 2});
  bool fail = true;
  const auto f = [&](const Tensor& t) {
    const Tensor y = t.exp();
    if (fail) throw std::runtime_error("fn");
    return y * y;
  };
  CHECK_THROWS_AS(checkpoint(f, x), std::runtime_error);
  CHECK(autograd::saved_tensor_hooks() == nullptr);
  fail = false;
  const Tensor y = checkpoint(f, x);
  fail = true;
  CHECK_THROWS_AS(y.sum().backward({}, true), std::runtime_error);
  CHECK(autograd::saved_tensor_hooks() == nullptr);
  CHECK_FALSE(x.grad().defined());
  fail = false;
  y.sum().backward();
  CHECK(x.grad().defined());
}

TEST_CASE("checkpoint: grad mode, backward inside of fn, hooks around it") {
  Tensor x = leaf({1, 2});
  // A penalty on the gradient, taken inside.
  const auto penalty = [](const Tensor& t) {
    const Tensor y = (t * t * t).sum();
    const Tensor g = autograd::grad({y}, {t}, {}, {}, true)[0];
    return y + (g * g).sum();
  };
  penalty(x).backward();
  const V expected = values(x.grad());
  x.set_grad({});
  checkpoint(penalty, x).backward();
  CHECK(values(x.grad()) == expected);
  x.set_grad({});
  // Part of fn unrecorded: it is so the second time, too, although backward runs without grad mode.
  const auto partly = [](const Tensor& t) {
    Tensor scale;
    {
      const NoGradGuard guard;
      scale = t.exp();
    }
    return t * scale;
  };
  checkpoint(partly, x).sum().backward();
  CHECK(values(x.grad()) == values(x.detach().exp()));
  // Hooks around the checkpoint see its inputs only.
  int packed = 0;
  Tensor y;
  {
    autograd::SavedTensorHooksGuard guard([&](const Tensor& t) { return ++packed, t.clone(); },
                                          [](const Tensor& t) { return t; });
    y = checkpoint([](const Tensor& t) { return t.exp().exp().exp(); }, x);
  }
  CHECK(packed == 1);
  x.set_grad({});
  y.sum().backward();
  CHECK(x.grad().defined());
}

TEST_CASE("checkpoint: one retained graph in several threads") {
  Tensor x = random({64, 64});
  const Tensor y = checkpoint([](const Tensor& t) { return t.tanh().matmul(t).exp(); }, x).sum();
  const Tensor expected = autograd::grad({y}, {x}, {}, true)[0];
  std::vector<Tensor> got(4);
  std::vector<std::thread> threads;
  for (Tensor& g : got) threads.emplace_back([&] { g = autograd::grad({y}, {x}, {}, true)[0]; });
  for (std::thread& t : threads) t.join();
  for (const Tensor& g : got) CHECK(g.eq(expected).all().item<bool>());
}

TEST_CASE("checkpoint: what a deep network holds, in exact numbers") {
  // 16 layers relu(x w), of 64 x 64 floats: 16 KiB each. Recording keeps of every layer its product's input, which is the
  // result of the layer before that relu saves: 16 tensors live at the end of forward beside x.
  constexpr int64_t kBytes = 64 * 64 * 4;
  constexpr int kLayers = 16;
  std::vector<Tensor> weights;
  for (int i = 0; i < kLayers; ++i) weights.push_back((randn({64, 64}) * 0.1).requires_grad_());
  const Tensor x = randn({64, 64}).requires_grad_();
  const auto layers = [&](Tensor t, int from, int to) {
    for (int i = from; i < to; ++i) t = relu(t.matmul(weights[static_cast<std::size_t>(i)]));
    return t;
  };
  struct Held {
    int64_t after_forward, peak_of_backward;
  };
  const auto measure = [&](int segments) {
    for (Tensor& w : weights) w.set_grad({});
    autograd::grad({x.sum()}, {x});
    const int64_t before = memory::memory_allocated(kCPU);
    Tensor t = x;
    const int length = kLayers / segments;
    for (int s = 0; s < segments; ++s) {
      const auto piece = [&, s](const Tensor& in) { return layers(in, s * length, (s + 1) * length); };
      t = segments == 1 ? piece(t) : checkpoint(piece, t);
    }
    Held held;
    held.after_forward = (memory::memory_allocated(kCPU) - before) / kBytes;
    memory::reset_peak_memory_stats(kCPU);
    const int64_t start = memory::memory_allocated(kCPU);
    autograd::grad({t}, {x}, {{ones({64, 64})}});
    held.peak_of_backward = (memory::max_memory_allocated(kCPU) - start) / kBytes;
    return held;
  };
  measure(4);  // what is made once, such as buffers of products
  const Held plain = measure(1), four = measure(4), all = measure(16);
  INFO(plain.after_forward << " " << plain.peak_of_backward << "; " << four.after_forward << " "
                           << four.peak_of_backward << "; " << all.after_forward << " " << all.peak_of_backward);
  CHECK(plain.after_forward == 16);
  CHECK(four.after_forward == 4);  // the results of the four pieces
  CHECK(all.after_forward == 16);
  // The most that backward adds: three gradients at once in a layer; for a piece, the four results made again beside
  // two gradients. In all 10 tensors, not 19.
  CHECK(plain.peak_of_backward <= 3);
  CHECK(four.peak_of_backward <= 6);
  CHECK(all.peak_of_backward <= 3);
}

TEST_CASE("checkpoint_sequential") {
  manual_seed(1);
  nn::Sequential net(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 8), nn::Tanh(), nn::Linear(8, 2));
  const Tensor x = randn({3, 4});
  net.forward(x).sum().backward();
  std::vector<Tensor> expected;
  for (const Tensor& p : net.parameters()) expected.push_back(p.grad());
  for (const int64_t segments : {1, 2, 3, 5}) {
    net.zero_grad();
    autograd::checkpoint_sequential(net, segments, x).sum().backward();
    const std::vector<Tensor> parameters = net.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) CHECK(parameters[i].grad().eq(expected[i]).all().item<bool>());
  }
  std::vector<Function<Tensor(const Tensor&)>> functions;
  functions.emplace_back([](const Tensor& t) { return t.exp(); });
  functions.emplace_back([](const Tensor& t) { return t.tanh(); });
  Tensor y = leaf({0.5});
  autograd::checkpoint_sequential(functions, 2, y).backward();
  CHECK(y.grad().defined());
  CHECK_THROWS_AS(autograd::checkpoint_sequential(functions, 3, y), ValueError);
  CHECK_THROWS_AS(autograd::checkpoint_sequential(functions, 0, y), ValueError);
}

namespace {
// A checkpoint on a stream of its own whose function moves to another one and back, run backward from a third.
void check_on_device(Device device) {
  const TensorOptions options = TensorOptions(kFloat32).device(device);
  const Stream first = Stream::from_pool(0, device), second = Stream::from_pool(0, device);
  const auto f = [&](const Tensor& t) {
    Tensor u = dropout(t, 0.5) * t;
    second.wait_stream(first);
    {
      const StreamGuard guard(second);
      u.record_stream(second);
      u = dropout(u.exp(), 0.3) * u;
    }
    first.wait_stream(second);
    u.record_stream(first);
    return u.tanh();
  };
  Tensor gradients[2];
  for (int kept : {0, 1}) {
    manual_seed(11);
    Tensor x = full({512}, 0.5, options).requires_grad_();
    Tensor y;
    first.wait_stream(current_stream(device));
    {
      const StreamGuard guard(first);
      x.record_stream(first);
      y = kept ? checkpoint(f, x) : f(x);
      rand({5}, options);
    }
    current_stream(device).wait_stream(first);
    y.record_stream(current_stream(device));
    const uint64_t position = default_generator(device).offset();
    y.sum().backward();
    CHECK(default_generator(device).offset() == position);
    gradients[kept] = x.grad().cpu();
  }
  CHECK(gradients[0].eq(gradients[1]).all().item<bool>());
}
}  // namespace

TEST_CASE("checkpoint on streams of the simulated device", "[sim]") {
  const uint32_t seed = tenon::testing::seed();
  for (uint32_t k = 0; k < 16; ++k) {
    INFO("seed " << seed + k);
    sim::reset(seed + k);
    check_on_device(Device(kSim, 0));
  }
}

TEST_CASE("checkpoint on streams of CUDA", "[cuda]") {
  TENON_REQUIRE_CUDA();
  check_on_device(Device(kCUDA, 0));
}

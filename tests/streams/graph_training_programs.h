// SPDX-License-Identifier: Apache-2.0
// Programs with graphs for any device: random numbers, training steps, functions as graphs.
#pragma once

#include <memory>
#include <utility>

#include "tests/streams/graph_programs.h"

namespace tenon::testing {

// A network of two layers, its batches, and steps on them: all of one seed, on any device.
struct Training {
  explicit Training(Device d, bool adam, double dropout_p = 0) : p(dropout_p) {
    manual_seed(11);
    const NoGradGuard no_grad;
    const auto weight = [&](IntArrayRef sizes) { return (rand(sizes).sub(0.5)).to(d).requires_grad_(true); };
    parameters = {weight({6, 8}), weight({8}), weight({8, 3}), weight({3})};
    for (int i = 0; i < 24; ++i) batches.push_back({randn({5, 6}).to(d), randint(0, 3, {5}).to(d)});
    if (adam)
      optimizer = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 0.05, .capturable = true});
    else
      optimizer = std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor h = x.matmul(parameters[0]).add(parameters[1]).relu();
    if (p > 0) h = dropout(h, p, true);
    const Tensor loss = cross_entropy(h.matmul(parameters[2]).add(parameters[3]), y);
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  std::vector<FloatList> state() const {
    std::vector<FloatList> all;
    for (const Tensor& t : parameters) all.push_back(values(t.detach()));
    return all;
  }
  double p;
  std::vector<Tensor> parameters;
  std::vector<std::pair<Tensor, Tensor>> batches;
  std::unique_ptr<optim::Optimizer> optimizer;
};

inline void random_numbers(Device d) {
  const auto draw = [d](const Generator& own) {
    const Tensor x = rand({7}, device(d)), n = randn({5}, device(d));
    Tensor mine;
    {
      const GeneratorGuard guard(own);
      mine = rand({3}, device(d));
    }
    const Tensor k = randint(0, 1000, {6}, device(d)).to(kFloat32), p = bernoulli(full({9}, 0.5, device(d)));
    return cat({x, n, mine, k, p, dropout(ones({8}, device(d)), 0.5, true)});
  };
  const auto seeds = [](int i) { return static_cast<uint64_t>(i == 3 ? 77 : 5); };
  std::vector<FloatList> eager;
  const Generator own(d);
  manual_seed(5), own.manual_seed(6);
  for (int i = 0; i < 6; ++i) {
    if (i == 3) manual_seed(seeds(i));
    eager.push_back(values(draw(own)));
  }
  const uint64_t after = default_generator(d).offset(), own_after = own.offset();
  CHECK(eager[0] != eager[1]);

  manual_seed(5), own.manual_seed(6);
  Graph g(d);
  Tensor y;
  g.capture([&] { y = draw(own); });
  CHECK(default_generator(d).offset() == 0);  // a capture draws nothing
  for (int i = 0; i < 6; ++i) {
    if (i == 3) manual_seed(seeds(i));
    g.replay();
    CHECK(values(y) == eager[static_cast<std::size_t>(i)]);
  }
  CHECK(default_generator(d).offset() == after);
  CHECK(own.offset() == own_after);
  // Eager draws between replays take their turn.
  manual_seed(5), own.manual_seed(6);
  (void)draw(own);
  g.replay();
  CHECK(values(y) == eager[1]);
}

inline void training(Device d) {
  for (const bool adam : {false, true}) {
    for (const double p : {0.0, 0.3}) {
      CAPTURE(adam, p);
      std::vector<FloatList> expected, losses;
      {
        Training eager(d, adam, p);
        manual_seed(3);
        for (int i = 0; i < 20; ++i)
          losses.push_back(values(eager.step(eager.batches[i].first, eager.batches[i].second)));
        expected = eager.state();
      }
      Training t(d, adam, p);
      manual_seed(3);
      GraphFunction step = graph([&](TensorList in) -> std::vector<Tensor> { return {t.step(in[0], in[1])}; });
      for (std::size_t i = 0; i < 20; ++i) {
        const std::vector<Tensor> loss = step({t.batches[i].first, t.batches[i].second});
        CHECK(values(loss[0]) == losses[i]);
      }
      CHECK(step.graphs() == 1);
      CHECK(t.state() == expected);
      CHECK(losses[0] != losses[1]);
    }
  }
}

// What would be wrong in every replay is refused: a step that counts on the host, state that begins in the capture.
inline void uncapturable_optimizers(Device d) {
  Training t(d, true);
  t.optimizer = std::make_unique<optim::AdamW>(t.parameters, optim::AdamWOptions{});
  GraphFunction step = graph([&](TensorList in) -> std::vector<Tensor> { return {t.step(in[0], in[1])}; });
  (void)step({t.batches[0].first, t.batches[0].second});
  CHECK(contains(error_of<CaptureError>([&] { step({t.batches[0].first, t.batches[0].second}); }), "capturable"));
  t.optimizer = std::make_unique<optim::SGD>(t.parameters, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  Graph g(d);
  CHECK_THROWS_AS(g.capture([&] { t.step(t.batches[0].first, t.batches[0].second); }), CaptureError);
  CHECK(t.step(t.batches[0].first, t.batches[0].second).item<float>() > 0);
}

inline void function_calls(Device d) {
  Tensor total = filled(d, 0);
  int host_calls = 0;
  GraphFunction f = graph([&](TensorList in) -> std::vector<Tensor> {
    ++host_calls;
    total.add_(1);
    return {in[0].mul(2), in[0].sum()};
  });
  for (int i = 0; i < 5; ++i) {
    const auto r = f({filled(d, static_cast<float>(i))});
    CHECK(values(r[0]) == FloatList(4, static_cast<float>(2 * i)));
    CHECK(values(r[1]) == FloatList(1, static_cast<float>(4 * i)));
  }
  CHECK(host_calls == 2);
  CHECK(values(total) == FloatList(4, 5));  // also the call that captured
  const Tensor wide = ones({2, 3}, device(d));
  for (int i = 0; i < 3; ++i) CHECK(values(f({wide})[1]) == FloatList(1, 6));
  CHECK(f.graphs() == 2);
  std::vector<Tensor> in = f.inputs(std::vector<Tensor>{wide});
  REQUIRE(in.size() == 1);
  in[0].fill_(4);
  CHECK(values(f(in)[1]) == FloatList(1, 24));
  CHECK(values(f({filled(d, 3)})[0]) == FloatList(4, 6));
  CHECK_THROWS_AS(f({ones({4})}), DeviceError);
  f.reset();
  CHECK(f.graphs() == 0);

  GraphFunction bad = graph([](TensorList in) -> std::vector<Tensor> { return {nonzero(in[0])}; });
  CHECK(values(bad({filled(d, 1, 1)})[0].to(kFloat32)) == FloatList{0});
  CHECK(contains(error_of<CaptureError>([&] { bad({filled(d, 1, 1)}); }), "nonzero"));
  CHECK(contains(error_of<CaptureError>([&] { bad({filled(d, 1, 1)}); }), "nonzero"));
}

}  // namespace tenon::testing

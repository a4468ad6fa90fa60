// SPDX-License-Identifier: Apache-2.0
// Small recurrent and attention models learn toy tasks that need memory and positions.
#include <tenon/autograd/autograd.h>
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/index.h>
#include <tenon/ops/loss.h>
#include <tenon/ops/random.h>
#include <tenon/ops/rearrange.h>
#include <tenon/ops/reduce.h>
#include <tenon/optim/optim.h>

#include "tests/support/catch.h"

using namespace tenon;

namespace {

constexpr int64_t kSymbols = 4;

/// Names the first symbol of a sequence [T, N] after all of it was read.
struct Recall : nn::Module {
  nn::Embedding embed{kSymbols, 8};
  nn::LSTM lstm{8, 16};
  nn::Linear head{16, kSymbols};
  void members(nn::Members& m) override { m("embed", embed)("lstm", lstm)("head", head); }
  Tensor forward(const Tensor& symbols) override {
    return head(std::get<0>(lstm(embed(symbols)))[symbols.size(0) - 1]);
  }
};

/// Gives a sequence [N, T] back from its end to its beginning.
struct Reverse : nn::Module {
  nn::Embedding embed{kSymbols, 16};
  Tensor positions = nn::parameter(randn({6, 16}));
  nn::TransformerEncoder encoder{
      nn::TransformerEncoderLayer(16, 2, {.dim_feedforward = 32, .dropout = 0, .batch_first = true}), 1};
  nn::Linear head{16, kSymbols};
  void members(nn::Members& m) override { m("embed", embed)("positions", positions)("encoder", encoder)("head", head); }
  Tensor forward(const Tensor& symbols) override { return head(encoder(embed(symbols).add(positions))); }
};

/// The share of right answers on fresh samples after `steps` steps.
template <class Model, class Target>
double train(Model& model, IntArrayRef sizes, int steps, Target&& target) {
  optim::AdamW optimizer(model.parameters(), {.lr = 0.02, .weight_decay = 0});
  for (int step = 0; step < steps; ++step) {
    const Tensor x = randint(0, kSymbols, sizes);
    const Tensor loss = cross_entropy(model(x).reshape({-1, kSymbols}), target(x).reshape({-1}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  model.eval();
  const NoGradGuard no_grad;
  const Tensor x = randint(0, kSymbols, sizes);
  return model(x).argmax(-1).eq(target(x)).to(kFloat32).mean().template item<double>();
}

}  // namespace

TEST_CASE("an LSTM learns to remember the first symbol") {
  manual_seed(1);
  Recall model;
  CHECK(train(model, {6, 32}, 400, [](const Tensor& x) { return x[0]; }) > 0.95);
}

TEST_CASE("a Transformer learns to reverse a sequence") {
  manual_seed(1);
  Reverse model;
  CHECK(train(model, {32, 6}, 250, [](const Tensor& x) { return flip(x, {1}); }) > 0.95);
}

// SPDX-License-Identifier: Apache-2.0
// Modules: a class of your own, containers, states, hooks, initial values, attention and recurrent layers.
// docs/nn.md quotes the marked parts.
#include <tenon/tenon.h>

#include <iostream>

using namespace tenon;

namespace {

void expect(bool held) { TENON_CHECK(held, ValueError, "05_modules: a comment is wrong"); }

// [module]
struct Mlp : nn::Module {
  nn::Linear hidden{784, 512}, output{512, 10};
  void members(nn::Members& m) override { m("hidden", hidden)("output", output); }
  Tensor forward(const Tensor& x) override { return output(relu(hidden(x))); }
};
// [module]

// [several]
struct Gate : nn::ModuleOf<Gate> {
  Tensor forward(const Tensor& a, const Tensor& b) { return a * sigmoid(b); }
};
// [several]

// [members]
struct Stack : nn::Module {
  std::vector<nn::Linear> layers{nn::Linear(8, 8), nn::Linear(8, 8)};  // "layers.0.weight", ...
  Tensor scale = nn::parameter(ones({8}));
  Tensor mean = zeros({8}), cached = zeros({8});
  void members(nn::Members& m) override {
    m("layers", layers)("scale", scale).buffer("mean", mean).buffer("cached", cached, false);  // not in the state
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x - mean;
    for (nn::Linear& layer : layers) y = relu(layer(y));
    return y * scale;
  }
};
// [members]

void use() {
  // [use]
  Mlp model;
  std::cout << model << "\n";  // a tree, as PyTorch prints it
  model.to(kFloat64).eval();   // in place: an optimizer's handles see it too
  for (const auto& [name, tensor] : model.named_parameters()) std::cout << name << " " << tensor.numel() << "\n";
  Mlp same = model;              // shares the parameters
  Mlp other = nn::clone(model);  // does not
  other.load_state_dict(model.state_dict());
  model.apply([](nn::ModuleBase& m) {
    if (auto* linear = m.as<nn::Linear>()) nn::init::xavier_uniform_(linear->weight);
  });
  // [use]
  expect(same.hidden.weight.is_same(model.hidden.weight) && !other.hidden.weight.is_same(model.hidden.weight));
  expect(model.str() ==
         "Mlp(\n  (hidden): Linear(in_features=784, out_features=512, bias=True)\n"
         "  (output): Linear(in_features=512, out_features=10, bias=True)\n)");
  Gate gate;
  expect(gate(ones({2}), zeros({2})).sum().item<float>() == 1);
  Stack stack;
  expect(stack.state_dict().size() == 6 && stack.named_buffers().size() == 2);
  expect(stack(ones({2, 8})).size(1) == 8);
}

void contain() {
  // [containers]
  nn::Sequential net(nn::Linear(8, 16), nn::GELU(), nn::Dropout(0.1), nn::Linear(16, 4));
  net.at<nn::Linear>(3).bias.detach().zero_();
  nn::ModuleDict heads{{"class", nn::Linear(4, 10)}, {"box", nn::Linear(4, 4)}};
  Tensor boxes = heads["box"](net(randn({2, 8})));
  // [containers]
  expect(boxes.size(1) == 4);

  // [hooks]
  auto handle = net.register_forward_hook([](nn::ModuleBase&, std::span<const Tensor>, std::span<Tensor> outputs) {
    outputs[0] = outputs[0].clamp(-1, 1);  // hooks replace by assigning
  });
  Tensor bounded = net(randn({2, 8}) * 100);
  handle.remove();
  // [hooks]
  expect(bounded.abs().max().item<float>() <= 1);
}

void attend() {
  // [attention]
  Tensor q = randn({2, 8, 128, 64}), k = randn({2, 2, 128, 64}), v = randn({2, 2, 128, 64});
  Tensor y = scaled_dot_product_attention(q, k, v, {.is_causal = true, .enable_gqa = true});  // [2, 8, 128, 64]

  nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(64, 4, {.dim_feedforward = 128, .batch_first = true}), 2);
  Tensor z = encoder(randn({2, 10, 64}), nn::causal_mask(10), Tensor(), true);  // [2, 10, 64]
  // [attention]
  expect(y.sizes() == IntArrayRef{2, 8, 128, 64} && z.sizes() == IntArrayRef{2, 10, 64});
}

void recur() {
  // [recurrent]
  nn::LSTM lstm(16, 32, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  auto [y, state] = lstm(randn({4, 10, 16}));  // y [4, 10, 64]; state.first (h) and state.second (c) [4, 4, 32]
  // [recurrent]
  expect(y.sizes() == IntArrayRef{4, 10, 64} && state.second.sizes() == IntArrayRef{4, 4, 32});
}

}  // namespace

int main() {
  use();
  contain();
  attend();
  recur();
}

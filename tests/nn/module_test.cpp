// SPDX-License-Identifier: Apache-2.0
// Modules: what members() gives rise to, states, hooks, containers.
#include <tenon/autograd/autograd.h>
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using Names = std::vector<std::string>;
template <class Named>
Names names(const std::vector<Named>& all) {
  Names out;
  for (const Named& n : all) out.push_back(n.name);
  return out;
}
bool same(const Tensor& a, const Tensor& b) { return a.to_vector<double>() == b.to_vector<double>(); }

struct Block : nn::Module {
  nn::Linear a{3, 4}, b{4, 3, false};
  void members(nn::Members& m) override { m("a", a)("b", b); }
  Tensor forward(const Tensor& x) override { return b(relu(a(x))); }
};
struct Net : nn::Module {
  std::vector<Block> blocks{Block(), Block()};
  Tensor scale = nn::parameter(ones({1}));
  Tensor seen = zeros({}, kInt64), scratch = zeros({2});
  nn::ParameterList extra{nn::parameter(zeros({2}))};
  nn::Dropout drop{0.5};
  void members(nn::Members& m) override {
    m("scale", scale)("blocks", blocks)("extra", extra)("drop", drop).buffer("seen", seen);
    m.buffer("scratch", scratch, false);
  }
  Tensor forward(const Tensor& x) override { return blocks[1](blocks[0](x)).mul(scale); }
};
struct Gate : nn::ModuleOf<Gate> {
  nn::Linear a{2, 2};
  void members(nn::Members& m) override { m("a", a); }
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& y, double factor = 1) {
    return {a(x).mul(y).mul(factor), y};
  }
};
}  // namespace

TEST_CASE("module: names of parameters, buffers, children and modules") {
  Net net;
  const Names parameters{
      "scale",           "blocks.0.a.weight", "blocks.0.a.bias", "blocks.0.b.weight", "blocks.1.a.weight",
      "blocks.1.a.bias", "blocks.1.b.weight", "extra.0"};
  CHECK(names(net.named_parameters()) == parameters);
  CHECK(names(net.named_parameters(false)) == Names{"scale", "extra.0"});
  CHECK(names(net.named_buffers()) == Names{"seen", "scratch"});
  CHECK(names(net.named_children()) == Names{"blocks.0", "blocks.1", "drop"});
  CHECK(names(net.named_modules()) ==
        Names{"", "blocks.0", "blocks.0.a", "blocks.0.b", "blocks.1", "blocks.1.a", "blocks.1.b", "drop"});
  Names state = parameters;
  state.push_back("seen");
  CHECK(names(net.state_dict()) == state);
  CHECK(net.parameter_count() == 1 + 2 * (12 + 4 + 12) + 2);
  net.eval();
  for (nn::ModuleBase* m : net.modules()) CHECK_FALSE(m->is_training());
  net.train();
  CHECK(net.drop.is_training());
  net.requires_grad_(false);
  for (const Tensor& p : net.parameters()) CHECK_FALSE(p.requires_grad());
  int linears = 0;
  Names order;
  net.apply([&](nn::ModuleBase& m) {
    order.push_back(m.describe().substr(0, m.describe().find('(')));
    if (auto* linear = m.as<nn::Linear>()) nn::init::constant_(linear->weight, ++linears);
  });
  CHECK(order == Names{"Linear", "Linear", "Block", "Linear", "Linear", "Block", "Dropout", "Net"});
  CHECK(net.blocks[1].b.weight.to_vector<double>() == std::vector<double>(12, 4));
}

TEST_CASE("module: states load, or say what does not fit") {
  Net net, other;
  other.load_state_dict(net.state_dict());
  const auto a = net.state_dict(), b = other.state_dict();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(same(a[i].tensor, b[i].tensor));
  CHECK_FALSE(net.scale.is_same(other.scale));

  auto bad = net.state_dict();
  bad[1].tensor = zeros({4, 5});
  bad[0].name = "scales";
  const Tensor before = other.blocks[0].a.bias.detach().clone();
  bad[2].tensor = before.add(1);
  const std::string text = error_of<ValueError>([&] { other.load_state_dict(bad); });
  CHECK(contains(text,
                 "load_state_dict: Net: missing: scale; unexpected: scales; wrong sizes: blocks.0.a.weight has [4, 5], "
                 "expected [4, 3]"));
  CHECK(same(other.blocks[0].a.bias, before));  // nothing was changed
  CHECK_THROWS_AS(other.load_state_dict(bad, false), ValueError);
  bad[1].tensor = zeros({4, 3});
  const nn::StateMismatch mismatch = other.load_state_dict(bad, false);
  CHECK(mismatch.missing_keys == Names{"scale"});
  CHECK(mismatch.unexpected_keys == Names{"scales"});
  CHECK(same(other.blocks[0].a.bias, before.add(1)));
  CHECK(other.blocks[0].a.bias.requires_grad());
}

TEST_CASE("module: conversion keeps handles and gradients; copies share, clones do not") {
  Net net;
  const Tensor handle = net.scale;
  net(ones({2, 3})).sum().backward();
  const Tensor grad = net.scale.grad();
  net.to(kFloat64);
  CHECK(handle.dtype() == kFloat64);
  CHECK(net.seen.dtype() == kInt64);
  CHECK(net.scratch.dtype() == kFloat64);
  CHECK(handle.grad().dtype() == kFloat64);
  CHECK(same(handle.grad(), grad));
  CHECK_THROWS_AS(net.to(kInt32), DtypeError);
  net.zero_grad(false);
  CHECK(handle.grad().to_vector<double>() == std::vector<double>{0});
  net.zero_grad();
  CHECK_FALSE(handle.grad().defined());

  nn::Sequential tied(nn::Linear(3, 3, false), nn::Tanh(), nn::Linear(3, 3, false));
  tied.at<nn::Linear>(2).weight = tied.at<nn::Linear>(0).weight;
  tied.register_forward_hook([](nn::ModuleBase&, auto, std::span<Tensor> out) { out[0] = out[0].mul(0); });
  nn::Sequential copy(tied), clone = nn::clone(tied);
  CHECK(copy.at<nn::Linear>(0).weight.is_same(tied.at<nn::Linear>(0).weight));
  CHECK_FALSE(clone.at<nn::Linear>(0).weight.is_same(tied.at<nn::Linear>(0).weight));
  CHECK(clone.at<nn::Linear>(0).weight.is_same(clone.at<nn::Linear>(2).weight));
  CHECK(clone.parameters().size() == 1);
  CHECK(clone.parameters()[0].requires_grad());
  const Tensor x = randn({2, 3});
  CHECK(same(copy(x), zeros({2, 3})));
  CHECK(same(clone(x), tied.forward(x)));
  CHECK_FALSE(same(clone(x), zeros({2, 3})));
}

TEST_CASE("module: printing is PyTorch's") {
  nn::Sequential net(nn::Linear(2, 3), nn::Sequential(nn::GELU("tanh"), nn::Dropout(0.25)), nn::LayerNorm({3, 1}, 1e-6),
                     nn::Embedding(5, 2, {.padding_idx = -1, .max_norm = 2}), nn::Unflatten(1, {3, -1}), nn::Flatten());
  CHECK(net.str() == R"(Sequential(
  (0): Linear(in_features=2, out_features=3, bias=True)
  (1): Sequential(
    (0): GELU(approximate='tanh')
    (1): Dropout(p=0.25, inplace=False)
  )
  (2): LayerNorm((3, 1), eps=1e-06, elementwise_affine=True)
  (3): Embedding(5, 2, padding_idx=4, max_norm=2.0)
  (4): Unflatten(dim=1, unflattened_size=(3, -1))
  (5): Flatten(start_dim=1, end_dim=-1)
))");
  Gate gate;
  CHECK(gate.str() == "Gate(\n  (a): Linear(in_features=2, out_features=2, bias=True)\n)");
  nn::ReLU relu;
  CHECK(relu.str() == "ReLU()");
}

TEST_CASE("module: containers") {
  nn::ModuleList list(nn::Linear(2, 3), nn::Tanh(), Gate());
  list.append(nn::Linear(3, 1)).insert(0, nn::Identity());
  CHECK(list.size() == 5);
  CHECK(names(list.named_parameters()).front() == "1.weight");
  CHECK(list[2](zeros({1})).to_vector<double>() == std::vector<double>{0});
  CHECK(contains(error_of<IndexError>([&] { list[5]; }), "below 5, got 5"));
  CHECK(contains(error_of<ValueError>([&] { list.at<nn::Linear>(2); }), "Tanh()"));
  CHECK(contains(error_of<ValueError>([&] { list[3](zeros({2})); }), "Gate"));
  nn::ModuleList nested(list);
  CHECK(nested.size() == 5);  // a copy
  nn::ModuleDict heads{{"class", nn::Linear(2, 3)}, {"box", nn::Linear(2, 4)}};
  CHECK(names(heads.named_parameters()) == Names{"class.weight", "class.bias", "box.weight", "box.bias"});
  CHECK(heads["box"](ones({1, 2})).size(1) == 4);
  CHECK(contains(error_of<ValueError>([&] { heads["mask"]; }), "one of {class, box}, got mask"));
  CHECK_THROWS_AS(heads.insert("box", nn::Identity()), ValueError);
}

TEST_CASE("module: forward hooks see and replace inputs and outputs, and can be removed") {
  Gate gate;
  const Tensor x = ones({1, 2}), y = full({1, 2}, 3.0);
  const auto [plain, passed] = gate(x, y, 2.0);
  int before = 0, after = 0;
  auto pre = gate.register_forward_pre_hook([&](nn::ModuleBase& m, std::span<Tensor> in) {
    CHECK(&m == &gate);
    CHECK(in.size() == 2);
    in[1] = in[1].mul(2);
    ++before;
  });
  auto post = gate.register_forward_hook([&](nn::ModuleBase&, std::span<const Tensor> in, std::span<Tensor> out) {
    CHECK(same(in[1], y.mul(2)));
    CHECK(out.size() == 2);
    out[1] = out[1].add(1);
    ++after;
  });
  const auto [doubled, seven] = gate(x, y, 2.0);
  CHECK(same(doubled, plain.mul(2)));
  CHECK(seven.to_vector<double>() == std::vector<double>{7, 7});
  pre.remove();
  post.remove();
  CHECK(same(gate(x, y, 2.0).first, plain));
  CHECK(before == 1);
  CHECK(after == 1);
}

TEST_CASE("module: full backward hooks see gradients of outputs and inputs, and replace the latter") {
  struct Product : nn::ModuleOf<Product> {
    Tensor forward(const Tensor& a, const Tensor& b) { return a.mul(b); }
  } product;
  const Tensor a = full({2}, 3.0).requires_grad_(), b = full({2}, 5.0);
  int calls = 0;
  auto handle = product.register_full_backward_hook([&](std::span<Tensor> in, std::span<const Tensor> out) {
    ++calls;
    CHECK(out.size() == 1);
    CHECK(out[0].to_vector<double>() == std::vector<double>{2, 2});
    CHECK(in.size() == 2);
    CHECK(in[0].to_vector<double>() == std::vector<double>{10, 10});
    CHECK_FALSE(in[1].defined());
    in[0] = in[0].mul(-1);
  });
  product(a, b).mul(2.0).add(a).sum().backward();  // a's other use does not pass the module
  CHECK(calls == 1);
  CHECK(a.grad().to_vector<double>() == std::vector<double>{-9, -9});
  handle.remove();
  a.set_grad({});
  product(a, b).sum().backward();
  CHECK(a.grad().to_vector<double>() == std::vector<double>{5, 5});

  nn::Linear linear(2, 1, false);  // inputs want no gradient: the hook still hears of the outputs'
  bool heard = false;
  linear.register_full_backward_hook([&](std::span<Tensor> in, std::span<const Tensor> out) {
    heard = !in[0].defined() && out[0].to_vector<double>() == std::vector<double>{1};
  });
  linear(ones({1, 2})).sum().backward();
  CHECK(heard);
  CHECK(linear.weight.grad().to_vector<double>() == std::vector<double>{1, 1});
}

TEST_CASE("module: Bilinear, Unflatten and Embedding") {
  nn::Bilinear bilinear(2, 3, 1);
  nn::init::constant_(bilinear.weight, 2);
  nn::init::constant_(bilinear.bias, 1);
  const Tensor y = bilinear(full({4, 2}, 1.0), full({4, 3}, 0.5));
  CHECK(y.sizes() == IntArrayRef{4, 1});
  CHECK(y.to_vector<double>() == std::vector<double>(4, 2 * 6 * 0.5 + 1));
  nn::Unflatten unflatten(-1, {2, -1});
  CHECK(unflatten(zeros({3, 8})).sizes() == IntArrayRef{3, 2, 4});
  nn::Embedding table(4, 3, {.padding_idx = 1, .max_norm = 1});
  CHECK(table.weight[1].to_vector<double>() == std::vector<double>(3, 0));
  nn::init::constant_(table.weight, 2);
  const Tensor found = table(from_vector(std::vector<int64_t>{1, 3}));
  CHECK(square(found.select(0, 1)).sum().item<double>() == Approx(1).margin(1e-5));
  found.sum().backward();
  CHECK(table.weight.grad().to_vector<double>() == std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
  CHECK(contains(error_of<ValueError>([] { nn::Embedding(4, 3, {.padding_idx = 4}); }), "padding_idx"));
}

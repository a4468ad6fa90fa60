// SPDX-License-Identifier: Apache-2.0
// Recurrent layers, attention and the Transformer against what PyTorch computes: outputs and gradients.
#include <tenon/autograd/autograd.h>
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>

#include "tests/nn/recorded.h"
#include "tests/support/catch.h"

#include <cmath>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

/// 0.5 sin(0.37 i + the sum of the name's characters): what parameters are filled with on both sides.
Tensor wave(const std::string& name, IntArrayRef sizes, double scale = 0.5) {
  double start = 0;
  for (const char c : name) start += c;
  const int64_t n = zeros(sizes).numel();
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(scale * std::sin(0.37 * static_cast<double>(i) + start));
  return from_vector(std::move(v), sizes);
}
Tensor input(const char* name, IntArrayRef sizes) { return wave(name, sizes, 1).requires_grad_(); }
/// The sum of t times cos(0.3 i).
Tensor weighed(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.numel(); ++i) v.push_back(std::cos(0.3 * static_cast<double>(i)));
  return t.mul(from_vector(std::move(v), t.sizes())).sum();
}
std::string far(const std::vector<double>& got, const std::vector<double>& expected) {
  if (got.size() != expected.size())
    return std::to_string(got.size()) + " numbers, not " + std::to_string(expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= 2e-9 * (1 + std::abs(expected[i]))))
      return std::to_string(i) + ": " + std::to_string(got[i]) + " is not " + std::to_string(expected[i]);
  return "";
}
std::vector<double> joined(const std::vector<Tensor>& all) {
  std::vector<double> out;
  for (const Tensor& t : all) {
    const auto v = t.to_vector<double>();
    out.insert(out.end(), v.begin(), v.end());
  }
  return out;
}

/// run(inputs) returns a tensor, or tuples and pairs of them.
template <class F>
void compare(const char* label, nn::ModuleBase& m, std::vector<Tensor> inputs, F&& run) {
  INFO(label);
  const Recorded* found = nullptr;
  for (const Recorded& r : kRecorded)
    if (r.label == std::string(label)) found = &r;
  REQUIRE(found);
  {
    const NoGradGuard no_grad;
    for (nn::NamedTensor& p : m.named_parameters()) p.tensor.copy_(wave(p.name, p.tensor.sizes()));
  }
  m.zero_grad();
  auto result = run(inputs);
  std::vector<Tensor> outputs, defined;
  autograd::internal::collect(outputs, result);
  Tensor loss = zeros({}, kDouble);
  for (const Tensor& t : outputs) loss = loss.add(weighed(t)), defined.push_back(t.detach());
  loss.backward();
  CHECK(far(joined(defined), found->outputs) == "");
  std::vector<Tensor> grads;
  for (const Tensor& t : inputs) grads.push_back(t.grad());
  CHECK(far(joined(grads), found->input_gradients) == "");
  const auto parameters = m.named_parameters();
  CHECK(parameters.size() == found->parameters.size());
  for (const auto& [name, expected] : found->parameters) {
    INFO(name);
    Tensor grad;
    for (const nn::NamedTensor& p : parameters)
      if (p.name == name) grad = p.tensor.grad();
    REQUIRE(grad.defined());
    CHECK(far({weighed(grad).item<double>()}, {expected}) == "");
  }
  if (*found->printed) CHECK(m.str() == found->printed);
}

}  // namespace

TEST_CASE("recurrent layers equal PyTorch's, states and gradients too") {
  nn::LSTM lstm(3, 2, {.num_layers = 2, .bidirectional = true}, kDouble);
  compare("lstm", lstm, {input("x", {3, 2, 3}), input("y", {4, 2, 2}), input("z", {4, 2, 2})}, [&](auto& in) {
    return lstm(in[0], nn::LSTMState{in[1], in[2]});
  });
  nn::LSTM projected(3, 4, {.num_layers = 2, .bias = false, .batch_first = true, .proj_size = 2}, kDouble);
  compare("lstm projected", projected, {input("x", {2, 3, 3})}, [&](auto& in) { return projected(in[0]); });
  nn::GRU gru(3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true}, kDouble);
  compare("gru", gru, {input("x", {2, 3, 3}), input("y", {4, 2, 2})}, [&](auto& in) { return gru(in[0], in[1]); });
  nn::RNN relu(3, 2, {.nonlinearity = "relu"}, kDouble), tanh(3, 2, {.num_layers = 2}, kDouble);
  compare("rnn relu", relu, {input("x", {4, 3})}, [&](auto& in) { return relu(in[0]); });
  compare("rnn tanh", tanh, {input("x", {4, 2, 3})}, [&](auto& in) { return tanh(in[0]); });
  nn::LSTMCell lstm_cell(3, 2, true, kDouble);
  compare("lstm cell", lstm_cell, {input("x", {2, 3}), input("y", {2, 2}), input("z", {2, 2})}, [&](auto& in) {
    return lstm_cell(in[0], nn::LSTMState{in[1], in[2]});
  });
  nn::GRUCell gru_cell(3, 2, true, kDouble);
  compare("gru cell", gru_cell, {input("x", {2, 3}), input("y", {2, 2})},
          [&](auto& in) { return gru_cell(in[0], in[1]); });
  nn::RNNCell rnn_cell(3, 2, true, "relu", kDouble);
  compare("rnn cell", rnn_cell, {input("x", {3})}, [&](auto& in) { return rnn_cell(in[0]); });
}

TEST_CASE("recurrent layers: arguments, dropout, and what they refuse") {
  nn::LSTM lstm(3, 4, {.num_layers = 3, .batch_first = true, .dropout = 0.25, .bidirectional = true, .proj_size = 2});
  CHECK(lstm.str() == "LSTM(3, 4, proj_size=2, num_layers=3, batch_first=True, dropout=0.25, bidirectional=True)");
  CHECK(lstm.weight("weight_hr_l2_reverse").sizes() == IntArrayRef{2, 4});
  CHECK(contains(error_of<ValueError>([&] { lstm.weight("weight_hr_l3"); }), "weight_hr_l3"));
  const Tensor x = ones({2, 5, 3});
  const Tensor a = std::get<0>(lstm(x)), b = std::get<0>(lstm(x));
  CHECK(a.sizes() == IntArrayRef{2, 5, 4});
  CHECK_FALSE(a.to_vector<float>() == b.to_vector<float>());
  lstm.eval();
  CHECK(std::get<0>(lstm(x)).to_vector<float>() == std::get<0>(lstm(x)).to_vector<float>());
  const auto [y, state] = lstm(ones({5, 3}));
  CHECK(y.sizes() == IntArrayRef{5, 4});
  CHECK(state.first.sizes() == IntArrayRef{6, 2});
  CHECK(state.second.sizes() == IntArrayRef{6, 4});
  CHECK(contains(error_of<ShapeError>([&] { lstm(ones({2, 5, 4})); }), "LSTM: input"));
  CHECK(contains(error_of<ShapeError>([&] { lstm(x, nn::LSTMState{zeros({6, 2, 2}), zeros({6, 2, 2})}); }), "c0"));
  CHECK_THROWS_AS(nn::GRU(3, 4, {.proj_size = 2}), ValueError);
  CHECK_THROWS_AS(nn::RNN(3, 4, {.nonlinearity = "sigmoid"}), ValueError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.proj_size = 4}), ValueError);
  nn::GRUCell cell(3, 2, false);
  CHECK(cell.str() == "GRUCell(3, 2, bias=False)");
  CHECK(contains(error_of<ShapeError>([&] { cell(ones({2, 4})); }), "GRUCell: input"));
}

TEST_CASE("attention and Transformer layers equal PyTorch's") {
  const Tensor pad = from_span<bool>(std::array<bool, 6>{false, true, false, false, false, true}, {2, 3});
  nn::MultiheadAttention attention(4, 2, {}, kDouble);
  compare("attention", attention, {input("x", {3, 2, 4})}, [&](auto& in) { return attention(in[0], in[0], in[0]); });
  nn::MultiheadAttention everything(
      4, 2, {.add_bias_kv = true, .add_zero_attn = true, .kdim = 3, .vdim = 2, .batch_first = true}, kDouble);
  compare("attention with everything", everything,
          {input("x", {2, 2, 4}), input("y", {2, 3, 3}), input("z", {2, 3, 2})}, [&](auto& in) {
            return everything(in[0], in[1], in[2],
                              nn::AttentionArguments{.key_padding_mask = pad, .average_attn_weights = false});
          });
  nn::TransformerEncoderLayer layer(
      4, 2, {.dim_feedforward = 5, .dropout = 0, .activation = "gelu", .norm_first = true}, kDouble);
  const Tensor causal = nn::causal_mask(3, kDouble);
  compare("encoder layer", layer, {input("x", {3, 2, 4})},
          [&](auto& in) { return layer(in[0], causal, Tensor(), true); });
  compare("encoder layer", layer, {input("x", {3, 2, 4})}, [&](auto& in) { return layer(in[0], causal); });
  nn::TransformerEncoder encoder(
      nn::TransformerEncoderLayer(4, 2, {.dim_feedforward = 5, .dropout = 0, .batch_first = true}, kDouble), 2,
      nn::LayerNorm({4}, 1e-5, kDouble));
  compare("encoder", encoder, {input("x", {2, 3, 4})}, [&](auto& in) { return encoder(in[0], Tensor(), pad); });
  nn::TransformerDecoder decoder(
      nn::TransformerDecoderLayer(4, 2, {.dim_feedforward = 5, .dropout = 0, .bias = false}, kDouble), 1,
      nn::LayerNorm({4}, 1e-5, kDouble));
  compare("decoder", decoder, {input("x", {3, 2, 4}), input("y", {3, 2, 4})}, [&](auto& in) {
    return decoder(in[0], in[1], nn::DecoderMasks{.tgt_mask = causal, .memory_key_padding_mask = pad});
  });
  CHECK(layer.str() == R"(TransformerEncoderLayer(
  (self_attn): MultiheadAttention(
    (out_proj): Linear(in_features=4, out_features=4, bias=True)
  )
  (linear1): Linear(in_features=4, out_features=5, bias=True)
  (dropout): Dropout(p=0.0, inplace=False)
  (linear2): Linear(in_features=5, out_features=4, bias=True)
  (norm1): LayerNorm((4,), eps=1e-05, elementwise_affine=True)
  (norm2): LayerNorm((4,), eps=1e-05, elementwise_affine=True)
  (dropout1): Dropout(p=0.0, inplace=False)
  (dropout2): Dropout(p=0.0, inplace=False)
))");
}

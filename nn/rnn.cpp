// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/describe.h>
#include <tenon/nn/init.h>
#include <tenon/nn/rnn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/random.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include <cmath>

namespace tenon::nn {
namespace {

int64_t gates(RNNMode m) { return m == RNNMode::lstm ? 4 : m == RNNMode::gru ? 3 : 1; }
const char* name_of(RNNMode m) { return m == RNNMode::lstm ? "LSTM" : m == RNNMode::gru ? "GRU" : "RNN"; }
RNNMode plain_mode(std::string_view nonlinearity) {
  TENON_CHECK(nonlinearity == "tanh" || nonlinearity == "relu", ValueError,
              "RNN: nonlinearity: expected 'tanh' or 'relu', got '", nonlinearity, "'");
  return nonlinearity == "relu" ? RNNMode::relu : RNNMode::tanh;
}
Tensor uniform_parameter(IntArrayRef sizes, int64_t hidden_size, const TensorOptions& o) {
  const double bound = hidden_size > 0 ? 1 / std::sqrt(static_cast<double>(hidden_size)) : 0;
  Tensor t = parameter(empty(sizes, o));
  init::uniform_(t, -bound, bound);
  return t;
}
/// One step from `from_input` = W_ih x + b_ih [N, gates * hidden]. `w_hr` may be undefined, and so may c for all but LSTM.
LSTMState advance(RNNMode mode, const Tensor& from_input, const Tensor& h, const Tensor& c, const Tensor& w_hh,
                  const Tensor& b_hh, const Tensor& w_hr) {
  const Tensor from_state = linear(h, w_hh, b_hh);
  if (mode == RNNMode::gru) {
    const int64_t n = h.size(-1);
    const Tensor both = sigmoid(from_input.slice(-1, 0, 2 * n).add(from_state.slice(-1, 0, 2 * n)));
    const Tensor r = both.slice(-1, 0, n), z = both.slice(-1, n, 2 * n);
    const Tensor fresh = tanh(from_input.slice(-1, 2 * n).add(r.mul(from_state.slice(-1, 2 * n))));
    return {fresh.add(z.mul(h.sub(fresh))), {}};
  }
  const Tensor sum = from_input.add(from_state);
  if (mode != RNNMode::lstm) return {mode == RNNMode::relu ? relu(sum) : tanh(sum), {}};
  const int64_t n = c.size(-1);
  const Tensor both = sigmoid(sum.slice(-1, 0, 2 * n));
  const Tensor cell = both.slice(-1, n, 2 * n).mul(c).add(both.slice(-1, 0, n).mul(tanh(sum.slice(-1, 2 * n, 3 * n))));
  const Tensor hidden = sigmoid(sum.slice(-1, 3 * n)).mul(tanh(cell));
  return {w_hr.defined() ? linear(hidden, w_hr) : hidden, cell};
}

}  // namespace

RNNBase::RNNBase(RNNMode mode, int64_t input_size, int64_t hidden_size, const RNNOptions& options,
                 const TensorOptions& tensors)
    : mode_(mode), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  const char* const who = name_of(mode);
  TENON_CHECK(input_size > 0 && hidden_size > 0 && options.num_layers > 0, ValueError, who,
              ": expected positive sizes and layers, got ", input_size, ", ", hidden_size, " and ", options.num_layers);
  TENON_CHECK(options.dropout >= 0 && options.dropout <= 1, ValueError, who,
              ": dropout: expected a value in [0, 1], got ", options.dropout);
  const int64_t projected = options.proj_size;
  TENON_CHECK(projected == 0 || (mode == RNNMode::lstm && projected > 0 && projected < hidden_size), ValueError, who,
              ": proj_size: expected 0, or for LSTM less than hidden_size ", hidden_size, ", got ", projected);
  const int64_t rows = gates(mode) * hidden_size, state = projected > 0 ? projected : hidden_size;
  const int64_t directions = options.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options.num_layers; ++layer)
    for (int64_t d = 0; d < directions; ++d) {
      const std::string suffix = "_l" + std::to_string(layer) + (d ? "_reverse" : "");
      const auto add = [&](const char* name, IntArrayRef sizes) {
        weights_.push_back({name + suffix, uniform_parameter(sizes, hidden_size, tensors)});
      };
      add("weight_ih", {rows, layer == 0 ? input_size : directions * state});
      add("weight_hh", {rows, state});
      if (options.bias) add("bias_ih", {rows}), add("bias_hh", {rows});
      if (projected > 0) add("weight_hr", {projected, hidden_size});
    }
  per_direction_ = weights_.size() / static_cast<std::size_t>(options.num_layers * directions);
}
void RNNBase::members(Members& m) {
  for (NamedTensor& w : weights_) m(w.name, w.tensor);
}
Tensor& RNNBase::weight(std::string_view name) {
  for (NamedTensor& w : weights_)
    if (w.name == name) return w.tensor;
  TENON_CHECK(false, ValueError, name_of(mode_), ": no parameter is called ", name);
}
std::string RNNBase::describe() const {
  const RNNOptions& o = options_;
  std::string text = detail::concat(name_of(mode_), "(", input_size_, ", ", hidden_size_);
  if (o.proj_size != 0) text += ", proj_size=" + std::to_string(o.proj_size);
  if (o.num_layers != 1) text += ", num_layers=" + std::to_string(o.num_layers);
  if (!o.bias) text += ", bias=False";
  if (o.batch_first) text += ", batch_first=True";
  if (o.dropout != 0) text += ", dropout=" + number_text(o.dropout);
  if (o.bidirectional) text += ", bidirectional=True";
  return text + ")";
}

std::tuple<Tensor, Tensor, Tensor> RNNBase::run(const Tensor& input, const Tensor& h0, const Tensor& c0) {
  const char* const who = name_of(mode_);
  TENON_CHECK((input.dim() == 2 || input.dim() == 3) && input.size(-1) == input_size_, ShapeError, who,
              ": input: expected 2 or 3 dimensions, the last of ", input_size_, ", got sizes ", input.sizes());
  const bool batched = input.dim() == 3;
  const bool batch_first = batched && options_.batch_first;
  Tensor x = batch_first ? input.transpose(0, 1) : batched ? input : input.unsqueeze(1);
  const int64_t steps = x.size(0), batch = x.size(1), directions = options_.bidirectional ? 2 : 1;
  TENON_CHECK(steps > 0, ShapeError, who, ": input: expected at least one step, got sizes ", input.sizes());
  const int64_t state = options_.proj_size > 0 ? options_.proj_size : hidden_size_,
                lines = options_.num_layers * directions;
  // The state of every layer and direction, [N, size] each.
  const auto states = [&](const char* name, const Tensor& given, int64_t size) -> std::vector<Tensor> {
    if (!given.defined())
      return unbind(zeros({lines, batch, size}, TensorOptions(input.dtype()).device(input.device())));
    const DimVector expected = batched ? DimVector{lines, batch, size} : DimVector{lines, size};
    TENON_CHECK(given.sizes() == IntArrayRef(expected), ShapeError, who, ": ", name, ": expected sizes ",
                IntArrayRef(expected), ", got ", given.sizes());
    return unbind(batched ? given : given.unsqueeze(1));
  };
  std::vector<Tensor> h = states("h0", h0, state), c(static_cast<std::size_t>(lines));
  if (mode_ == RNNMode::lstm) c = states("c0", c0, hidden_size_);

  for (int64_t layer = 0, line = 0; layer < options_.num_layers; ++layer) {
    if (layer > 0 && options_.dropout > 0) x = dropout(x, options_.dropout, is_training());
    std::vector<Tensor> ways;
    for (int64_t d = 0; d < directions; ++d, ++line) {
      const auto at = static_cast<std::size_t>(line);
      const NamedTensor* const w = weights_.data() + at * per_direction_;
      const Tensor b_ih = options_.bias ? w[2].tensor : Tensor(), b_hh = options_.bias ? w[3].tensor : Tensor();
      const Tensor w_hr = options_.proj_size > 0 ? w[per_direction_ - 1].tensor : Tensor();
      const std::vector<Tensor> from_input = unbind(linear(x, w[0].tensor, b_ih));
      std::vector<Tensor> outputs(static_cast<std::size_t>(steps));
      for (int64_t i = 0; i < steps; ++i) {
        const auto t = static_cast<std::size_t>(d == 0 ? i : steps - 1 - i);
        std::tie(h[at], c[at]) = advance(mode_, from_input[t], h[at], c[at], w[1].tensor, b_hh, w_hr);
        outputs[t] = h[at];
      }
      ways.push_back(stack(outputs));
    }
    x = directions == 1 ? ways[0] : cat(ways, -1);
  }
  const auto joined = [&](const std::vector<Tensor>& all) {
    return batched ? stack(all) : stack(all).squeeze(IntArrayRef(1));
  };
  return {batch_first ? x.transpose(0, 1)
          : batched   ? x
                      : x.squeeze(IntArrayRef(1)),
          joined(h), mode_ == RNNMode::lstm ? joined(c) : Tensor()};
}

RNN::RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options, const TensorOptions& tensors)
    : ModuleOf(plain_mode(options.nonlinearity), input_size, hidden_size, options, tensors) {}
std::tuple<Tensor, Tensor> RNN::forward(const Tensor& input, const Tensor& h0) {
  auto [y, h, c] = run(input, h0, {});
  return {y, h};
}
LSTM::LSTM(int64_t input_size, int64_t hidden_size, const RNNOptions& options, const TensorOptions& tensors)
    : ModuleOf(RNNMode::lstm, input_size, hidden_size, options, tensors) {}
std::tuple<Tensor, LSTMState> LSTM::forward(const Tensor& input, const LSTMState& state) {
  auto [y, h, c] = run(input, state.first, state.second);
  return {y, {h, c}};
}
GRU::GRU(int64_t input_size, int64_t hidden_size, const RNNOptions& options, const TensorOptions& tensors)
    : ModuleOf(RNNMode::gru, input_size, hidden_size, options, tensors) {}
std::tuple<Tensor, Tensor> GRU::forward(const Tensor& input, const Tensor& h0) {
  auto [y, h, c] = run(input, h0, {});
  return {y, h};
}

RNNCellBase::RNNCellBase(RNNMode mode, int64_t input_size, int64_t hidden_size, bool bias, const TensorOptions& tensors)
    : mode_(mode) {
  TENON_CHECK(input_size > 0 && hidden_size > 0, ValueError, name_of(mode), "Cell: expected positive sizes, got ",
              input_size, " and ", hidden_size);
  const int64_t rows = gates(mode) * hidden_size;
  weight_ih = uniform_parameter({rows, input_size}, hidden_size, tensors);
  weight_hh = uniform_parameter({rows, hidden_size}, hidden_size, tensors);
  if (!bias) return;
  bias_ih = uniform_parameter(IntArrayRef(rows), hidden_size, tensors);
  bias_hh = uniform_parameter(IntArrayRef(rows), hidden_size, tensors);
}
void RNNCellBase::members(Members& m) {
  m("weight_ih", weight_ih)("weight_hh", weight_hh)("bias_ih", bias_ih)("bias_hh", bias_hh);
}
std::string RNNCellBase::describe() const {
  return detail::concat(name_of(mode_), "Cell(", weight_ih.size(1), ", ", weight_hh.size(1),
                        bias_ih.defined() ? "" : ", bias=False", mode_ == RNNMode::relu ? ", nonlinearity=relu" : "",
                        ")");
}
LSTMState RNNCellBase::step(const Tensor& input, const Tensor& h, const Tensor& c) {
  TENON_CHECK((input.dim() == 1 || input.dim() == 2) && input.size(-1) == weight_ih.size(1), ShapeError, name_of(mode_),
              "Cell: input: expected 1 or 2 dimensions, the last of ", weight_ih.size(1), ", got sizes ",
              input.sizes());
  DimVector sizes(input.sizes());
  sizes[sizes.size() - 1] = weight_hh.size(1);
  const auto state = [&](const char* name, const Tensor& given) {
    if (!given.defined()) return zeros(sizes, TensorOptions(input.dtype()).device(input.device()));
    TENON_CHECK(given.sizes() == IntArrayRef(sizes), ShapeError, name_of(mode_), "Cell: ", name, ": expected sizes ",
                IntArrayRef(sizes), ", got ", given.sizes());
    return given;
  };
  return advance(mode_, linear(input, weight_ih, bias_ih), state("h", h),
                 mode_ == RNNMode::lstm ? state("c", c) : Tensor(), weight_hh, bias_hh, {});
}
RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, bool bias, std::string_view nonlinearity,
                 const TensorOptions& tensors)
    : ModuleOf(plain_mode(nonlinearity), input_size, hidden_size, bias, tensors) {}

}  // namespace tenon::nn

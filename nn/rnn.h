// SPDX-License-Identifier: Apache-2.0
// Recurrent layers and cells, with parameters named and laid out as PyTorch's: weight_ih_l0 [gates * hidden, input],
// weight_hh_l0 [gates * hidden, hidden], biases, weight_hr_l0 for projections, "_reverse" for the other direction; all
// uniform within 1 / sqrt(hidden_size). Input is [T, N, input_size], with batch_first [N, T, input_size], or [T, input_size];
// states are [layers * directions, N, hidden_size] or without N. A state left out is zeros.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

struct RNNOptions {
  int64_t num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;  ///< on the outputs of every layer but the last, in training
  bool bidirectional = false;
  int64_t proj_size = 0;              ///< LSTM: the hidden state is projected to this size
  std::string nonlinearity = "tanh";  ///< RNN: "tanh" or "relu"
};
enum class RNNMode { relu, tanh, lstm, gru };
using LSTMState = std::pair<Tensor, Tensor>;  ///< h and c

/// What the three layers share.
class TENON_API RNNBase : public ModuleBase {
 public:
  void members(Members& m) override;
  std::string describe() const override;
  /// By its name, "weight_ih_l0"; ValueError when there is none.
  Tensor& weight(std::string_view name);
  const RNNOptions& options() const { return options_; }

 protected:
  RNNBase(RNNMode mode, int64_t input_size, int64_t hidden_size, const RNNOptions& options,
          const TensorOptions& tensors);
  /// Output [T, N, directions * hidden], last states h and (LSTM) c, in the form the input has.
  std::tuple<Tensor, Tensor, Tensor> run(const Tensor& input, const Tensor& h0, const Tensor& c0);

 private:
  RNNMode mode_;
  int64_t input_size_, hidden_size_;
  RNNOptions options_;
  std::vector<NamedTensor> weights_;  // by layer and direction: w_ih, w_hh, b_ih, b_hh, w_hr as far as they exist
  std::size_t per_direction_;
};

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.
class TENON_API RNN : public ModuleOf<RNN, RNNBase> {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {}, const TensorOptions& tensors = {});
  std::tuple<Tensor, Tensor> forward(const Tensor& input, const Tensor& h0 = {});
};
/// Gates i, f, g, o: c' = f c + i g, h' = o tanh(c') (Hochreiter and Schmidhuber 1997).
class TENON_API LSTM : public ModuleOf<LSTM, RNNBase> {
 public:
  LSTM(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {}, const TensorOptions& tensors = {});
  std::tuple<Tensor, LSTMState> forward(const Tensor& input, const LSTMState& state = {});
};
/// Gates r, z, n: n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h (Cho et al. 2014).
class TENON_API GRU : public ModuleOf<GRU, RNNBase> {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {}, const TensorOptions& tensors = {});
  std::tuple<Tensor, Tensor> forward(const Tensor& input, const Tensor& h0 = {});
};

/// One step: input [N, input_size] or [input_size].
class TENON_API RNNCellBase : public ModuleBase {
 public:
  void members(Members& m) override;
  std::string describe() const override;
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  RNNCellBase(RNNMode mode, int64_t input_size, int64_t hidden_size, bool bias, const TensorOptions& tensors);
  LSTMState step(const Tensor& input, const Tensor& h, const Tensor& c);

 private:
  RNNMode mode_;
};
class TENON_API RNNCell : public ModuleOf<RNNCell, RNNCellBase> {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, bool bias = true, std::string_view nonlinearity = "tanh",
          const TensorOptions& tensors = {});
  Tensor forward(const Tensor& input, const Tensor& h = {}) { return step(input, h, {}).first; }
};
class TENON_API LSTMCell : public ModuleOf<LSTMCell, RNNCellBase> {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, bool bias = true, const TensorOptions& tensors = {})
      : ModuleOf(RNNMode::lstm, input_size, hidden_size, bias, tensors) {}
  LSTMState forward(const Tensor& input, const LSTMState& state = {}) { return step(input, state.first, state.second); }
};
class TENON_API GRUCell : public ModuleOf<GRUCell, RNNCellBase> {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, bool bias = true, const TensorOptions& tensors = {})
      : ModuleOf(RNNMode::gru, input_size, hidden_size, bias, tensors) {}
  Tensor forward(const Tensor& input, const Tensor& h = {}) { return step(input, h, {}).first; }
};

}  // namespace tenon::nn

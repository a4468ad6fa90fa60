// SPDX-License-Identifier: Apache-2.0
// The layers of a multi-layer perceptron. Inputs are [*, features].
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

/// y = x W^T + b, W [out_features, in_features]; initialised as PyTorch's: uniform within 1 / sqrt(in_features).
class TENON_API Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true, const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight)("bias", bias); }
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;

  Tensor weight, bias;
};

struct TENON_API ReLU : Module {
  Tensor forward(const Tensor& input) override;
  std::string describe() const override { return "ReLU()"; }
};
struct TENON_API Tanh : Module {
  Tensor forward(const Tensor& input) override;
  std::string describe() const override { return "Tanh()"; }
};
struct TENON_API Sigmoid : Module {
  Tensor forward(const Tensor& input) override;
  std::string describe() const override { return "Sigmoid()"; }
};
/// approximate: "none" or "tanh".
struct TENON_API GELU : Module {
  explicit GELU(std::string form = "none") : approximate(static_cast<std::string&&>(form)) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override { return "GELU(approximate=" + approximate + ")"; }
  std::string approximate;
};
/// Zeroes elements with probability p while training and scales the rest by 1 / (1 - p).
struct TENON_API Dropout : Module {
  explicit Dropout(double probability = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  double p;
};
/// [N, ...] to [N, product].
struct TENON_API Flatten : Module {
  Tensor forward(const Tensor& input) override { return input.flatten(1); }
  std::string describe() const override { return "Flatten()"; }
};
/// Normalises over the last dimensions, given by their sizes, then scales and shifts.
class TENON_API LayerNorm : public Module {
 public:
  explicit LayerNorm(IntArrayRef normalized_shape, double eps = 1e-5, const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight)("bias", bias); }
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;

  Tensor weight, bias;

 private:
  DimVector shape_;
  double eps_;
};
/// Rows of a table [num_embeddings, embedding_dim], standard normal at first.
class TENON_API Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight); }
  Tensor forward(const Tensor& indices) override;
  std::string describe() const override;

  Tensor weight;
};

}  // namespace tenon::nn

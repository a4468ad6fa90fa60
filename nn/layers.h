// SPDX-License-Identifier: Apache-2.0
// Activations, dropout and layer normalisation.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

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
  std::string describe() const override { return "GELU(approximate='" + approximate + "')"; }
  std::string approximate;
};
/// Zeroes elements with probability p while training and scales the rest by 1 / (1 - p).
struct TENON_API Dropout : Module {
  explicit Dropout(double probability = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  double p;
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

}  // namespace tenon::nn

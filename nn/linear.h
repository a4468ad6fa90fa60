// SPDX-License-Identifier: Apache-2.0
// Linear maps and changes of shape. Inputs are [*, features].
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

/// The input.
struct TENON_API Identity : Module {
  Tensor forward(const Tensor& input) override { return input; }
  std::string describe() const override { return "Identity()"; }
};
/// y = x W^T + b, W [out_features, in_features]; initialised as PyTorch's: uniform within 1 / sqrt(in_features).
class TENON_API Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true, const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight)("bias", bias); }
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  void reset_parameters();

  Tensor weight, bias;
};
/// y_o = x1^T W_o x2 + b_o, W [out_features, in1_features, in2_features].
class TENON_API Bilinear : public ModuleOf<Bilinear> {
 public:
  Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features, bool bias = true,
           const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight)("bias", bias); }
  Tensor forward(const Tensor& input1, const Tensor& input2);
  std::string describe() const override;

  Tensor weight, bias;
};
/// Dimensions start_dim to end_dim become one.
struct TENON_API Flatten : Module {
  explicit Flatten(int64_t start = 1, int64_t end = -1) : start_dim(start), end_dim(end) {}
  Tensor forward(const Tensor& input) override { return input.flatten(start_dim, end_dim); }
  std::string describe() const override;
  int64_t start_dim, end_dim;
};
/// Dimension `dim` becomes several, of the given sizes (-1: what is left).
struct TENON_API Unflatten : Module {
  Unflatten(int64_t which, IntArrayRef sizes) : dim(which), unflattened_size(sizes) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  int64_t dim;
  DimVector unflattened_size;
};

}  // namespace tenon::nn

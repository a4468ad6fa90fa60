// SPDX-License-Identifier: Apache-2.0
// Activations as modules; ReLU, GELU, Sigmoid and Tanh are in nn/layers.h. What they compute: ops/activation.h.
#pragma once

#include <tenon/nn/describe.h>
#include <tenon/nn/module.h>
#include <tenon/ops/activation.h>
#include <tenon/ops/softmax.h>

namespace tenon::nn {

/// An activation without numbers; `Function` computes it.
template <Tensor (*Function)(const Tensor&)>
struct PlainActivation : Module {
  Tensor forward(const Tensor& input) override { return Function(input); }
};
struct TENON_API SELU : PlainActivation<selu> {
  std::string describe() const override { return "SELU()"; }
};
struct TENON_API Hardsigmoid : PlainActivation<hardsigmoid> {
  std::string describe() const override { return "Hardsigmoid()"; }
};
struct TENON_API Hardswish : PlainActivation<hardswish> {
  std::string describe() const override { return "Hardswish()"; }
};
struct TENON_API LogSigmoid : PlainActivation<logsigmoid> {
  std::string describe() const override { return "LogSigmoid()"; }
};
struct TENON_API Mish : PlainActivation<mish> {
  std::string describe() const override { return "Mish()"; }
};
struct TENON_API ReLU6 : PlainActivation<relu6> {
  std::string describe() const override { return "ReLU6()"; }
};
struct TENON_API SiLU : PlainActivation<silu> {
  std::string describe() const override { return "SiLU()"; }
};
struct TENON_API Softsign : PlainActivation<softsign> {
  std::string describe() const override { return "Softsign()"; }
};
struct TENON_API Tanhshrink : PlainActivation<tanhshrink> {
  std::string describe() const override { return "Tanhshrink()"; }
};

struct TENON_API ELU : Module {
  explicit ELU(double a = 1) : alpha(a) {}
  Tensor forward(const Tensor& input) override { return elu(input, alpha); }
  std::string describe() const override { return "ELU(alpha=" + number_text(alpha) + ")"; }
  double alpha;
};
struct TENON_API CELU : Module {
  explicit CELU(double a = 1) : alpha(a) {}
  Tensor forward(const Tensor& input) override { return celu(input, alpha); }
  std::string describe() const override { return "CELU(alpha=" + number_text(alpha) + ")"; }
  double alpha;
};
struct TENON_API Hardshrink : Module {
  explicit Hardshrink(double l = 0.5) : lambd(l) {}
  Tensor forward(const Tensor& input) override { return hardshrink(input, lambd); }
  std::string describe() const override { return "Hardshrink(" + number_text(lambd) + ")"; }
  double lambd;
};
struct TENON_API Softshrink : Module {
  explicit Softshrink(double l = 0.5) : lambd(l) {}
  Tensor forward(const Tensor& input) override { return softshrink(input, lambd); }
  std::string describe() const override { return "Softshrink(" + number_text(lambd) + ")"; }
  double lambd;
};
struct TENON_API Hardtanh : Module {
  explicit Hardtanh(double low = -1, double high = 1) : min_val(low), max_val(high) {}
  Tensor forward(const Tensor& input) override { return hardtanh(input, min_val, max_val); }
  std::string describe() const override {
    return "Hardtanh(min_val=" + number_text(min_val) + ", max_val=" + number_text(max_val) + ")";
  }
  double min_val, max_val;
};
struct TENON_API LeakyReLU : Module {
  explicit LeakyReLU(double slope = 0.01) : negative_slope(slope) {}
  Tensor forward(const Tensor& input) override { return leaky_relu(input, negative_slope); }
  std::string describe() const override { return "LeakyReLU(negative_slope=" + number_text(negative_slope) + ")"; }
  double negative_slope;
};
struct TENON_API RReLU : Module {
  explicit RReLU(double low = 1. / 8, double high = 1. / 3) : lower(low), upper(high) {}
  Tensor forward(const Tensor& input) override { return rrelu(input, lower, upper, is_training()); }
  std::string describe() const override {
    return "RReLU(lower=" + number_text(lower) + ", upper=" + number_text(upper) + ")";
  }
  double lower, upper;
};
struct TENON_API Softplus : Module {
  explicit Softplus(double b = 1, double t = 20) : beta(b), threshold(t) {}
  Tensor forward(const Tensor& input) override { return softplus(input, beta, threshold); }
  std::string describe() const override {
    return "Softplus(beta=" + number_text(beta) + ", threshold=" + number_text(threshold) + ")";
  }
  double beta, threshold;
};
struct TENON_API Threshold : Module {
  Threshold(double t, double v) : threshold(t), value(v) {}
  Tensor forward(const Tensor& input) override { return tenon::threshold(input, threshold, value); }
  std::string describe() const override {
    return "Threshold(threshold=" + number_text(threshold) + ", value=" + number_text(value) + ")";
  }
  double threshold, value;
};
/// The slope below 0 is learned: one for all, or one for each channel.
struct TENON_API PReLU : Module {
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25, const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight); }
  Tensor forward(const Tensor& input) override { return prelu(input, weight); }
  std::string describe() const override { return "PReLU(num_parameters=" + std::to_string(weight.numel()) + ")"; }
  Tensor weight;
};

struct TENON_API GLU : Module {
  explicit GLU(int64_t d = -1) : dim(d) {}
  Tensor forward(const Tensor& input) override { return glu(input, dim); }
  std::string describe() const override { return "GLU(dim=" + std::to_string(dim) + ")"; }
  int64_t dim;
};
struct TENON_API Softmax : Module {
  explicit Softmax(int64_t d) : dim(d) {}
  Tensor forward(const Tensor& input) override { return softmax(input, dim); }
  std::string describe() const override { return "Softmax(dim=" + std::to_string(dim) + ")"; }
  int64_t dim;
};
struct TENON_API LogSoftmax : Module {
  explicit LogSoftmax(int64_t d) : dim(d) {}
  Tensor forward(const Tensor& input) override { return log_softmax(input, dim); }
  std::string describe() const override { return "LogSoftmax(dim=" + std::to_string(dim) + ")"; }
  int64_t dim;
};
struct TENON_API Softmin : Module {
  explicit Softmin(int64_t d) : dim(d) {}
  Tensor forward(const Tensor& input) override { return softmin(input, dim); }
  std::string describe() const override { return "Softmin(dim=" + std::to_string(dim) + ")"; }
  int64_t dim;
};

}  // namespace tenon::nn

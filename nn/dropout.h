// SPDX-License-Identifier: Apache-2.0
// Dropout of channels and the kinds that keep mean and variance, active while training; Dropout is in nn/layers.h.
#pragma once

#include <tenon/nn/describe.h>
#include <tenon/nn/module.h>
#include <tenon/ops/dropout.h>

namespace tenon::nn {

/// `Function` with probability p, while training.
template <Tensor (*Function)(const Tensor&, double, bool)>
struct DropoutOf : Module {
  DropoutOf(const char* name, double probability) : p(probability), name_(name) {
    TENON_CHECK(p >= 0 && p <= 1, ValueError, name, ": p: expected a value in [0, 1], got ", p);
  }
  Tensor forward(const Tensor& input) override { return Function(input, p, is_training()); }
  std::string describe() const override { return std::string(name_) + "(p=" + number_text(p) + ", inplace=False)"; }
  double p;

 private:
  const char* name_;
};
struct TENON_API Dropout1d : DropoutOf<dropout1d> {
  explicit Dropout1d(double probability = 0.5) : DropoutOf("Dropout1d", probability) {}
};
struct TENON_API Dropout2d : DropoutOf<dropout2d> {
  explicit Dropout2d(double probability = 0.5) : DropoutOf("Dropout2d", probability) {}
};
struct TENON_API Dropout3d : DropoutOf<dropout3d> {
  explicit Dropout3d(double probability = 0.5) : DropoutOf("Dropout3d", probability) {}
};
struct TENON_API AlphaDropout : DropoutOf<alpha_dropout> {
  explicit AlphaDropout(double probability = 0.5) : DropoutOf("AlphaDropout", probability) {}
};
struct TENON_API FeatureAlphaDropout : DropoutOf<feature_alpha_dropout> {
  explicit FeatureAlphaDropout(double probability = 0.5) : DropoutOf("FeatureAlphaDropout", probability) {}
};

}  // namespace tenon::nn

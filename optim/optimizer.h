// SPDX-License-Identifier: Apache-2.0
// Optimizers change parameters from their gradients. Steps are not recorded. Parameters without a gradient are left
// alone. State lives beside each parameter, on its device.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon::optim {

class TENON_API Optimizer {
 public:
  explicit Optimizer(std::vector<Tensor> parameters, double learning_rate);
  virtual ~Optimizer();
  /// One update of every parameter that has a gradient.
  void step();
  /// Drops the gradients (set_to_none) or fills them with zeros.
  void zero_grad(bool set_to_none = true);
  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double lr);
  const std::vector<Tensor>& parameters() const { return parameters_; }

 protected:
  /// Called once per step before the parameters.
  virtual void begin_step() {}
  /// Updates parameter `i` in place from `gradient`.
  virtual void update(std::size_t i, Tensor& parameter, const Tensor& gradient) = 0;

 private:
  std::vector<Tensor> parameters_;
  double learning_rate_;
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
/// v = momentum v + (1 - dampening) g;  p -= lr v  (Sutskever et al. 2013 with nesterov).
class TENON_API SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SGDOptions& options = {});

 private:
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient) override;
  SGDOptions options_;
  std::vector<Tensor> velocity_;
};

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
};
/// Adam with decoupled weight decay (Loshchilov and Hutter 2019), bias-corrected.
class TENON_API AdamW : public Optimizer {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});

 private:
  void begin_step() override { ++step_; }
  void update(std::size_t i, Tensor& parameter, const Tensor& gradient) override;
  AdamWOptions options_;
  int64_t step_ = 0;
  std::vector<Tensor> mean_, square_;
};

}  // namespace tenon::optim

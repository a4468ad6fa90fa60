// SPDX-License-Identifier: Apache-2.0
// LBFGS: quasi-Newton steps from the last gradients (Nocedal and Wright 2006, algorithms 7.4, 3.5 and 3.6). For problems
// whose whole loss is evaluated each time: curve fitting, style transfer, small physics models.
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;           ///< updates in one step()
  int64_t max_eval = 0;            ///< calls of the closure in one step(); 0: 1.25 max_iter
  double tolerance_grad = 1e-7;    ///< done when no element of the gradient is larger
  double tolerance_change = 1e-9;  ///< done when neither loss nor parameters change more
  int64_t history_size = 100;
  bool strong_wolfe = false;  ///< search along each direction for a point with the strong Wolfe conditions; else lr
};

/// All parameters are one vector: one dtype and device.
class TENON_API LBFGS : public Optimizer {
 public:
  explicit LBFGS(std::vector<Tensor> parameters, const LBFGSOptions& options = {});
  /// ValueError: it must be able to compute the loss again.
  void step() override;
  /// Up to max_iter updates; returns the loss before them. The closure is as in Optimizer::step.
  Tensor step(Function<Tensor()> closure) override;
  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 private:
  struct Point;   // loss and gradient at a distance along the direction
  struct Search;  // a line search
  Tensor gradient() const;
  void move(double distance);
  void next_direction(const Tensor& gradient);

  LBFGSOptions options_;
  Tensor direction_, previous_gradient_;
  std::vector<Tensor> changes_of_gradient_, changes_of_position_;
  std::vector<double> inverse_products_;
  double scale_ = 1, distance_ = 0, previous_loss_ = 0;
  int64_t iterations_ = 0, evaluations_ = 0;
};

}  // namespace tenon::optim

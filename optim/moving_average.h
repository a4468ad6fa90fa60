// SPDX-License-Identifier: Apache-2.0
// Averages of parameters over the steps of training, which often generalise better than the last ones.
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

/// average = decay average + (1 - decay) parameter after each step (Polyak and Juditsky 1992). With `warmup` the decay of
/// update t (from 0) is at most (1 + t) / (10 + t), so that the first steps count less. Averages of 16-bit parameters are float32.
class TENON_API ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(std::vector<Tensor> parameters, double decay = 0.999, bool warmup = false);
  /// After the optimizer's step.
  void update();
  int64_t update_count() const { return updates_; }
  const std::vector<Tensor>& averages() const { return averages_; }
  /// Writes the averages into the parameters.
  void copy_to() const;
  /// Exchanges parameters and averages: before and after an evaluation.
  void swap();
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  std::vector<Tensor> parameters_, averages_;
  double decay_;
  bool warmup_;
  int64_t updates_ = 0;
};

}  // namespace tenon::optim

// SPDX-License-Identifier: Apache-2.0
// Lowers learning rates when a measure has stopped improving.
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

struct ReduceLROnPlateauOptions {
  bool maximize = false;          ///< the measure should grow, as accuracy does; else it should fall
  double factor = 0.1;            ///< in (0, 1): what learning rates are multiplied by
  int64_t patience = 10;          ///< steps without improvement that are let pass
  double threshold = 1e-4;        ///< what counts as an improvement
  bool relative = true;           ///< threshold is a share of the best measure, else an amount
  int64_t cooldown = 0;           ///< steps after a reduction in which nothing is counted
  double min_lr = 0, eps = 1e-8;  ///< changes up to eps are left out
};
/// Refers to the optimizer, which must outlive it.
class TENON_API ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  /// The measure of one epoch; NaN counts as no improvement.
  void step(double measure);
  double best() const { return best_; }
  int64_t bad_steps() const { return bad_; }
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  int64_t bad_ = 0, cooling_ = 0;
};

}  // namespace tenon::optim

// SPDX-License-Identifier: Apache-2.0
// Adagrad (Duchi et al. 2011).
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

/// p -= lr / (1 + (step - 1) lr_decay) g / (sqrt(s) + eps), s the sum of g squared, at first initial_accumulator_value.
struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false, master_weights = true;
};
using Adagrad = OptimizerOf<AdagradOptions>;

}  // namespace tenon::optim

// SPDX-License-Identifier: Apache-2.0
// RMSprop (Hinton 2012).
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

/// p -= lr g / (sqrt(v) + eps), v an average of g squared; centered: of its variance. With momentum the quotient is summed.
struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false, master_weights = true;
};
using RMSprop = OptimizerOf<RMSpropOptions>;

}  // namespace tenon::optim

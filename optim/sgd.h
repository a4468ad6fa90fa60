// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum.
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

/// v = momentum v + (1 - dampening) g (at first v = g);  p -= lr v. Nesterov: p -= lr (g + momentum v) (Sutskever et al. 2013).
struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false, master_weights = true;
};
using SGD = OptimizerOf<SGDOptions>;

}  // namespace tenon::optim

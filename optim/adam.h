// SPDX-License-Identifier: Apache-2.0
// The Adam family: steps scaled by averages of gradients and of their squares.
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

/// p -= lr m / (sqrt(v) + eps) with bias-corrected averages m of the gradient and v of its square (Kingma and Ba 2015).
/// amsgrad: the largest v so far (Reddi et al. 2018). capturable: learning rate and step lie on the device, so that a
/// captured graph goes on counting; all parameters of a group count together then.
struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false, capturable = false, master_weights = true;
};
using Adam = OptimizerOf<AdamOptions>;

/// Adam with decoupled weight decay: p *= 1 - lr weight_decay first (Loshchilov and Hutter 2019).
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false, maximize = false, capturable = false, master_weights = true;
};
using AdamW = OptimizerOf<AdamWOptions>;

/// Adam with Nesterov's momentum (Dozat 2016).
struct NAdamOptions {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  bool decoupled_weight_decay = false, maximize = false, master_weights = true;
};
using NAdam = OptimizerOf<NAdamOptions>;

}  // namespace tenon::optim

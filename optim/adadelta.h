// SPDX-License-Identifier: Apache-2.0
// Adadelta (Zeiler 2012).
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

/// p -= lr u, u = sqrt(d + eps) / sqrt(v + eps) g with averages v of g squared and d of u squared.
struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false, master_weights = true;
};
using Adadelta = OptimizerOf<AdadeltaOptions>;

}  // namespace tenon::optim

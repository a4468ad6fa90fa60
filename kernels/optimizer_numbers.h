// SPDX-License-Identifier: Apache-2.0
// What the numbers of an optimizer's step (ops/optimizer_step.h) come to once learning rate and step are known: the
// factors its loop uses. On the host, or on the device when a graph is replayed and both lie there.
#pragma once

#include <tenon/core/api.h>
#include <tenon/ops/optimizer_step.h>

#include <cmath>

namespace tenon {

struct OptimizerNumbers {
  double lr, step, a, b, c, d, e, f;
};

/// Factors of one step; the loop in kernels/optimizer_rules.h says what each multiplies.
struct OptimizerFactors {
  double decay = 0;   ///< of the parameter, added to the gradient
  double shrink = 1;  ///< of the parameter, before the update
  double k[7] = {};
};

TENON_HOST_DEVICE inline OptimizerFactors optimizer_factors(OptimizerRule rule, int64_t flags,
                                                            const OptimizerNumbers& n) {
  OptimizerFactors r;
  if (flags & kDecoupledDecay)
    r.shrink = 1 - n.lr * n.c;
  else
    r.decay = n.c;
  double* const k = r.k;
  switch (rule) {
    case OptimizerRule::sgd:
      k[0] = n.a, k[1] = n.step == 1 ? 1 : 1 - n.b, k[2] = n.lr;
      break;
    case OptimizerRule::adam:
      k[0] = 1 - n.a, k[1] = n.b, k[2] = 1 - n.b;
      k[3] = 1 / ::sqrt(1 - ::pow(n.b, n.step)), k[4] = n.d, k[5] = n.lr / (1 - ::pow(n.a, n.step));
      break;
    case OptimizerRule::nadam:
      k[0] = 1 - n.a, k[1] = n.b, k[2] = 1 - n.b;
      k[3] = 1 / ::sqrt(1 - ::pow(n.b, n.step)), k[4] = n.d, k[5] = n.e, k[6] = n.f;
      break;
    case OptimizerRule::rmsprop:
      k[0] = n.a, k[1] = 1 - n.a, k[2] = n.b, k[3] = n.d, k[4] = n.lr;
      break;
    case OptimizerRule::adagrad:
      k[0] = n.lr / (1 + (n.step - 1) * n.a), k[1] = n.d;
      break;
    case OptimizerRule::adadelta:
      k[0] = n.a, k[1] = 1 - n.a, k[2] = n.d, k[3] = n.lr;
      break;
  }
  return r;
}

}  // namespace tenon

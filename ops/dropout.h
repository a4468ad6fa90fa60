// SPDX-License-Identifier: Apache-2.0
// Dropout of whole channels, and dropout that keeps mean and variance; plain dropout is in ops/random.h. In training
// only; else the input itself. ValueError unless 0 <= p <= 1.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_DROPOUT(name, training)                                                                           \
  TENON_OP(name, #name "(Tensor input, float p=0.5, bool training=" training ", bool inplace=False) -> Tensor", \
           composite, kPlain, Tensor(const Tensor&, double, bool, bool), void())                                \
  inline Tensor name(const Tensor& x, double p = 0.5, bool train = true) { return op::name(x, p, train, false); }
/// Zeroes each channel of [n, channels, ...] with probability p and scales the others by 1 / (1 - p).
TENON_DROPOUT(feature_dropout, "True")
/// feature_dropout of [channels, length], or a batch of them.
TENON_DROPOUT(dropout1d, "True")
/// feature_dropout of [n, channels, height, width]; as PyTorch's it takes dimension 1 of three, too.
TENON_DROPOUT(dropout2d, "True")
/// feature_dropout of [channels, depth, height, width], or a batch of them.
TENON_DROPOUT(dropout3d, "True")
/// Sets elements to selu's limit -1.758... with probability p, then scales and shifts so that mean 0 and variance 1 stay
/// (Klambauer and others 2017).
TENON_DROPOUT(alpha_dropout, "False")
/// The same for whole channels of [n, channels, ...].
TENON_DROPOUT(feature_alpha_dropout, "False")
#undef TENON_DROPOUT

}  // namespace tenon

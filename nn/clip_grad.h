// SPDX-License-Identifier: Apache-2.0
// Limits on gradients, between backward and the optimizer's step. Parameters without a gradient are left out. Neither
// waits for the device.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon::nn {

/// Scales the gradients of `parameters` in place so that the `norm_type`-norm of all of them together (2; 1; infinity;
/// any p > 0) is at most `max_norm`: by max_norm / (norm + 1e-6), if that is below 1. Returns the norm before: 0-dim, on the
/// first gradient's device, float32 for half types, else real of the gradients' precision; zero without gradients.
/// ValueError: a negative or NaN max_norm, norm_type <= 0, and with `error_if_nonfinite` (which waits) a norm that is
/// not finite.
TENON_API Tensor clip_grad_norm_(TensorList parameters, double max_norm, double norm_type = 2,
                                 bool error_if_nonfinite = false);
/// Clamps every element of the gradients to [-limit, limit]. ValueError when `limit` is negative or NaN.
TENON_API void clip_grad_value_(TensorList parameters, double limit);

}  // namespace tenon::nn

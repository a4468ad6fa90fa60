// SPDX-License-Identifier: Apache-2.0
// Layer normalisation over the last dimensions, forward and backward.
#pragma once

#include <tenon/dispatch/register.h>

namespace tenon {

// Kernels see contiguous matrices: x, out, grad_output, grad_input [rows, columns]; mean, rstd [rows]; weight, bias and
// their gradients [columns] or undefined. rows and columns are at least 1. The dtype of mean and rstd is that of x,
// except float32 beside 16-bit x with float32 weights; weight and bias have that dtype too.
/// layer_norm with the mean and 1 / sqrt(variance + eps) of each row.
TENON_OP(native_layer_norm,
         "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor "
         "output, "
         "Tensor mean, Tensor rstd)",
         kernel, kNoInplace,
         std::tuple<Tensor, Tensor, Tensor>(const Tensor&, IntArrayRef, const Tensor&, const Tensor&, double),
         void(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& weight,
              const Tensor& bias, double eps))
// output_mask: bit 0 grad_input, bit 1 grad_weight, bit 2 grad_bias; results not asked for are undefined.
/// Its gradients.
TENON_OP(native_layer_norm_backward,
         "native_layer_norm_backward(Tensor grad_output, Tensor input, int[] normalized_shape, Tensor mean, Tensor "
         "rstd, Tensor? "
         "weight, Tensor? bias, int output_mask=7) -> (Tensor, Tensor, Tensor)",
         kernel, kNoInplace,
         std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, IntArrayRef, const Tensor&, const Tensor&,
                                            const Tensor&, const Tensor&, int64_t),
         void(const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias, const Tensor& grad_output,
              const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight))
TENON_OP(layer_norm,
         "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> "
         "Tensor",
         composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, const Tensor&, const Tensor&, double), void())

/// (input - mean) / sqrt(variance + eps) over the last dimensions, which must equal `normalized_shape`, then times
/// `weight` plus `bias` (both of sizes normalized_shape). Statistics are float32 for 16-bit input.
inline Tensor layer_norm(const Tensor& input, IntArrayRef normalized_shape, const Tensor& weight = {},
                         const Tensor& bias = {}, double eps = 1e-5) {
  return op::layer_norm(input, normalized_shape, weight, bias, eps);
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm along one dimension, with their backward operators.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// out and self have the same sizes and dtype, any strides, at least one dimension and one element; dim is not negative.
using SoftmaxKernel = void(const Tensor& out, const Tensor& self, int64_t dim);
using SoftmaxBackwardKernel = void(const Tensor& grad_input, const Tensor& grad_output, const Tensor& output,
                                   int64_t dim);

TENON_OP(softmax, "softmax.int(Tensor self, int dim, dtype? dtype=None) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, int64_t, std::optional<DType>), SoftmaxKernel)
TENON_ALIAS("special_softmax", "softmax")
TENON_OP(log_softmax, "log_softmax.int(Tensor self, int dim, dtype? dtype=None) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, int64_t, std::optional<DType>), SoftmaxKernel)
TENON_ALIAS("special_log_softmax", "log_softmax")
/// The gradient of softmax (log_softmax) from its result.
TENON_OP(softmax_backward, "softmax_backward(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
         kernel, kNoInplace, Tensor(const Tensor&, const Tensor&, int64_t, DType), SoftmaxBackwardKernel)
TENON_ALIAS("_softmax_backward_data", "softmax_backward")
TENON_OP(log_softmax_backward,
         "log_softmax_backward(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, const Tensor&, int64_t, DType), SoftmaxBackwardKernel)
TENON_ALIAS("_log_softmax_backward_data", "log_softmax_backward")

/// exp(self) divided by its sum along `dim`, computed from the maximum so that nothing overflows. Floating dtypes;
/// others need `dtype`, to which the input is converted first. 16-bit floats are computed in float32. A row of
/// negative infinities gives NaN.
inline Tensor softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype = {}) {
  return op::softmax(self, dim, dtype);
}
/// The logarithm of softmax, without the loss of taking it afterwards.
inline Tensor log_softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype = {}) {
  return op::log_softmax(self, dim, dtype);
}

}  // namespace tenon

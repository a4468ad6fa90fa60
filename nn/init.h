// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters, in place, without recording. `fan_in` of a weight [out, in, ...] is in times the
// receptive field. `nonlinearity` and `mode` are words of PyTorch's: "relu", "fan_in". Random numbers come from the default
// generator of the tensor's device. ShapeError, ValueError.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon::nn::init {

TENON_API void uniform_(const Tensor& t, double from = 0, double to = 1);
TENON_API void normal_(const Tensor& t, double mean = 0, double std = 1);
/// Normal, redrawn until it lies in [a, b].
TENON_API void trunc_normal_(const Tensor& t, double mean = 0, double std = 1, double a = -2, double b = 2);
TENON_API void constant_(const Tensor& t, const Scalar& value);
TENON_API void ones_(const Tensor& t);
TENON_API void zeros_(const Tensor& t);
/// The identity of a matrix.
TENON_API void eye_(const Tensor& matrix);
/// The identity of a convolution's weight [out, in, ...], for each of `groups`.
TENON_API void dirac_(const Tensor& weight, int64_t groups = 1);
/// Uniform in [-bound, bound], bound = gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
TENON_API void xavier_uniform_(const Tensor& weight, double gain = 1);
/// Normal with deviation gain * sqrt(2 / (fan_in + fan_out)).
TENON_API void xavier_normal_(const Tensor& weight, double gain = 1);
/// Uniform in [-bound, bound], bound = gain * sqrt(3 / fan) (He et al. 2015). a = sqrt(5) with the rest as it is here is
/// PyTorch's default for Linear: bound = 1 / sqrt(fan_in).
TENON_API void kaiming_uniform_(const Tensor& weight, double a = 0, std::string_view mode = "fan_in",
                                std::string_view nonlinearity = "leaky_relu");
/// Normal with deviation gain / sqrt(fan).
TENON_API void kaiming_normal_(const Tensor& weight, double a = 0, std::string_view mode = "fan_in",
                               std::string_view nonlinearity = "leaky_relu");
/// The rows, or columns where these are fewer, of the flattened weight [out, rest] are orthogonal and `gain` long.
TENON_API void orthogonal_(const Tensor& weight, double gain = 1);
/// Normal, with `sparsity` of every column's elements zero.
TENON_API void sparse_(const Tensor& matrix, double sparsity, double std = 0.01);

/// By how much a nonlinearity shrinks deviations, inverted; `param` is the slope of "leaky_relu".
TENON_API double calculate_gain(std::string_view nonlinearity, double param = 0.01);
/// Inputs of a weight's outputs; ShapeError for fewer than two dimensions.
TENON_API int64_t fan_in(const Tensor& weight);
TENON_API int64_t fan_out(const Tensor& weight);

}  // namespace tenon::nn::init

// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters, in place, without recording. `fan_in` of a weight [out, in, ...] is in times the
// receptive field.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon::nn::init {

/// Uniform in [-bound, bound], bound = gain * sqrt(3 / fan_in), gain = sqrt(2 / (1 + a^2)) (He et al. 2015). a = sqrt(5) is
/// PyTorch's default for Linear: bound = 1 / sqrt(fan_in).
TENON_API void kaiming_uniform_(const Tensor& weight, double a = 0);
/// Normal with deviation gain / sqrt(fan_in), gain = sqrt(2).
TENON_API void kaiming_normal_(const Tensor& weight);
/// Uniform in [-bound, bound], bound = gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
TENON_API void xavier_uniform_(const Tensor& weight, double gain = 1);
TENON_API void uniform_(const Tensor& t, double from, double to);
TENON_API void normal_(const Tensor& t, double mean = 0, double std = 1);
TENON_API void constant_(const Tensor& t, const Scalar& value);
/// Inputs of a weight's outputs; ShapeError for fewer than two dimensions.
TENON_API int64_t fan_in(const Tensor& weight);
TENON_API int64_t fan_out(const Tensor& weight);

}  // namespace tenon::nn::init

// SPDX-License-Identifier: Apache-2.0
// ReducePlan: what a reduction kernel gets. Input dimensions are split into kept and reduced ones, each group
// merged and ordered (innermost first); the output has the kept shape. Both devices read the same plan.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon {

struct ReducePlan {
  static constexpr int kMaxOutputs = 2;

  int kept_ndim;     ///< 0: one result
  int reduced_ndim;  ///< 0: one element per result
  int outputs;
  int64_t kept_numel;     ///< results
  int64_t reduced_numel;  ///< elements per result; 0 allowed for operators with an identity
  int64_t kept_shape[kMaxDims], reduced_shape[kMaxDims];
  int64_t kept_strides[kMaxDims], reduced_strides[kMaxDims];  ///< of the input, bytes
  int64_t output_strides[kMaxOutputs][kMaxDims];              ///< bytes, over the kept dimensions
  const char* input;
  char* output[kMaxOutputs];
  DType input_dtype;
  DType output_dtype[kMaxOutputs];

  ReducePlan() {}
};

/// `outputs` have the input's rank with size 1 in reduced dimensions (keepdim form). `reduced` bit d: dimension d
/// is reduced. `keep_order`: reduced dimensions keep their logical order (last one innermost), which operators
/// returning positions (argmax) need.
TENON_API void make_plan(ReducePlan& plan, const Tensor& input, std::span<const Tensor> outputs, uint32_t reduced,
                         bool keep_order);

}  // namespace tenon

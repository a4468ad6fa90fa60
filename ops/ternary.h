// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of three tensors, computed in one pass in the promoted dtype.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// self + value * tensor1 * tensor2. value must be integral for integral results.
TENON_OP(addcmul, "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&), void(const LoopPlan&, const Scalar& value))
inline Tensor addcmul(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2, const Scalar& value = 1) {
  return op::addcmul(self, tensor1, tensor2, value);
}
/// self + value * tensor1 / tensor2. Integers and bool are errors.
TENON_OP(addcdiv, "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&), void(const LoopPlan&, const Scalar& value))
inline Tensor addcdiv(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2, const Scalar& value = 1) {
  return op::addcdiv(self, tensor1, tensor2, value);
}
/// self + weight * (end - self), exact at weights 0 and 1. Floating and complex dtypes, self and end alike.
TENON_OP(lerp, "lerp(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Tensor&, const Operand&), void(const LoopPlan&))
inline Tensor lerp(const Tensor& self, const Tensor& end, const Operand& weight) { return op::lerp(self, end, weight); }

}  // namespace tenon

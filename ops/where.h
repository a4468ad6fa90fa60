// SPDX-License-Identifier: Apache-2.0
// Choosing between values: where, masked_fill, clamp and its halves.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// self where condition holds, else other; all three broadcast. condition: bool (uint8 is taken as bool). The kernel is
/// keyed on the element width: it only moves bytes.
TENON_OP(where, "where.self(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, const Operand&, const Operand&), void(const LoopPlan&))
inline Tensor where(const Tensor& condition, const Operand& self, const Operand& other) {
  return op::where(condition, self, other);
}
/// self with `value` where mask holds; keeps self's dtype. value: a number or a 0-dim tensor. mask: bool.
TENON_OP(masked_fill, "masked_fill(Tensor self, Tensor mask, Tensor|Scalar value) -> Tensor", composite, kPlain,
         Tensor(const Tensor&, const Tensor&, const Operand&), void())
inline Tensor masked_fill(const Tensor& self, const Tensor& mask, const Operand& value) {
  return op::masked_fill(self, mask, value);
}

/// max(self, min), NaN if either is NaN.
TENON_OP(clamp_min, "clamp_min(Tensor self, Tensor|Scalar min) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Operand&), void(const LoopPlan&))
inline Tensor clamp_min(const Tensor& self, const Operand& min) { return op::clamp_min(self, min); }
/// min(self, max), NaN if either is NaN.
TENON_OP(clamp_max, "clamp_max(Tensor self, Tensor|Scalar max) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Operand&), void(const LoopPlan&))
inline Tensor clamp_max(const Tensor& self, const Operand& max) { return op::clamp_max(self, max); }
/// min(max(self, min), max); at least one bound. NaN in self or a bound gives NaN; min > max gives max.
TENON_OP(clamp, "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const std::optional<Scalar>&, const std::optional<Scalar>&), void(const LoopPlan&))
TENON_ALIAS("clip", "clamp")
inline Tensor clamp(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max = {}) {
  return op::clamp(self, min, max);
}
/// clamp with tensors as bounds, which broadcast. Uses the kernels of clamp.
TENON_OP(clamp_tensor, "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Tensor&, const Tensor&), void(const LoopPlan&))
inline Tensor clamp(const Tensor& self, const Tensor& min, const Tensor& max) {
  return op::clamp_tensor(self, min, max);
}

}  // namespace tenon

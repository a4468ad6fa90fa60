// SPDX-License-Identifier: Apache-2.0
// Signs: read, given and taken. sgn, for complex numbers too, is in ops/unary.h.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// -1, 0 or 1 in self's dtype; 0 for NaN. Complex is an error: use sgn.
TENON_OP(sign, "sign(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&))
inline Tensor sign(const Tensor& self) { return op::sign(self); }
/// True where x is negative, -0 and negative NaN too. Complex is an error.
TENON_OP(signbit, "signbit(Tensor self) -> Tensor", kernel, kNonDifferentiable, Tensor(const Tensor&),
         void(const LoopPlan&))
inline Tensor signbit(const Tensor& self) { return op::signbit(self); }
/// self as it is. bool is an error.
TENON_OP(positive, "positive(Tensor self) -> Tensor", composite, kNoInplace, Tensor(const Tensor&), void())
inline Tensor positive(const Tensor& self) { return op::positive(self); }
/// |self| with the sign of other; integers give the default float. Complex is an error.
TENON_OP(copysign, "copysign(Tensor self, Tensor|Scalar other) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Operand&), void(const LoopPlan&))
inline Tensor copysign(const Tensor& self, const Operand& other) { return op::copysign(self, other); }
/// 0 below 0, 1 above, `values` at 0, in the common dtype of both (which must be one). Complex is an error.
TENON_OP(heaviside, "heaviside(Tensor self, Tensor values) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))
inline Tensor heaviside(const Tensor& self, const Tensor& values) { return op::heaviside(self, values); }

}  // namespace tenon

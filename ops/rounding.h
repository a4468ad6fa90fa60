// SPDX-License-Identifier: Apache-2.0
// Whole numbers near x, and division with a remainder. Results keep the input's dtype; integers are their own rounding.
// Complex and bool are errors.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_ROUNDING_OP(name)                                                                                 \
  TENON_OP(name, #name "(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&)) \
  inline Tensor name(const Tensor& self) { return op::name(self); }
/// The smallest whole number that is not less.
TENON_ROUNDING_OP(ceil)
/// The largest whole number that is not greater.
TENON_ROUNDING_OP(floor)
/// Toward zero.
TENON_ROUNDING_OP(trunc)
TENON_ALIAS("fix", "trunc")
/// x - trunc(x). Floating dtypes only.
TENON_ROUNDING_OP(frac)
#undef TENON_ROUNDING_OP
/// To the nearest whole number, ties to even; `decimals`: to that many digits after (negative: before) the point.
TENON_OP(round, "round(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&))
TENON_ALIAS("special_round", "round")
TENON_OP(round_decimals, "round.decimals(Tensor self, *, int decimals) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, int64_t), void(const LoopPlan&, const int64_t& decimals))
inline Tensor round(const Tensor& self, int64_t decimals = 0) {
  return decimals == 0 ? op::round(self) : op::round_decimals(self, decimals);
}

/// self - trunc(self / other) * other, exactly: the sign of self. Integers by zero: ValueError on the CPU, 0 on CUDA.
TENON_OP(fmod, "fmod(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&), void(const LoopPlan&))
inline Tensor fmod(const Operand& self, const Operand& other) { return op::fmod(self, other); }
/// self - floor(self / other) * other: the sign of other. Integers by zero as fmod.
TENON_OP(remainder, "remainder(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&), void(const LoopPlan&))
inline Tensor remainder(const Operand& self, const Operand& other) { return op::remainder(self, other); }
/// floor(self / other), in the promoted dtype.
TENON_OP(floor_divide, "floor_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", composite, kPlain,
         Tensor(const Operand&, const Operand&), void())
inline Tensor floor_divide(const Operand& self, const Operand& other) { return op::floor_divide(self, other); }

}  // namespace tenon

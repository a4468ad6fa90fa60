// SPDX-License-Identifier: Apache-2.0
// Bits of integers (and, or, xor, not also of bool), shifts, and divisors. Floating and complex dtypes are errors. A
// number on either side goes to the kernel by value.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_BITWISE_OP(name)                                                                            \
  TENON_OP(name, #name "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", kernel, kNonDifferentiable, \
           Tensor(const Operand&, const Operand&), void(const LoopPlan&))                                 \
  inline Tensor name(const Operand& self, const Operand& other) { return op::name(self, other); }
TENON_BITWISE_OP(bitwise_and)  ///< Bits set in both; of bool: both.
TENON_BITWISE_OP(bitwise_or)   ///< Bits set in either.
TENON_BITWISE_OP(bitwise_xor)  ///< Bits set in one of them.
/// self * 2^other, wrapping; 0 when other is negative or at least the width.
TENON_BITWISE_OP(bitwise_left_shift)
/// floor(self / 2^other); -1 or 0 when other is negative or at least the width.
TENON_BITWISE_OP(bitwise_right_shift)
#undef TENON_BITWISE_OP
/// The complement; of bool, the negation.
TENON_OP(bitwise_not, "bitwise_not(Tensor self) -> Tensor", kernel, kNonDifferentiable, Tensor(const Tensor&),
         void(const LoopPlan&))
inline Tensor bitwise_not(const Tensor& self) { return op::bitwise_not(self); }

/// The greatest common divisor, not negative; gcd(0, 0) is 0.
TENON_OP(gcd, "gcd(Tensor self, Tensor other) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))
inline Tensor gcd(const Tensor& self, const Tensor& other) { return op::gcd(self, other); }
/// The least common multiple, not negative (it wraps); 0 with a 0.
TENON_OP(lcm, "lcm(Tensor self, Tensor other) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))
inline Tensor lcm(const Tensor& self, const Tensor& other) { return op::lcm(self, other); }

inline Tensor operator&(const Tensor& a, const Operand& b) { return op::bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Operand& b) { return op::bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Operand& b) { return op::bitwise_xor(a, b); }
inline Tensor operator<<(const Tensor& a, const Operand& b) { return op::bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, const Operand& b) { return op::bitwise_right_shift(a, b); }
inline Tensor operator~(const Tensor& a) { return op::bitwise_not(a); }

}  // namespace tenon

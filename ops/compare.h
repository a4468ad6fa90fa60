// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic: bool results of two operands, computed in the promoted dtype (mathematically: a number that
// the tensor's integer dtype cannot hold is compared as it is). In place they write 0 and 1 in self's dtype.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_COMPARE_OP(name, alias)                                                              \
  TENON_OP(name, #name "(Tensor self, Tensor|Scalar other) -> Tensor", kernel, kNonDifferentiable, \
           Tensor(const Tensor&, const Operand&), void(const LoopPlan&))                           \
  TENON_ALIAS(alias, #name)                                                                        \
  inline Tensor name(const Tensor& self, const Operand& other) { return op::name(self, other); }
TENON_COMPARE_OP(eq, "equal_to")   ///< self == other.
TENON_COMPARE_OP(ne, "not_equal")  ///< self != other.
// Ordering is an error for complex numbers.
TENON_COMPARE_OP(lt, "less")           ///< self < other.
TENON_COMPARE_OP(le, "less_equal")     ///< self <= other.
TENON_COMPARE_OP(gt, "greater")        ///< self > other.
TENON_COMPARE_OP(ge, "greater_equal")  ///< self >= other.
#undef TENON_COMPARE_OP

#define TENON_LOGICAL_OP(name)                                                              \
  TENON_OP(name, #name "(Tensor self, Tensor other) -> Tensor", kernel, kNonDifferentiable, \
           Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))                     \
  inline Tensor name(const Tensor& self, const Tensor& other) { return op::name(self, other); }
// Any nonzero value counts as true, NaN too.
TENON_LOGICAL_OP(logical_and)  ///< Whether both are nonzero.
TENON_LOGICAL_OP(logical_or)   ///< Whether either is nonzero.
TENON_LOGICAL_OP(logical_xor)  ///< Whether one of them is nonzero.
#undef TENON_LOGICAL_OP

inline Tensor operator==(const Tensor& a, const Operand& b) { return op::eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Operand& b) { return op::ne(a, b); }
inline Tensor operator<(const Tensor& a, const Operand& b) { return op::lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Operand& b) { return op::le(a, b); }
inline Tensor operator>(const Tensor& a, const Operand& b) { return op::gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Operand& b) { return op::ge(a, b); }

// clang-format off
/// Whether sizes and all values agree (NaN agrees with nothing). Waits for the device.
TENON_OP(equal, "equal(Tensor self, Tensor other) -> bool", dynamic, kNoInplace | kNonDifferentiable | kNotCapturable, bool(const Tensor&, const Tensor&), void())
inline bool equal(const Tensor& self, const Tensor& other) { return op::equal(self, other); }
#define TENON_CLOSE(name, kind, flags, Result, result) TENON_OP(name, #name "(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> " result, kind, flags, Result(const Tensor&, const Tensor&, double, double, bool), void()) inline Result name(const Tensor& self, const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) { return op::name(self, other, rtol, atol, equal_nan); }
/// Whether |self - other| <= atol + rtol |other|, of two tensors of one dtype that broadcast; infinities agree with
/// themselves, NaN with NaN only if `equal_nan`. Computed in double precision.
TENON_CLOSE(isclose, composite, kNoInplace | kNonDifferentiable, Tensor, "Tensor")
/// Whether that holds for all elements. Waits for the device.
TENON_CLOSE(allclose, dynamic, kNoInplace | kNonDifferentiable | kNotCapturable, bool, "bool")
// clang-format on

}  // namespace tenon

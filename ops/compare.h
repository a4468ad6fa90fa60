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
TENON_COMPARE_OP(eq, "equal_to")
TENON_COMPARE_OP(ne, "not_equal")
// Ordering is an error for complex numbers.
TENON_COMPARE_OP(lt, "less")
TENON_COMPARE_OP(le, "less_equal")
TENON_COMPARE_OP(gt, "greater")
TENON_COMPARE_OP(ge, "greater_equal")
#undef TENON_COMPARE_OP

#define TENON_LOGICAL_OP(name)                                                              \
  TENON_OP(name, #name "(Tensor self, Tensor other) -> Tensor", kernel, kNonDifferentiable, \
           Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))                     \
  inline Tensor name(const Tensor& self, const Tensor& other) { return op::name(self, other); }
// Any nonzero value counts as true, NaN too.
TENON_LOGICAL_OP(logical_and)
TENON_LOGICAL_OP(logical_or)
TENON_LOGICAL_OP(logical_xor)
#undef TENON_LOGICAL_OP

inline Tensor operator==(const Tensor& a, const Operand& b) { return op::eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Operand& b) { return op::ne(a, b); }
inline Tensor operator<(const Tensor& a, const Operand& b) { return op::lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Operand& b) { return op::le(a, b); }
inline Tensor operator>(const Tensor& a, const Operand& b) { return op::gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Operand& b) { return op::ge(a, b); }

/// Whether sizes and all values agree (NaN agrees with nothing). Waits for the device.
TENON_API bool equal(const Tensor& self, const Tensor& other);
/// Whether |self - other| <= atol + rtol |other| for all elements, which broadcast; infinities agree with themselves, NaN
/// with NaN only if `equal_nan`. Computed in double precision. Waits for the device.
TENON_API bool allclose(const Tensor& self, const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                        bool equal_nan = false);

}  // namespace tenon

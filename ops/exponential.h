// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms beyond exp and log (ops/unary.h), elementwise. Integer and bool tensors give the default
// float. float32 results are rounded once from double on the CPU; on CUDA they have the bounds of CUDA's own functions.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_EXPONENTIAL_OP(name, ...)                                                                               \
  TENON_OP_WITH(name, #name "(Tensor self) -> Tensor", kernel, kPlain, &dispatch::unary_float, Tensor(const Tensor&), \
                void(const LoopPlan&))                                                                                \
  inline Tensor name(const Tensor& self) { return op::name(self); }
/// 2^x.
TENON_EXPONENTIAL_OP(exp2)
TENON_ALIAS("special_exp2", "exp2")
/// exp(x) - 1, exact also near 0.
TENON_EXPONENTIAL_OP(expm1)
TENON_ALIAS("special_expm1", "expm1")
TENON_EXPONENTIAL_OP(log2)   ///< The logarithm to base 2.
TENON_EXPONENTIAL_OP(log10)  ///< The logarithm to base 10.
/// log(1 + x), exact also near 0.
TENON_EXPONENTIAL_OP(log1p)
TENON_ALIAS("special_log1p", "log1p")
#undef TENON_EXPONENTIAL_OP

/// -x log x; 0 at 0, -infinity below. Complex is an error.
TENON_OP(special_entr, "special_entr(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&),
         void(const LoopPlan&))
inline Tensor special_entr(const Tensor& self) { return op::special_entr(self); }
/// log(x / (1 - x)), with x clamped to [eps, 1 - eps] when eps is given; else NaN outside [0, 1]. Complex is an error.
TENON_OP(logit, "logit(Tensor self, float? eps=None) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, std::optional<double>), void(const LoopPlan&, const double& eps))
TENON_ALIAS("special_logit", "logit")
inline Tensor logit(const Tensor& self, std::optional<double> eps = {}) { return op::logit(self, eps); }

/// log(exp(self) + exp(other)) without overflow. Floating or complex tensors.
TENON_OP(logaddexp, "logaddexp(Tensor self, Tensor other) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))
inline Tensor logaddexp(const Tensor& self, const Tensor& other) { return op::logaddexp(self, other); }
/// log2(2^self + 2^other) without overflow. Floating tensors.
TENON_OP(logaddexp2, "logaddexp2(Tensor self, Tensor other) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))
inline Tensor logaddexp2(const Tensor& self, const Tensor& other) { return op::logaddexp2(self, other); }
/// self log(other); 0 where self is 0, unless other is NaN. Complex is an error.
TENON_OP(xlogy, "xlogy(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&), void(const LoopPlan&))
TENON_ALIAS("special_xlogy", "xlogy")
inline Tensor xlogy(const Operand& self, const Operand& other) { return op::xlogy(self, other); }
/// self log(1 + other); 0 where self is 0, unless other is NaN. Complex is an error.
TENON_OP(special_xlog1py, "special_xlog1py(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&), void(const LoopPlan&))
inline Tensor special_xlog1py(const Operand& self, const Operand& other) { return op::special_xlog1py(self, other); }

/// self * 2^other.
TENON_OP(ldexp, "ldexp(Tensor self, Tensor other) -> Tensor", composite, kPlain, Tensor(const Tensor&, const Tensor&),
         void())
inline Tensor ldexp(const Tensor& self, const Tensor& other) { return op::ldexp(self, other); }
/// pow in float64, or complex128 if an operand is complex.
TENON_OP(float_power, "float_power(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor", composite, kPlain,
         Tensor(const Operand&, const Operand&), void())
inline Tensor float_power(const Operand& self, const Operand& exponent) { return op::float_power(self, exponent); }

}  // namespace tenon

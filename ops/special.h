// SPDX-License-Identifier: Apache-2.0
// Special functions, elementwise: gamma, error and normal distribution functions with their inverses, modified Bessel
// functions. Real dtypes; integer and bool tensors give the default float. float32 computes in double and rounds
// once (erf on CUDA: CUDA's own float function).
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_SPECIAL_OP(name)                                                                                  \
  TENON_OP(name, #name "(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&)) \
  inline Tensor name(const Tensor& self) { return op::name(self); }

/// log |Gamma(x)|; infinite at 0, -1, -2, ...
TENON_SPECIAL_OP(lgamma)
TENON_ALIAS("special_gammaln", "lgamma")
/// The derivative of lgamma; NaN at -1, -2, ..., infinite at 0.
TENON_SPECIAL_OP(digamma)
TENON_ALIAS("special_digamma", "digamma")
TENON_ALIAS("special_psi", "digamma")
/// The n-th derivative of digamma, n >= 0.
TENON_OP(polygamma, "polygamma(int n, Tensor self) -> Tensor", kernel, kNoInplace, Tensor(int64_t, const Tensor&),
         void(const LoopPlan&, const int64_t& n))
TENON_ALIAS("special_polygamma", "polygamma")
inline Tensor polygamma(int64_t n, const Tensor& self) { return op::polygamma(n, self); }

/// 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.
TENON_SPECIAL_OP(erf)
TENON_ALIAS("special_erf", "erf")
/// 1 - erf(x), relatively exact in the upper tail.
TENON_SPECIAL_OP(erfc)
TENON_ALIAS("special_erfc", "erfc")
/// The inverse of erf on [-1, 1], infinite at the ends, NaN beyond.
TENON_SPECIAL_OP(erfinv)
TENON_ALIAS("special_erfinv", "erfinv")
/// exp(x^2) erfc(x).
TENON_SPECIAL_OP(special_erfcx)
/// The normal distribution function, its logarithm (exact in the lower tail), and its inverse on [0, 1].
TENON_SPECIAL_OP(special_ndtr)      ///< The normal distribution function.
TENON_SPECIAL_OP(special_log_ndtr)  ///< Its logarithm, exact in the lower tail.
TENON_SPECIAL_OP(special_ndtri)     ///< Its inverse on [0, 1].

/// Modified Bessel functions of the first kind, of order 0 and 1; `e`: times exp(-|x|).
TENON_SPECIAL_OP(i0)  ///< The modified Bessel function of the first kind of order 0.
TENON_ALIAS("special_i0", "i0")
TENON_SPECIAL_OP(special_i0e)  ///< exp(-|x|) i0(x).
TENON_SPECIAL_OP(special_i1)   ///< That of order 1.
TENON_SPECIAL_OP(special_i1e)  ///< exp(-|x|) i1(x).
#undef TENON_SPECIAL_OP

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Infinities and NaN: tests, replacement, and functions that step around them. isnan is in ops/unary.h.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_FINITE_TEST(name)                                                                                   \
  TENON_OP(name, #name "(Tensor self) -> Tensor", kernel, kNonDifferentiable | kNoInplace, Tensor(const Tensor&), \
           void(const LoopPlan&))                                                                                 \
  inline Tensor name(const Tensor& self) { return op::name(self); }
/// Neither infinite nor NaN (complex: both parts). Integers are.
TENON_FINITE_TEST(isfinite)
/// Infinite (complex: either part).
TENON_FINITE_TEST(isinf)
/// Complex is an error.
TENON_FINITE_TEST(isposinf)  ///< Plus infinity; complex is an error.
TENON_FINITE_TEST(isneginf)  ///< Minus infinity; complex is an error.
/// No imaginary part.
TENON_FINITE_TEST(isreal)
#undef TENON_FINITE_TEST

/// NaN replaced by `nan` (default 0), infinities by `posinf` and `neginf` (default: the dtype's largest and smallest).
TENON_OP(nan_to_num, "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
         kernel, kPlain, Tensor(const Tensor&, std::optional<double>, std::optional<double>, std::optional<double>),
         void(const LoopPlan&, const double& nan, const double& posinf, const double& neginf))
inline Tensor nan_to_num(const Tensor& self, std::optional<double> nan = {}, std::optional<double> posinf = {},
                         std::optional<double> neginf = {}) {
  return op::nan_to_num(self, nan, posinf, neginf);
}
/// The larger (smaller); a NaN loses against a number. Complex is an error.
TENON_OP(fmax, "fmax(Tensor self, Tensor other) -> Tensor", kernel, kPlain, Tensor(const Tensor&, const Tensor&),
         void(const LoopPlan&))
inline Tensor fmax(const Tensor& self, const Tensor& other) { return op::fmax(self, other); }
TENON_OP(fmin, "fmin(Tensor self, Tensor other) -> Tensor", kernel, kPlain, Tensor(const Tensor&, const Tensor&),
         void(const LoopPlan&))
inline Tensor fmin(const Tensor& self, const Tensor& other) { return op::fmin(self, other); }
/// The next representable number after self in the direction of other. Floating dtypes only.
TENON_OP(nextafter, "nextafter(Tensor self, Tensor other) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))
inline Tensor nextafter(const Tensor& self, const Tensor& other) { return op::nextafter(self, other); }
/// self = mantissa 2^exponent with |mantissa| in [1/2, 1) or 0; the exponents are int32. Floating dtypes only.
TENON_OP(frexp, "frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)", kernel, kNoInplace,
         std::tuple<Tensor, Tensor>(const Tensor&), void(const LoopPlan&))
inline std::tuple<Tensor, Tensor> frexp(const Tensor& self) { return op::frexp(self); }

}  // namespace tenon

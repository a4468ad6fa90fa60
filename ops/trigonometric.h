// SPDX-License-Identifier: Apache-2.0
// Circular and hyperbolic functions and their inverses, elementwise, in radians. Integer and bool tensors give the
// default float; complex ones follow the principal branches of the C library. float32 results are rounded once from
// double on the CPU, for arguments of any size; on CUDA they have the bounds of CUDA's own functions.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_TRIGONOMETRIC_OP(name)                                                                                  \
  TENON_OP_WITH(name, #name "(Tensor self) -> Tensor", kernel, kPlain, &dispatch::unary_float, Tensor(const Tensor&), \
                void(const LoopPlan&))                                                                                \
  inline Tensor name(const Tensor& self) { return op::name(self); }

TENON_TRIGONOMETRIC_OP(sin)  ///< sin(x).
TENON_TRIGONOMETRIC_OP(cos)  ///< cos(x).
TENON_TRIGONOMETRIC_OP(tan)  ///< tan(x).
/// In [-pi/2, pi/2]; NaN for real |x| > 1.
TENON_TRIGONOMETRIC_OP(asin)  ///< The inverse of sin, in [-pi/2, pi/2].
TENON_ALIAS("arcsin", "asin")
/// In [0, pi]; NaN for real |x| > 1.
TENON_TRIGONOMETRIC_OP(acos)  ///< The inverse of cos, in [0, pi].
TENON_ALIAS("arccos", "acos")
TENON_TRIGONOMETRIC_OP(atan)  ///< The inverse of tan, in (-pi/2, pi/2).
TENON_ALIAS("arctan", "atan")
TENON_TRIGONOMETRIC_OP(sinh)   ///< (exp(x) - exp(-x)) / 2.
TENON_TRIGONOMETRIC_OP(cosh)   ///< (exp(x) + exp(-x)) / 2.
TENON_TRIGONOMETRIC_OP(asinh)  ///< The inverse of sinh.
TENON_ALIAS("arcsinh", "asinh")
/// NaN for real x < 1.
TENON_TRIGONOMETRIC_OP(acosh)  ///< The inverse of cosh.
TENON_ALIAS("arccosh", "acosh")
/// Infinite at 1 and -1, NaN beyond.
TENON_TRIGONOMETRIC_OP(atanh)  ///< The inverse of tanh.
TENON_ALIAS("arctanh", "atanh")
/// sin(pi x) / (pi x), 1 at 0.
TENON_TRIGONOMETRIC_OP(sinc)
TENON_ALIAS("special_sinc", "sinc")
#undef TENON_TRIGONOMETRIC_OP

/// The angle of the point (other, self) in (-pi, pi]; integers give the default float. Complex is an error.
TENON_OP(atan2, "atan2(Tensor self, Tensor other) -> Tensor", kernel, kPlain, Tensor(const Tensor&, const Tensor&),
         void(const LoopPlan&))
TENON_ALIAS("arctan2", "atan2")
inline Tensor atan2(const Tensor& self, const Tensor& other) { return op::atan2(self, other); }
/// sqrt(self^2 + other^2) without overflow on the way. Floating tensors only.
TENON_OP(hypot, "hypot(Tensor self, Tensor other) -> Tensor", kernel, kPlain, Tensor(const Tensor&, const Tensor&),
         void(const LoopPlan&))
inline Tensor hypot(const Tensor& self, const Tensor& other) { return op::hypot(self, other); }

/// Degrees to radians, x pi / 180; integers give the default float. Complex is an error.
TENON_OP(deg2rad, "deg2rad(Tensor self) -> Tensor", composite, kPlain, Tensor(const Tensor&), void())
inline Tensor deg2rad(const Tensor& self) { return op::deg2rad(self); }
/// Radians to degrees, x 180 / pi; integers give the default float. Complex is an error.
TENON_OP(rad2deg, "rad2deg(Tensor self) -> Tensor", composite, kPlain, Tensor(const Tensor&), void())
inline Tensor rad2deg(const Tensor& self) { return op::rad2deg(self); }

}  // namespace tenon

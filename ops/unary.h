// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of one tensor. Result: the input's shape; float functions of integer or bool tensors give the
// default float. Every one has an in-place form, `x.exp_()` or `op::exp.inplace(x, x)`, and an out= form.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_UNARY_OP(name, implementation, flags)                                              \
  TENON_OP_WITH(name, #name "(Tensor self) -> Tensor", kernel, flags, &dispatch::implementation, \
                Tensor(const Tensor&), void(const LoopPlan&))                                    \
  inline Tensor name(const Tensor& self) { return op::name(self); }

// --- same dtype ----------------------------------------------------------------------------------------------
/// -x; bool is an error.
TENON_OP(neg, "neg(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&))
TENON_ALIAS("negative", "neg")
inline Tensor neg(const Tensor& self) { return op::neg(self); }
/// |x|; complex tensors give their modulus in the real dtype. The most negative integer stays itself.
TENON_OP(abs, "abs(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&))
TENON_ALIAS("absolute", "abs")
inline Tensor abs(const Tensor& self) { return op::abs(self); }
/// x / |x|, 0 at 0.
TENON_UNARY_OP(sgn, unary_same, kPlain)
/// x * x; bool gives int64.
TENON_OP(square, "square(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&))
inline Tensor square(const Tensor& self) { return op::square(self); }
/// max(x, 0); NaN stays NaN. Complex and bool are errors.
TENON_OP(relu, "relu(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&))
inline Tensor relu(const Tensor& self) { return op::relu(self); }
/// Complex conjugate, computed at once; the function returns real tensors as they are.
TENON_OP(conj, "conj(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&), void(const LoopPlan&))
TENON_ALIAS("conj_physical", "conj")
inline Tensor conj(const Tensor& self) { return self.is_complex() ? op::conj(self) : self; }

// --- float functions -----------------------------------------------------------------------------------------
TENON_UNARY_OP(exp, unary_float, kPlain)   ///< e^x.
TENON_UNARY_OP(log, unary_float, kPlain)   ///< The natural logarithm.
TENON_UNARY_OP(sqrt, unary_float, kPlain)  ///< The square root.
/// 1 / sqrt(x).
TENON_UNARY_OP(rsqrt, unary_float, kPlain)
/// 1 / x.
TENON_UNARY_OP(reciprocal, unary_float, kPlain)
TENON_UNARY_OP(tanh, unary_float, kPlain)  ///< The hyperbolic tangent.
/// 1 / (1 + exp(-x)).
TENON_UNARY_OP(sigmoid, unary_float, kPlain)
TENON_ALIAS("special_expit", "sigmoid")

/// Gaussian error linear unit (Hendrycks and Gimpel 2016), x * Phi(x) with Phi the normal distribution function;
/// approximate: "none" or "tanh" (0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))). Floating tensors only.
TENON_OP(gelu, "gelu(Tensor self, *, str approximate='none') -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, std::string_view), void(const LoopPlan&, const bool& tanh_form))
inline Tensor gelu(const Tensor& self, std::string_view approximate = "none") { return op::gelu(self, approximate); }
/// grad * d gelu(self) / d self.
TENON_OP(gelu_backward, "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, const Tensor&, std::string_view),
         void(const LoopPlan&, const bool& tanh_form))

// --- tests ---------------------------------------------------------------------------------------------------
TENON_UNARY_OP(isnan, unary_bool, kNonDifferentiable | kNoInplace)  ///< True where x (either part) is NaN.
/// True where x is zero. The in-place form writes 0 and 1 in the tensor's own dtype.
TENON_UNARY_OP(logical_not, unary_bool, kNonDifferentiable)

#undef TENON_UNARY_OP

}  // namespace tenon

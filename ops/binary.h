// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic of two operands, each a tensor or a number. Operands broadcast and promote as in PyTorch.
// A number goes to the kernel by value. In place, the result must be castable to self and keep its shape.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// self + alpha * other. alpha must be integral for integral results. bool + bool is logical or.
TENON_OP(add, "add(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&, const Scalar&), void(const LoopPlan&, const Scalar& alpha))
inline Tensor add(const Operand& self, const Operand& other, const Scalar& alpha = 1) {
  return op::add(self, other, alpha);
}
/// self - alpha * other. bool operands are an error.
TENON_OP(sub, "sub(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&, const Scalar&), void(const LoopPlan&, const Scalar& alpha))
TENON_ALIAS("subtract", "sub")
inline Tensor sub(const Operand& self, const Operand& other, const Scalar& alpha = 1) {
  return op::sub(self, other, alpha);
}
/// other - alpha * self.
TENON_OP(rsub, "rsub(Tensor|Scalar self, Tensor|Scalar other, Scalar alpha=1) -> Tensor", composite, kNoInplace,
         Tensor(const Operand&, const Operand&, const Scalar&), void())
inline Tensor rsub(const Operand& self, const Operand& other, const Scalar& alpha = 1) {
  return op::rsub(self, other, alpha);
}
/// self * other.
TENON_OP(mul, "mul(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&), void(const LoopPlan&))
TENON_ALIAS("multiply", "mul")
inline Tensor mul(const Operand& self, const Operand& other) { return op::mul(self, other); }

/// How div rounds: not at all (integers give floats), toward zero, toward minus infinity.
enum class Rounding : uint8_t { none, trunc, floor };
/// self / other. rounding_mode: none, "trunc" or "floor"; without it integers divide as floats. Integer division by
/// zero with a rounding mode is a ValueError on the CPU.
TENON_OP(div, "div(Tensor|Scalar self, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&, std::optional<std::string_view>),
         void(const LoopPlan&, const Rounding&))
TENON_ALIAS("true_divide", "div")
TENON_ALIAS("divide", "div")
inline Tensor div(const Operand& self, const Operand& other, std::optional<std::string_view> rounding_mode = {}) {
  return op::div(self, other, rounding_mode);
}
/// self to the power exponent. Integers to a negative integer number are a ValueError, as in PyTorch.
TENON_OP(pow, "pow(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor", kernel, kPlain,
         Tensor(const Operand&, const Operand&), void(const LoopPlan&))
inline Tensor pow(const Operand& self, const Operand& exponent) { return op::pow(self, exponent); }
/// The larger, NaN if either is NaN. Complex is an error.
TENON_OP(maximum, "maximum(Tensor self, Tensor other) -> Tensor", kernel, kPlain, Tensor(const Tensor&, const Tensor&),
         void(const LoopPlan&))
inline Tensor maximum(const Tensor& self, const Tensor& other) { return op::maximum(self, other); }
/// The smaller, NaN if either is NaN. Complex is an error.
TENON_OP(minimum, "minimum(Tensor self, Tensor other) -> Tensor", kernel, kPlain, Tensor(const Tensor&, const Tensor&),
         void(const LoopPlan&))
inline Tensor minimum(const Tensor& self, const Tensor& other) { return op::minimum(self, other); }

// Gradients that are one pass over a saved result or input.
/// grad_output * (1 - output^2); conjugated for complex.
TENON_OP(tanh_backward, "tanh_backward(Tensor grad_output, Tensor output) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))
/// grad_output * output * (1 - output); conjugated for complex.
TENON_OP(sigmoid_backward, "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&), void(const LoopPlan&))
/// grad_output where self > threshold, else 0.
TENON_OP(threshold_backward, "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, const Tensor&, const Scalar&),
         void(const LoopPlan&, const Scalar& threshold))

inline Tensor operator+(const Tensor& a, const Operand& b) { return op::add(a, b, 1); }
inline Tensor operator-(const Tensor& a, const Operand& b) { return op::sub(a, b, 1); }
inline Tensor operator*(const Tensor& a, const Operand& b) { return op::mul(a, b); }
inline Tensor operator/(const Tensor& a, const Operand& b) { return op::div(a, b, {}); }
inline Tensor operator+(const Scalar& a, const Tensor& b) { return op::add(a, b, 1); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return op::sub(a, b, 1); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return op::mul(a, b); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return op::div(a, b, {}); }

}  // namespace tenon

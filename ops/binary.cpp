// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/binary.h>

namespace tenon::impl {
namespace {
using dispatch::Pointwise;
using PlanKernel = void(const LoopPlan&);
using AlphaKernel = void(const LoopPlan&, const Scalar&);

DType arithmetic(Call& call, const Pointwise& p, const Scalar& alpha) {
  const DType t = p.promoted();
  TENON_CHECK(!alpha.is_bool() || t == kBool, DtypeError, call.name(), ": alpha: expected a number for ", t,
              ", got a bool");
  const bool fits =
      is_complex(t) || (is_integral(t, true) ? alpha.is_integral() || alpha.is_bool() : !alpha.is_complex());
  TENON_CHECK(fits, DtypeError, call.name(), ": alpha: expected a number that fits ", t, ", got ", alpha);
  return t;
}

Tensor ordered(Call& call, const Tensor& self, const Tensor& other) {
  Pointwise p(call, self, other);
  const DType t = p.promoted();
  TENON_CHECK(!is_complex(t), DtypeError, call.name(), ": complex numbers have no order; got ", self.dtype(), " and ",
              other.dtype());
  return p.run<PlanKernel>(t);
}

}  // namespace

Tensor add(Call& call, const Operand& self, const Operand& other, const Scalar& alpha) {
  Pointwise p(call, self, other);
  return p.run<AlphaKernel>(arithmetic(call, p, alpha), alpha);
}

Tensor sub(Call& call, const Operand& self, const Operand& other, const Scalar& alpha) {
  TENON_CHECK(self.dtype() != kBool && other.dtype() != kBool, DtypeError,
              "sub: bool operands are not supported; use logical_xor or convert them");
  Pointwise p(call, self, other);
  return p.run<AlphaKernel>(arithmetic(call, p, alpha), alpha);
}

Tensor rsub(Call&, const Operand& self, const Operand& other, const Scalar& alpha) {
  return op::sub(other, self, alpha);
}

Tensor mul(Call& call, const Operand& self, const Operand& other) {
  Pointwise p(call, self, other);
  return p.run<PlanKernel>(p.promoted());
}

Tensor div(Call& call, const Operand& self, const Operand& other, std::optional<std::string_view> rounding_mode) {
  Rounding rounding = Rounding::none;
  if (rounding_mode) {
    TENON_CHECK(*rounding_mode == "trunc" || *rounding_mode == "floor", ValueError,
                "div: rounding_mode: expected None, \"trunc\" or \"floor\", got \"", *rounding_mode, "\"");
    rounding = *rounding_mode == "trunc" ? Rounding::trunc : Rounding::floor;
  }
  Pointwise p(call, self, other);
  const DType t = rounding == Rounding::none ? dispatch::float_of(p.promoted()) : p.promoted();
  TENON_CHECK(rounding == Rounding::none || !is_complex(t), DtypeError,
              "div: rounding_mode: complex numbers cannot be rounded");
  TENON_CHECK(rounding == Rounding::none || t != kBool, DtypeError,
              "div: rounding_mode: bool operands are not supported");
  return p.run<void(const LoopPlan&, const Rounding&)>(t, rounding);
}

Tensor pow(Call& call, const Operand& self, const Operand& exponent) {
  Pointwise p(call, self, exponent);
  const DType t = p.promoted();
  TENON_CHECK(t != kBool, DtypeError, "pow: bool operands are not supported");
  TENON_CHECK(!is_integral(t) || exponent.is_tensor() || exponent.number().integer() >= 0, ValueError,
              "pow: exponent: integers to the negative power ", exponent.number(),
              " are not integers; convert self to a float");
  return p.run<PlanKernel>(t);
}

Tensor maximum(Call& call, const Tensor& self, const Tensor& other) { return ordered(call, self, other); }
Tensor minimum(Call& call, const Tensor& self, const Tensor& other) { return ordered(call, self, other); }

Tensor tanh_backward(Call& call, const Tensor& grad_output, const Tensor& output) {
  return Pointwise(call, grad_output, output).run<PlanKernel>(output.dtype());
}
Tensor sigmoid_backward(Call& call, const Tensor& grad_output, const Tensor& output) {
  return Pointwise(call, grad_output, output).run<PlanKernel>(output.dtype());
}
Tensor threshold_backward(Call& call, const Tensor& grad_output, const Tensor& self, const Scalar& threshold) {
  return Pointwise(call, grad_output, self).run<AlphaKernel>(self.dtype(), threshold);
}

}  // namespace tenon::impl

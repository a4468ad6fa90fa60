// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/unary.h>

namespace tenon::impl {
namespace {

bool is_tanh_form(const Call& call, std::string_view approximate) {
  TENON_CHECK(approximate == "none" || approximate == "tanh", ValueError, call.name(),
              ": approximate: expected \"none\" or \"tanh\", got \"", approximate, "\"");
  return approximate == "tanh";
}

void check_floating(const Call& call, const Tensor& self) {
  TENON_CHECK(self.is_floating_point(), DtypeError, call.name(), ": self: expected a floating dtype, got ",
              self.dtype());
}

}  // namespace

Tensor neg(Call& call, const Tensor& self) {
  TENON_CHECK(self.dtype() != kBool, DtypeError, "neg: self: bool is not supported; use logical_not");
  return dispatch::unary_same(call, self);
}

Tensor abs(Call& call, const Tensor& self) {
  const DType t = self.dtype();
  TENON_CHECK(call.form != dispatch::Form::inplace || !is_complex(t), DtypeError,
              "abs_: self: the modulus of a complex tensor is real and cannot be written to it");
  return dispatch::Pointwise(call, self).run<void(const LoopPlan&)>(t, real_of(t), dispatch::key_of(t));
}

Tensor square(Call& call, const Tensor& self) {
  return dispatch::Pointwise(call, self).run<void(const LoopPlan&)>(self.dtype() == kBool ? kInt64 : self.dtype());
}

Tensor relu(Call& call, const Tensor& self) {
  TENON_CHECK(self.dtype() != kBool && !self.is_complex(), DtypeError, "relu: self: expected a real number dtype, got ",
              self.dtype());
  return dispatch::unary_same(call, self);
}

Tensor conj(Call& call, const Tensor& self) {
  if (!self.is_complex() && call.form == dispatch::Form::functional) return self.clone();
  return dispatch::unary_same(call, self);
}

Tensor gelu(Call& call, const Tensor& self, std::string_view approximate) {
  check_floating(call, self);
  return dispatch::Pointwise(call, self)
      .run<void(const LoopPlan&, const bool&)>(self.dtype(), is_tanh_form(call, approximate));
}

Tensor gelu_backward(Call& call, const Tensor& grad_output, const Tensor& self, std::string_view approximate) {
  check_floating(call, self);
  return dispatch::Pointwise(call, grad_output, self)
      .run<void(const LoopPlan&, const bool&)>(self.dtype(), is_tanh_form(call, approximate));
}

}  // namespace tenon::impl

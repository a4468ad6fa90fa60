// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/sign.h>

namespace tenon::impl {
namespace {

using dispatch::Pointwise;

void check_real(const Call& call, DType t) {
  TENON_CHECK(!is_complex(t), DtypeError, call.name(), ": expected a real dtype, got ", t);
}

}  // namespace

Tensor sign(Call& call, const Tensor& self) {
  TENON_CHECK(!self.is_complex(), DtypeError, "sign: self: expected a real dtype, got ", self.dtype(), "; use sgn");
  return dispatch::unary_same(call, self);
}

Tensor signbit(Call& call, const Tensor& self) {
  check_real(call, self.dtype());
  return dispatch::unary_bool(call, self);
}

Tensor positive(Call&, const Tensor& self) {
  TENON_CHECK(self.dtype() != kBool, DtypeError, "positive: self: bool is not supported");
  return self;
}

Tensor copysign(Call& call, const Tensor& self, const Operand& other) {
  Pointwise p(call, self, other);
  const DType t = dispatch::float_of(p.promoted());
  check_real(call, t);
  return p.run<void(const LoopPlan&)>(t);
}

Tensor heaviside(Call& call, const Tensor& self, const Tensor& values) {
  check_real(call, self.dtype());
  TENON_CHECK(self.dtype() == values.dtype(), DtypeError, "heaviside: values: expected ", self.dtype(),
              " like self, got ", values.dtype());
  return Pointwise(call, self, values).run<void(const LoopPlan&)>(self.dtype());
}

}  // namespace tenon::impl

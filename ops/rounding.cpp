// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/rounding.h>

#include <tenon/dispatch/declare_only.h>
#include <tenon/ops/binary.h>

namespace tenon::impl {
namespace {

using dispatch::Pointwise;

void check_real(const Call& call, DType t) {
  TENON_CHECK(!is_complex(t) && t != kBool, DtypeError, call.name(), ": expected a real number dtype, got ", t);
}

Tensor rounded(Call& call, const Tensor& self) {
  check_real(call, self.dtype());
  return dispatch::unary_same(call, self);
}

Tensor rest(Call& call, const Operand& self, const Operand& other) {
  Pointwise p(call, self, other);
  check_real(call, p.promoted());
  return p.run<void(const LoopPlan&)>(p.promoted());
}

}  // namespace

Tensor ceil(Call& call, const Tensor& self) { return rounded(call, self); }
Tensor floor(Call& call, const Tensor& self) { return rounded(call, self); }
Tensor trunc(Call& call, const Tensor& self) { return rounded(call, self); }
Tensor round(Call& call, const Tensor& self) { return rounded(call, self); }

Tensor frac(Call& call, const Tensor& self) {
  TENON_CHECK(self.is_floating_point(), DtypeError, "frac: self: expected a floating dtype, got ", self.dtype());
  return dispatch::unary_same(call, self);
}

Tensor round_decimals(Call& call, const Tensor& self, int64_t decimals) {
  check_real(call, self.dtype());
  TENON_CHECK(self.is_floating_point() || decimals == 0, DtypeError,
              "round: decimals: expected a floating tensor, got one of ", self.dtype());
  return Pointwise(call, self).run<void(const LoopPlan&, const int64_t&)>(self.dtype(), decimals);
}

Tensor fmod(Call& call, const Operand& self, const Operand& other) { return rest(call, self, other); }
Tensor remainder(Call& call, const Operand& self, const Operand& other) { return rest(call, self, other); }
Tensor floor_divide(Call&, const Operand& self, const Operand& other) { return div(self, other, "floor"); }

}  // namespace tenon::impl

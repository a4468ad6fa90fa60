// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/bitwise.h>

namespace tenon::impl {
namespace {

using dispatch::Pointwise;

void check_integral(const Call& call, DType t, bool allow_bool) {
  TENON_CHECK(is_integral(t, allow_bool), DtypeError, call.name(), ": expected integer", allow_bool ? " or bool" : "",
              " dtypes, got ", t);
}

Tensor bits(Call& call, const Operand& self, const Operand& other, bool allow_bool) {
  Pointwise p(call, self, other);
  check_integral(call, p.promoted(), allow_bool);
  return p.run<void(const LoopPlan&)>(p.promoted());
}

}  // namespace

Tensor bitwise_and(Call& call, const Operand& self, const Operand& other) { return bits(call, self, other, true); }
Tensor bitwise_or(Call& call, const Operand& self, const Operand& other) { return bits(call, self, other, true); }
Tensor bitwise_xor(Call& call, const Operand& self, const Operand& other) { return bits(call, self, other, true); }
Tensor bitwise_left_shift(Call& call, const Operand& self, const Operand& other) {
  return bits(call, self, other, false);
}
Tensor bitwise_right_shift(Call& call, const Operand& self, const Operand& other) {
  return bits(call, self, other, false);
}
Tensor bitwise_not(Call& call, const Tensor& self) {
  check_integral(call, self.dtype(), true);
  return dispatch::unary_same(call, self);
}
Tensor gcd(Call& call, const Tensor& self, const Tensor& other) { return bits(call, self, other, false); }
Tensor lcm(Call& call, const Tensor& self, const Tensor& other) { return bits(call, self, other, false); }

}  // namespace tenon::impl

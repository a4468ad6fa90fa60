// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/ternary.h>

namespace tenon::impl {
namespace {

using dispatch::Pointwise;

void check_value(const Call& call, DType t, const Scalar& value) {
  TENON_CHECK(!is_integral(t, true) || value.is_integral(), DtypeError, call.name(),
              ": value: expected an integer for ", t, " tensors, got ", value);
  TENON_CHECK(is_complex(t) || !value.is_complex(), DtypeError, call.name(), ": value: expected a real number for ", t,
              " tensors, got ", value);
}

}  // namespace

Tensor addcmul(Call& call, const Tensor& self, const Tensor& tensor1, const Tensor& tensor2, const Scalar& value) {
  Pointwise p(call, self, tensor1, tensor2);
  const DType t = p.promoted();
  TENON_CHECK(t != kBool, DtypeError, "addcmul: bool tensors are not supported");
  check_value(call, t, value);
  return p.run<void(const LoopPlan&, const Scalar&)>(t, value);
}

Tensor addcdiv(Call& call, const Tensor& self, const Tensor& tensor1, const Tensor& tensor2, const Scalar& value) {
  Pointwise p(call, self, tensor1, tensor2);
  const DType t = p.promoted();
  TENON_CHECK(!is_integral(t, true), DtypeError, "addcdiv: expected floating or complex dtypes, got ", t,
              "; convert an operand, or use add and div with a rounding mode");
  check_value(call, t, value);
  return p.run<void(const LoopPlan&, const Scalar&)>(t, value);
}

Tensor lerp(Call& call, const Tensor& self, const Tensor& end, const Operand& weight) {
  TENON_CHECK(self.dtype() == end.dtype(), DtypeError, "lerp: end: expected ", self.dtype(), " like self, got ",
              end.dtype());
  TENON_CHECK(!weight.is_tensor() || weight.tensor().dtype() == self.dtype(), DtypeError, "lerp: weight: expected ",
              self.dtype(), " like self, got ", weight.dtype());
  TENON_CHECK(!is_integral(self.dtype(), true), DtypeError, "lerp: self: expected a floating or complex dtype, got ",
              self.dtype());
  Pointwise p(call, self, end, weight);
  return p.run<void(const LoopPlan&)>(self.dtype());
}

}  // namespace tenon::impl

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/exponential.h>

#include <tenon/dispatch/declare_only.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>

namespace tenon::impl {
namespace {

using dispatch::Pointwise;
using Plan = void(const LoopPlan&);

void check_real(const Call& call, DType t) {
  TENON_CHECK(!is_complex(t), DtypeError, call.name(), ": expected real dtypes, got ", t);
}

Tensor real_float(Call& call, const Operand& self, const Operand& other) {
  Pointwise p(call, self, other);
  const DType t = dispatch::float_of(p.promoted());
  check_real(call, t);
  return p.run<Plan>(t);
}

Tensor widened(const Operand& x, DType t) { return x.is_tensor() ? x.tensor().to(t) : Tensor(); }

}  // namespace

Tensor special_entr(Call& call, const Tensor& self) {
  check_real(call, self.dtype());
  return dispatch::unary_float(call, self);
}

Tensor logit(Call& call, const Tensor& self, std::optional<double> eps) {
  check_real(call, self.dtype());
  return Pointwise(call, self)
      .run<void(const LoopPlan&, const double&)>(dispatch::float_of(self.dtype()), eps.value_or(-1));
}

Tensor logaddexp(Call& call, const Tensor& self, const Tensor& other) {
  Pointwise p(call, self, other);
  const DType t = p.promoted();
  TENON_CHECK(!is_integral(t, true), DtypeError, "logaddexp: expected floating or complex dtypes, got ", self.dtype(),
              " and ", other.dtype());
  return p.run<Plan>(t);
}

Tensor logaddexp2(Call& call, const Tensor& self, const Tensor& other) {
  Pointwise p(call, self, other);
  TENON_CHECK(is_floating_point(p.promoted()), DtypeError, "logaddexp2: expected floating dtypes, got ", self.dtype(),
              " and ", other.dtype());
  return p.run<Plan>(p.promoted());
}

Tensor xlogy(Call& call, const Operand& self, const Operand& other) { return real_float(call, self, other); }
Tensor special_xlog1py(Call& call, const Operand& self, const Operand& other) { return real_float(call, self, other); }

Tensor ldexp(Call&, const Tensor& self, const Tensor& other) { return mul(self, pow(2.0, other)); }

Tensor float_power(Call&, const Operand& self, const Operand& exponent) {
  const DType t = is_complex(self.dtype()) || is_complex(exponent.dtype()) ? kComplex128 : kFloat64;
  const Tensor base = widened(self, t), power = widened(exponent, t);
  return pow(base.defined() ? Operand(base) : self, power.defined() ? Operand(power) : exponent);
}

}  // namespace tenon::impl

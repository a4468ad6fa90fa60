// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/finite.h>

#include <limits>

namespace tenon::impl {
namespace {

using dispatch::Pointwise;
using PlanKernel = void(const LoopPlan&);

void check_real(const Call& call, DType t) {
  TENON_CHECK(!is_complex(t), DtypeError, call.name(), ": expected a real dtype, got ", t);
}

// The largest value of a dtype, as a double.
double largest(DType t) {
  switch (real_of(t)) {
    case kFloat32:
      return std::numeric_limits<float>::max();
    case kFloat16:
      return 65504.0;
    case kBFloat16:
      return 0x1.fep127;
    default:
      return std::numeric_limits<double>::max();
  }
}

Tensor extreme(Call& call, const Tensor& self, const Tensor& other) {
  Pointwise p(call, self, other);
  check_real(call, p.promoted());
  return p.run<PlanKernel>(p.promoted());
}

}  // namespace

Tensor isfinite(Call& call, const Tensor& self) { return dispatch::unary_bool(call, self); }
Tensor isinf(Call& call, const Tensor& self) { return dispatch::unary_bool(call, self); }
Tensor isreal(Call& call, const Tensor& self) { return dispatch::unary_bool(call, self); }
Tensor isposinf(Call& call, const Tensor& self) {
  check_real(call, self.dtype());
  return dispatch::unary_bool(call, self);
}
Tensor isneginf(Call& call, const Tensor& self) {
  check_real(call, self.dtype());
  return dispatch::unary_bool(call, self);
}

Tensor nan_to_num(Call& call, const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  const double most = largest(self.dtype());
  return Pointwise(call, self)
      .run<void(const LoopPlan&, const double&, const double&, const double&)>(
          self.dtype(), nan.value_or(0), posinf.value_or(most), neginf.value_or(-most));
}

Tensor fmax(Call& call, const Tensor& self, const Tensor& other) { return extreme(call, self, other); }
Tensor fmin(Call& call, const Tensor& self, const Tensor& other) { return extreme(call, self, other); }

Tensor nextafter(Call& call, const Tensor& self, const Tensor& other) {
  Pointwise p(call, self, other);
  const DType t = p.promoted();
  TENON_CHECK(is_floating_point(t), DtypeError, "nextafter: expected floating dtypes, got ", t);
  return p.run<PlanKernel>(t);
}

std::tuple<Tensor, Tensor> frexp(Call& call, const Tensor& self) {
  TENON_CHECK(self.is_floating_point(), DtypeError, "frexp: self: expected a floating dtype, got ", self.dtype());
  std::tuple<Tensor, Tensor> out{call.output(0, self.sizes(), self.dtype(), self.device(), {&self}),
                                 call.output(1, self.sizes(), kInt32, self.device(), {&self})};
  if (self.device().is_meta() || self.numel() == 0) return out;
  LoopPlan plan;
  const PlanOperand operands[] = {{&std::get<0>(out), nullptr, DType::undefined},
                                  {&std::get<1>(out), nullptr, DType::undefined},
                                  {&self, nullptr, DType::undefined}};
  make_plan(plan, self.sizes(), operands, 2);
  op::frexp.kernel(self.backend(), dispatch::key_of(self.dtype()))(plan);
  return out;
}

}  // namespace tenon::impl

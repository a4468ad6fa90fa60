// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/where.h>

namespace tenon::detail {
bool holds(DType t, const Scalar& number);  // ops/compare.cpp
}

namespace tenon::impl {
namespace {
using dispatch::Pointwise;
using PlanKernel = void(const LoopPlan&);

// An integer bound beyond what self's dtype holds is its last number on that side; wrapped it would mean another one.
Operand fitted(const char* name, const Tensor& self, const Operand& bound, bool upper) {
  const DType t = self.dtype();
  if (bound.is_tensor() || !is_integral(t) || t == kInt64 || !bound.number().is_integral()) return bound;
  const int64_t v = bound.number().integer(), width = 8 * item_size(t);
  const int64_t high = (int64_t{1} << (t == kUInt8 ? width : width - 1)) - 1, low = t == kUInt8 ? 0 : -high - 1;
  if (v >= low && v <= high) return bound;
  TENON_CHECK(upper == (v > high), ValueError, "clamp: ", name, ": expected a number ", t, " can hold, got ", v);
  return Scalar(upper ? high : low);
}

template <class... Operands>
Tensor bounded(Call& call, const dispatch::OpBase& cell, const Operands&... operands) {
  Pointwise p(call, operands...);
  const DType t = p.promoted();
  TENON_CHECK(!is_complex(t), DtypeError, call.name(), ": complex numbers have no order");
  return p.run_as<PlanKernel>(cell, t, t, dispatch::key_of(t));
}

}  // namespace

Tensor where(Call& call, const Tensor& condition, const Operand& self, const Operand& other) {
  TENON_CHECK(condition.dtype() == kBool || condition.dtype() == kUInt8, DtypeError,
              "where: condition: expected a bool tensor, got ", condition.dtype());
  const Tensor mask = condition.dtype() == kBool ? condition : condition.to(kBool);
  const DType t = dispatch::result_type(self, other);
  Pointwise p(call, mask, self, other);
  return p.keep(0).run<PlanKernel>(t, t, dispatch::width_key(item_size(t)));
}

Tensor masked_fill(Call&, const Tensor& self, const Tensor& mask, const Operand& value) {
  TENON_CHECK(mask.dtype() == kBool, DtypeError, "masked_fill: mask: expected a bool tensor, got ", mask.dtype());
  const DType t = self.dtype();
  if (value.is_tensor()) {
    TENON_CHECK(value.tensor().dim() == 0, ShapeError, "masked_fill: value: expected a number or a 0-dim tensor, got ",
                value.tensor().dim(), " dimensions");
    TENON_CHECK(can_cast(value.dtype(), t), DtypeError, "masked_fill: value: a ", value.dtype(), " does not fit the ",
                t, " of self");
    return op::where(mask, value.tensor().to(t), self);
  }
  const Scalar& n = value.number();
  TENON_CHECK(is_complex(t) || !n.is_complex(), DtypeError, "masked_fill: value: ", n, " does not fit the ", t,
              " of self");
  TENON_CHECK(detail::holds(t, n), ValueError, "masked_fill: value: expected a number ", t, " can hold, got ", n);
  TENON_CHECK(!is_integral(t, true) || !n.is_floating_point() || n.real() == static_cast<double>(n.integer()),
              DtypeError, "masked_fill: value: ", n, " does not fit the ", t, " of self");
  // The number takes self's kind, so that promotion leaves self's dtype as it is.
  const Scalar fitted = is_complex(t) || is_floating_point(t) ? n
                        : t == kBool                          ? Scalar(n.to<bool>())
                                                              : Scalar(n.integer());
  return op::where(mask, fitted, self);
}

Tensor clamp_min(Call& call, const Tensor& self, const Operand& min) {
  return bounded(call, op::clamp_min, self, fitted("min", self, min, false));
}
Tensor clamp_max(Call& call, const Tensor& self, const Operand& max) {
  return bounded(call, op::clamp_max, self, fitted("max", self, max, true));
}

Tensor clamp(Call& call, const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  TENON_CHECK(min || max, ValueError, "clamp: expected at least one of min and max");
  if (!max) return bounded(call, op::clamp_min, self, fitted("min", self, *min, false));
  if (!min) return bounded(call, op::clamp_max, self, fitted("max", self, *max, true));
  return bounded(call, op::clamp, self, fitted("min", self, *min, false), fitted("max", self, *max, true));
}

Tensor clamp_tensor(Call& call, const Tensor& self, const Tensor& min, const Tensor& max) {
  TENON_CHECK(min.defined() || max.defined(), ValueError, "clamp: expected at least one of min and max");
  if (!max.defined()) return bounded(call, op::clamp_min, self, min);
  if (!min.defined()) return bounded(call, op::clamp_max, self, max);
  return bounded(call, op::clamp, self, min, max);
}

}  // namespace tenon::impl

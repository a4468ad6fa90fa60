// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/trigonometric.h>

#include <tenon/dispatch/declare_only.h>
#include <tenon/ops/binary.h>

namespace tenon::impl {
namespace {

Tensor scaled(Call& call, const Tensor& self, double factor) {
  TENON_CHECK(!self.is_complex(), DtypeError, call.name(), ": self: expected a real dtype, got ", self.dtype());
  return mul(self, factor);
}

}  // namespace

Tensor atan2(Call& call, const Tensor& self, const Tensor& other) {
  dispatch::Pointwise p(call, self, other);
  const DType t = dispatch::float_of(p.promoted());
  TENON_CHECK(!is_complex(t), DtypeError, "atan2: expected real dtypes, got ", self.dtype(), " and ", other.dtype());
  return p.run<void(const LoopPlan&)>(t);
}

Tensor hypot(Call& call, const Tensor& self, const Tensor& other) {
  dispatch::Pointwise p(call, self, other);
  TENON_CHECK(is_floating_point(p.promoted()), DtypeError, "hypot: expected floating dtypes, got ", self.dtype(),
              " and ", other.dtype());
  return p.run<void(const LoopPlan&)>(p.promoted());
}

Tensor deg2rad(Call& call, const Tensor& self) { return scaled(call, self, 0.017453292519943295); }
Tensor rad2deg(Call& call, const Tensor& self) { return scaled(call, self, 57.295779513082321); }

}  // namespace tenon::impl

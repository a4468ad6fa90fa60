// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/special.h>

namespace tenon::impl {
namespace {

void check_real(const Call& call, const Tensor& self) {
  TENON_CHECK(!self.is_complex(), DtypeError, call.name(), ": self: expected a real dtype, got ", self.dtype());
}

Tensor special(Call& call, const Tensor& self) {
  check_real(call, self);
  return dispatch::unary_float(call, self);
}

}  // namespace

Tensor lgamma(Call& call, const Tensor& self) { return special(call, self); }
Tensor digamma(Call& call, const Tensor& self) { return special(call, self); }
Tensor erf(Call& call, const Tensor& self) { return special(call, self); }
Tensor erfc(Call& call, const Tensor& self) { return special(call, self); }
Tensor erfinv(Call& call, const Tensor& self) { return special(call, self); }
Tensor special_erfcx(Call& call, const Tensor& self) { return special(call, self); }
Tensor special_ndtr(Call& call, const Tensor& self) { return special(call, self); }
Tensor special_log_ndtr(Call& call, const Tensor& self) { return special(call, self); }
Tensor special_ndtri(Call& call, const Tensor& self) { return special(call, self); }
Tensor i0(Call& call, const Tensor& self) { return special(call, self); }
Tensor special_i0e(Call& call, const Tensor& self) { return special(call, self); }
Tensor special_i1(Call& call, const Tensor& self) { return special(call, self); }
Tensor special_i1e(Call& call, const Tensor& self) { return special(call, self); }

Tensor polygamma(Call& call, int64_t n, const Tensor& self) {
  check_real(call, self);
  TENON_CHECK(n >= 0, ValueError, "polygamma: n: expected at least 0, got ", n);
  return dispatch::Pointwise(call, self)
      .run<void(const LoopPlan&, const int64_t&)>(dispatch::float_of(self.dtype()), n);
}

}  // namespace tenon::impl

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/complex.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/trigonometric.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

namespace tenon::impl {
namespace {

void check_complex(const Call& call, const Tensor& self) {
  TENON_CHECK(self.is_complex(), DtypeError, call.name(), ": self: expected a complex dtype, got ", self.dtype());
}
DType check_pair(const char* who, const char* second, const Tensor& a, const Tensor& b) {
  const DType t = a.dtype();
  TENON_CHECK(t == kFloat32 || t == kFloat64, DtypeError, who, ": expected float32 or float64, got ", t, " and ",
              b.dtype());
  TENON_CHECK(b.dtype() == t, DtypeError, who, ": ", second, ": expected ", t, " as the first argument, got ",
              b.dtype());
  return t;
}

}  // namespace

Tensor make_complex(Call& call, const Tensor& re, const Tensor& im) {
  const DType t = check_pair("complex", "imag", re, im);
  for (const Tensor& target : call.destinations)
    TENON_CHECK(target.dtype() == complex_of(t), DtypeError, "complex: out: expected ", complex_of(t), ", got ",
                target.dtype());
  const DimVector sizes = dispatch::broadcast_sizes(re.sizes(), im.sizes(), "complex");
  const Tensor out = call.output(0, sizes, complex_of(t), call.device_of({&re, &im}), {&re, &im});
  op::real(out).copy_(re);
  op::imag(out).copy_(im);
  return out;
}

Tensor polar(Call&, const Tensor& abs, const Tensor& angle) {
  check_pair("polar", "angle", abs, angle);
  return op::make_complex(op::mul(abs, op::cos(angle)), op::mul(abs, op::sin(angle)));
}

Tensor view_as_real(Call& call, const Tensor& self) {
  check_complex(call, self);
  TENON_CHECK(self.dim() < kMaxDims, ShapeError, "view_as_real: self: a tensor has at most ", kMaxDims,
              " dimensions, and this one has them");
  DimVector sizes(self.sizes()), strides(self.strides());
  for (int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return dispatch::make_view(self, sizes, strides, 2 * self.storage_offset(), false, real_of(self.dtype()));
}

Tensor view_as_complex(Call&, const Tensor& self) {
  const DType t = self.dtype();
  TENON_CHECK(t == kFloat32 || t == kFloat64, DtypeError, "view_as_complex: self: expected float32 or float64, got ",
              t);
  TENON_CHECK(self.dim() > 0 && self.sizes().back() == 2, ShapeError,
              "view_as_complex: self: expected a last dimension of size 2, got sizes ", self.sizes());
  DimVector sizes(self.sizes()), strides(self.strides());
  bool pairs = strides.back() == 1 && self.storage_offset() % 2 == 0;
  sizes.pop_back();
  strides.pop_back();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    pairs = pairs && (strides[d] % 2 == 0 || sizes[d] <= 1);
    strides[d] /= 2;
  }
  TENON_CHECK(pairs, ShapeError, "view_as_complex: self: expected pairs side by side at even places, got strides ",
              self.strides(), " and offset ", self.storage_offset(), "; use contiguous()");
  return dispatch::make_view(self, sizes, strides, self.storage_offset() / 2, false, complex_of(t));
}

Tensor real(Call&, const Tensor& self) { return self.is_complex() ? op::view_as_real(self).select(-1, 0) : self; }
Tensor imag(Call& call, const Tensor& self) {
  check_complex(call, self);
  return op::view_as_real(self).select(-1, 1);
}

Tensor angle(Call&, const Tensor& self) {
  if (self.is_complex()) return op::atan2(op::imag(self), op::real(self));
  const DType t = dispatch::float_of(self.dtype());
  const Tensor x = self.to(t);
  return op::where(op::isnan(x), x, op::mul(op::lt(x, 0).to(t), 3.14159265358979324));
}

Tensor resolve_conj(Call&, const Tensor& self) { return self; }

}  // namespace tenon::impl

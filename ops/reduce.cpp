// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/reduce.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/ops/compare.h>
#include <tenon/ops/where.h>

namespace tenon::impl {
namespace {
using dispatch::Reduction;
using ReduceKernel = void(const ReducePlan&);

Tensor extreme(Call& call, const Tensor& self, OptionalDims dim, bool keepdim) {
  TENON_CHECK(!self.is_complex(), DtypeError, call.name(), ": self: complex numbers have no order");
  Reduction r(call, self, dim, keepdim);
  r.require_elements();
  return r.run<ReduceKernel>(self.dtype());
}

std::tuple<Tensor, Tensor> extreme_dim(Call& call, const Tensor& self, int64_t dim, bool keepdim) {
  TENON_CHECK(!self.is_complex(), DtypeError, call.name(), ": self: complex numbers have no order");
  Reduction r(call, self, std::optional<int64_t>(dim), keepdim);
  r.require_elements();
  return r.keep_order().run2<ReduceKernel>(self.dtype(), kInt64);
}

Tensor position(Call& call, const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  TENON_CHECK(!self.is_complex() && self.dtype() != kBool, DtypeError, call.name(),
              ": self: expected a real number dtype, got ", self.dtype());
  Reduction r(call, self, dim, keepdim);
  r.require_elements();
  return r.keep_order().run<ReduceKernel>(kInt64);
}

// The gradient at zero variance is 0, though the root's is infinite there.
Tensor root(const Tensor& variance) {
  if (!grad_enabled() || !variance.requires_grad()) return variance.sqrt();
  const Tensor flat = op::eq(variance, 0);
  return op::where(flat, 0, op::where(flat, 1, variance).sqrt());
}

Tensor truth(Call& call, const Tensor& self, OptionalDims dim, bool keepdim) {
  return Reduction(call, self, dim, keepdim).run<ReduceKernel>(self.dtype() == kUInt8 ? kUInt8 : kBool);
}

}  // namespace

Tensor sum(Call& call, const Tensor& self, OptionalDims dim, bool keepdim, std::optional<DType> dtype) {
  const DType natural = is_integral(self.dtype(), true) ? kInt64 : self.dtype();
  const Tensor input = dtype && *dtype != natural ? self.to(*dtype) : self;
  const DType result = dtype.value_or(natural);
  // An integer sum wanted in a narrower integer: sum in int64, then convert (wraps as PyTorch's does).
  if (is_integral(result, true) && result != kInt64) {
    const Tensor wide = op::sum(input, dim, keepdim, kInt64);
    return wide.to(result);
  }
  return Reduction(call, input, dim, keepdim).run<ReduceKernel>(result);
}

Tensor mean(Call& call, const Tensor& self, OptionalDims dim, bool keepdim, std::optional<DType> dtype) {
  const DType t = dtype.value_or(self.dtype());
  TENON_CHECK(is_floating_point(t) || is_complex(t), DtypeError, "mean: expected a floating or complex dtype, got ", t,
              "; give dtype");
  const Tensor input = t == self.dtype() ? self : self.to(t);
  return Reduction(call, input, dim, keepdim).run<ReduceKernel>(t);
}

Tensor var(Call& call, const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool keepdim) {
  const DType t = self.dtype();
  TENON_CHECK(is_floating_point(t) || is_complex(t), DtypeError, call.name(),
              ": self: expected a floating or complex dtype, got ", t);
  const double c = correction ? correction->real() : 1.0;
  return Reduction(call, self, dim, keepdim).run<void(const ReducePlan&, const double&)>(real_of(t), c);
}
Tensor var_unbiased(Call&, const Tensor& self, bool unbiased) {
  return op::var(self, {}, Scalar(unbiased ? 1 : 0), false);
}
Tensor var_dim(Call&, const Tensor& self, OptionalDims dim, bool unbiased, bool keepdim) {
  return op::var(self, dim, Scalar(unbiased ? 1 : 0), keepdim);
}
// The root of the variance in float32 for 16-bit floats, whose variance leaves their range long before its root does.
Tensor std(Call&, const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool keepdim) {
  if (is_half(self.dtype())) return root(op::var(self.to(kFloat32), dim, correction, keepdim)).to(self.dtype());
  return root(op::var(self, dim, correction, keepdim));
}
Tensor std_unbiased(Call&, const Tensor& self, bool unbiased) {
  return op::std(self, {}, Scalar(unbiased ? 1 : 0), false);
}
Tensor std_dim(Call&, const Tensor& self, OptionalDims dim, bool unbiased, bool keepdim) {
  return op::std(self, dim, Scalar(unbiased ? 1 : 0), keepdim);
}

Tensor amax(Call& call, const Tensor& self, IntArrayRef dim, bool keepdim) { return extreme(call, self, dim, keepdim); }
Tensor amin(Call& call, const Tensor& self, IntArrayRef dim, bool keepdim) { return extreme(call, self, dim, keepdim); }
Tensor max(Call& call, const Tensor& self) { return extreme(call, self, {}, false); }
Tensor min(Call& call, const Tensor& self) { return extreme(call, self, {}, false); }
std::tuple<Tensor, Tensor> max_dim(Call& call, const Tensor& self, int64_t dim, bool keepdim) {
  return extreme_dim(call, self, dim, keepdim);
}
std::tuple<Tensor, Tensor> min_dim(Call& call, const Tensor& self, int64_t dim, bool keepdim) {
  return extreme_dim(call, self, dim, keepdim);
}
Tensor max_other(Call&, const Tensor& self, const Tensor& other) { return self.maximum(other); }
Tensor min_other(Call&, const Tensor& self, const Tensor& other) { return self.minimum(other); }
Tensor argmax(Call& call, const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  return position(call, self, dim, keepdim);
}
Tensor argmin(Call& call, const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  return position(call, self, dim, keepdim);
}

Tensor all(Call& call, const Tensor& self, OptionalDims dim, bool keepdim) { return truth(call, self, dim, keepdim); }
Tensor any(Call& call, const Tensor& self, OptionalDims dim, bool keepdim) { return truth(call, self, dim, keepdim); }

Tensor sum_to_size(Call&, const Tensor& self, IntArrayRef size) {
  if (size.empty()) return op::sum(self, {}, false, {});  // an int64 of an integer without dimensions, as PyTorch's
  if (self.sizes() == size) return self;
  const auto extra = static_cast<std::size_t>(self.dim()) - size.size();
  bool fits = static_cast<std::size_t>(self.dim()) >= size.size();
  DimVector dims;
  for (std::size_t d = 0; fits && d < static_cast<std::size_t>(self.dim()); ++d) {
    const int64_t own = self.sizes()[d];
    if (d < extra || (size[d - extra] == 1 && own != 1))
      dims.push_back(static_cast<int64_t>(d));
    else
      fits = size[d - extra] == own;
  }
  TENON_CHECK(fits, ShapeError, "sum_to_size: size: ", size, " does not broadcast to ", self.sizes());
  if (dims.empty()) return self;
  return op::sum(self, IntArrayRef(dims), true, {}).view(size);
}

}  // namespace tenon::impl

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/statistics.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/finite.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

namespace tenon::impl {
namespace {

using dispatch::Reduction;
using ReduceKernel = void(const ReducePlan&);
using Pair = std::tuple<Tensor, Tensor>;

Tensor product_of(Call& call, const Tensor& self, std::optional<int64_t> dim, bool keepdim,
                  std::optional<DType> dtype) {
  const DType natural = is_integral(self.dtype(), true) ? kInt64 : self.dtype();
  const DType result = dtype.value_or(natural);
  const Tensor input = result != natural ? self.to(result) : self;
  // An integer product wanted in a narrower integer: in int64, then converted (which wraps).
  const DType wide = is_integral(result, true) ? kInt64 : result;
  const Tensor product = Reduction(call, input, dim, keepdim).run<ReduceKernel>(wide);
  return wide == result ? product : product.to(result);
}

Tensor variance(const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool keepdim,
                bool root) {
  return root ? op::std(self, dim, correction, keepdim) : op::var(self, dim, correction, keepdim);
}
Pair moments(const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool keepdim, bool root) {
  return {variance(self, dim, correction, keepdim, root), op::mean(self, dim, keepdim, {})};
}
Scalar correction_of(bool unbiased) { return Scalar(unbiased ? 1 : 0); }

}  // namespace

Tensor prod(Call& call, const Tensor& self, std::optional<DType> dtype) {
  return product_of(call, self, {}, false, dtype);
}
Tensor prod_dim(Call& call, const Tensor& self, int64_t dim, bool keepdim, std::optional<DType> dtype) {
  return product_of(call, self, dim, keepdim, dtype);
}

Tensor logsumexp(Call&, const Tensor& self, IntArrayRef dim, bool keepdim) {
  const Tensor x = is_integral(self.dtype(), true) ? self.to(default_dtype()) : self;
  if (x.numel() == 0) return log(sum(exp(x), dim, keepdim));
  // The largest element leaves as a constant; where it is infinite, nothing is subtracted and exp is infinite or 0.
  const Tensor most = amax(x.is_complex() ? x.detach().to(real_of(x.dtype())) : x.detach(), dim, /*keepdim=*/true);
  const Tensor shift = where(isfinite(most), most, 0);
  const Tensor logarithm = log(sum(exp(sub(x, shift)), dim, /*keepdim=*/true));
  const Tensor result = add(logarithm, shift);
  if (keepdim) return result;
  return dim.empty() ? result.reshape({}) : op::squeeze_dims(result, dim);
}

Tensor nansum(Call&, const Tensor& self, OptionalDims dim, bool keepdim, std::optional<DType> dtype) {
  TENON_CHECK(!self.is_complex(), DtypeError, "nansum: self: expected a real dtype, got ", self.dtype());
  if (is_integral(self.dtype(), true)) return op::sum(self, dim, keepdim, dtype);
  return op::sum(where(isnan(self), 0, self), dim, keepdim, dtype);
}

Tensor nanmean(Call&, const Tensor& self, OptionalDims dim, bool keepdim, std::optional<DType> dtype) {
  TENON_CHECK(self.is_floating_point() || self.is_complex(), DtypeError,
              "nanmean: self: expected a floating or complex dtype, got ", self.dtype());
  const Tensor lost = isnan(self);
  const Tensor total = op::sum(where(lost, 0, self), dim, keepdim, dtype);
  return div(total, op::sum(logical_not(lost), dim, keepdim, {}));
}

Tensor count_nonzero(Call&, const Tensor& self, OptionalDims dim) { return op::sum(ne(self, 0), dim, false, {}); }

Pair var_mean(Call&, const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool keepdim) {
  return moments(self, dim, correction, keepdim, false);
}
Pair std_mean(Call&, const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool keepdim) {
  return moments(self, dim, correction, keepdim, true);
}
Pair var_mean_unbiased(Call&, const Tensor& self, bool unbiased) {
  return moments(self, {}, correction_of(unbiased), false, false);
}
Pair std_mean_unbiased(Call&, const Tensor& self, bool unbiased) {
  return moments(self, {}, correction_of(unbiased), false, true);
}
Pair var_mean_dim(Call&, const Tensor& self, OptionalDims dim, bool unbiased, bool keepdim) {
  return moments(self, dim, correction_of(unbiased), keepdim, false);
}
Pair std_mean_dim(Call&, const Tensor& self, OptionalDims dim, bool unbiased, bool keepdim) {
  return moments(self, dim, correction_of(unbiased), keepdim, true);
}

Pair aminmax(Call& call, const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  for (const Tensor& out : call.destinations)
    TENON_CHECK(out.dtype() == self.dtype(), DtypeError, "aminmax: out: expected tensors of self's dtype, ",
                self.dtype(), ", got one of ", out.dtype());
  const int64_t one[1] = {dim.value_or(0)};
  const IntArrayRef dims = dim ? IntArrayRef(one, 1) : IntArrayRef();
  return {op::amin(self, dims, keepdim), op::amax(self, dims, keepdim)};
}

}  // namespace tenon::impl

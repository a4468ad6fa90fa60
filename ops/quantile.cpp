// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/quantile.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/sort.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <cmath>

namespace tenon::impl {
namespace {

// q as a tensor of self's dtype, checked.
Tensor checked_q(const Call& call, const Tensor& self, const Operand& q) {
  if (!q.is_tensor()) {
    const double v = q.number().real();
    TENON_CHECK(v >= 0 && v <= 1, ValueError, call.name(), ": q: expected 0 to 1, got ", v);
    return scalar_tensor(v, self.options());
  }
  const Tensor& t = q.tensor();
  TENON_CHECK(t.dim() <= 1 && t.numel() > 0, ShapeError, call.name(),
              ": q: expected a number or a vector that is not empty, got sizes ", t.sizes());
  TENON_CHECK(t.dtype() == self.dtype(), DtypeError, call.name(), ": q: expected the dtype of self, ", self.dtype(),
              ", got ", t.dtype());
  TENON_CHECK(t.device() == self.device(), DeviceError, call.name(), ": q: expected a tensor on ", self.device(),
              ", got one on ", t.device());
  if (t.is_cpu()) {
    const Tensor inside = logical_and(ge(t, 0), le(t, 1));
    TENON_CHECK(op::all(inside, {}, false).item().to<bool>(), ValueError, call.name(), ": q: expected 0 to 1");
  }
  return t;
}

// To the nearest integer, halves to even; x holds no negative number.
Tensor nearest(const Tensor& x, const Tensor& below) {
  const Tensor rest = sub(x, below.to(x.dtype()));
  const Tensor odd = ne(mul(mul(below.to(kFloat64), 0.5).to(kInt64), 2), below);
  return add(below, logical_or(gt(rest, 0.5), logical_and(eq(rest, 0.5), odd)));
}

Tensor quantiles(Call& call, const Tensor& self, const Operand& q, std::optional<int64_t> dim, bool keepdim,
                 std::string_view how, bool skip_nan) {
  TENON_CHECK(self.dtype() == kFloat32 || self.dtype() == kFloat64, DtypeError, call.name(),
              ": self: expected float32 or float64, got ", self.dtype());
  const bool linear = how == "linear", midpoint = how == "midpoint";
  TENON_CHECK(linear || midpoint || how == "lower" || how == "higher" || how == "nearest", ValueError, call.name(),
              ": interpolation: expected linear, lower, higher, nearest or midpoint, got ", how);
  const int64_t d = dim ? wrap_dim(*dim, self.dim(), std::string(call.name()).c_str()) : 0;
  TENON_CHECK(self.numel() > 0, ShapeError, call.name(), ": self has no elements");
  const Tensor q_tensor = checked_q(call, self, q);

  DimVector kept, order;  // sizes of the result without q; dimensions of self with d last
  for (int64_t k = 0; k < self.dim(); ++k) {
    const bool reduced = !dim || k == d;
    if (!reduced) kept.push_back(self.size(k));
    if (reduced && keepdim) kept.push_back(1);
    if (k != d) order.push_back(k);
  }
  order.push_back(d);
  const Tensor lines = !dim || self.dim() == 0 ? self.reshape({-1}) : self.permute(order);
  const Tensor sorted = std::get<0>(tenon::sort(lines));
  const int64_t n = sorted.sizes().back();

  DimVector many(sorted.sizes());  // [lines..., q]
  many[many.size() - 1] = q_tensor.numel();
  Tensor ranks = q_tensor.reshape({-1});
  if (skip_nan) {
    const Tensor numbers = op::sum(logical_not(isnan(sorted.detach())), IntArrayRef{-1}, true, {});
    ranks = clamp_min(mul(ranks, sub(numbers, 1).to(self.dtype())), 0);
  } else {
    const Tensor has_nan = isnan(sorted.detach().slice(-1, n - 1, n));
    ranks = where(has_nan, n - 1, mul(ranks, n - 1));
  }
  ranks = ranks.expand(many);

  const Tensor at = ranks.detach();
  const Tensor below = clamp(at.to(kInt64), Scalar(0), Scalar(n - 1));
  const Tensor above = clamp_max(add(below, gt(at, below.to(at.dtype()))), n - 1);
  Tensor result;
  if (linear || midpoint) {
    const Tensor low = gather(sorted, -1, below), high = gather(sorted, -1, above);
    // Between two equal infinities the distance is 0, not NaN.
    const Tensor start = low.detach();
    const Tensor endless = logical_and(eq(start, high.detach()), eq(start.abs(), INFINITY));
    const Tensor distance = where(endless, 0, sub(high, low));
    result = add(low, linear ? mul(sub(ranks, below.to(ranks.dtype())), distance) : mul(distance, 0.5));
  } else {
    result = gather(sorted, -1,
                    how == "lower"    ? below
                    : how == "higher" ? above
                                      : clamp_max(nearest(at, below), n - 1));
  }

  if (q_tensor.dim() == 0) return result.reshape(kept);
  DimVector front(1, result.dim() - 1), sizes(1, q_tensor.numel());
  for (int64_t k = 0; k + 1 < result.dim(); ++k) front.push_back(k);
  for (const int64_t size : kept) sizes.push_back(size);
  return result.permute(front).reshape(sizes);
}

}  // namespace

Tensor quantile(Call& call, const Tensor& self, const Operand& q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) {
  return quantiles(call, self, q, dim, keepdim, interpolation, false);
}
Tensor nanquantile(Call& call, const Tensor& self, const Operand& q, std::optional<int64_t> dim, bool keepdim,
                   std::string_view interpolation) {
  return quantiles(call, self, q, dim, keepdim, interpolation, true);
}

}  // namespace tenon::impl

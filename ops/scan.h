// SPDX-License-Identifier: Apache-2.0
// Running reductions along a dimension: element i of the result covers elements 0 to i of self, or i to the last one
// under `reverse`. Results have self's sizes. Sums accumulate in float64 on the CPU, and in float32 for 16-bit floats on
// CUDA; integers and bool give int64 (wrapping). Their order is fixed: results are the same in every run.
#pragma once

#include <tenon/dispatch/op.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// A contiguous array seen as outer x length x inner, scanned along the middle.
struct ScanShape {
  int64_t outer, length, inner;
  bool reverse;
};

/// Running sum and product. dtype: self is converted to it first.
TENON_OP(cumsum, "cumsum(Tensor self, int dim, *, dtype? dtype=None, bool reverse=False) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, int64_t, std::optional<DType>, bool),
         void(const Tensor& out, const Tensor& self, const ScanShape&))
inline Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype = {}, bool reverse = false) {
  return op::cumsum(self, dim, dtype, reverse);
}
TENON_OP(cumprod, "cumprod(Tensor self, int dim, *, dtype? dtype=None, bool reverse=False) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, int64_t, std::optional<DType>, bool),
         void(const Tensor& out, const Tensor& self, const ScanShape&))
inline Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype = {}, bool reverse = false) {
  return op::cumprod(self, dim, dtype, reverse);
}
/// log of the running sum of exponentials, without overflow. Floating dtypes.
TENON_OP(logcumsumexp, "logcumsumexp(Tensor self, int dim, *, bool reverse=False) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, int64_t, bool), void(const Tensor& out, const Tensor& self, const ScanShape&))
inline Tensor logcumsumexp(const Tensor& self, int64_t dim, bool reverse = false) {
  return op::logcumsumexp(self, dim, reverse);
}
/// exp(-down) times the running sum of self exp(up), in logarithms: what logcumsumexp's gradients are made of. Real.
// clang-format off
TENON_OP(scaled_cumsum, "_scaled_cumsum(Tensor self, Tensor up, Tensor down, int dim, *, bool reverse=False) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&, const Tensor&, const Tensor&, int64_t, bool), void())
// clang-format on
/// Running maximum (minimum) and where it was (int64): the last position among equals. NaN, once met, stays. Complex is
/// an error.
TENON_OP(cummax, "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", kernel, kNoInplace,
         std::tuple<Tensor, Tensor>(const Tensor&, int64_t),
         void(const Tensor& values, const Tensor& indices, const Tensor& self, const ScanShape&))
inline std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim) { return op::cummax(self, dim); }
TENON_OP(cummin, "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", kernel, kNoInplace,
         std::tuple<Tensor, Tensor>(const Tensor&, int64_t),
         void(const Tensor& values, const Tensor& indices, const Tensor& self, const ScanShape&))
inline std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim) { return op::cummin(self, dim); }

/// Differences of neighbours along dim, n times; prepend and append are joined on first. bool: exclusive or.
TENON_OP(diff, "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", composite,
         kNoInplace, Tensor(const Tensor&, int64_t, int64_t, const Tensor&, const Tensor&), void())
inline Tensor diff(const Tensor& self, int64_t n = 1, int64_t dim = -1, const Tensor& prepend = {},
                   const Tensor& append = {}) {
  return op::diff(self, n, dim, prepend, append);
}
// clang-format off
/// Slopes of self along each of dims (all, when absent) by second-order differences: of steps `spacing` (one for all or one per dimension), or at positions (one-dimensional tensors). At the ends of order edge_order, 1 or 2.
TENON_OP(gradient, "gradient(Tensor self, *, Scalar? spacing=None, int[]? dim=None, int edge_order=1) -> Tensor[]", composite, kNoInplace, std::vector<Tensor>(const Tensor&, const std::optional<Scalar>&, std::optional<IntArrayRef>, int64_t), void())
TENON_OP(gradient_spacing, "gradient.spacing(Tensor self, *, Tensor[] spacing, int[]? dim=None, int edge_order=1) -> Tensor[]", composite, kNoInplace, std::vector<Tensor>(const Tensor&, TensorList, std::optional<IntArrayRef>, int64_t), void())
inline std::vector<Tensor> gradient(const Tensor& self, const Scalar& spacing = 1, std::optional<IntArrayRef> dim = {}, int64_t edge_order = 1) { return op::gradient(self, spacing, dim, edge_order); }
inline std::vector<Tensor> gradient(const Tensor& self, TensorList spacing, std::optional<IntArrayRef> dim = {}, int64_t edge_order = 1) { return op::gradient_spacing(self, spacing, dim, edge_order); }
// clang-format on
/// The integral of y along dim by the trapezoidal rule, at positions x or with steps dx.
TENON_OP(trapezoid, "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&, int64_t), void())
TENON_OP(trapezoid_dx, "trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Scalar&, int64_t), void())
TENON_ALIAS("trapz", "trapezoid")
inline Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1) { return op::trapezoid(y, x, dim); }
inline Tensor trapezoid(const Tensor& y, const Scalar& dx = 1, int64_t dim = -1) {
  return op::trapezoid_dx(y, dx, dim);
}
/// Its running values: one fewer than y has along dim.
TENON_OP(cumulative_trapezoid, "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", composite,
         kNoInplace, Tensor(const Tensor&, const Tensor&, int64_t), void())
TENON_OP(cumulative_trapezoid_dx, "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", composite,
         kNoInplace, Tensor(const Tensor&, const Scalar&, int64_t), void())
inline Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1) {
  return op::cumulative_trapezoid(y, x, dim);
}
inline Tensor cumulative_trapezoid(const Tensor& y, const Scalar& dx = 1, int64_t dim = -1) {
  return op::cumulative_trapezoid_dx(y, dx, dim);
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/scan.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

namespace tenon::impl {
namespace {

std::string who(const Call& call) { return std::string(call.name()); }

ScanShape shape_of(const Tensor& x, int64_t dim, bool reverse) {
  ScanShape s{1, 1, 1, reverse};
  for (int64_t d = 0; d < x.dim(); ++d) (d < dim ? s.outer : d > dim ? s.inner : s.length) *= x.size(d);
  return s;
}

// The kernels see contiguous arrays; what is not is copied on the way in and out.
template <class Handle>
Tensor scan(Call& call, const Handle& handle, const Tensor& self, int64_t dim, DType result, bool reverse) {
  const int64_t d = wrap_dim(dim, self.dim(), who(call).c_str());
  const Tensor x = self.contiguous();
  const Tensor out = call.output(0, x.sizes(), result, x.device(), {&x});
  if (out.is_meta() || out.numel() == 0) return out;
  const Tensor target = out.is_contiguous() ? out : dispatch::make_tensor(x.sizes(), result, x.device());
  handle.kernel(x.backend(), dispatch::key_of(x.dtype()))(target, x, shape_of(x, d, reverse));
  if (!target.is_same(out)) Tensor(out).copy_(target);
  return out;
}

template <class Handle>
Tensor sum_or_product(Call& call, const Handle& handle, const Tensor& self, int64_t dim, std::optional<DType> dtype,
                      bool reverse) {
  const DType natural = is_integral(self.dtype(), true) ? kInt64 : self.dtype(), result = dtype.value_or(natural);
  const Tensor x = result == natural ? self : self.to(result);
  if (is_integral(result, true) && result != kInt64)
    return scan(call, handle, x, dim, kInt64, reverse).to(result);  // wraps as the narrower dtype would
  return scan(call, handle, x, dim, result, reverse);
}

template <class Handle>
std::tuple<Tensor, Tensor> extreme(Call& call, const Handle& handle, const Tensor& self, int64_t dim) {
  TENON_CHECK(!self.is_complex(), DtypeError, call.name(), ": self: complex numbers have no order");
  const int64_t d = wrap_dim(dim, self.dim(), who(call).c_str());
  const Tensor x = self.contiguous();
  std::tuple<Tensor, Tensor> out{call.output(0, x.sizes(), x.dtype(), x.device(), {&x}),
                                 call.output(1, x.sizes(), kInt64, x.device(), {&x})};
  const auto& [values, indices] = out;
  if (values.is_meta() || values.numel() == 0) return out;
  const bool direct = values.is_contiguous() && indices.is_contiguous();
  const Tensor v = direct ? values : dispatch::make_tensor(x.sizes(), x.dtype(), x.device());
  const Tensor i = direct ? indices : dispatch::make_tensor(x.sizes(), kInt64, x.device());
  handle.kernel(x.backend(), dispatch::key_of(x.dtype()))(v, i, x, shape_of(x, d, false));
  if (!direct) {
    Tensor(values).copy_(v);
    Tensor(indices).copy_(i);
  }
  return out;
}

// y[1:] and y[:-1] along dim.
Tensor later(const Tensor& y, int64_t dim) { return y.narrow(dim, 1, y.size(dim) - 1); }
Tensor earlier(const Tensor& y, int64_t dim) { return y.narrow(dim, 0, y.size(dim) - 1); }

// Twice the areas of the trapezoids: (y[i] + y[i+1]) * width, in y's dtype as PyTorch's: narrow integers wrap around.
Tensor areas(const Tensor& y, const Operand& width, int64_t dim) {
  return mul(add(later(y, dim), earlier(y, dim)), width);
}
// Widths from positions: x of one dimension lies along dim, others broadcast with y.
Tensor widths(const Call& call, const Tensor& y, const Tensor& x, int64_t dim) {
  const auto along = [&](const Tensor& t) {
    DimVector sizes;
    for (int64_t d = 0; d < y.dim(); ++d) sizes.push_back(d == dim ? t.size(0) : 1);
    return t.reshape(sizes);
  };
  const Tensor p = x.dim() == 1 ? along(x) : x;
  const int64_t d = p.dim() - y.dim() + dim;
  TENON_CHECK(d >= 0 && p.size(d) == y.size(dim), ShapeError, call.name(), ": x: expected ", y.size(dim),
              " positions along dim, got sizes ", x.sizes());
  return sub(later(p, d), earlier(p, d));
}
// Slopes of f along d, of second order within and of `order` at the ends, at positions `at` or in steps of h. Formulas
// and their order are PyTorch's: in 16-bit floats another order would be another result.
Tensor slopes(const Call& call, const Tensor& f, int64_t d, const Tensor& at, const Operand& h, int64_t order) {
  const int64_t n = f.size(d);
  TENON_CHECK(n > order, ShapeError, call.name(), ": self: expected at least edge_order + 1 = ", order + 1,
              " elements along dimension ", d, ", got ", n);
  TENON_CHECK(!at.defined() || at.dim() == 1, ShapeError, call.name(),
              ": spacing: expected numbers or tensors of one dimension, got sizes ", at.sizes());
  const auto y = [&](int64_t from) { return f.narrow(d, from, 1); };
  if (!at.defined()) {
    const Tensor within = div(div(sub(f.narrow(d, 2, n - 2), f.narrow(d, 0, n - 2)), h), 2);
    const auto end = [&](int64_t i, double a, double b, double c) {
      return div(add(add(mul(y(i), a), mul(y(i + 1), b)), mul(y(i + 2), c)), h);
    };
    if (order == 2) return cat({end(0, -1.5, 2, -0.5), within, end(n - 3, 0.5, -2, 1.5)}, d);
    return cat({div(sub(y(1), y(0)), h), within, div(sub(y(n - 1), y(n - 2)), h)}, d);
  }
  Tensor steps = widths(call, f, at, d);
  if (is_integral(at.dtype(), true)) steps = steps.to(promote_types(f.dtype(), default_dtype()));
  // The derivative of the parabola through three points, with distances p and q, in the middle.
  const Tensor p = earlier(steps, d), q = later(steps, d), both = add(p, q);
  const Tensor within = add(
      add(mul(div(neg(q), mul(p, both)), f.narrow(d, 0, n - 2)), mul(div(sub(q, p), mul(p, q)), f.narrow(d, 1, n - 2))),
      mul(div(p, mul(q, both)), f.narrow(d, 2, n - 2)));
  // And at its lower (sign -1) or upper end; points i, i + 1, i + 2, `near` the distance to the next of them.
  const auto end = [&](int64_t i, const Tensor& near, const Tensor& far, double sign) {
    const Tensor sum = add(near, far);
    const Tensor outer = mul(div(add(mul(near, 2), far), mul(near, sum)), sign);
    const Tensor middle = mul(div(sum, mul(near, far)), -sign), inner = mul(div(near, mul(far, sum)), sign);
    const Tensor &first = sign < 0 ? outer : inner, &last = sign < 0 ? inner : outer;
    return add(add(mul(first, y(i)), mul(middle, y(i + 1))), mul(last, y(i + 2)));
  };
  const auto step = [&](const Tensor& t, int64_t i) { return t.narrow(d, i, 1); };
  if (order == 2)
    return cat({end(0, step(p, 0), step(q, 0), -1), within, end(n - 3, step(q, n - 3), step(p, n - 3), 1)}, d);
  return cat({div(sub(y(1), y(0)), step(steps, 0)), within, div(sub(y(n - 1), y(n - 2)), step(steps, n - 2))}, d);
}

std::vector<Tensor> gradients(const Call& call, const Tensor& self, const std::optional<Scalar>& step,
                              TensorList spacing, std::optional<IntArrayRef> dim, int64_t order) {
  TENON_CHECK(self.dtype() != kBool, DtypeError, call.name(), ": self: bool is not supported");
  TENON_CHECK(order == 1 || order == 2, ValueError, call.name(), ": edge_order: expected 1 or 2, got ", order);
  DimVector dims;
  for (int64_t k = 0; k < (dim ? static_cast<int64_t>(dim->size()) : self.dim()); ++k) {
    const int64_t d = dim ? wrap_dim((*dim)[static_cast<std::size_t>(k)], self.dim(), who(call).c_str()) : k;
    for (const int64_t other : dims)
      TENON_CHECK(d != other, ValueError, call.name(), ": dim: dimension ", d, " is given twice");
    dims.push_back(d);
  }
  TENON_CHECK(step || spacing.size() == dims.size(), ValueError, call.name(), ": spacing: expected one for each of ",
              dims.size(), " dimensions, got ", spacing.size());
  const Tensor f = is_integral(self.dtype()) ? self.to(default_dtype()) : self;
  std::vector<Tensor> results;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const bool positions = !step && spacing[k].dim() > 0;
    results.push_back(slopes(call, f, dims[k], positions ? spacing[k] : Tensor(),
                             step ? Operand(*step) : Operand(spacing[k]), order));
  }
  return results;
}

int64_t checked_dim(const Call& call, const Tensor& y, int64_t dim) {
  TENON_CHECK(y.dtype() != kBool, DtypeError, call.name(), ": y: bool is not supported");
  return wrap_dim(dim, y.dim(), who(call).c_str());
}
// As a float where it is an integer, 0 where there are no trapezoids.
Tensor floating(const Tensor& y) { return is_integral(y.dtype()) ? y.to(default_dtype()) : y; }
Tensor total(const Tensor& area, int64_t dim) {
  const int64_t dims[1] = {dim};
  return sum(area, IntArrayRef(dims, 1));
}

}  // namespace

Tensor cumsum(Call& call, const Tensor& self, int64_t dim, std::optional<DType> dtype, bool reverse) {
  return sum_or_product(call, op::cumsum, self, dim, dtype, reverse);
}
Tensor cumprod(Call& call, const Tensor& self, int64_t dim, std::optional<DType> dtype, bool reverse) {
  return sum_or_product(call, op::cumprod, self, dim, dtype, reverse);
}
Tensor logcumsumexp(Call& call, const Tensor& self, int64_t dim, bool reverse) {
  TENON_CHECK(self.is_floating_point() || self.is_complex(), DtypeError,
              "logcumsumexp: self: expected a floating or complex dtype, got ", self.dtype());
  return scan(call, op::logcumsumexp, self, dim, self.dtype(), reverse);
}
Tensor scaled_cumsum(Call&, const Tensor& self, const Tensor& up, const Tensor& down, int64_t dim, bool reverse) {
  // Terms of either sign have their own logarithms. 16-bit ones would be off by percents.
  const DType t = item_size(self.dtype()) == 2 ? kFloat32 : self.dtype();
  const Tensor u = up.to(t), d = down.to(t);
  const auto part = [&](const Tensor& size) {
    return exp(sub(op::logcumsumexp(add(log(clamp_min(size, 0)), u), dim, reverse), d));
  };
  return sub(part(self.to(t)), part(neg(self.to(t)))).to(self.dtype());
}
std::tuple<Tensor, Tensor> cummax(Call& call, const Tensor& self, int64_t dim) {
  return extreme(call, op::cummax, self, dim);
}
std::tuple<Tensor, Tensor> cummin(Call& call, const Tensor& self, int64_t dim) {
  return extreme(call, op::cummin, self, dim);
}

Tensor diff(Call& call, const Tensor& self, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append) {
  TENON_CHECK(n >= 0, ValueError, "diff: n: expected at least 0, got ", n);
  TENON_CHECK(self.dim() > 0, ShapeError, "diff: self: expected at least one dimension, got a 0-dim tensor");
  const int64_t d = wrap_dim(dim, self.dim(), who(call).c_str());
  if (n == 0) return self;
  std::vector<Tensor> parts;
  if (prepend.defined()) parts.push_back(prepend);
  parts.push_back(self);
  if (append.defined()) parts.push_back(append);
  Tensor x = parts.size() == 1 ? self : cat(parts, d);
  for (int64_t i = 0; i < n && x.size(d) > 0; ++i)
    x = x.dtype() == kBool ? logical_xor(later(x, d), earlier(x, d)) : sub(later(x, d), earlier(x, d));
  return x;
}

std::vector<Tensor> gradient(Call& call, const Tensor& self, const std::optional<Scalar>& spacing,
                             std::optional<IntArrayRef> dim, int64_t edge_order) {
  return gradients(call, self, spacing.value_or(1), {}, dim, edge_order);
}
std::vector<Tensor> gradient_spacing(Call& call, const Tensor& self, TensorList spacing, std::optional<IntArrayRef> dim,
                                     int64_t edge_order) {
  return gradients(call, self, {}, spacing, dim, edge_order);
}

Tensor trapezoid(Call& call, const Tensor& y, const Tensor& x, int64_t dim) {
  const int64_t d = checked_dim(call, y, dim);
  if (y.size(d) == 0) return total(floating(y), d);
  return div(total(areas(y, widths(call, y, x, d), d), d), 2);
}
Tensor trapezoid_dx(Call& call, const Tensor& y, const Scalar& dx, int64_t dim) {
  const int64_t d = checked_dim(call, y, dim);
  const Tensor f = floating(y);
  if (f.size(d) == 0) return total(f, d);
  return mul(sub(total(f, d), mul(add(f.select(d, 0), f.select(d, -1)), 0.5)), dx);
}
Tensor cumulative_trapezoid(Call& call, const Tensor& y, const Tensor& x, int64_t dim) {
  const int64_t d = checked_dim(call, y, dim);
  return y.size(d) == 0 ? floating(y) : div(cumsum(areas(y, widths(call, y, x, d), d), d), 2);
}
Tensor cumulative_trapezoid_dx(Call& call, const Tensor& y, const Scalar& dx, int64_t dim) {
  const int64_t d = checked_dim(call, y, dim);
  const Tensor f = floating(y);
  return f.size(d) == 0 ? f : div(cumsum(areas(f, dx, d), d), 2);
}

}  // namespace tenon::impl

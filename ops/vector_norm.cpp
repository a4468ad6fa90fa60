// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/vector_norm.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/decomposition.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <algorithm>
#include <cmath>

namespace tenon::impl {
namespace {

using dispatch::Reduction;

int64_t wrapped(const Call& call, int64_t dim, int64_t rank) {
  TENON_CHECK(dim >= -rank && dim < rank, IndexError, call.name(), ": dim: expected from ", -rank, " to ", rank - 1,
              ", got ", dim);
  return dim < 0 ? dim + rank : dim;
}

// "nuc" adds up the singular values, "max" and "min" pick one of them.
Tensor of_singular_values(const Call& call, const Tensor& self, std::string_view how, IntArrayRef dim, bool keepdim,
                          std::optional<DType> dtype) {
  TENON_CHECK(dim.size() == 2, ValueError, call.name(), ": dim: expected two dimensions, got ", dim);
  const int64_t rows = wrapped(call, dim[0], self.dim()), columns = wrapped(call, dim[1], self.dim());
  TENON_CHECK(rows != columns, ValueError, call.name(), ": dim: expected two different dimensions, got ", dim);
  DimVector order;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != rows && d != columns) order.push_back(d);
  order.push_back(rows), order.push_back(columns);
  const Tensor x = dtype ? self.to(*dtype) : self;
  const Tensor values = std::get<1>(op::_linalg_svd(x.permute(order)));
  // The norm of matrices without elements is 0; the smallest of no values does not exist.
  const Tensor norm = how == "min"                        ? amin(values, -1)
                      : how == "nuc" || self.numel() == 0 ? sum(values, -1)
                                                          : amax(values, -1);
  return keepdim ? norm.unsqueeze(std::min(rows, columns)).unsqueeze(std::max(rows, columns)) : norm;
}

Tensor frobenius(const Tensor& self, OptionalDims dim, bool keepdim, std::optional<DType> dtype) {
  return op::linalg_vector_norm(self, 2, dim, keepdim, dtype);
}

}  // namespace

Tensor linalg_vector_norm(Call& call, const Tensor& self, const Scalar& ord, OptionalDims dim, bool keepdim,
                          std::optional<DType> dtype) {
  TENON_CHECK(!ord.is_complex(), ValueError, "linalg_vector_norm: ord: expected a real number, got ", ord);
  const Tensor input = dtype ? self.to(*dtype) : self;
  TENON_CHECK(input.is_floating_point() || input.is_complex(), DtypeError,
              "linalg_vector_norm: self: expected a floating or complex dtype, got ", input.dtype());
  const double p = ord.real();
  Reduction r(call, input, dim, keepdim);
  if (p < 0 || std::isinf(p)) r.require_elements();
  return r.run<void(const ReducePlan&, const double&)>(real_of(input.dtype()), p);
}

Tensor linalg_matrix_norm(Call& call, const Tensor& self, const Scalar& ord, IntArrayRef dim, bool keepdim,
                          std::optional<DType> dtype) {
  TENON_CHECK(dim.size() == 2, ValueError, "linalg_matrix_norm: dim: expected two dimensions, got ", dim);
  const int64_t rows = wrapped(call, dim[0], self.dim()), columns = wrapped(call, dim[1], self.dim());
  TENON_CHECK(rows != columns, ValueError, "linalg_matrix_norm: dim: expected two different dimensions, got ", dim);
  const double p = ord.real();
  if (std::fabs(p) == 2) return of_singular_values(call, self, p > 0 ? "max" : "min", dim, keepdim, dtype);
  TENON_CHECK(std::fabs(p) == 1 || std::isinf(p), ValueError,
              "linalg_matrix_norm: ord: expected 1, -1, 2, -2, inf, -inf or a string, got ", ord);
  const bool by_column = std::fabs(p) == 1;
  const int64_t inner[1] = {by_column ? rows : columns};
  const Tensor sums = op::linalg_vector_norm(self, 1, IntArrayRef(inner, 1), /*keepdim=*/true, dtype);
  const int64_t outer[1] = {by_column ? columns : rows}, both[2] = {rows, columns};
  // The norm of matrices without elements is 0; the smallest of no sums does not exist.
  const Tensor result = p > 0 && self.numel() == 0 ? sum(sums, IntArrayRef(outer, 1), true)
                        : p > 0                    ? amax(sums, IntArrayRef(outer, 1), true)
                                                   : amin(sums, IntArrayRef(outer, 1), true);
  return keepdim ? result : op::squeeze_dims(result, IntArrayRef(both, 2));
}
Tensor linalg_matrix_norm_str(Call& call, const Tensor& self, std::string_view ord, IntArrayRef dim, bool keepdim,
                              std::optional<DType> dtype) {
  TENON_CHECK(dim.size() == 2, ValueError, "linalg_matrix_norm: dim: expected two dimensions, got ", dim);
  if (ord == "nuc") return of_singular_values(call, self, ord, dim, keepdim, dtype);
  TENON_CHECK(ord == "fro", ValueError, "linalg_matrix_norm: ord: expected \"fro\" or \"nuc\", got \"", ord, "\"");
  return frobenius(self, dim, keepdim, dtype);
}

Tensor linalg_norm(Call&, const Tensor& self, const std::optional<Scalar>& ord, OptionalDims dim, bool keepdim,
                   std::optional<DType> dtype) {
  const std::size_t dims = dim && !dim->empty() ? dim->size() : static_cast<std::size_t>(self.dim());
  if (!ord) return frobenius(self, dim, keepdim, dtype);
  TENON_CHECK(dims <= 2, ShapeError, "linalg_norm: expected one or two dimensions when ord is given, got ", dims);
  if (dims < 2) return op::linalg_vector_norm(self, *ord, dim, keepdim, dtype);
  const int64_t last[2] = {-2, -1};
  return op::linalg_matrix_norm(self, *ord, dim && !dim->empty() ? *dim : IntArrayRef(last, 2), keepdim, dtype);
}
Tensor linalg_norm_str(Call&, const Tensor& self, std::string_view ord, OptionalDims dim, bool keepdim,
                       std::optional<DType> dtype) {
  TENON_CHECK((dim && dim->size() == 2) || ((!dim || dim->empty()) && self.dim() == 2), ShapeError,
              "linalg_norm: ord: \"", ord, "\" needs a matrix or two dimensions, got sizes ", self.sizes());
  const int64_t last[2] = {-2, -1};
  return op::linalg_matrix_norm_str(self, ord, dim && !dim->empty() ? *dim : IntArrayRef(last, 2), keepdim, dtype);
}

Tensor norm(Call&, const Tensor& self, const std::optional<Scalar>& p, OptionalDims dim, bool keepdim,
            std::optional<DType> dtype) {
  return op::linalg_vector_norm(self, p.value_or(Scalar(2)), dim, keepdim, dtype);
}
Tensor norm_str(Call& call, const Tensor& self, std::string_view p, OptionalDims dim, bool keepdim,
                std::optional<DType> dtype) {
  if (p == "nuc") {
    TENON_CHECK((dim && !dim->empty()) || self.dim() == 2, ShapeError,
                "norm: p: \"nuc\" needs a matrix or two dimensions, got sizes ", self.sizes());
    return of_singular_values(call, self, p, dim && !dim->empty() ? *dim : IntArrayRef{0, 1}, keepdim, dtype);
  }
  TENON_CHECK(p == "fro", ValueError, "norm: p: expected a number, \"fro\" or \"nuc\", got \"", p, "\"");
  return frobenius(self, dim, keepdim, dtype);
}

Tensor dist(Call&, const Tensor& self, const Tensor& other, const Scalar& p) {
  return op::linalg_vector_norm(sub(self, other), p, {}, false, {});
}

Tensor renorm(Call& call, const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  TENON_CHECK(p.real() > 0, ValueError, "renorm: p: expected a positive number, got ", p);
  TENON_CHECK(maxnorm.real() >= 0, ValueError, "renorm: maxnorm: expected at least 0, got ", maxnorm);
  TENON_CHECK(self.dim() > 1, ShapeError, "renorm: self: expected at least two dimensions, got ", self.sizes());
  const int64_t kept = wrapped(call, dim, self.dim());
  DimVector others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != kept) others.push_back(d);
  const DType t = self.dtype(), wide = is_half(t) ? kFloat32 : t;
  const Tensor size =
      op::linalg_vector_norm(self, p, IntArrayRef(others), true, wide == t ? std::optional<DType>() : wide);
  const Tensor scale = where(gt(size, maxnorm), div(maxnorm, add(size, 1e-7)), 1.0);
  return mul(self, scale.to(real_of(t)));
}

}  // namespace tenon::impl

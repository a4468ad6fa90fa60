// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/linalg.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/complex.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/decomposition.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/shape.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/vector_norm.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <algorithm>

namespace tenon::impl {
namespace {

void check_vectors(const char* who, const Tensor& a, const Tensor& b) {
  TENON_CHECK(a.dim() == 1 && b.dim() == 1, ShapeError, who, ": expected two vectors, got ", a.dim(), " and ", b.dim(),
              " dimensions");
}
void check_one_dtype(const char* who, const Tensor& a, const Tensor& b) {
  TENON_CHECK(a.dtype() == b.dtype(), DtypeError, who, ": expected one dtype, got ", a.dtype(), " and ", b.dtype());
}

}  // namespace

Tensor outer(Call&, const Tensor& self, const Tensor& vec2) {
  check_vectors("outer", self, vec2);
  return mul(self.unsqueeze(1), vec2);
}

Tensor inner(Call&, const Tensor& self, const Tensor& other) {
  if (self.dim() == 0 || other.dim() == 0) return mul(self, other);
  check_one_dtype("inner", self, other);
  TENON_CHECK(self.size(-1) == other.size(-1), ShapeError, "inner: expected equal last dimensions, got sizes ",
              self.sizes(), " and ", other.sizes());
  return op::tensordot(self, other, -1, -1);
}

Tensor vdot(Call&, const Tensor& self, const Tensor& other) {
  check_vectors("vdot", self, other);
  check_one_dtype("vdot", self, other);
  TENON_CHECK(self.numel() == other.numel(), ShapeError, "vdot: expected vectors of one length, got ", self.numel(),
              " and ", other.numel());
  return op::dot(conj(self), other);
}

Tensor linalg_vecdot(Call&, const Tensor& x, const Tensor& y, int64_t dim) {
  check_one_dtype("linalg_vecdot", x, y);
  TENON_CHECK(x.is_floating_point() || x.is_complex(), DtypeError,
              "linalg_vecdot: x: expected a floating or complex dtype, got ", x.dtype());
  return sum(mul(conj(x), y), dim);
}

Tensor kron(Call&, const Tensor& self, const Tensor& other) {
  const int64_t rank = std::max(self.dim(), other.dim());
  TENON_CHECK(2 * rank <= kMaxDims, ShapeError, "kron: expected at most ", kMaxDims / 2, " dimensions, got ", rank);
  if (rank == 0) return mul(self, other);
  // Sizes a0, 1, a1, 1, .., l and 1, b0, 1, b1, .., l: both are written out along l, the last dimension of the result.
  DimVector a, b, sizes;
  for (int64_t d = -rank; d < 0; ++d) {
    const int64_t m = d < -self.dim() ? 1 : self.size(d), n = d < -other.dim() ? 1 : other.size(d);
    sizes.push_back(m * n);
    if (d == -1) break;
    a.push_back(m), a.push_back(1);
    b.push_back(1), b.push_back(n);
  }
  a.push_back(sizes.back()), b.push_back(sizes.back());
  const auto spread = [](const Tensor& t, int64_t dim, int64_t times, IntArrayRef to) {
    const Tensor wide = (t.dim() == 0 ? t.unsqueeze(0) : t).unsqueeze(dim);
    DimVector repeated(wide.sizes());
    repeated[repeated.size() + static_cast<std::size_t>(dim)] = times;
    return wide.expand(repeated).reshape(to);
  };
  return mul(spread(self, -1, other.dim() == 0 ? 1 : other.size(-1), a),
             spread(other, -2, self.dim() == 0 ? 1 : self.size(-1), b))
      .reshape(sizes);
}

Tensor linalg_cross(Call&, const Tensor& self, const Tensor& other, int64_t dim) {
  TENON_CHECK(self.dim() == other.dim(), ShapeError, "linalg_cross: expected equal ranks, got ", self.dim(), " and ",
              other.dim());
  const int64_t d = wrap_dim(dim, self.dim(), "linalg_cross");
  TENON_CHECK(self.size(d) == 3 && other.size(d) == 3, ShapeError, "linalg_cross: dim: expected size 3 along ", d,
              ", got sizes ", self.sizes(), " and ", other.sizes());
  check_one_dtype("linalg_cross", self, other);
  TENON_CHECK(self.dtype() != kBool, DtypeError, "linalg_cross: self: expected numbers, got bool");
  Tensor parts[3];
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    parts[i] = sub(mul(self.select(d, j), other.select(d, k)), mul(self.select(d, k), other.select(d, j)));
  }
  return stack(TensorList(parts), d);
}

Tensor cross(Call&, const Tensor& self, const Tensor& other, std::optional<int64_t> dim) {
  for (int64_t d = 0; !dim && d < self.dim(); ++d)
    if (self.size(d) == 3) dim = d;
  TENON_CHECK(dim, ShapeError, "cross: self: expected a dimension of size 3, got sizes ", self.sizes());
  return op::linalg_cross(self, other, *dim);
}

Tensor addmv(Call&, const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha) {
  TENON_CHECK(mat.dim() == 2 && vec.dim() == 1, ShapeError, "addmv: expected a matrix and a vector, got ", mat.dim(),
              " and ", vec.dim(), " dimensions");
  const int64_t rows = mat.size(0);
  TENON_CHECK(self.dim() <= 1 && (self.numel() == 1 || self.numel() == rows), ShapeError,
              "addmv: self: expected sizes that broadcast to [", rows, "], got ", self.sizes());
  return op::addmm(self.expand(rows).unsqueeze(1), mat, vec.unsqueeze(1), beta, alpha).view(rows);
}

Tensor addr(Call&, const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
            const Scalar& alpha) {
  check_vectors("addr", vec1, vec2);
  const DType t = dispatch::result_type(self, vec1, vec2);
  TENON_CHECK(!is_integral(t, true) || (is_integral(beta.dtype(), true) && is_integral(alpha.dtype(), true)),
              DtypeError, "addr: beta, alpha: expected integers for ", t, ", got ", beta, " and ", alpha);
  const bool logical = t == kBool;
  if (!logical && !is_half(t))
    return op::addmm(self.to(t), vec1.to(t).unsqueeze(1), vec2.to(t).unsqueeze(0), beta, alpha);
  // Rounded at each step, as in PyTorch.
  const Tensor product = mul(mul(vec1.to(t).unsqueeze(1), logical ? Scalar(alpha.to<bool>()) : alpha), vec2.to(t));
  if (beta.equal(0)) return product;
  const Tensor own = self.to(t).expand(product.sizes());
  return logical ? logical_or(own, product) : add(mul(own, beta), product);
}

Tensor addbmm(Call&, const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
              const Scalar& alpha) {
  TENON_CHECK(batch1.dim() == 3 && batch2.dim() == 3, ShapeError, "addbmm: expected two batches of matrices, got ",
              batch1.dim(), " and ", batch2.dim(), " dimensions");
  TENON_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1), ShapeError, "addbmm: sizes ",
              batch1.sizes(), " and ", batch2.sizes(), " do not multiply");
  if (is_half(batch1.dtype()) && batch1.size(0) > 0) {  // rounded after each matrix, as in PyTorch
    Tensor out = op::addmm(self, batch1.select(0, 0), batch2.select(0, 0), beta, alpha);
    for (int64_t i = 1; i < batch1.size(0); ++i)
      out = op::addmm(out, batch1.select(0, i), batch2.select(0, i), 1, alpha);
    return out;
  }
  // One product over batch and columns together.
  const int64_t k = batch1.size(0) * batch1.size(2);
  return op::addmm(self, batch1.transpose(0, 1).reshape({batch1.size(1), k}), batch2.reshape({k, batch2.size(2)}), beta,
                   alpha);
}

Tensor linalg_multi_dot(Call&, TensorList tensors) {
  const std::size_t n = tensors.size();
  TENON_CHECK(n >= 2, ValueError, "linalg_multi_dot: tensors: expected at least two, got ", n);
  std::vector<Tensor> chain(tensors.begin(), tensors.end());
  const bool row = chain[0].dim() == 1, column = chain[n - 1].dim() == 1;
  if (row) chain[0] = chain[0].unsqueeze(0);
  if (column) chain[n - 1] = chain[n - 1].unsqueeze(1);
  std::vector<double> sizes;  // matrix i is sizes[i] x sizes[i + 1]
  for (std::size_t i = 0; i < n; ++i) {
    TENON_CHECK(chain[i].dim() == 2, ShapeError,
                "linalg_multi_dot: tensors: expected matrices, and vectors at the ends ", "only, got ",
                tensors[i].dim(), " dimensions at ", i);
    check_one_dtype("linalg_multi_dot", chain[0], chain[i]);
    TENON_CHECK(i == 0 || chain[i - 1].size(1) == chain[i].size(0), ShapeError, "linalg_multi_dot: tensors: sizes ",
                tensors[i == 0 ? 0 : i - 1].sizes(), " and ", tensors[i].sizes(), " do not multiply");
    sizes.push_back(static_cast<double>(chain[i].size(0)));
  }
  sizes.push_back(static_cast<double>(chain[n - 1].size(1)));

  // cost[i][j]: the fewest multiplications for matrices i..j; split[i][j]: the last one of the left factor.
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<std::size_t>> split(n, std::vector<std::size_t>(n, 0));
  for (std::size_t length = 1; length < n; ++length)
    for (std::size_t i = 0; i + length < n; ++i) {
      const std::size_t j = i + length;
      for (std::size_t s = i; s < j; ++s) {
        const double c = cost[i][s] + cost[s + 1][j] + sizes[i] * sizes[s + 1] * sizes[j + 1];
        if (s == i || c < cost[i][j]) cost[i][j] = c, split[i][j] = s;
      }
    }
  const auto product = [&](const auto& again, std::size_t i, std::size_t j) -> Tensor {
    return i == j ? chain[i] : op::mm(again(again, i, split[i][j]), again(again, split[i][j] + 1, j));
  };
  Tensor out = product(product, 0, n - 1);
  if (column) out = out.squeeze(-1);
  return row ? out.squeeze(0) : out;
}

Tensor linalg_matrix_power(Call&, const Tensor& self, int64_t n) {
  TENON_CHECK(self.dim() >= 2 && self.size(-1) == self.size(-2), ShapeError,
              "linalg_matrix_power: self: expected square matrices, got sizes ", self.sizes());
  if (n == 0) return self.clone().copy_(eye(self.size(-1), self.options()));
  if (n == 1) return self.clone();
  Tensor power = n < 0 ? op::linalg_inv(self) : self, result;
  for (uint64_t left = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);;
       power = op::matmul(power, power)) {
    if (left & 1) result = result.defined() ? op::matmul(result, power) : power;
    if ((left >>= 1) == 0) return result;
  }
}

Tensor cov(Call&, const Tensor& self, int64_t correction, const Tensor& fweights, const Tensor& aweights) {
  TENON_CHECK(self.dim() <= 2, ShapeError, "cov: self: expected at most two dimensions, got ", self.dim());
  TENON_CHECK(self.dtype() != kBool, DtypeError, "cov: self: expected numbers, got bool");
  const Tensor x = self.dim() < 2 ? self.reshape({1, -1}) : self;
  const int64_t n = x.size(1);
  const auto check = [&](const char* what, const Tensor& w, bool right, const char* kind) {
    TENON_CHECK(w.dim() <= 1 && w.numel() == n, ShapeError, "cov: ", what, ": expected ", n, " weights, got sizes ",
                w.sizes());
    TENON_CHECK(right, DtypeError, "cov: ", what, ": expected ", kind, ", got ", w.dtype());
    TENON_CHECK(w.is_meta() || n == 0 || amin(w.detach()).item().real() >= 0, ValueError, "cov: ", what,
                ": expected weights of at least 0");
  };
  Tensor w = fweights;
  if (w.defined()) check("fweights", w, is_integral(w.dtype()), "integers");
  if (aweights.defined()) {
    check("aweights", aweights, aweights.is_floating_point(), "a floating dtype");
    w = w.defined() ? mul(w, aweights) : aweights;
  }
  const auto weighted = [&](const Tensor& t) { return w.defined() ? mul(t, w) : t; };
  const Tensor total = w.defined() ? sum(w) : scalar_tensor(n, self.options().dtype(kInt64));
  TENON_CHECK(!w.defined() || w.is_meta() || total.item().real() != 0, ValueError,
              "cov: fweights, aweights: expected a sum that is not 0");
  const Tensor centred = sub(x, div(sum(weighted(x), 1, true), total));
  Tensor freedom = sub(total, correction);
  if (aweights.defined() && correction != 0) freedom = sub(total, mul(div(sum(mul(w, aweights)), total), correction));
  const Tensor products = op::mm(centred, conj(weighted(centred)).transpose(0, 1));
  return div(products, clamp_min(freedom, 0)).squeeze();
}

Tensor corrcoef(Call&, const Tensor& self) {
  TENON_CHECK(self.dim() <= 2, ShapeError, "corrcoef: self: expected at most two dimensions, got ", self.dim());
  const Tensor c = op::cov(self, 1, {}, {});
  if (c.dim() == 0) return div(c, c);
  const Tensor deviations = sqrt(real(diagonal(c)));
  const Tensor r = div(div(c, deviations.unsqueeze(1)), deviations);
  // Rounding may lead out of [-1, 1].
  const auto clipped = [](const Tensor& t) { return clamp(t, Scalar(-1), Scalar(1)); };
  return r.is_complex() ? view_as_complex(clipped(view_as_real(r))) : clipped(r);
}

Tensor cdist(Call&, const Tensor& x1, const Tensor& x2, double p, std::string_view compute_mode) {
  TENON_CHECK(x1.dim() >= 2 && x2.dim() >= 2 && x1.size(-1) == x2.size(-1), ShapeError,
              "cdist: expected two or more dimensions and as many columns in x1 as in x2, got sizes ", x1.sizes(),
              " and ", x2.sizes());
  check_one_dtype("cdist", x1, x2);
  TENON_CHECK(x1.is_floating_point(), DtypeError, "cdist: x1: expected a floating dtype, got ", x1.dtype());
  TENON_CHECK(p >= 0, ValueError, "cdist: p: expected at least 0, got ", p);
  const bool always = compute_mode == "use_mm_for_euclid_dist",
             maybe = compute_mode == "use_mm_for_euclid_dist_if_necessary";
  TENON_CHECK(always || maybe || compute_mode == "donot_use_mm_for_euclid_dist", ValueError,
              "cdist: compute_mode: expected \"use_mm_for_euclid_dist_if_necessary\", \"use_mm_for_euclid_dist\" or "
              "\"donot_use_mm_for_euclid_dist\", got \"",
              compute_mode, "\"");
  const int64_t n = x1.size(-2), m = x2.size(-2), k = x1.size(-1);
  const Tensor a = x1.unsqueeze(-2), b = x2.unsqueeze(-3);
  if (k == 0) return sum(sub(a, b), -1);
  if (p == 2 && !is_half(x1.dtype()) && (always || (maybe && (n > 25 || m > 25)))) {
    const Tensor product = op::matmul(x1, x2.transpose(-1, -2));
    const Tensor squares = sub(add(sum(mul(a, a), -1), sum(mul(b, b), -1)), product, 2);
    const Tensor apart = gt(squares.detach(), 0);
    return where(apart, sqrt(where(apart, squares, 1)), 0);
  }
  // The differences take k times the memory of the result: in pieces, should they be many.
  constexpr int64_t kMost = int64_t{1} << 18;
  const int64_t each = std::max(x1.numel() / std::max<int64_t>(n, 1) * m, x2.numel()),
                rows = std::max<int64_t>(1, kMost / std::max<int64_t>(each, 1));
  if (n <= rows) return op::linalg_vector_norm(sub(a, b), p, -1, false, {});
  std::vector<Tensor> pieces;
  for (const Tensor& piece : a.split(rows, -3))
    pieces.push_back(op::linalg_vector_norm(sub(piece, b), p, -1, false, {}));
  return cat(pieces, -2);
}

}  // namespace tenon::impl

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/distance.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/activation.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/loss.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/scan.h>
#include <tenon/ops/triangle.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/vector_norm.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

namespace tenon {

void detail::check_triplet(const char* who, const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
  TENON_CHECK(anchor.dim() == positive.dim() && anchor.dim() == negative.dim(), ShapeError, who,
              ": positive, negative: expected as many dimensions as anchor, ", anchor.sizes(), ", got ",
              positive.sizes(), " and ", negative.sizes());
}
Tensor detail::triplet_loss(const char* who, const Tensor& near, const Tensor& far, const Tensor& swapped,
                            double margin, std::string_view reduction) {
  const int64_t how = parse_reduction(who, reduction);
  const Tensor apart = swapped.defined() ? op::minimum(far, swapped) : far;
  return reduced_loss(op::clamp_min(op::add(op::sub(near, apart, 1), margin, 1), 0), how);
}

namespace impl {
namespace {
using detail::parse_reduction;
using detail::reduced_loss;

Tensor norm(const Tensor& t, double p, int64_t dim, bool keepdim) {
  return op::linalg_vector_norm(t, p, IntArrayRef(dim), keepdim, {});
}
Tensor total(const Tensor& t, int64_t dim) { return op::sum(t, IntArrayRef(dim), false, {}); }
// A bound that has no part in the gradient.
Tensor at_least(const Tensor& t, double eps) {
  return op::add(t, op::sub(op::clamp_min(t.detach(), eps), t.detach(), 1), 1);
}
void check_floating(const char* who, DType t) {
  TENON_CHECK(is_floating_point(t), DtypeError, who, ": expected a floating dtype, got ", t);
}

struct Classes {
  Tensor scores, target;  // [n, classes]; [n] or [n, classes]
};
// A single entry is a batch of one.
Classes classes(const char* who, const Tensor& self, const Tensor& target, bool labels) {
  check_floating(who, self.dtype());
  TENON_CHECK(target.dtype() == kInt64, DtypeError, who, ": target: expected int64, got ", target.dtype());
  TENON_CHECK(self.dim() <= 2 && (self.dim() == 0 || self.size(-1) > 0), ShapeError, who,
              ": self: expected [classes] or [n, classes] with at least one class, got ", self.sizes());
  const int64_t count = self.dim() == 0 ? 1 : self.size(-1), n = self.dim() == 2 ? self.size(0) : 1;
  const bool fits =
      labels ? target.numel() == n * count && target.dim() <= self.dim() : target.numel() == n && target.dim() <= 1;
  TENON_CHECK(fits, ShapeError, who, ": target: expected ", labels ? "the sizes" : "an entry for each row",
              " of self, ", self.sizes(), ", got ", target.sizes());
  return {self.reshape({n, count}), labels ? target.reshape({n, count}) : target.reshape({n})};
}
// The losses of rows, without the batch of a single entry.
Tensor of_rows(const Tensor& rows, const Tensor& self, int64_t how) {
  return reduced_loss(self.dim() < 2 ? rows.reshape(IntArrayRef()) : rows, how);
}

}  // namespace

Tensor cosine_similarity(Call&, const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  const DType t = dispatch::result_type(x1, x2);
  check_floating("cosine_similarity", t);
  const DimVector sizes = dispatch::broadcast_sizes(x1.sizes(), x2.sizes(), "cosine_similarity");
  const Tensor a = x1.to(t).expand(sizes), b = x2.to(t).expand(sizes);
  const auto unit = [&](const Tensor& x) { return op::div(x, at_least(norm(x, 2, dim, true), eps), {}); };
  return total(op::mul(unit(a), unit(b)), dim);
}
Tensor pairwise_distance(Call&, const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  dispatch::broadcast_sizes(x1.sizes(), x2.sizes(), "pairwise_distance");
  return norm(op::add(op::sub(x1, x2, 1), eps, 1), p, -1, keepdim);
}
Tensor pdist(Call&, const Tensor& self, double p) {
  check_floating("pdist", self.dtype());
  TENON_CHECK(self.dim() == 2, ShapeError, "pdist: self: expected a matrix, got sizes ", self.sizes());
  TENON_CHECK(p >= 0, ValueError, "pdist: p: expected a number that is not negative, got ", p);
  const int64_t n = self.size(0);
  const Tensor pairs = op::triu_indices(n, n, 1, {}, self.device());
  return norm(op::sub(op::index_select(self, 0, pairs.select(0, 0)), op::index_select(self, 0, pairs.select(0, 1)), 1),
              p, 1, false);
}
Tensor bilinear(Call&, const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias) {
  TENON_CHECK(
      input1.dim() >= 1 && input1.dim() == input2.dim() &&
          input1.sizes().slice(0, input1.sizes().size() - 1) == input2.sizes().slice(0, input1.sizes().size() - 1),
      ShapeError, "bilinear: input2: expected the sizes of input1, ", input1.sizes(), ", but the last, got ",
      input2.sizes());
  TENON_CHECK(weight.dim() == 3 && weight.size(1) == input1.size(-1) && weight.size(2) == input2.size(-1), ShapeError,
              "bilinear: weight: expected [k, ", input1.size(-1), ", ", input2.size(-1), "], got ", weight.sizes());
  const int64_t k = weight.size(0), i = weight.size(1), j = weight.size(2);
  TENON_CHECK(!bias.defined() || (bias.dim() == 1 && bias.numel() == k), ShapeError, "bilinear: bias: expected sizes [",
              k, "], got ", bias.sizes());
  int64_t n = 1;
  DimVector sizes(input1.sizes());
  sizes[sizes.size() - 1] = k;
  for (std::size_t d = 0; d + 1 < sizes.size(); ++d) n *= sizes[d];
  // The first product is a matrix [k, j] for each entry.
  const Tensor forms =
      op::matmul(input1.reshape({n, i}), weight.permute({1, 0, 2}).reshape({i, k * j})).view({n, k, j});
  const Tensor out = op::matmul(forms, input2.reshape({n, j, 1})).reshape(sizes);
  return bias.defined() ? op::add(out, bias, 1) : out;
}
Tensor one_hot(Call&, const Tensor& self, int64_t num_classes) {
  TENON_CHECK(self.dtype() == kInt64, DtypeError, "one_hot: self: expected int64, got ", self.dtype());
  TENON_CHECK(num_classes >= -1 && (self.numel() != 0 || num_classes > 0), ValueError,
              "one_hot: num_classes: expected a number of classes", self.numel() == 0 ? " for an empty tensor" : "",
              ", got ", num_classes);
  int64_t classes = num_classes;
  if (!self.is_meta() && self.numel() != 0) {
    TENON_CHECK(op::amin(self, {}, false).item().integer() >= 0, ValueError,
                "one_hot: self: expected classes that are not negative");
    const int64_t most = op::amax(self, {}, false).item().integer();
    TENON_CHECK(num_classes == -1 || most < num_classes, ValueError, "one_hot: num_classes: expected more than ", most,
                ", got ", num_classes);
    if (num_classes == -1) classes = most + 1;
  }
  TENON_CHECK(classes > 0, ValueError, "one_hot: num_classes: has to be given for a meta tensor");
  const Tensor all = op::arange(classes, kInt64, self.device());
  return op::eq(self.unsqueeze(-1), all).to(kInt64);
}

Tensor cosine_embedding_loss(Call&, const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                             std::string_view reduction) {
  const int64_t how = parse_reduction("cosine_embedding_loss", reduction);
  TENON_CHECK(target.dim() <= 1 && input1.dim() == target.dim() + 1 && input2.dim() == input1.dim(), ShapeError,
              "cosine_embedding_loss: target: expected a number beside vectors or a vector beside matrices, got ",
              target.sizes(), " beside ", input1.sizes(), " and ", input2.sizes());
  const DType t = dispatch::float_of(dispatch::result_type(input1, input2));
  const Tensor a = input1.to(t), b = input2.to(t);
  const auto square = [](const Tensor& x) { return op::add(total(op::mul(x, x), -1), 1e-12, 1); };
  const Tensor cosine = op::div(total(op::mul(a, b), -1), op::sqrt(op::mul(square(a), square(b))), {});
  const Tensor apart = op::where(op::eq(target, -1), op::clamp_min(op::sub(cosine, margin, 1), 0), 0);
  return reduced_loss(op::add(op::where(op::eq(target, 1), op::sub(Scalar(1), cosine, 1), 0), apart, 1), how);
}
Tensor triplet_margin_loss(Call&, const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin,
                           double p, double eps, bool swap, std::string_view reduction) {
  detail::check_triplet("triplet_margin_loss", anchor, positive, negative);
  const auto distance = [&](const Tensor& x, const Tensor& y) { return op::pairwise_distance(x, y, p, eps, false); };
  return detail::triplet_loss("triplet_margin_loss", distance(anchor, positive), distance(anchor, negative),
                              swap ? distance(positive, negative) : Tensor(), margin, reduction);
}
Tensor triplet_margin_with_distance_loss(Call&, const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         double margin, bool swap, std::string_view reduction) {
  return tenon::triplet_margin_with_distance_loss(
      anchor, positive, negative,
      [](const Tensor& x, const Tensor& y) { return op::pairwise_distance(x, y, 2, 1e-6, false); }, margin, swap,
      reduction);
}

Tensor multi_margin_loss(Call&, const Tensor& self, const Tensor& target, const Scalar& p, const Scalar& margin,
                         const Tensor& weight, std::string_view reduction) {
  const int64_t how = parse_reduction("multi_margin_loss", reduction);
  TENON_CHECK(p.equal(1) || p.equal(2), ValueError, "multi_margin_loss: p: expected 1 or 2, got ", p);
  const auto [x, t] = classes("multi_margin_loss", self, target, false);
  const int64_t count = x.size(1);
  TENON_CHECK(!weight.defined() || (weight.dim() <= 1 && weight.numel() == count), ShapeError,
              "multi_margin_loss: weight: expected ", count, " elements, got ", weight.sizes());
  const Tensor own = t.unsqueeze(1);
  Tensor z = op::clamp_min(op::add(op::sub(x, op::gather(x, 1, own, false), 1), margin, 1), 0);
  if (p.equal(2)) z = op::mul(z, z);
  if (weight.defined()) z = op::mul(z, op::index_select(weight.reshape({count}), 0, t).unsqueeze(1));
  const Tensor others = op::ne(own, op::arange(count, kInt64, x.device()));
  return of_rows(op::div(total(op::where(others, z, 0), 1), count, {}), self, how);
}
Tensor multilabel_margin_loss(Call&, const Tensor& self, const Tensor& target, std::string_view reduction) {
  const int64_t how = parse_reduction("multilabel_margin_loss", reduction);
  const auto [x, t] = classes("multilabel_margin_loss", self, target, true);
  const int64_t count = x.size(1);
  const Tensor listed = op::cumprod(op::ge(t, 0).to(kInt64), 1, {}, false), labels = op::clamp_min(t, 0);
  const Tensor is_label = op::gt(op::scatter_add(op::zeros_like(listed, {}, {}, {}), 1, labels, listed), 0);
  const Tensor own = op::gather(x, 1, labels, false);
  const Tensor z = op::clamp_min(op::add(op::sub(x.unsqueeze(1), own.unsqueeze(2), 1), 1, 1), 0);
  const Tensor counts = op::logical_and(op::gt(listed, 0).unsqueeze(2), op::logical_not(is_label).unsqueeze(1));
  return of_rows(op::div(total(total(op::where(counts, z, 0), 2), 1), count, {}), self, how);
}
Tensor multilabel_soft_margin_loss(Call&, const Tensor& self, const Tensor& target, const Tensor& weight,
                                   std::string_view reduction) {
  const int64_t how = parse_reduction("multilabel_soft_margin_loss", reduction);
  check_floating("multilabel_soft_margin_loss", self.dtype());
  TENON_CHECK(self.dim() > 0, ShapeError, "multilabel_soft_margin_loss: self: expected at least one dimension");
  // log sigmoid(-x) = log sigmoid(x) - x.
  Tensor z = op::sub(op::mul(op::sub(Scalar(1), target, 1), self), op::log_sigmoid(self), 1);
  if (weight.defined()) z = op::mul(z, weight);
  return reduced_loss(op::div(total(z, -1), self.size(-1), {}), how);
}

}  // namespace impl
}  // namespace tenon

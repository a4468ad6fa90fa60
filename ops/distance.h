// SPDX-License-Identifier: Apache-2.0
// Distances and similarities between vectors, losses made of them, losses over classes with margins, and bilinear forms.
// Reductions are the text "none", "mean" or "sum". All are made of other operators.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_DISTANCE(name, schema, ...) TENON_OP(name, schema, composite, kNoInplace, Tensor(__VA_ARGS__), void())
TENON_DISTANCE(cosine_similarity, "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
               const Tensor&, const Tensor&, int64_t, double)
TENON_DISTANCE(pairwise_distance,
               "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor",
               const Tensor&, const Tensor&, double, double, bool)
TENON_DISTANCE(pdist, "pdist(Tensor self, float p=2) -> Tensor", const Tensor&, double)
TENON_DISTANCE(bilinear, "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
               const Tensor&, const Tensor&, const Tensor&, const Tensor&)
TENON_OP(one_hot, "one_hot(Tensor self, int num_classes=-1) -> Tensor", composite,
         kNoInplace | kNotCapturable | kNonDifferentiable, Tensor(const Tensor&, int64_t), void())
TENON_DISTANCE(cosine_embedding_loss,
               "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, str "
               "reduction='mean') -> Tensor",
               const Tensor&, const Tensor&, const Tensor&, double, std::string_view)
TENON_DISTANCE(
    triplet_margin_loss,
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float "
    "eps=1e-06, bool swap=False, str reduction='mean') -> Tensor",
    const Tensor&, const Tensor&, const Tensor&, double, double, double, bool, std::string_view)
// The distance is pairwise_distance; C++ callers may give another one below.
TENON_DISTANCE(
    triplet_margin_with_distance_loss,
    "triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *, float margin=1.0, "
    "bool swap=False, str reduction='mean') -> Tensor",
    const Tensor&, const Tensor&, const Tensor&, double, bool, std::string_view)
TENON_DISTANCE(multi_margin_loss,
               "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, str "
               "reduction='mean') -> Tensor",
               const Tensor&, const Tensor&, const Scalar&, const Scalar&, const Tensor&, std::string_view)
TENON_DISTANCE(multilabel_margin_loss,
               "multilabel_margin_loss(Tensor self, Tensor target, str reduction='mean') -> Tensor", const Tensor&,
               const Tensor&, std::string_view)
TENON_DISTANCE(multilabel_soft_margin_loss,
               "multilabel_soft_margin_loss(Tensor self, Tensor target, Tensor? weight=None, str reduction='mean') -> "
               "Tensor",
               const Tensor&, const Tensor&, const Tensor&, std::string_view)
#undef TENON_DISTANCE

/// The cosine of the angle between vectors along `dim`, which broadcast; norms count as eps at least.
inline Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1, double eps = 1e-8) {
  return op::cosine_similarity(x1, x2, dim, eps);
}
/// The p-norm of x1 - x2 + eps along the last dimension.
inline Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6,
                                bool keepdim = false) {
  return op::pairwise_distance(x1, x2, p, eps, keepdim);
}
/// The p-norms of the differences of all pairs of rows i < j of a matrix.
inline Tensor pdist(const Tensor& self, double p = 2) { return op::pdist(self, p); }
/// input1 [..., i] times weight [k, i, j] times input2 [..., j], plus bias [k]: [..., k].
inline Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias = {}) {
  return op::bilinear(input1, input2, weight, bias);
}
/// int64 with a last dimension of `num_classes` (-1: as many as needed; waits for the device): 1 at the class, else 0.
inline Tensor one_hot(const Tensor& self, int64_t num_classes = -1) { return op::one_hot(self, num_classes); }
/// 1 - cos where target is 1, max(0, cos - margin) where it is -1, of the vectors along the last dimension.
inline Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin = 0,
                                    std::string_view reduction = "mean") {
  return op::cosine_embedding_loss(input1, input2, target, margin, reduction);
}
/// max(0, distance(anchor, positive) - distance(anchor, negative) + margin); `swap`: the smaller of the distances of
/// anchor and positive to negative.
inline Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                  double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                                  std::string_view reduction = "mean") {
  return op::triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction);
}
namespace detail {
TENON_API void check_triplet(const char* who, const Tensor& anchor, const Tensor& positive, const Tensor& negative);
// `swapped`: the distance of positive and negative, or undefined.
TENON_API Tensor triplet_loss(const char* who, const Tensor& near, const Tensor& far, const Tensor& swapped,
                              double margin, std::string_view reduction);
}  // namespace detail
/// The same with a distance of your own, `Tensor distance(const Tensor&, const Tensor&)`.
template <class Distance>
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         Distance&& distance, double margin = 1, bool swap = false,
                                         std::string_view reduction = "mean") {
  detail::check_triplet("triplet_margin_with_distance_loss", anchor, positive, negative);
  return detail::triplet_loss("triplet_margin_with_distance_loss", distance(anchor, positive),
                              distance(anchor, negative), swap ? distance(positive, negative) : Tensor(), margin,
                              reduction);
}
/// The mean over the other classes of max(0, margin - self[target] + self[class])^p, times weight[target]; p is 1 or 2.
inline Tensor multi_margin_loss(const Tensor& self, const Tensor& target, const Scalar& p = 1, const Scalar& margin = 1,
                                const Tensor& weight = {}, std::string_view reduction = "mean") {
  return op::multi_margin_loss(self, target, p, margin, weight, reduction);
}
/// The sum of max(0, 1 - self[label] + self[class]) over labels and other classes, over the number of classes. A row of
/// `target` lists labels up to the first negative number.
inline Tensor multilabel_margin_loss(const Tensor& self, const Tensor& target, std::string_view reduction = "mean") {
  return op::multilabel_margin_loss(self, target, reduction);
}
/// The mean over the classes of the binary cross entropy of logits.
inline Tensor multilabel_soft_margin_loss(const Tensor& self, const Tensor& target, const Tensor& weight = {},
                                          std::string_view reduction = "mean") {
  return op::multilabel_soft_margin_loss(self, target, weight, reduction);
}

}  // namespace tenon

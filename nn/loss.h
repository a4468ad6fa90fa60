// SPDX-License-Identifier: Apache-2.0
// Losses and distances as modules. What they compute: ops/loss.h, ops/elementwise_loss.h and ops/distance.h. They print as
// PyTorch's: a name and empty brackets; their numbers are members.
#pragma once

#include <tenon/nn/describe.h>
#include <tenon/nn/module.h>
#include <tenon/ops/distance.h>
#include <tenon/ops/elementwise_loss.h>
#include <tenon/ops/loss.h>

namespace tenon::nn {

// A loss of two tensors (three with `extra`): members, then the call that computes it.
#define TENON_LOSS_MODULE(Name, ...)                             \
  struct TENON_API Name : ModuleOf<Name> {                       \
    std::string describe() const override { return #Name "()"; } \
    std::string reduction = "mean";                              \
    __VA_ARGS__                                                  \
  };
#define TENON_LOSS_CALL(...) \
  Tensor forward(const Tensor& input, const Tensor& target) { return __VA_ARGS__; }

TENON_LOSS_MODULE(L1Loss, TENON_LOSS_CALL(l1_loss(input, target, reduction)))
TENON_LOSS_MODULE(MSELoss, TENON_LOSS_CALL(mse_loss(input, target, reduction)))
TENON_LOSS_MODULE(SmoothL1Loss, double beta = 1; TENON_LOSS_CALL(smooth_l1_loss(input, target, reduction, beta)))
TENON_LOSS_MODULE(HuberLoss, double delta = 1; TENON_LOSS_CALL(huber_loss(input, target, reduction, delta)))
TENON_LOSS_MODULE(KLDivLoss, bool log_target = false; TENON_LOSS_CALL(kl_div(input, target, reduction, log_target)))
TENON_LOSS_MODULE(SoftMarginLoss, TENON_LOSS_CALL(soft_margin_loss(input, target, reduction)))
TENON_LOSS_MODULE(HingeEmbeddingLoss, double margin = 1;
                  TENON_LOSS_CALL(hinge_embedding_loss(input, target, margin, reduction)))
TENON_LOSS_MODULE(MultiLabelMarginLoss, TENON_LOSS_CALL(multilabel_margin_loss(input, target, reduction)))
TENON_LOSS_MODULE(PoissonNLLLoss, bool log_input = true; bool full = false; double eps = 1e-8;
                  TENON_LOSS_CALL(poisson_nll_loss(input, target, log_input, full, eps, reduction)))

// With a weight, which belongs to the state.
#define TENON_WEIGHT \
  Tensor weight;     \
  void members(Members& m) override { m.buffer("weight", weight); }
TENON_LOSS_MODULE(BCELoss, TENON_WEIGHT TENON_LOSS_CALL(binary_cross_entropy(input, target, weight, reduction)))
TENON_LOSS_MODULE(NLLLoss, TENON_WEIGHT int64_t ignore_index = -100;
                  TENON_LOSS_CALL(nll_loss(input, target, weight, reduction, ignore_index)))
TENON_LOSS_MODULE(CrossEntropyLoss, TENON_WEIGHT int64_t ignore_index = -100; double label_smoothing = 0;
                  TENON_LOSS_CALL(cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)))
TENON_LOSS_MODULE(MultiMarginLoss, TENON_WEIGHT int64_t p = 1; double margin = 1;
                  TENON_LOSS_CALL(multi_margin_loss(input, target, p, margin, weight, reduction)))
TENON_LOSS_MODULE(MultiLabelSoftMarginLoss,
                  TENON_WEIGHT TENON_LOSS_CALL(multilabel_soft_margin_loss(input, target, weight, reduction)))
#undef TENON_WEIGHT
TENON_LOSS_MODULE(
    BCEWithLogitsLoss, Tensor weight; Tensor pos_weight; void members(Members& m) override {
      m.buffer("weight", weight).buffer("pos_weight", pos_weight);
    } TENON_LOSS_CALL(binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)))

// Of three tensors.
TENON_LOSS_MODULE(
    GaussianNLLLoss, bool full = false; double eps = 1e-6;
    Tensor forward(const Tensor& input, const Tensor& target, const Tensor& var) {
      return gaussian_nll_loss(input, target, var, full, eps, reduction);
    })
TENON_LOSS_MODULE(
    MarginRankingLoss, double margin = 0;
    Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target) {
      return margin_ranking_loss(input1, input2, target, margin, reduction);
    })
TENON_LOSS_MODULE(
    CosineEmbeddingLoss, double margin = 0;
    Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target) {
      return cosine_embedding_loss(input1, input2, target, margin, reduction);
    })
TENON_LOSS_MODULE(
    TripletMarginLoss, double margin = 1; double p = 2; double eps = 1e-6; bool swap = false;
    Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
      return triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction);
    })
#undef TENON_LOSS_CALL
#undef TENON_LOSS_MODULE

struct TENON_API CosineSimilarity : ModuleOf<CosineSimilarity> {
  explicit CosineSimilarity(int64_t d = 1, double e = 1e-8) : dim(d), eps(e) {}
  Tensor forward(const Tensor& x1, const Tensor& x2) { return cosine_similarity(x1, x2, dim, eps); }
  std::string describe() const override { return "CosineSimilarity()"; }
  int64_t dim;
  double eps;
};
struct TENON_API PairwiseDistance : ModuleOf<PairwiseDistance> {
  explicit PairwiseDistance(double norm = 2, double e = 1e-6, bool keep = false) : p(norm), eps(e), keepdim(keep) {}
  Tensor forward(const Tensor& x1, const Tensor& x2) { return pairwise_distance(x1, x2, p, eps, keepdim); }
  std::string describe() const override { return "PairwiseDistance()"; }
  double p, eps;
  bool keepdim;
};

}  // namespace tenon::nn

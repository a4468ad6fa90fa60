// SPDX-License-Identifier: Apache-2.0
// Losses that compare an input with a target element by element. One pass makes the losses of all elements, and a
// reduction, as text "none", "mean" or "sum", follows. Input and target broadcast. Floating dtypes.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// Which loss: |d|, d^2, smooth L1, Huber with d = self - target; binary cross entropy of probabilities and of logits.
enum class ElementLoss : int64_t { absolute, squared, smooth, huber, binary, logits };

/// The losses of the elements. `kind`: an ElementLoss; `number`: beta of smooth L1, delta of Huber's.
TENON_OP(elementwise_loss, "elementwise_loss(Tensor self, Tensor target, int kind, float number=1) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, const Tensor&, int64_t, double),
         void(const LoopPlan&, ElementLoss kind, double number))
/// grad_output times their derivative with respect to self.
TENON_OP(
    elementwise_loss_backward,
    "elementwise_loss_backward(Tensor grad_output, Tensor self, Tensor target, int kind, float number=1) -> Tensor",
    kernel, kNoInplace, Tensor(const Tensor&, const Tensor&, const Tensor&, int64_t, double),
    void(const LoopPlan&, ElementLoss kind, double number))

#define TENON_LOSS(name, schema, ...) TENON_OP(name, schema, composite, kNoInplace, Tensor(__VA_ARGS__), void())
TENON_LOSS(l1_loss, "l1_loss(Tensor self, Tensor target, str reduction='mean', Tensor? weight=None) -> Tensor",
           const Tensor&, const Tensor&, std::string_view, const Tensor&)
TENON_LOSS(mse_loss, "mse_loss(Tensor self, Tensor target, str reduction='mean', Tensor? weight=None) -> Tensor",
           const Tensor&, const Tensor&, std::string_view, const Tensor&)
TENON_LOSS(smooth_l1_loss, "smooth_l1_loss(Tensor self, Tensor target, str reduction='mean', float beta=1.0) -> Tensor",
           const Tensor&, const Tensor&, std::string_view, double)
TENON_LOSS(
    huber_loss,
    "huber_loss(Tensor self, Tensor target, str reduction='mean', float delta=1.0, Tensor? weight=None) -> Tensor",
    const Tensor&, const Tensor&, std::string_view, double, const Tensor&)
TENON_LOSS(binary_cross_entropy,
           "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, str reduction='mean') -> Tensor",
           const Tensor&, const Tensor&, const Tensor&, std::string_view)
TENON_LOSS(binary_cross_entropy_with_logits,
           "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, str reduction='mean', "
           "Tensor? pos_weight=None) -> Tensor",
           const Tensor&, const Tensor&, const Tensor&, std::string_view, const Tensor&)
TENON_LOSS(kl_div, "kl_div(Tensor self, Tensor target, str reduction='mean', bool log_target=False) -> Tensor",
           const Tensor&, const Tensor&, std::string_view, bool)
TENON_LOSS(poisson_nll_loss,
           "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, float eps=1e-08, str "
           "reduction='mean') -> Tensor",
           const Tensor&, const Tensor&, bool, bool, double, std::string_view)
TENON_OP(gaussian_nll_loss,
         "gaussian_nll_loss(Tensor input, Tensor target, Tensor|Scalar var, bool full=False, float eps=1e-06, str "
         "reduction='mean') -> Tensor",
         composite, kNoInplace | kNotCapturable,
         Tensor(const Tensor&, const Tensor&, const Operand&, bool, double, std::string_view), void())
TENON_LOSS(soft_margin_loss, "soft_margin_loss(Tensor self, Tensor target, str reduction='mean') -> Tensor",
           const Tensor&, const Tensor&, std::string_view)
TENON_LOSS(hinge_embedding_loss,
           "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, str reduction='mean') -> Tensor",
           const Tensor&, const Tensor&, double, std::string_view)
TENON_LOSS(
    margin_ranking_loss,
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, str reduction='mean') -> "
    "Tensor",
    const Tensor&, const Tensor&, const Tensor&, double, std::string_view)
#undef TENON_LOSS

/// |self - target|; complex inputs too. `weight` (self's sizes) multiplies the elements; "mean" divides by its sum.
inline Tensor l1_loss(const Tensor& self, const Tensor& target, std::string_view reduction = "mean",
                      const Tensor& weight = {}) {
  return op::l1_loss(self, target, reduction, weight);
}
/// (self - target) squared. `weight` as for l1_loss.
inline Tensor mse_loss(const Tensor& self, const Tensor& target, std::string_view reduction = "mean",
                       const Tensor& weight = {}) {
  return op::mse_loss(self, target, reduction, weight);
}
/// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = self - target; beta 0 is l1_loss.
inline Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, std::string_view reduction = "mean",
                             double beta = 1) {
  return op::smooth_l1_loss(self, target, reduction, beta);
}
/// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2) (Huber 1964). `weight` multiplies the elements.
inline Tensor huber_loss(const Tensor& self, const Tensor& target, std::string_view reduction = "mean",
                         double delta = 1, const Tensor& weight = {}) {
  return op::huber_loss(self, target, reduction, delta, weight);
}
/// -(target log self + (1 - target) log(1 - self)), logarithms at least -100, of probabilities `self` (ValueError
/// outside [0, 1], on the CPU). `weight` broadcasts.
inline Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight = {},
                                   std::string_view reduction = "mean") {
  return op::binary_cross_entropy(self, target, weight, reduction);
}
/// The same of sigmoid(self), without overflow; `pos_weight` multiplies the term of target.
inline Tensor binary_cross_entropy_with_logits(const Tensor& self, const Tensor& target, const Tensor& weight = {},
                                               std::string_view reduction = "mean", const Tensor& pos_weight = {}) {
  return op::binary_cross_entropy_with_logits(self, target, weight, reduction, pos_weight);
}
/// target (log target - self), self (and with `log_target` target) being logarithms of probabilities. "batchmean": the
/// sum over size(0).
inline Tensor kl_div(const Tensor& self, const Tensor& target, std::string_view reduction = "mean",
                     bool log_target = false) {
  return op::kl_div(self, target, reduction, log_target);
}
/// exp(input) - target input, or input - target log(input + eps) unless `log_input`; `full` adds Stirling's formula for
/// log(target!) where target > 1.
inline Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input = true, bool full = false,
                               double eps = 1e-8, std::string_view reduction = "mean") {
  return op::poisson_nll_loss(input, target, log_input, full, eps, reduction);
}
/// (log var + (input - target)^2 / var) / 2, plus log(2 pi) / 2 if `full`; var is at least eps, and its gradient ignores
/// that. Waits for the device: a negative var is an error.
inline Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Operand& var, bool full = false,
                                double eps = 1e-6, std::string_view reduction = "mean") {
  return op::gaussian_nll_loss(input, target, var, full, eps, reduction);
}
/// log(1 + exp(-target self)), target 1 or -1.
inline Tensor soft_margin_loss(const Tensor& self, const Tensor& target, std::string_view reduction = "mean") {
  return op::soft_margin_loss(self, target, reduction);
}
/// self where target is 1, max(0, margin - self) where it is -1.
inline Tensor hinge_embedding_loss(const Tensor& self, const Tensor& target, double margin = 1,
                                   std::string_view reduction = "mean") {
  return op::hinge_embedding_loss(self, target, margin, reduction);
}
/// max(0, -target (input1 - input2) + margin).
inline Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin = 0,
                                  std::string_view reduction = "mean") {
  return op::margin_ranking_loss(input1, input2, target, margin, reduction);
}

}  // namespace tenon

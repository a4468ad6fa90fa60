// SPDX-License-Identifier: Apache-2.0
// Losses: negative log likelihood, cross entropy, squared error. Reductions are "none", "mean" or "sum"; operators
// with an integer use 0, 1 and 2 for them.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

enum LossReduction : int64_t { kReductionNone = 0, kReductionMean = 1, kReductionSum = 2 };

// Kernels: self and grad_input contiguous [n, classes, inner]; target contiguous int64 [n, inner]; weight contiguous
// [classes] of self's dtype, or undefined. output: contiguous [n, inner] for reduction none, else one element;
// total_weight one element (untouched for none). grad_output: sizes of output, contiguous.
/// nll_loss and the sum of the weights it used.
TENON_OP(
    nll_loss_forward,
    "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor output, "
    "Tensor total_weight)",
    kernel, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t),
    void(const Tensor& output, const Tensor& total_weight, const Tensor& self, const Tensor& target,
         const Tensor& weight, int64_t reduction, int64_t ignore_index))
/// Its gradient.
TENON_OP(nll_loss_backward,
         "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, int "
         "ignore_index, "
         "Tensor total_weight) -> Tensor",
         kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, const Tensor&),
         void(const Tensor& grad_input, const Tensor& grad_output, const Tensor& target, const Tensor& weight,
              int64_t reduction, int64_t ignore_index, const Tensor& total_weight))
TENON_OP(
    nll_loss,
    "nll_loss(Tensor self, Tensor target, Tensor? weight=None, str reduction='mean', int ignore_index=-100) -> Tensor",
    composite, kNoInplace, Tensor(const Tensor&, const Tensor&, const Tensor&, std::string_view, int64_t), void())
TENON_OP(nll_loss_int,
         "nll_loss.int(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index=-100) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t), void())
TENON_OP(
    cross_entropy,
    "cross_entropy(Tensor self, Tensor target, Tensor? weight=None, str reduction='mean', int ignore_index=-100, float "
    "label_smoothing=0.0) -> Tensor",
    composite, kNoInplace, Tensor(const Tensor&, const Tensor&, const Tensor&, std::string_view, int64_t, double),
    void())
TENON_OP(mse_loss, "mse_loss(Tensor self, Tensor target, str reduction='mean') -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&, std::string_view), void())

/// The negative of self[n][target[n]][...], times weight[target] if given. `self` is [classes], [n, classes] or
/// [n, classes, ...] of a floating dtype, `target` int64 (or uint8) without the class dimension; targets equal to
/// `ignore_index` count for nothing, any other must name a class (IndexError). "mean" divides by the weights used.
/// `weight` is not differentiable: AutogradError when it requires grad.
inline Tensor nll_loss(const Tensor& self, const Tensor& target, const Tensor& weight = {},
                       std::string_view reduction = "mean", int64_t ignore_index = -100) {
  return op::nll_loss(self, target, weight, reduction, ignore_index);
}
/// nll_loss of log_softmax(self) over the class dimension, or, when `target` has the sizes of `self`, the cross entropy
/// with those class probabilities. `label_smoothing` in [0, 1] mixes the target with the uniform distribution.
inline Tensor cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight = {},
                            std::string_view reduction = "mean", int64_t ignore_index = -100,
                            double label_smoothing = 0.0) {
  return op::cross_entropy(self, target, weight, reduction, ignore_index, label_smoothing);
}
/// (self - target) squared, broadcast, floating dtypes.
inline Tensor mse_loss(const Tensor& self, const Tensor& target, std::string_view reduction = "mean") {
  return op::mse_loss(self, target, reduction);
}

}  // namespace tenon

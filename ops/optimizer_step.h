// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer over many parameters at once: each element of parameters and state is read and written once,
// on CUDA in one launch for hundreds of tensors. optim/ is what programs use; this is the operator below it.
#pragma once

#include <tenon/dispatch/register.h>

namespace tenon {

/// Which update. Numbers a to f are, in order; tensors of state, in order (m: only with momentum, c: only if centered,
/// x: only for amsgrad):
///   sgd       momentum, dampening, weight_decay                                   m
///   adam      beta1, beta2, weight_decay, eps                                     mean, square, x
///   nadam     beta1, beta2, weight_decay, eps, factors of gradient and mean       mean, square
///   rmsprop   alpha, momentum, weight_decay, eps                                  square, m, c
///   adagrad   lr_decay, -, weight_decay, eps                                      sum
///   adadelta  rho, -, weight_decay, eps                                           square, square of the updates
enum class OptimizerRule : int64_t { sgd, adam, nadam, rmsprop, adagrad, adadelta };
inline constexpr int kOptimizerRules = 6;
/// Flags of a step. The three states a rule may have are announced by kFirstState and the two after it.
inline constexpr int64_t kMaximize = 1;
inline constexpr int64_t kNesterov = 2;        ///< sgd
inline constexpr int64_t kDecoupledDecay = 4;  ///< adam, nadam: the decay does not pass through the averages
inline constexpr int64_t kFirstState = 8, kSecondState = 16, kThirdState = 32;
inline constexpr int64_t kMasterWeights =
    64;  ///< state begins with the parameters in float32, which are what is updated

// Kernel: everything in place; parameters, gradients and states of one parameter lie dense with equal strides; gradients
// have the parameter's dtype, states and masters float32 (float64 for float64). clock: undefined or [lr, step] in float64
// on the device, instead of the numbers.
/// The parameters, then the state, after step number `step` (the first is 1): see OptimizerRule. `states` holds one tensor
/// per parameter for each kind of state, kind by kind. The out= form updates in place.
TENON_OP(optimizer_step,
         "optimizer_step(Tensor[] parameters, Tensor[] gradients, Tensor[] states, Tensor? clock, int rule, int flags, "
         "float lr, float step, float a, float b, float c, float d, float e, float f) -> Tensor[]",
         kernel, kNoInplace | kNonDifferentiable,
         std::vector<Tensor>(TensorList, TensorList, TensorList, const Tensor&, int64_t, int64_t, double, double,
                             double, double, double, double, double, double),
         void(TensorList parameters, TensorList gradients, TensorList states, const Tensor& clock, int64_t rule,
              int64_t flags, double lr, double step, double a, double b, double c, double d, double e, double f))

}  // namespace tenon

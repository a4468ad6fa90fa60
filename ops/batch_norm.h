// SPDX-License-Identifier: Apache-2.0
// Normalisation by statistics of channels: batch, instance and group norm. Statistics, weights and running statistics may
// have the input's dtype, or float32 beside 16-bit inputs; they are computed in float32 (float64 for float64).
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

// Kernels see x, out and gradients as contiguous [outer, channels, inner] with at least one element (inner is 1 for
// channels-last), and everything per channel as contiguous vectors of the compute type (float32 for halves).
// running_mean and running_var are updated where they are defined.
/// Training's forward: out, and the mean and 1 / sqrt(variance + eps) of each channel.
TENON_OP(batch_norm_train,
         "batch_norm_train(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
         "float momentum, float eps) -> (Tensor output, Tensor mean, Tensor rstd)",
         kernel, kNoInplace,
         std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                            double, double),
         void(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& weight,
              const Tensor& bias, const Tensor& running_mean, const Tensor& running_var, double momentum, double eps))
/// (input - mean) * rstd * weight + bias by channel, with given statistics.
TENON_OP(batch_norm_apply,
         "batch_norm_apply(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor rstd) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&),
         void(const Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
              const Tensor& rstd))
// output_mask: bit 0 grad_input, bit 1 grad_weight, bit 2 grad_bias; results not asked for are undefined.
/// The gradients of both: with `train` the statistics follow the input.
TENON_OP(batch_norm_backward,
         "batch_norm_backward(Tensor grad_output, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, bool train, "
         "int output_mask=7) -> (Tensor, Tensor, Tensor)",
         kernel, kNoInplace,
         std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                            bool, int64_t),
         void(const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias, const Tensor& grad_output,
              const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, bool train))
// Kernels: x [n, channels, inner]; mean and rstd [n, groups].
/// group_norm with the mean and 1 / sqrt(variance + eps) of each group.
TENON_OP(
    native_group_norm,
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) -> "
    "(Tensor output, Tensor mean, Tensor rstd)",
    kernel, kNoInplace,
    std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, int64_t, int64_t,
                                       double),
    void(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& weight,
         const Tensor& bias, double eps))
/// Its gradients.
TENON_OP(
    native_group_norm_backward,
    "native_group_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int N, "
    "int C, int HxW, int group, int output_mask=7) -> (Tensor, Tensor, Tensor)",
    kernel, kNoInplace,
    std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                       int64_t, int64_t, int64_t, int64_t, int64_t),
    void(const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias, const Tensor& grad_output,
         const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight))

#define TENON_NATIVE_BATCH_NORM(name, schema, results, ...) \
  TENON_OP(name, schema, composite, kNoInplace, results(__VA_ARGS__), void())
using BatchNormResults = std::tuple<Tensor, Tensor, Tensor>;
using BatchNormUpdateResults = std::tuple<Tensor, Tensor, Tensor, Tensor>;
/// batch_norm with the statistics it used; empty ones when not training.
TENON_NATIVE_BATCH_NORM(
    native_batch_norm,
    "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
    "training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    BatchNormResults, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, double, double)
TENON_NATIVE_BATCH_NORM(
    native_batch_norm_legit,
    "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    BatchNormResults, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, double, double)
/// The same without running statistics.
TENON_NATIVE_BATCH_NORM(native_batch_norm_no_stats,
                        "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, "
                        "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
                        BatchNormResults, const Tensor&, const Tensor&, const Tensor&, bool, double, double)
/// The same in training; the fourth result is empty, uint8.
TENON_NATIVE_BATCH_NORM(
    batch_norm_with_update,
    "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
    "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    BatchNormUpdateResults, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, double, double)
/// The gradients of native_batch_norm, as PyTorch spells them.
TENON_NATIVE_BATCH_NORM(
    native_batch_norm_backward,
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? "
    "running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, int output_mask=7) -> (Tensor, "
    "Tensor, "
    "Tensor)",
    BatchNormResults, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
    const Tensor&, bool, double, int64_t)
#undef TENON_NATIVE_BATCH_NORM

TENON_OP(batch_norm,
         "batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, "
         "bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
         composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, double, double),
         void())
TENON_OP(instance_norm,
         "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, "
         "Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
         composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, double, double),
         void())
TENON_OP(group_norm,
         "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&, double), void())

/// (input - mean) / sqrt(variance + eps) * weight + bias for each channel of [n, channels, ...] (Ioffe and Szegedy 2015).
/// Training takes mean and variance over everything but the channels, and moves the running statistics, if given, by
/// `momentum` toward them (the variance unbiased); otherwise the running statistics are taken, and required.
inline Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                         const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                         double momentum = 0.1, double eps = 1e-5) {
  return op::batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps);
}
/// The same with statistics of each channel of each entry of the batch. Running statistics move toward their mean.
inline Tensor instance_norm(const Tensor& input, const Tensor& running_mean = {}, const Tensor& running_var = {},
                            const Tensor& weight = {}, const Tensor& bias = {}, bool use_input_stats = true,
                            double momentum = 0.1, double eps = 1e-5) {
  return op::instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps);
}
/// The same with statistics of each of `num_groups` groups of channels of each entry (Wu and He 2018).
inline Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                         double eps = 1e-5) {
  return op::group_norm(input, num_groups, weight, bias, eps);
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Pooling over the last one, two or three dimensions, with or without a batch before the channels. A list of one number
// stands for the same number in every dimension; no stride means the size of the window. Input in a channels-last format
// gives output in it. What ends in 1d, 2d, 3d checks the number of dimensions and calls the operator without it.
//
//   avg_pool, avg_pool1d, avg_pool2d, avg_pool3d
//                    the mean of each window, whose size counts the padding unless count_include_pad is false;
//                    divisor_override divides instead. int64 truncates. ceil_mode lets the last window reach beyond the end
//   adaptive_avg_pool, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
//                    means of output_size parts as equal as can be, which may share elements; kSameSize keeps a dimension
//   avg_pool_backward, adaptive_avg_pool_backward
//                    their gradients
//   max_pool, max_pool1d, max_pool2d, max_pool3d
//                    the largest element of each window (the last NaN, else the first of equals), with its position in its
//                    plane if return_indices
//   max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices
//                    the same, always with positions
//   adaptive_max_pool, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d
//                    the largest elements of output_size parts as equal as can be
//   fractional_max_pool, fractional_max_pool2d, fractional_max_pool3d
//                    the largest elements of output_size (or output_ratio times the input) windows of kernel_size that begin
//                    at random places: `random_samples` [batch, channels, dimensions] in [0, 1), drawn unless given
//   max_pool_backward, max_pool2d_with_indices_backward, max_pool3d_with_indices_backward
//                    the gradient of a maximum: goes to the positions in `indices`. Without kernel_size the parts were those
//                    of adaptive_max_pool, without stride fractional ones
//   max_unpool, max_unpool1d, max_unpool2d, max_unpool3d
//                    zeros, but for the elements of self at the positions `indices` of their planes
//   lp_pool1d, lp_pool2d, lp_pool3d
//                    the sum of powers of each window, and the root of it
//   local_response_norm
//                    each element divided by (k + alpha * the mean square of `size` neighbouring channels) ^ beta
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>
#include <tenon/ops/pool_windows.h>

namespace tenon {

/// In the output size of an adaptive pool: as many as the input has.
inline constexpr int64_t kSameSize = INT64_MIN;

// Kernels: dense tensors in the layout that `windows` says; indices int64. samples: contiguous [n, channels, dimensions],
// or undefined. indices may be undefined, then nobody asked for them.
#define TENON_AVERAGE() void(const Tensor& to, const Tensor& from, const PoolWindows& windows)
TENON_OP(avg_pool,
         "avg_pool(Tensor self, int[] kernel_size, int[] stride=[], int[] padding=[0], bool ceil_mode=False, bool "
         "count_include_pad=True, int? divisor_override=None) -> Tensor",
         kernel, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, bool, bool, std::optional<int64_t>),
         TENON_AVERAGE())
TENON_OP(avg_pool_backward,
         "avg_pool_backward(Tensor grad_output, int[] input_size, int[] kernel_size, int[] stride, int[] padding, bool "
         "ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
         kernel, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool, bool, std::optional<int64_t>),
         TENON_AVERAGE())
TENON_OP(adaptive_avg_pool, "adaptive_avg_pool(Tensor self, int[] output_size) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, IntArrayRef), void())
TENON_OP(adaptive_avg_pool_backward,
         "adaptive_avg_pool_backward(Tensor grad_output, int[] input_size, int dimensions) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, IntArrayRef, int64_t), void())
#undef TENON_AVERAGE
TENON_OP(max_pool,
         "max_pool(Tensor self, int[] kernel_size, int[] stride=[], int[] padding=[0], int[] dilation=[1], bool "
         "ceil_mode=False, bool return_indices=True) -> (Tensor, Tensor)",
         kernel, kNoInplace,
         std::tuple<Tensor, Tensor>(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool, bool),
         void(const Tensor& out, const Tensor& indices, const Tensor& self, const Tensor& samples,
              const PoolWindows& windows))
TENON_OP(adaptive_max_pool,
         "adaptive_max_pool(Tensor self, int[] output_size, bool return_indices=True) -> (Tensor, Tensor)", kernel,
         kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, IntArrayRef, bool), void())
TENON_OP(fractional_max_pool,
         "fractional_max_pool(Tensor self, int[] kernel_size, int[] output_size, Tensor random_samples) -> (Tensor, "
         "Tensor)",
         kernel, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, IntArrayRef, IntArrayRef, const Tensor&), void())
TENON_OP(
    max_pool_backward,
    "max_pool_backward(Tensor grad_output, Tensor indices, int[] input_size, int dimensions, int[] kernel_size=[], "
    "int[] stride=[], int[] padding=[0], int[] dilation=[1]) -> Tensor",
    kernel, kNoInplace,
    Tensor(const Tensor&, const Tensor&, IntArrayRef, int64_t, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef),
    void(const Tensor& grad_input, const Tensor& grad_output, const Tensor& indices, const PoolWindows& windows))
// Its kernel is that of scatter.
TENON_OP(max_unpool, "max_unpool(Tensor self, Tensor indices, int[] output_size) -> Tensor", kernel,
         kNoInplace | kNonDeterministic, Tensor(const Tensor&, const Tensor&, IntArrayRef), void())

// clang-format off
#define TENON_POOLS(N) \
  TENON_OP(avg_pool##N##d, "avg_pool" #N "d(Tensor self, int[] kernel_size, int[] stride=[], int[] padding=[0], bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", \
           composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, bool, bool, std::optional<int64_t>), void()) \
  TENON_OP(adaptive_avg_pool##N##d, "adaptive_avg_pool" #N "d(Tensor self, int[] output_size) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, IntArrayRef), void()) \
  TENON_OP(max_pool##N##d, "max_pool" #N "d(Tensor self, int[] kernel_size, int[] stride=[], int[] padding=[0], int[] dilation=[1], bool ceil_mode=False, bool return_indices=False) -> Tensor[]", \
           composite, kNoInplace, std::vector<Tensor>(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool, bool), void()) \
  TENON_OP(max_pool##N##d_with_indices, "max_pool" #N "d_with_indices(Tensor self, int[] kernel_size, int[] stride=[], int[] padding=[0], int[] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)", \
           composite, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool), void()) \
  TENON_OP(adaptive_max_pool##N##d, "adaptive_max_pool" #N "d(Tensor self, int[] output_size, bool return_indices=False) -> Tensor[]", composite, kNoInplace, \
           std::vector<Tensor>(const Tensor&, IntArrayRef, bool), void()) \
  TENON_OP(max_unpool##N##d, "max_unpool" #N "d(Tensor self, Tensor indices, int[] kernel_size, int[] stride=[], int[] padding=[0], int[]? output_size=None) -> Tensor", composite, kNoInplace | kNonDeterministic, \
           Tensor(const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, std::optional<IntArrayRef>), void()) \
  TENON_OP(lp_pool##N##d, "lp_pool" #N "d(Tensor self, Scalar norm_type, int[] kernel_size, int[] stride=[], bool ceil_mode=False) -> Tensor", composite, kNoInplace, \
           Tensor(const Tensor&, const Scalar&, IntArrayRef, IntArrayRef, bool), void()) \
  inline Tensor avg_pool##N##d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, bool ceil_mode = false, bool count_include_pad = true, std::optional<int64_t> divisor_override = {}) { \
    return op::avg_pool##N##d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override); \
  } \
  inline Tensor adaptive_avg_pool##N##d(const Tensor& self, IntArrayRef output_size) { return op::adaptive_avg_pool##N##d(self, output_size); } \
  inline Tensor max_pool##N##d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1, bool ceil_mode = false) { \
    return op::max_pool##N##d(self, kernel_size, stride, padding, dilation, ceil_mode, false)[0]; \
  } \
  inline std::tuple<Tensor, Tensor> max_pool##N##d_with_indices(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1, bool ceil_mode = false) { \
    return op::max_pool##N##d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode); \
  } \
  inline std::tuple<Tensor, Tensor> adaptive_max_pool##N##d(const Tensor& self, IntArrayRef output_size) { \
    std::vector<Tensor> both = op::adaptive_max_pool##N##d(self, output_size, true); \
    return {both[0], both[1]}; \
  } \
  inline Tensor max_unpool##N##d(const Tensor& self, const Tensor& indices, IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, std::optional<IntArrayRef> output_size = {}) { \
    return op::max_unpool##N##d(self, indices, kernel_size, stride, padding, output_size); \
  } \
  inline Tensor lp_pool##N##d(const Tensor& self, const Scalar& norm_type, IntArrayRef kernel_size, IntArrayRef stride = {}, bool ceil_mode = false) { \
    return op::lp_pool##N##d(self, norm_type, kernel_size, stride, ceil_mode); \
  }
#define TENON_POOLS_FROM_2D(N) \
  TENON_OP(max_pool##N##d_with_indices_backward, "max_pool" #N "d_with_indices_backward(Tensor grad_output, Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode, Tensor indices) -> Tensor", \
           composite, kNoInplace, Tensor(const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool, const Tensor&), void()) \
  TENON_OP(fractional_max_pool##N##d, "fractional_max_pool" #N "d(Tensor self, int[] kernel_size, int[]? output_size=None, Tensor[] output_ratio=[], bool return_indices=False, Tensor? _random_samples=None) -> Tensor[]", composite, kNoInplace, \
           std::vector<Tensor>(const Tensor&, IntArrayRef, std::optional<IntArrayRef>, TensorList, bool, const Tensor&), void()) \
  inline std::tuple<Tensor, Tensor> fractional_max_pool##N##d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef output_size, const Tensor& random_samples = {}) { \
    std::vector<Tensor> both = op::fractional_max_pool##N##d(self, kernel_size, output_size, {}, true, random_samples); \
    return {both[0], both[1]}; \
  }
TENON_POOLS(1)
TENON_POOLS(2)
TENON_POOLS(3)
TENON_POOLS_FROM_2D(2)
TENON_POOLS_FROM_2D(3)
#undef TENON_POOLS_FROM_2D
#undef TENON_POOLS
// The gradient of the sum of max_pool2d.
TENON_OP(max_pool2d_sum_backward, "max_pool2d_with_indices_backward.sum(Tensor self, int[] kernel_size, int[] stride=[], int[] padding=[0], int[] dilation=[1], bool ceil_mode=False, bool return_indices=False) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool, bool), void())
TENON_OP(local_response_norm, "local_response_norm(Tensor self, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, int64_t, double, double, double), void())
// clang-format on
inline Tensor local_response_norm(const Tensor& self, int64_t size, double alpha = 1e-4, double beta = 0.75,
                                  double k = 1) {
  return op::local_response_norm(self, size, alpha, beta, k);
}

}  // namespace tenon

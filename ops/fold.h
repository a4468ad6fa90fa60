// SPDX-License-Identifier: Apache-2.0
// Sliding blocks of images as columns of a matrix, back by summing, and channels traded for pixels. nn.functional.unfold is
// im2col here: unfold is the view of one dimension.
//
//   im2col                  self [n, channels, height, width] (or without n): every block of kernel_size elements,
//                           `dilation` apart, `stride` from one to the next, zeros around, is a column of
//                           [n, channels * block, blocks]
//   col2im                  the sum of such columns at their places in output_size
//   pixel_shuffle           [..., c * r * r, h, w] becomes [..., c, h * r, w * r]
//   pixel_unshuffle         the way back
//   channel_shuffle         the channels (dimension 1), seen as groups, in the order of their places in the groups
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>
#include <tenon/ops/pool_windows.h>

namespace tenon {

// Kernels: image contiguous [n, channels, in], columns contiguous [n, channels, kernel, out].
TENON_OP(im2col,
         "im2col(Tensor self, int[] kernel_size, int[] dilation=[1], int[] padding=[0], int[] stride=[1]) -> Tensor",
         kernel, kNoInplace, Tensor(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef),
         void(const Tensor& columns, const Tensor& image, const PoolWindows& windows))
TENON_OP(col2im,
         "col2im(Tensor self, int[] output_size, int[] kernel_size, int[] dilation=[1], int[] padding=[0], int[] "
         "stride=[1]) -> Tensor",
         kernel, kNoInplace, Tensor(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef),
         void(const Tensor& image, const Tensor& columns, const PoolWindows& windows))
TENON_ALIAS("fold", "col2im")
TENON_OP(pixel_shuffle, "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, int64_t), void())
TENON_OP(pixel_unshuffle, "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, int64_t), void())
TENON_OP(channel_shuffle, "channel_shuffle(Tensor self, int groups) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, int64_t), void())

inline Tensor im2col(const Tensor& self, IntArrayRef kernel_size, IntArrayRef dilation = 1, IntArrayRef padding = 0,
                     IntArrayRef stride = 1) {
  return op::im2col(self, kernel_size, dilation, padding, stride);
}
inline Tensor col2im(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size, IntArrayRef dilation = 1,
                     IntArrayRef padding = 0, IntArrayRef stride = 1) {
  return op::col2im(self, output_size, kernel_size, dilation, padding, stride);
}
inline Tensor fold(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size, IntArrayRef dilation = 1,
                   IntArrayRef padding = 0, IntArrayRef stride = 1) {
  return op::col2im(self, output_size, kernel_size, dilation, padding, stride);
}
inline Tensor pixel_shuffle(const Tensor& self, int64_t upscale_factor) {
  return op::pixel_shuffle(self, upscale_factor);
}
inline Tensor pixel_unshuffle(const Tensor& self, int64_t downscale_factor) {
  return op::pixel_unshuffle(self, downscale_factor);
}
inline Tensor channel_shuffle(const Tensor& self, int64_t groups) { return op::channel_shuffle(self, groups); }

}  // namespace tenon

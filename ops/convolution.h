// SPDX-License-Identifier: Apache-2.0
// Convolutions over 1 to 3 spatial dimensions. Everything comes down to `convolution` and its gradient, and both to one
// kernel: with a `big` side [N, C, ...], a `small` side [N, M, ...] and a weight [M, C / groups, ...] that satisfy
//   small[n, m, o] = sum over c, t of big[n, c, o * stride + t * dilation - padding] * weight[m, c, t],
// it computes any of the three from the other two. A transposed convolution makes the big side from the small one.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

enum class ConvolutionPart : uint8_t { small, big, weight };
struct ConvolutionGeometry {
  ConvolutionPart part;  ///< what is computed; big and weight are also the gradients of a plain convolution
  bool channels_last;    ///< the memory format of both sides: they are dense in it
  int64_t groups;
  int64_t stride[3], padding[3], dilation[3];  ///< padding: before the first element; what is read beyond the last is 0
};
/// All tensors have 5 dimensions, missing spatial ones of size 1, no size is 0, and are of one dtype. out, a and b are
/// small, big, weight; big, small, weight; or weight, big, small. `bias` [channels of out], contiguous, or undefined.
using ConvolutionKernel = void(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                               const ConvolutionGeometry& geometry);

/// Any convolution: input [N, C, ...], weight [M, C / groups, ...] or, if transposed, [C, M / groups, ...]. padding holds
/// a number a dimension, or two: all before the first elements, then all behind the last.
TENON_OP(convolution,
         "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool "
         "transposed, int[] output_padding, int groups) -> Tensor",
         kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, bool, IntArrayRef,
                int64_t),
         ConvolutionKernel)
/// Its gradients of input, weight and bias; bits 0 to 2 of output_mask choose, what is not asked for is undefined.
TENON_OP(convolution_backward,
         "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[] stride, int[] padding, int[] "
         "dilation, bool transposed, int[] output_padding, int groups, int output_mask=7) -> (Tensor, Tensor, Tensor)",
         kernel, kNoInplace,
         std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, IntArrayRef, IntArrayRef,
                                            IntArrayRef, bool, IntArrayRef, int64_t, int64_t),
         ConvolutionKernel)

namespace impl {
using Convolve = Tensor(const Tensor&, const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, int64_t);
using ConvolvePadded = Tensor(const Tensor&, const Tensor&, const Tensor&, IntArrayRef, std::string_view, IntArrayRef,
                              int64_t);
using ConvolveTransposed = Tensor(const Tensor&, const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef,
                                  int64_t, IntArrayRef);
dispatch::Op<Convolve, void()>::Implementation convolve;
dispatch::Op<ConvolvePadded, void()>::Implementation convolve_padded;
dispatch::Op<ConvolveTransposed, void()>::Implementation convolve_transposed;
}  // namespace impl

#define TENON_CONVOLUTION(name, text)                                                                            \
  TENON_OP_WITH(name,                                                                                            \
                #name                                                                                            \
                "(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] "       \
                "dilation=1, int groups=1) -> Tensor",                                                           \
                composite, kNoInplace, &impl::convolve, impl::Convolve, void())                                  \
  TENON_OP_WITH(text,                                                                                            \
                #name                                                                                            \
                ".padding(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, str padding='valid',"  \
                " int[] dilation=1, int groups=1) -> Tensor",                                                    \
                composite, kNoInplace, &impl::convolve_padded, impl::ConvolvePadded, void())                     \
  inline Tensor name(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, IntArrayRef stride = 1, \
                     IntArrayRef padding = 0, IntArrayRef dilation = 1, int64_t groups = 1) {                    \
    return op::name(input, weight, bias, stride, padding, dilation, groups);                                     \
  }                                                                                                              \
  template <class Text>                                                                                          \
  requires(std::is_convertible_v<const Text&, std::string_view>) Tensor name(                                    \
      const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride, const Text& padding,    \
      IntArrayRef dilation = 1, int64_t groups = 1) {                                                            \
    return op::text(input, weight, bias, stride, std::string_view(padding), dilation, groups);                   \
  }
#define TENON_CONVOLUTION_TRANSPOSED(name)                                                                       \
  TENON_OP_WITH(name,                                                                                            \
                #name                                                                                            \
                "(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] "       \
                "output_padding=0, int groups=1, int[] dilation=1) -> Tensor",                                   \
                composite, kNoInplace, &impl::convolve_transposed, impl::ConvolveTransposed, void())             \
  inline Tensor name(const Tensor& input, const Tensor& weight, const Tensor& bias = {}, IntArrayRef stride = 1, \
                     IntArrayRef padding = 0, IntArrayRef output_padding = 0, int64_t groups = 1,                \
                     IntArrayRef dilation = 1) {                                                                 \
    return op::name(input, weight, bias, stride, padding, output_padding, groups, dilation);                     \
  }

/// input [N, C, L] or [C, L], weight [M, C / groups, K], bias [M]: [N, M, ...] or [M, ...]. padding: zeros on both sides,
/// or 'valid' (none) or 'same' (as many as keep the size, stride 1; an odd one behind).
TENON_CONVOLUTION(conv1d, conv1d_padding)
/// The same over [N, C, H, W]; channels-last inputs make a channels-last result.
TENON_CONVOLUTION(conv2d, conv2d_padding)
/// The same over [N, C, D, H, W].
TENON_CONVOLUTION(conv3d, conv3d_padding)
/// The gradient of conv1d with respect to its input as an operator of its own: input [N, C, L] or [C, L], weight
/// [C, M / groups, K]. output_padding, below stride or dilation, makes the result longer at its end.
TENON_CONVOLUTION_TRANSPOSED(conv_transpose1d)
/// The same over [N, C, H, W].
TENON_CONVOLUTION_TRANSPOSED(conv_transpose2d)
/// The same over [N, C, D, H, W].
TENON_CONVOLUTION_TRANSPOSED(conv_transpose3d)

/// cuDNN's part in convolutions on CUDA. Without it, or where it refuses, kernels of the library do the work. Any thread;
/// counts from the next operator on.
namespace backends::cudnn {
/// Whether to use it where it can be loaded (on at first).
TENON_API bool enabled();
TENON_API void set_enabled(bool on);
/// Time the candidates for each new convolution and keep the fastest, instead of asking the heuristics (off at first).
TENON_API bool benchmark();
TENON_API void set_benchmark(bool on);
/// Only algorithms that give the same bits in every run (off at first; set_deterministic counts too).
TENON_API bool deterministic();
TENON_API void set_deterministic(bool on);
/// Whether float32 convolutions may use TF32. Off at first, as everywhere in the library; PyTorch's is on.
TENON_API bool allow_tf32();
TENON_API void set_allow_tf32(bool on);
}  // namespace backends::cudnn

}  // namespace tenon

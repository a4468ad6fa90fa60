// SPDX-License-Identifier: Apache-2.0
// Layers of the convolution rows, for both sides: "<name> forward", "<name> input" and "<name> weight" (its gradients).
#pragma once

#include <cstdint>

struct ConvolutionLayer {
  const char* name;
  int64_t cpu_batch, cuda_batch, in, out, size, kernel, stride, padding, groups;
  bool transposed, channels_last;
  int dtype;  ///< 0 float32, 1 float16 (CUDA only)

  int64_t batch(bool cuda) const { return cuda ? cuda_batch : cpu_batch; }
  int64_t result_size() const {
    return transposed ? (size - 1) * stride - 2 * padding + kernel : (size + 2 * padding - kernel) / stride + 1;
  }
  double flops(bool cuda) const {
    const int64_t side = transposed ? size : result_size();
    return 2.0 * static_cast<double>(batch(cuda) * side * side * kernel * kernel) *
           static_cast<double>(in / groups * out);
  }
};

inline constexpr ConvolutionLayer kConvolutionLayers[] = {
    {"conv2d 3x3 64", 4, 128, 64, 64, 56, 3, 1, 1, 1, false, false, 0},
    {"conv2d 3x3 512", 8, 128, 512, 512, 7, 3, 1, 1, 1, false, false, 0},
    {"conv2d 3x3 stride 2", 4, 128, 128, 256, 28, 3, 2, 1, 1, false, false, 0},
    {"conv2d 7x7 stem", 2, 64, 3, 64, 224, 7, 2, 3, 1, false, false, 0},
    {"conv2d 1x1", 4, 128, 256, 64, 56, 1, 1, 0, 1, false, false, 0},
    {"conv2d depthwise", 4, 128, 64, 64, 112, 3, 1, 1, 64, false, false, 0},
    {"conv2d depthwise nhwc", 4, 128, 64, 64, 112, 3, 1, 1, 64, false, true, 0},
    {"conv2d 32 groups", 4, 128, 128, 128, 28, 3, 1, 1, 32, false, false, 0},
    {"conv2d 3x3 64 nhwc", 4, 128, 64, 64, 56, 3, 1, 1, 1, false, true, 0},
    {"conv_transpose2d 4x4", 4, 64, 128, 64, 28, 4, 2, 1, 1, true, false, 0},
    {"conv2d f16 3x3 256", 1, 128, 256, 256, 56, 3, 1, 1, 1, false, false, 1},
    {"conv2d f16 3x3 256 nhwc", 1, 128, 256, 256, 56, 3, 1, 1, 1, false, true, 1},
};
inline constexpr const char* kConvolutionSteps[] = {" forward", " input", " weight"};

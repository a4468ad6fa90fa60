// SPDX-License-Identifier: Apache-2.0
// Convolution layers. `nn::Conv2d(3, 16, 3, {.padding = 1, .bias = false})`; sizes are one number or one a dimension.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

/// Numbers, or "same" or "valid".
struct TENON_API ConvPadding {
  ConvPadding(int all = 0) : sizes{all} {}                           // NOLINT
  ConvPadding(int64_t all) : sizes{all} {}                           // NOLINT
  ConvPadding(std::initializer_list<int64_t> each) : sizes(each) {}  // NOLINT
  ConvPadding(IntArrayRef each) : sizes(each) {}                     // NOLINT
  ConvPadding(const char* word) : text(word) {}                      // NOLINT
  DimVector sizes;
  std::string text;
};

struct ConvOptions {
  DimVector stride{1};
  ConvPadding padding = 0;
  DimVector dilation{1};
  int64_t groups = 1;
  bool bias = true;
  std::string padding_mode = "zeros";  ///< or "reflect", "replicate", "circular"
};
struct ConvTransposeOptions {
  DimVector stride{1};
  DimVector padding{0};
  DimVector output_padding{0};
  int64_t groups = 1;
  bool bias = true;
  DimVector dilation{1};
};

/// What the layers share. weight [out, in / groups, kernel...], transposed [in, out / groups, kernel...]; both it and bias
/// [out] are uniform within 1 / sqrt(its second size times the kernel's) at first, as PyTorch's. ValueError on arguments
/// that do not fit.
class TENON_API ConvNd : public Module {
 public:
  void members(Members& m) override { m("weight", weight)("bias", bias); }
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  void reset_parameters();

  Tensor weight, bias;
  ConvOptions options;  ///< sizes spread to one a dimension
  DimVector output_padding;
  bool transposed;

 protected:
  ConvNd(const char* name, int64_t rank, bool transposed, int64_t in_channels, int64_t out_channels,
         IntArrayRef kernel_size, ConvOptions options, IntArrayRef output_padding, const TensorOptions& tensor_options);

  Tensor run(const Tensor& input, IntArrayRef output_padding) const;

  const char* name_;
};

/// A transposed convolution.
class TENON_API ConvTransposeNd : public ConvNd {
 public:
  using ConvNd::forward;
  /// With the output_padding that makes the result's spatial sizes `output_size`; ValueError when there is none.
  Tensor forward(const Tensor& input, IntArrayRef output_size);

 protected:
  ConvTransposeNd(const char* name, int64_t rank, int64_t in_channels, int64_t out_channels, IntArrayRef kernel_size,
                  const ConvTransposeOptions& o, const TensorOptions& tensor_options)
      : ConvNd(name, rank, true, in_channels, out_channels, kernel_size,
               {o.stride, IntArrayRef(o.padding), o.dilation, o.groups, o.bias, "zeros"}, o.output_padding,
               tensor_options) {}
};

#define TENON_CONV_LAYER(name, rank)                                                                           \
  struct name : ConvNd {                                                                                       \
    name(int64_t in_channels, int64_t out_channels, IntArrayRef kernel_size, const ConvOptions& o = {},        \
         const TensorOptions& tensor_options = {})                                                             \
        : ConvNd(#name, rank, false, in_channels, out_channels, kernel_size, o, int64_t{0}, tensor_options) {} \
  };
#define TENON_CONV_TRANSPOSE_LAYER(name, rank)                                                                   \
  struct name : ConvTransposeNd {                                                                                \
    name(int64_t in_channels, int64_t out_channels, IntArrayRef kernel_size, const ConvTransposeOptions& o = {}, \
         const TensorOptions& tensor_options = {})                                                               \
        : ConvTransposeNd(#name, rank, in_channels, out_channels, kernel_size, o, tensor_options) {}             \
  };
TENON_CONV_LAYER(Conv1d, 1)                     ///< Over [N, C, L] or [C, L].
TENON_CONV_LAYER(Conv2d, 2)                     ///< Over [N, C, H, W] or [C, H, W].
TENON_CONV_LAYER(Conv3d, 3)                     ///< Over [N, C, D, H, W] or [C, D, H, W].
TENON_CONV_TRANSPOSE_LAYER(ConvTranspose1d, 1)  ///< The same the other way round.
TENON_CONV_TRANSPOSE_LAYER(ConvTranspose2d, 2)
TENON_CONV_TRANSPOSE_LAYER(ConvTranspose3d, 3)
#undef TENON_CONV_LAYER
#undef TENON_CONV_TRANSPOSE_LAYER

}  // namespace tenon::nn

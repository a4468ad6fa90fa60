// SPDX-License-Identifier: Apache-2.0
// Pooling, folding, shuffles of channels and bags of embeddings. Arguments are those of PyTorch's modules in their order; a
// list of one number stands for the same in every dimension, and no stride means the size of the window.
#pragma once

#include <tenon/nn/module.h>
#include <tenon/ops/embedding_bag.h>
#include <tenon/ops/pool.h>

namespace tenon::nn {

/// A list of numbers as it was given: one, or one for each dimension.
using PoolList = DimVector;

template <int N>
class TENON_API MaxPool : public Module {
 public:
  explicit MaxPool(IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1,
                   bool ceil_mode = false);
  explicit MaxPool(const int64_t (&kernel_size)[N]) : MaxPool(IntArrayRef(kernel_size, N)) {}
  Tensor forward(const Tensor& input) override;
  /// With the position of each maximum in its plane, for MaxUnpool.
  std::tuple<Tensor, Tensor> with_indices(const Tensor& input);
  std::string describe() const override;
  PoolList kernel_size, stride, padding, dilation;
  bool ceil_mode;
};
template <int N>
class TENON_API AvgPool : public Module {
 public:
  explicit AvgPool(IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0, bool ceil_mode = false,
                   bool count_include_pad = true, std::optional<int64_t> divisor_override = {});
  explicit AvgPool(const int64_t (&kernel_size)[N]) : AvgPool(IntArrayRef(kernel_size, N)) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  PoolList kernel_size, stride, padding;
  bool ceil_mode, count_include_pad;
  std::optional<int64_t> divisor_override;
};
template <int N>
class TENON_API AdaptiveAvgPool : public Module {
 public:
  explicit AdaptiveAvgPool(IntArrayRef size) : output_size(size) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  PoolList output_size;  ///< kSameSize: as the input
};
template <int N>
class TENON_API AdaptiveMaxPool : public Module {
 public:
  explicit AdaptiveMaxPool(IntArrayRef size) : output_size(size) {}
  Tensor forward(const Tensor& input) override;
  std::tuple<Tensor, Tensor> with_indices(const Tensor& input);
  std::string describe() const override;
  PoolList output_size;
};
template <int N>
class TENON_API MaxUnpool : public ModuleOf<MaxUnpool<N>> {
 public:
  explicit MaxUnpool(IntArrayRef kernel_size, IntArrayRef stride = {}, IntArrayRef padding = 0);
  explicit MaxUnpool(const int64_t (&kernel_size)[N]) : MaxUnpool(IntArrayRef(kernel_size, N)) {}
  /// `output_size` resolves which of the sizes that pool to input's is meant.
  Tensor forward(const Tensor& input, const Tensor& indices, const std::vector<int64_t>& output_size = {});
  std::string describe() const override;
  PoolList kernel_size, stride, padding;
};
/// Of the output size only one of `output_size` and `output_ratio` is given.
template <int N>
class TENON_API FractionalMaxPool : public Module {
 public:
  explicit FractionalMaxPool(IntArrayRef kernel_size, IntArrayRef output_size, std::vector<double> output_ratio = {});
  Tensor forward(const Tensor& input) override;
  std::tuple<Tensor, Tensor> with_indices(const Tensor& input);
  std::string describe() const override { return "FractionalMaxPool" + std::to_string(N) + "d()"; }
  PoolList kernel_size, output_size;
  std::vector<double> output_ratio;
};
template <int N>
class TENON_API LPPool : public Module {
 public:
  LPPool(double norm_type, IntArrayRef kernel_size, IntArrayRef stride = {}, bool ceil_mode = false);
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  double norm_type;
  PoolList kernel_size, stride;
  bool ceil_mode;
};

using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;
using MaxUnpool1d = MaxUnpool<1>;
using MaxUnpool2d = MaxUnpool<2>;
using MaxUnpool3d = MaxUnpool<3>;
using FractionalMaxPool2d = FractionalMaxPool<2>;
using FractionalMaxPool3d = FractionalMaxPool<3>;
using LPPool1d = LPPool<1>;
using LPPool2d = LPPool<2>;
using LPPool3d = LPPool<3>;

struct TENON_API LocalResponseNorm : Module {
  explicit LocalResponseNorm(int64_t neighbours, double a = 1e-4, double b = 0.75, double constant = 1)
      : size(neighbours), alpha(a), beta(b), k(constant) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  int64_t size;
  double alpha, beta, k;
};
/// Blocks of an image as columns: im2col.
class TENON_API Unfold : public Module {
 public:
  explicit Unfold(IntArrayRef kernel_size, IntArrayRef dilation = 1, IntArrayRef padding = 0, IntArrayRef stride = 1);
  explicit Unfold(const int64_t (&kernel_size)[2]) : Unfold(IntArrayRef(kernel_size, 2)) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  PoolList kernel_size, dilation, padding, stride;
};
/// The sum of such columns at their places: col2im.
class TENON_API Fold : public Module {
 public:
  Fold(IntArrayRef output_size, IntArrayRef kernel_size, IntArrayRef dilation = 1, IntArrayRef padding = 0,
       IntArrayRef stride = 1);
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  PoolList output_size, kernel_size, dilation, padding, stride;
};
struct TENON_API PixelShuffle : Module {
  explicit PixelShuffle(int64_t factor) : upscale_factor(factor) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  int64_t upscale_factor;
};
struct TENON_API PixelUnshuffle : Module {
  explicit PixelUnshuffle(int64_t factor) : downscale_factor(factor) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  int64_t downscale_factor;
};
struct TENON_API ChannelShuffle : Module {
  explicit ChannelShuffle(int64_t count) : groups(count) {}
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;
  int64_t groups;
};

/// Sums, means or maxima of rows of a table [num_embeddings, embedding_dim], standard normal at first; the options are
/// those of embedding_bag. Row padding_idx starts as zeros.
class TENON_API EmbeddingBag : public ModuleOf<EmbeddingBag> {
 public:
  EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingBagOptions& bag = {},
               const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight); }
  Tensor forward(const Tensor& input, const Tensor& offsets = {}, const Tensor& per_sample_weights = {});
  std::string describe() const override;

  Tensor weight;
  EmbeddingBagOptions options;
};

}  // namespace tenon::nn

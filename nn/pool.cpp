// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/nn/describe.h>
#include <tenon/nn/init.h>
#include <tenon/nn/pool.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/fold.h>

namespace tenon::nn {
namespace {

using tenon::detail::concat;

const std::array kMax = {&op::max_pool1d, &op::max_pool2d, &op::max_pool3d};
const std::array kAverage = {&op::avg_pool1d, &op::avg_pool2d, &op::avg_pool3d};
const std::array kAdaptiveAverage = {&op::adaptive_avg_pool1d, &op::adaptive_avg_pool2d, &op::adaptive_avg_pool3d};
const std::array kAdaptiveMax = {&op::adaptive_max_pool1d, &op::adaptive_max_pool2d, &op::adaptive_max_pool3d};
const std::array kUnpool = {&op::max_unpool1d, &op::max_unpool2d, &op::max_unpool3d};
const std::array kPowers = {&op::lp_pool1d, &op::lp_pool2d, &op::lp_pool3d};
const std::array kFractional = {&op::fractional_max_pool2d, &op::fractional_max_pool3d};

// "3" for one number, "(3, 2)" for several; kSameSize is None.
std::string text(const PoolList& list) {
  if (list.size() == 1 && list[0] != kSameSize) return std::to_string(list[0]);
  std::string out = "(";
  for (const int64_t v : list) out += (out.size() > 1 ? ", " : "") + (v == kSameSize ? "None" : std::to_string(v));
  return out + (list.size() == 1 ? ",)" : ")");
}
// As text(), but one number is spread over n dimensions.
std::string spread_text(const PoolList& list, int n) {
  return tuple_text(list.size() == 1 ? PoolList(static_cast<std::size_t>(n), list[0]) : list);
}
// Whole numbers without a point, as they are given to the modules of PyTorch.
std::string plain_text(double v) {
  return v == static_cast<double>(static_cast<int64_t>(v)) ? std::to_string(static_cast<int64_t>(v)) : number_text(v);
}
PoolList or_else(IntArrayRef list, const PoolList& otherwise) { return list.empty() ? otherwise : PoolList(list); }
std::tuple<Tensor, Tensor> pair(const std::vector<Tensor>& both) { return {both[0], both[1]}; }

}  // namespace

template <int N>
MaxPool<N>::MaxPool(IntArrayRef kernel, IntArrayRef step, IntArrayRef pad, IntArrayRef spacing, bool ceil)
    : kernel_size(kernel), stride(or_else(step, kernel_size)), padding(pad), dilation(spacing), ceil_mode(ceil) {}
template <int N>
Tensor MaxPool<N>::forward(const Tensor& input) {
  return (*kMax[N - 1])(input, kernel_size, stride, padding, dilation, ceil_mode, false)[0];
}
template <int N>
std::tuple<Tensor, Tensor> MaxPool<N>::with_indices(const Tensor& input) {
  return pair((*kMax[N - 1])(input, kernel_size, stride, padding, dilation, ceil_mode, true));
}
template <int N>
std::string MaxPool<N>::describe() const {
  return concat("MaxPool", N, "d(kernel_size=", text(kernel_size), ", stride=", text(stride),
                ", padding=", text(padding), ", dilation=", text(dilation), ", ceil_mode=", yes_no(ceil_mode), ")");
}

template <int N>
AvgPool<N>::AvgPool(IntArrayRef kernel, IntArrayRef step, IntArrayRef pad, bool ceil, bool include,
                    std::optional<int64_t> divisor)
    : kernel_size(kernel),
      stride(or_else(step, kernel_size)),
      padding(pad),
      ceil_mode(ceil),
      count_include_pad(include),
      divisor_override(divisor) {}
template <int N>
Tensor AvgPool<N>::forward(const Tensor& input) {
  return (*kAverage[N - 1])(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
}
template <int N>
std::string AvgPool<N>::describe() const {
  const auto list = [](const PoolList& l) { return N == 1 ? tuple_text(l) : text(l); };
  return concat("AvgPool", N, "d(kernel_size=", list(kernel_size), ", stride=", list(stride),
                ", padding=", list(padding), ")");
}

template <int N>
Tensor AdaptiveAvgPool<N>::forward(const Tensor& input) {
  return (*kAdaptiveAverage[N - 1])(input, output_size);
}
template <int N>
std::string AdaptiveAvgPool<N>::describe() const {
  return concat("AdaptiveAvgPool", N, "d(output_size=", text(output_size), ")");
}
template <int N>
Tensor AdaptiveMaxPool<N>::forward(const Tensor& input) {
  return (*kAdaptiveMax[N - 1])(input, output_size, false)[0];
}
template <int N>
std::tuple<Tensor, Tensor> AdaptiveMaxPool<N>::with_indices(const Tensor& input) {
  return pair((*kAdaptiveMax[N - 1])(input, output_size, true));
}
template <int N>
std::string AdaptiveMaxPool<N>::describe() const {
  return concat("AdaptiveMaxPool", N, "d(output_size=", text(output_size), ")");
}

template <int N>
MaxUnpool<N>::MaxUnpool(IntArrayRef kernel, IntArrayRef step, IntArrayRef pad)
    : kernel_size(kernel), stride(or_else(step, kernel_size)), padding(pad) {}
template <int N>
Tensor MaxUnpool<N>::forward(const Tensor& input, const Tensor& indices, const std::vector<int64_t>& output_size) {
  std::optional<IntArrayRef> wanted;
  if (!output_size.empty()) wanted = IntArrayRef(output_size);
  return (*kUnpool[N - 1])(input, indices, kernel_size, stride, padding, wanted);
}
template <int N>
std::string MaxUnpool<N>::describe() const {
  return concat("MaxUnpool", N, "d(kernel_size=", spread_text(kernel_size, N), ", stride=", spread_text(stride, N),
                ", padding=", spread_text(padding, N), ")");
}

template <int N>
FractionalMaxPool<N>::FractionalMaxPool(IntArrayRef kernel, IntArrayRef size, std::vector<double> ratio)
    : kernel_size(kernel), output_size(size), output_ratio(static_cast<std::vector<double>&&>(ratio)) {
  TENON_CHECK(output_size.empty() != output_ratio.empty(), ValueError, "FractionalMaxPool", N,
              "d: expected output_size or output_ratio, and not both");
}
template <int N>
std::tuple<Tensor, Tensor> FractionalMaxPool<N>::with_indices(const Tensor& input) {
  std::vector<Tensor> ratio;
  for (const double r : output_ratio) ratio.push_back(scalar_tensor(r, kFloat64));
  std::optional<IntArrayRef> size;
  if (!output_size.empty()) size = IntArrayRef(output_size);
  return pair((*kFractional[N - 2])(input, kernel_size, size, ratio, true, {}));
}
template <int N>
Tensor FractionalMaxPool<N>::forward(const Tensor& input) {
  return std::get<0>(with_indices(input));
}

template <int N>
LPPool<N>::LPPool(double norm, IntArrayRef kernel, IntArrayRef step, bool ceil)
    : norm_type(norm), kernel_size(kernel), stride(step), ceil_mode(ceil) {}
template <int N>
Tensor LPPool<N>::forward(const Tensor& input) {
  return (*kPowers[N - 1])(input, norm_type, kernel_size, stride, ceil_mode);
}
template <int N>
std::string LPPool<N>::describe() const {
  return concat("LPPool", N, "d(norm_type=", plain_text(norm_type), ", kernel_size=", text(kernel_size),
                ", stride=", stride.empty() ? std::string("None") : text(stride), ", ceil_mode=", yes_no(ceil_mode),
                ")");
}

#define TENON_POOL_MODULES(N)        \
  template class MaxPool<N>;         \
  template class AvgPool<N>;         \
  template class AdaptiveAvgPool<N>; \
  template class AdaptiveMaxPool<N>; \
  template class MaxUnpool<N>;       \
  template class LPPool<N>;
TENON_POOL_MODULES(1)
TENON_POOL_MODULES(2)
TENON_POOL_MODULES(3)
#undef TENON_POOL_MODULES
template class FractionalMaxPool<2>;
template class FractionalMaxPool<3>;

Tensor LocalResponseNorm::forward(const Tensor& input) { return local_response_norm(input, size, alpha, beta, k); }
std::string LocalResponseNorm::describe() const {
  return concat("LocalResponseNorm(", size, ", alpha=", number_text(alpha), ", beta=", number_text(beta),
                ", k=", number_text(k), ")");
}

Unfold::Unfold(IntArrayRef kernel, IntArrayRef spacing, IntArrayRef pad, IntArrayRef step)
    : kernel_size(kernel), dilation(spacing), padding(pad), stride(step) {}
Tensor Unfold::forward(const Tensor& input) { return im2col(input, kernel_size, dilation, padding, stride); }
std::string Unfold::describe() const {
  return concat("Unfold(kernel_size=", text(kernel_size), ", dilation=", text(dilation), ", padding=", text(padding),
                ", stride=", text(stride), ")");
}
Fold::Fold(IntArrayRef size, IntArrayRef kernel, IntArrayRef spacing, IntArrayRef pad, IntArrayRef step)
    : output_size(size), kernel_size(kernel), dilation(spacing), padding(pad), stride(step) {}
Tensor Fold::forward(const Tensor& input) { return fold(input, output_size, kernel_size, dilation, padding, stride); }
std::string Fold::describe() const {
  return concat("Fold(output_size=", text(output_size), ", kernel_size=", text(kernel_size),
                ", dilation=", text(dilation), ", padding=", text(padding), ", stride=", text(stride), ")");
}
Tensor PixelShuffle::forward(const Tensor& input) { return pixel_shuffle(input, upscale_factor); }
std::string PixelShuffle::describe() const { return concat("PixelShuffle(upscale_factor=", upscale_factor, ")"); }
Tensor PixelUnshuffle::forward(const Tensor& input) { return pixel_unshuffle(input, downscale_factor); }
std::string PixelUnshuffle::describe() const {
  return concat("PixelUnshuffle(downscale_factor=", downscale_factor, ")");
}
Tensor ChannelShuffle::forward(const Tensor& input) { return channel_shuffle(input, groups); }
std::string ChannelShuffle::describe() const { return concat("ChannelShuffle(groups=", groups, ")"); }

EmbeddingBag::EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingBagOptions& bag,
                           const TensorOptions& tensor_options)
    : weight(parameter(empty({num_embeddings, embedding_dim}, tensor_options))), options(bag) {
  init::normal_(weight);
  if (!options.padding_idx) return;
  int64_t& row = *options.padding_idx;
  TENON_CHECK(row >= -num_embeddings && row < num_embeddings, ValueError,
              "EmbeddingBag: padding_idx: expected a row of ", num_embeddings, ", got ", row);
  if (row < 0) row += num_embeddings;
  const NoGradGuard no_grad;
  weight[row].zero_();
}
Tensor EmbeddingBag::forward(const Tensor& input, const Tensor& offsets, const Tensor& per_sample_weights) {
  return embedding_bag(input, weight, offsets, options, per_sample_weights);
}
std::string EmbeddingBag::describe() const {
  std::string out = concat("EmbeddingBag(", weight.size(0), ", ", weight.size(1));
  if (options.max_norm) out += ", max_norm=" + number_text(*options.max_norm);
  if (options.norm_type != 2) out += ", norm_type=" + number_text(options.norm_type);
  if (options.scale_grad_by_freq) out += ", scale_grad_by_freq=True";
  out += concat(", mode='", options.mode, "'");
  if (options.padding_idx) out += ", padding_idx=" + std::to_string(*options.padding_idx);
  return out + ")";
}

}  // namespace tenon::nn

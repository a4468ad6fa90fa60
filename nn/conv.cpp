// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/conv.h>
#include <tenon/nn/describe.h>
#include <tenon/nn/init.h>
#include <tenon/ops/convolution.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/pad.h>

#include <algorithm>
#include <cmath>

namespace tenon::nn {
namespace {

DimVector spread(const char* layer, const char* name, IntArrayRef given, int64_t rank, int64_t least) {
  const auto n = static_cast<std::size_t>(rank);
  TENON_CHECK(given.size() == 1 || given.size() == n, ValueError, layer, ": ", name, ": expected one number or ", rank,
              ", got ", given);
  DimVector out(n, given[0]);
  for (std::size_t d = 0; d < n; ++d) {
    out[d] = given[given.size() == 1 ? 0 : d];
    TENON_CHECK(out[d] >= least, ValueError, layer, ": ", name, ": expected numbers from ", least, " on, got ", given);
  }
  return out;
}
bool all_are(IntArrayRef list, int64_t v) {
  return std::all_of(list.begin(), list.end(), [v](int64_t x) { return x == v; });
}

}  // namespace

ConvNd::ConvNd(const char* name, int64_t rank, bool is_transposed, int64_t in_channels, int64_t out_channels,
               IntArrayRef kernel_size, ConvOptions o, IntArrayRef extra, const TensorOptions& tensor_options)
    : options(static_cast<ConvOptions&&>(o)), transposed(is_transposed), name_(name) {
  TENON_CHECK(options.groups > 0, ValueError, name, ": groups: expected a positive number, got ", options.groups);
  TENON_CHECK(in_channels > 0 && in_channels % options.groups == 0, ValueError, name,
              ": in_channels: expected a positive multiple of groups, ", options.groups, ", got ", in_channels);
  TENON_CHECK(out_channels > 0 && out_channels % options.groups == 0, ValueError, name,
              ": out_channels: expected a positive multiple of groups, ", options.groups, ", got ", out_channels);
  const DimVector kernel = spread(name, "kernel_size", kernel_size, rank, 1);
  options.stride = spread(name, "stride", options.stride, rank, 1);
  options.dilation = spread(name, "dilation", options.dilation, rank, 1);
  output_padding = spread(name, "output_padding", extra, rank, 0);
  const std::string& word = options.padding.text;
  TENON_CHECK(word.empty() || word == "same" || word == "valid", ValueError, name,
              ": padding: expected numbers, 'same' or 'valid', got '", word, "'");
  TENON_CHECK(word != "same" || all_are(options.stride, 1), ValueError, name,
              ": padding: 'same' needs stride 1, got stride ", options.stride);
  if (word.empty()) options.padding.sizes = spread(name, "padding", options.padding.sizes, rank, 0);
  const std::string& mode = options.padding_mode;
  TENON_CHECK(mode == "zeros" || mode == "reflect" || mode == "replicate" || mode == "circular", ValueError, name,
              ": padding_mode: expected 'zeros', 'reflect', 'replicate' or 'circular', got '", mode, "'");
  DimVector sizes{transposed ? in_channels : out_channels, (transposed ? out_channels : in_channels) / options.groups};
  for (const int64_t k : kernel) sizes.push_back(k);
  weight = parameter(empty(sizes, tensor_options));
  if (options.bias) bias = parameter(empty(IntArrayRef(out_channels), tensor_options));
  reset_parameters();
}

void ConvNd::reset_parameters() {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(weight)));
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

Tensor ConvNd::forward(const Tensor& input) { return run(input, output_padding); }
Tensor ConvNd::run(const Tensor& input, IntArrayRef extra) const {
  const std::size_t rank = options.stride.size();
  const bool alone = input.dim() == static_cast<int64_t>(rank) + 1;
  TENON_CHECK(alone || input.dim() == static_cast<int64_t>(rank) + 2, ShapeError, name_, ": input: expected ", rank + 1,
              " or ", rank + 2, " dimensions, got sizes ", input.sizes());
  Tensor x = alone ? input.unsqueeze(0) : input;
  DimVector padding(2 * rank);  // all before, then all behind
  for (std::size_t d = 0; d < rank; ++d) {
    const bool same = options.padding.text == "same", given = options.padding.text.empty();
    const int64_t all = same    ? options.dilation[d] * (weight.sizes()[d + 2] - 1)
                        : given ? 2 * options.padding.sizes[d]
                                : 0;
    padding[d] = all / 2, padding[rank + d] = all - all / 2;
  }
  if (options.padding_mode != "zeros") {
    DimVector sides;  // last dimension first
    for (std::size_t d = rank; d-- > 0;) sides.push_back(padding[d]), sides.push_back(padding[rank + d]);
    x = pad(x, sides, options.padding_mode);
    std::fill(padding.begin(), padding.end(), 0);
  }
  const Tensor y =
      op::convolution(x, weight, bias, options.stride, padding, options.dilation, transposed, extra, options.groups);
  return alone ? y.squeeze(0) : y;
}

Tensor ConvTransposeNd::forward(const Tensor& input, IntArrayRef output_size) {
  const std::size_t rank = options.stride.size(), batch = input.sizes().size() - std::min(input.sizes().size(), rank);
  TENON_CHECK(output_size.size() == rank && batch >= 1, ValueError, name_, ": output_size: expected ", rank,
              " numbers, got ", output_size);
  DimVector extra(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const int64_t least = (input.sizes()[batch + d] - 1) * options.stride[d] - 2 * options.padding.sizes[d] +
                          options.dilation[d] * (weight.sizes()[d + 2] - 1) + 1;
    extra[d] = output_size[d] - least;
    TENON_CHECK(extra[d] >= 0 && extra[d] < options.stride[d], ValueError, name_, ": output_size: expected from ",
                least, " up to ", least + options.stride[d] - 1, " in dimension ", d, ", got ", output_size);
  }
  return run(input, extra);
}

std::string ConvNd::describe() const {
  const IntArrayRef sizes = weight.sizes(), kernel = sizes.slice(2, sizes.size() - 2);
  const int64_t first = sizes[0], second = sizes[1] * options.groups;
  Message m;
  m << name_ << "(" << (transposed ? first : second) << ", " << (transposed ? second : first)
    << ", kernel_size=" << tuple_text(kernel) << ", stride=" << tuple_text(options.stride);
  if (!options.padding.text.empty())
    m << ", padding=" << options.padding.text;
  else if (!all_are(options.padding.sizes, 0))
    m << ", padding=" << tuple_text(options.padding.sizes);
  if (!all_are(options.dilation, 1)) m << ", dilation=" << tuple_text(options.dilation);
  if (!all_are(output_padding, 0)) m << ", output_padding=" << tuple_text(output_padding);
  if (options.groups != 1) m << ", groups=" << options.groups;
  if (!bias.defined()) m << ", bias=False";
  if (options.padding_mode != "zeros") m << ", padding_mode=" << options.padding_mode;
  m << ")";
  return m.take();
}

}  // namespace tenon::nn

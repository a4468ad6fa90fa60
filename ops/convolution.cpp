// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/convolution.h>

#include <tenon/dispatch/declare_only.h>

#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon {
namespace detail {
DimVector format_strides(const Tensor& like, MemoryFormat format, const char* who);
}

namespace backends::cudnn {
namespace {
constinit bool switches[4] = {true, false, false, false};
bool get(int i) { return __atomic_load_n(&switches[i], __ATOMIC_RELAXED); }
void set(int i, bool on) { __atomic_store_n(&switches[i], on, __ATOMIC_RELAXED); }
}  // namespace
bool enabled() { return get(0); }
void set_enabled(bool on) { set(0, on); }
bool benchmark() { return get(1); }
void set_benchmark(bool on) { set(1, on); }
bool deterministic() { return get(2); }
void set_deterministic(bool on) { set(2, on); }
bool allow_tf32() { return get(3); }
void set_allow_tf32(bool on) { set(3, on); }
}  // namespace backends::cudnn

namespace impl {
namespace {
using dispatch::make_view;

// Arguments of a convolution, checked, and what follows from them.
struct Problem {
  std::size_t rank = 0;  // spatial dimensions
  ConvolutionGeometry geometry{};
  DimVector out_sizes;
  int64_t out_channels = 0;
  MemoryFormat format = MemoryFormat::contiguous;
};

// One number a dimension, from a list of one or of `rank` numbers.
void spread(std::string_view who, const char* name, IntArrayRef list, std::size_t rank, int64_t least, int64_t* to) {
  TENON_CHECK(list.size() == 1 || list.size() == rank, ValueError, who, ": ", name, ": expected one number or ", rank,
              ", got ", list);
  for (std::size_t d = 0; d < rank; ++d) {
    to[d] = list[list.size() == 1 ? 0 : d];
    TENON_CHECK(to[d] >= least && to[d] < int64_t{1} << 40, ValueError, who, ": ", name, ": expected numbers from ",
                least, " on, got ", list);
  }
}

// Whether the strides are those of a channels-last tensor, and not also those of a contiguous one.
bool is_channels_last(const Tensor& t) {
  const IntArrayRef sizes = t.sizes(), strides = t.strides();
  const std::size_t rank = sizes.size();
  if (rank < 4 || strides[1] == 0) return false;
  int64_t least = 0;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t d = k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;
    if (sizes[d] == 0 || strides[d] < least || (d == 0 && least == strides[1])) return false;
    least = strides[d] * std::max<int64_t>(sizes[d], 1);
  }
  return true;
}

void check_tensors(std::string_view who, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const std::size_t rank = weight.sizes().size();
  TENON_CHECK(rank >= 3 && rank <= 5, ShapeError, who, ": weight: expected 3 to 5 dimensions, got sizes ",
              weight.sizes());
  TENON_CHECK(input.sizes().size() == rank, ShapeError, who, ": input: expected ", rank, " dimensions as weight, ",
              weight.sizes(), ", got sizes ", input.sizes());
  TENON_CHECK(input.dtype() == weight.dtype(), DtypeError, who, ": weight: expected the dtype of input, ",
              input.dtype(), ", got ", weight.dtype());
  TENON_CHECK(input.dtype() != kBool && !is_float8(input.dtype()), DtypeError, who, ": input: expected numbers, got ",
              input.dtype());
  TENON_CHECK(!bias.defined() || bias.dtype() == input.dtype(), DtypeError, who,
              ": bias: expected the dtype of input, ", input.dtype(), ", got ", bias.dtype());
}

Problem problem_of(std::string_view who, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, int64_t groups) {
  check_tensors(who, input, weight, bias);
  const IntArrayRef in = input.sizes(), kernel = weight.sizes();
  Problem p;
  const std::size_t rank = p.rank = kernel.size() - 2;
  ConvolutionGeometry& g = p.geometry;
  std::fill_n(g.stride, 3, 1), std::fill_n(g.dilation, 3, 1);
  const std::size_t first = 3 - rank;  // missing dimensions come first
  int64_t behind[3] = {}, extra[3] = {};
  const bool two_sided = padding.size() == 2 * rank;
  spread(who, "stride", stride, rank, 1, g.stride + first);
  spread(who, "padding", two_sided ? padding.slice(0, rank) : padding, rank, 0, g.padding + first);
  spread(who, "padding", two_sided ? padding.slice(rank, rank) : padding, rank, 0, behind + first);
  spread(who, "dilation", dilation, rank, 1, g.dilation + first);
  if (transposed) spread(who, "output_padding", output_padding, rank, 0, extra + first);
  TENON_CHECK(groups > 0, ValueError, who, ": groups: expected a positive number, got ", groups);
  g.groups = groups;
  TENON_CHECK(kernel[0] % groups == 0 && kernel[0] >= groups, ShapeError, who,
              ": weight: expected a first dimension that groups, ", groups, ", divide, got sizes ", kernel);
  const int64_t channels = transposed ? kernel[0] : kernel[1] * groups;
  TENON_CHECK(in[1] == channels, ShapeError, who, ": input: expected ", channels, " channels for a weight of sizes ",
              kernel, " and ", groups, " groups, got sizes ", in);
  p.out_channels = transposed ? kernel[1] * groups : kernel[0];
  TENON_CHECK(!bias.defined() || bias.sizes() == IntArrayRef(p.out_channels), ShapeError, who,
              ": bias: expected sizes [", p.out_channels, "], got ", bias.defined() ? bias.sizes() : IntArrayRef());
  p.out_sizes = {in[0], p.out_channels};
  for (std::size_t d = 0; d < rank; ++d) {
    const int64_t n = in[d + 2], k = kernel[d + 2], s = g.stride[first + d],
                  pad = g.padding[first + d] + behind[first + d];
    int64_t reach = 0, longest = 0;  // of the kernel; of a transposed result before padding is cut off
    TENON_CHECK(k > 0 && (n > 0 || in[0] == 0), ShapeError, who, ": expected spatial sizes above 0, got input ", in,
                " and weight ", kernel);
    TENON_CHECK(!__builtin_mul_overflow(k - 1, g.dilation[first + d], &reach) && reach < int64_t{1} << 60 &&
                    !__builtin_mul_overflow(n - 1, s, &longest) && longest < int64_t{1} << 60,
                ValueError, who, ": stride, dilation: too large for input ", in, " and weight ", kernel);
    if (transposed) {
      TENON_CHECK(in[0] == 0 || extra[first + d] < std::max(s, g.dilation[first + d]), ValueError, who,
                  ": output_padding: expected less than stride or dilation, got ", output_padding);
      p.out_sizes.push_back(longest + reach + 1 - pad + extra[first + d]);
    } else {
      p.out_sizes.push_back(n + pad > reach ? (n + pad - reach - 1) / s + 1 : 0);
    }
    TENON_CHECK(p.out_sizes.back() >= (transposed ? 0 : 1), ShapeError, who, ": input: sizes ", in,
                " are too small for weight ", kernel, " with padding ", padding, " and dilation ", dilation);
  }
  if (rank > 1 && (is_channels_last(input) || is_channels_last(weight)))
    p.format = rank == 2 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
  g.channels_last = p.format != MemoryFormat::contiguous;
  g.part = transposed ? ConvolutionPart::big : ConvolutionPart::small;
  return p;
}

// With missing spatial dimensions of size 1 put in.
Tensor wide(const Tensor& t) {
  const std::size_t missing = 5 - t.sizes().size();
  if (missing == 0) return t;
  DimVector sizes(t.sizes()), strides(t.strides());
  for (std::size_t i = 0; i < missing; ++i) sizes.insert(2, 1), strides.insert(2, strides[1]);
  return make_view(t, sizes, strides, t.storage_offset());
}
Tensor in_format(const Tensor& t, MemoryFormat format) { return wide(op::contiguous(t, format)); }
// A new tensor, or the destination if it is dense in the format.
Tensor output(Call& call, int i, IntArrayRef sizes, const Tensor& like, MemoryFormat format,
              std::initializer_list<const Tensor*> inputs) {
  DimVector strides;
  if (format != MemoryFormat::contiguous)
    strides = detail::format_strides(dispatch::make_tensor(sizes, like.dtype(), kMeta), format, "convolution");
  const Tensor out = call.output(i, sizes, like.dtype(), like.device(), inputs, strides);
  return out.is_contiguous(format) ? out : dispatch::make_tensor(sizes, like.dtype(), like.device(), strides);
}
Tensor per_channel(const Tensor& bias, std::size_t rank) {
  DimVector sizes(rank + 2, 1);
  sizes[1] = bias.numel();
  return bias.reshape(sizes);
}

}  // namespace

Tensor convolution(Call& call, const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  const Device device = call.device_of({&input, &weight, &bias});
  const Problem p =
      problem_of(call.name(), input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  const Tensor out = output(call, 0, p.out_sizes, input, p.format, {&input, &weight, &bias});
  if (device.is_meta()) return out;
  const auto kernel = op::convolution.kernel(input.backend(), dispatch::key_of(input.dtype()));
  if (out.numel() == 0) return out;
  if (input.numel() == 0) {  // sums of nothing
    Tensor target = out;
    bias.defined() ? target.copy_(per_channel(bias, p.rank)) : target.zero_();
    return out;
  }
  kernel(wide(out), in_format(input, p.format), in_format(weight, p.format), bias.defined() ? bias.contiguous() : bias,
         p.geometry);
  return out;
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(Call& call, const Tensor& grad_output, const Tensor& input,
                                                        const Tensor& weight, IntArrayRef stride, IntArrayRef padding,
                                                        IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups,
                                                        int64_t output_mask) {
  const Device device = call.device_of({&grad_output, &input, &weight});
  const Problem p =
      problem_of(call.name(), input, weight, {}, stride, padding, dilation, transposed, output_padding, groups);
  TENON_CHECK(grad_output.sizes() == IntArrayRef(p.out_sizes) && grad_output.dtype() == input.dtype(), ShapeError,
              call.name(), ": grad_output: expected sizes ", p.out_sizes, " and dtype ", input.dtype(), ", got ",
              grad_output.sizes(), " ", grad_output.dtype());
  Tensor results[3];
  for (int i = 0; i < 3; ++i) {
    if ((output_mask >> i & 1) == 0) continue;
    const IntArrayRef sizes = i == 0 ? input.sizes() : i == 1 ? weight.sizes() : IntArrayRef(p.out_channels);
    const MemoryFormat format = i == 2 ? MemoryFormat::contiguous : p.format;
    results[i] = output(call, i, sizes, input, format, {&grad_output, &input, &weight});
  }
  auto& [dx, dw, db] = results;
  if (device.is_meta()) return {dx, dw, db};
  if (db.defined()) {
    DimVector dims{0};
    for (std::size_t d = 2; d < p.rank + 2; ++d) dims.push_back(static_cast<int64_t>(d));
    db.copy_(op::sum(grad_output, dims, false, {}));
  }
  const auto kernel = op::convolution_backward.kernel(input.backend(), dispatch::key_of(input.dtype()));
  if (grad_output.numel() == 0 || input.numel() == 0) {
    if (dx.defined()) dx.zero_();
    if (dw.defined()) dw.zero_();
    return {dx, dw, db};
  }
  const Tensor grad = in_format(grad_output, p.format);
  ConvolutionGeometry g = p.geometry;
  const auto conjugated = [&](const Tensor& t) { return in_format(t.is_complex() ? conj(t) : t, p.format); };
  if (dx.defined()) {
    g.part = transposed ? ConvolutionPart::small : ConvolutionPart::big;
    kernel(wide(dx), grad, conjugated(weight), {}, g);
  }
  if (dw.defined()) {
    g.part = ConvolutionPart::weight;
    const Tensor x = conjugated(input);
    kernel(wide(dw), transposed ? grad : x, transposed ? x : grad, {}, g);
  }
  return {dx, dw, db};
}

namespace {

// "conv2d" and the like over `input` with or without a batch.
Tensor convolve_with(const Call& call, const Tensor& input, const Tensor& weight, const Tensor& bias,
                     IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                     IntArrayRef output_padding, int64_t groups) {
  const std::string_view who = call.op.schema().name;
  const int64_t rank = who[who.size() - 2] - '0';
  TENON_CHECK(input.dim() == rank + 1 || input.dim() == rank + 2, ShapeError, who, ": input: expected ", rank + 1,
              " or ", rank + 2, " dimensions, got sizes ", input.sizes());
  TENON_CHECK(weight.dim() == rank + 2, ShapeError, who, ": weight: expected ", rank + 2, " dimensions, got sizes ",
              weight.sizes());
  call.device_of({&input, &weight, &bias});
  const bool alone = input.dim() == rank + 1;
  const Tensor batch = alone ? input.unsqueeze(0) : input;
  (void)problem_of(who, batch, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  const Tensor out =
      op::convolution(batch, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  return alone ? out.squeeze(0) : out;
}

}  // namespace

Tensor convolve(Call& call, const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride,
                IntArrayRef padding, IntArrayRef dilation, int64_t groups) {
  const std::size_t rank = weight.sizes().size() - std::min<std::size_t>(2, weight.sizes().size());
  TENON_CHECK(padding.size() == 1 || padding.size() == rank, ValueError, call.op.schema().name,
              ": padding: expected one number or ", rank, ", got ", padding);
  return convolve_with(call, input, weight, bias, stride, padding, dilation, false, 0, groups);
}

Tensor convolve_padded(Call& call, const Tensor& input, const Tensor& weight, const Tensor& bias, IntArrayRef stride,
                       std::string_view padding, IntArrayRef dilation, int64_t groups) {
  const std::string_view who = call.op.schema().name;
  TENON_CHECK(padding == "same" || padding == "valid", ValueError, who,
              ": padding: expected numbers, 'same' or 'valid', got ", padding);
  if (padding == "valid") return convolve_with(call, input, weight, bias, stride, 0, dilation, false, 0, groups);
  for (const int64_t s : stride)
    TENON_CHECK(s == 1, ValueError, who, ": padding: 'same' needs stride 1, got stride ", stride);
  const std::size_t rank = static_cast<std::size_t>(who[who.size() - 2] - '0');
  TENON_CHECK(weight.sizes().size() == rank + 2, ShapeError, who, ": weight: expected ", rank + 2,
              " dimensions, got sizes ", weight.sizes());
  int64_t step[3] = {};
  spread(who, "dilation", dilation, rank, 1, step);
  DimVector sides(2 * rank);
  for (std::size_t d = 0; d < rank; ++d) {
    int64_t all = 0;
    TENON_CHECK(!__builtin_mul_overflow(std::max<int64_t>(weight.sizes()[d + 2] - 1, 0), step[d], &all), ValueError,
                who, ": dilation: too large, got ", dilation);
    sides[d] = all / 2, sides[rank + d] = all - all / 2;
  }
  return convolve_with(call, input, weight, bias, stride, sides, dilation, false, 0, groups);
}

Tensor convolve_transposed(Call& call, const Tensor& input, const Tensor& weight, const Tensor& bias,
                           IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding, int64_t groups,
                           IntArrayRef dilation) {
  const std::size_t rank = weight.sizes().size() - std::min<std::size_t>(2, weight.sizes().size());
  TENON_CHECK(padding.size() == 1 || padding.size() == rank, ValueError, call.op.schema().name,
              ": padding: expected one number or ", rank, ", got ", padding);
  return convolve_with(call, input, weight, bias, stride, padding, dilation, true, output_padding, groups);
}

}  // namespace impl
}  // namespace tenon

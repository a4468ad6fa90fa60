// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/pool.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/random.h>
#include <tenon/ops/sign.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::impl {
namespace {
using dispatch::make_tensor;
using dispatch::make_view;

constexpr int64_t kMost = 0x7fffffff;  // of a kernel's numbers, so that products fit

MemoryFormat channels_last_of(int64_t n) {
  return n == 2 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
}
// Channels-last only where memory is that and nothing else.
MemoryFormat format_of(const Tensor& t, int64_t n) {
  const bool last = n > 1 && t.dim() == n + 2 && !t.is_contiguous() && t.is_contiguous(channels_last_of(n));
  return last ? channels_last_of(n) : MemoryFormat::contiguous;
}
DimVector strides_of(IntArrayRef sizes, MemoryFormat format) {
  DimVector strides(sizes.size());
  int64_t step = 1;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::size_t last = sizes.size() - 1;
    const std::size_t d = format == MemoryFormat::contiguous ? last - k : k == 0 ? 1 : k == last ? 0 : last - k + 1;
    strides[d] = step;
    step *= std::max<int64_t>(1, sizes[d]);
  }
  return strides;
}
// Result i, dense in `format`.
Tensor dense_output(Call& call, int i, IntArrayRef sizes, DType dtype, Device device,
                    std::initializer_list<const Tensor*> inputs, MemoryFormat format) {
  checked_numel(sizes, std::string(call.name()).c_str());
  const DimVector strides = strides_of(sizes, format);
  const Tensor out = call.output(i, sizes, dtype, device, inputs, strides);
  return out.is_contiguous(format) ? out : make_tensor(sizes, dtype, device, strides);
}

/// One call's windows and the sizes of what comes out, checked.
struct Geometry {
  std::string who;  // "avg_pool2d"
  int64_t n;
  PoolWindows w;
  DimVector sizes;

  Geometry(const char* name, IntArrayRef input, int64_t dimensions, bool no_channels = false)
      : who(tenon::detail::concat(name, dimensions, "d")), n(dimensions), sizes(input) {
    TENON_CHECK(n >= 1 && n <= 3, ValueError, name, ": expected windows of 1 to 3 dimensions, got ", n);
    const auto rank = static_cast<int64_t>(input.size());
    TENON_CHECK(rank == n + 1 || rank == n + 2, ShapeError, who, ": self: expected ", n + 1, " or ", n + 2,
                " dimensions, got sizes ", input);
    w.n = rank == n + 2 ? input[0] : 1;
    w.channels = input[at(-1)];
    for (int64_t d = -1; d < n; ++d)
      TENON_CHECK(input[at(d)] > 0 || (d < 0 && no_channels), ShapeError, who,
                  ": self: expected no dimension of size 0 but the batch, got sizes ", input);
    for (int64_t d = 0; d < n; ++d) w.in[3 - n + d] = input[at(d)];
  }
  /// Place of spatial dimension d (-1: the channels) among the sizes.
  std::size_t at(int64_t d) const { return sizes.size() - static_cast<std::size_t>(n - d); }

  /// Checks a list of n numbers, or one for all, and puts it into `to` (3 entries). Empty: as `otherwise`.
  void list(const char* name, IntArrayRef given, int64_t least, int64_t* to, const int64_t* otherwise = nullptr) {
    const auto count = static_cast<int64_t>(given.size());
    TENON_CHECK(count == n || count == 1 || (count == 0 && otherwise), ShapeError, who, ": ", name, ": expected ", n,
                " numbers or one, got ", given);
    for (int64_t d = 0; d < n; ++d) {
      const int64_t v = count == 0 ? otherwise[3 - n + d] : given[count == 1 ? 0 : static_cast<std::size_t>(d)];
      TENON_CHECK(v >= least && v <= kMost, ValueError, who, ": ", name, ": expected numbers from ", least, " to ",
                  kMost, ", got ", given);
      to[3 - n + d] = v;
    }
  }
  void output(int64_t d, int64_t size) {
    w.out[d] = size;
    sizes[at(d - 3 + n)] = size;
  }

  Geometry& regular(IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
    list("kernel_size", kernel, 1, w.kernel);
    list("stride", stride, 1, w.stride, w.kernel);
    list("padding", padding, 0, w.padding);
    list("dilation", dilation, 1, w.dilation);
    for (int64_t d = 3 - n; d < 3; ++d) {
      TENON_CHECK(w.padding[d] <= w.kernel[d] / 2, ValueError, who, ": padding: expected at most half of kernel_size, ",
                  kernel, ", got ", padding);
      const int64_t room = w.in[d] + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
      int64_t size = room < 0 ? 0 : room / w.stride[d] + 1;
      if (ceil_mode) {
        const int64_t more = room + w.stride[d] - 1;
        size = more < 0 ? 0 : more / w.stride[d] + 1;
        if ((size - 1) * w.stride[d] >= w.in[d] + w.padding[d]) --size;  // begins in the padding behind
      }
      TENON_CHECK(size > 0, ShapeError, who, ": self: sizes ", sizes, " are too small for kernel_size ", kernel,
                  ", padding ", padding, " and dilation ", dilation);
      output(d, size);
    }
    return *this;
  }
  Geometry& adaptive(IntArrayRef size) {
    w.kind = PoolWindows::Kind::adaptive;
    bool equal = true;
    for (int64_t d = 3 - n; d < 3; ++d) {
      const int64_t v = size.size() == 1 ? size[0] : size[static_cast<std::size_t>(d - 3 + n)];
      TENON_CHECK(v >= 0 || v == kSameSize, ValueError, who,
                  ": output_size: expected numbers that are not negative, got ", size);
      output(d, v == kSameSize ? w.in[d] : v);
      equal = equal && w.out[d] > 0 && w.in[d] % w.out[d] == 0;
    }
    checked_numel(sizes, who.c_str());
    if (!equal) return *this;
    w.kind = PoolWindows::Kind::regular;  // all parts alike
    for (int d = 0; d < 3; ++d) w.kernel[d] = w.stride[d] = w.in[d] / w.out[d];
    return *this;
  }
  Geometry& fractional(IntArrayRef kernel, IntArrayRef size) {
    w.kind = PoolWindows::Kind::fractional;
    list("kernel_size", kernel, 1, w.kernel);
    int64_t out[3];
    list("output_size", size, 1, out);
    for (int64_t d = 3 - n; d < 3; ++d) {
      TENON_CHECK(out[d] + w.kernel[d] - 1 <= w.in[d], ShapeError, who, ": kernel_size: ", kernel,
                  " is too large for self of sizes ", sizes, " and output_size ", size);
      output(d, out[d]);
    }
    return *this;
  }
  /// The windows of a kernel: what spans whole rows is one dimension with the rows.
  PoolWindows windows(MemoryFormat format) const {
    PoolWindows r = w;
    r.channels_last = format != MemoryFormat::contiguous;
    const auto plain = [&](int d) { return r.padding[d] == 0 && r.dilation[d] == 1; };
    for (int i = 0; i < 2 && r.kind == PoolWindows::Kind::regular; ++i) {
      const int64_t row = r.in[2];
      const bool whole = r.out[2] == 1 && r.kernel[2] == row && plain(2) && plain(1) &&
                         (r.out[1] - 1) * r.stride[1] + r.kernel[1] <= r.in[1];
      if (!whole) break;
      r.in[2] = r.in[1] * row, r.kernel[2] = r.kernel[1] * row, r.stride[2] = r.stride[1] * row, r.out[2] = r.out[1];
      for (int64_t* list : {r.in, r.out, r.kernel, r.stride, r.dilation}) list[1] = list[0], list[0] = 1;
      r.padding[1] = r.padding[0], r.padding[0] = 0;
    }
    return r;
  }
};

int64_t count_of(IntArrayRef kernel_size) { return static_cast<int64_t>(kernel_size.size()); }

// from: self, or the gradient of the result, of sizes `given`.
template <class AnyOp>
Tensor average(Call& call, const AnyOp& op, const Tensor& from, IntArrayRef given, IntArrayRef sizes,
               const Geometry& g) {
  const Device device = call.device_of({&from});
  TENON_CHECK(from.sizes() == given, ShapeError, g.who, "_backward: grad_output: expected sizes ", given, ", got ",
              from.sizes());
  const MemoryFormat format = format_of(from, g.n);
  Tensor to = dense_output(call, 0, sizes, from.dtype(), device, {&from}, format);
  if (to.is_meta()) return to;
  const auto kernel = op.kernel(from.backend(), dispatch::key_of(from.dtype()));
  if (to.numel() == 0) return to;
  if (from.numel() == 0) return to.zero_();
  kernel(to, from.contiguous(format), g.windows(format));
  return to;
}
Geometry averages(IntArrayRef input, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                  bool count_include_pad, std::optional<int64_t> divisor_override) {
  Geometry g("avg_pool", input, count_of(kernel_size));
  g.regular(kernel_size, stride, padding, 1, ceil_mode);
  TENON_CHECK(!divisor_override || *divisor_override != 0, ValueError, g.who,
              ": divisor_override: expected a number that is not 0");
  g.w.count_padding = count_include_pad;
  g.w.divisor = divisor_override.value_or(0);
  return g;
}

std::tuple<Tensor, Tensor> maximum(Call& call, const Tensor& self, const Geometry& g, const Tensor& samples,
                                   bool with_indices) {
  const Device device = call.device_of({&self, &samples});
  TENON_CHECK(!is_complex(self.dtype()) && self.dtype() != kBool, DtypeError, g.who,
              ": self: expected real numbers, got ", self.dtype());
  const MemoryFormat format = samples.defined() ? MemoryFormat::contiguous : format_of(self, g.n);
  const Tensor out = dense_output(call, 0, g.sizes, self.dtype(), device, {&self, &samples}, format);
  Tensor indices;
  if (with_indices) indices = dense_output(call, 1, g.sizes, kInt64, device, {&self, &samples}, format);
  if (out.is_meta()) return {out, indices};
  const auto kernel = op::max_pool.kernel(self.backend(), dispatch::key_of(self.dtype()));
  if (out.numel() > 0)
    kernel(out, indices, self.contiguous(format), samples.defined() ? samples.contiguous() : samples,
           g.windows(format));
  return {out, indices};
}

void check_floating(const Geometry& g, const Tensor& self) {
  TENON_CHECK(is_floating_point(self.dtype()), DtypeError, g.who, ": self: expected a floating dtype, got ",
              self.dtype());
}

/// A list of one number as n of them; the composites know n, what they call reads it from kernel_size.
DimVector spread(const Call& call, const char* name, IntArrayRef list, int64_t n) {
  TENON_CHECK(count_of(list) == n || count_of(list) == 1, ShapeError, call.name(), ": ", name, ": expected ", n,
              " numbers or one, got ", list);
  return list.size() == 1 ? DimVector(static_cast<std::size_t>(n), list[0]) : DimVector(list);
}
bool recorded(const Tensor& t) { return grad_enabled() && t.requires_grad(); }
std::vector<Tensor> one_or_both(const std::tuple<Tensor, Tensor>& r, bool both) {
  return both ? std::vector<Tensor>{std::get<0>(r), std::get<1>(r)} : std::vector<Tensor>{std::get<0>(r)};
}

template <int64_t N>
Tensor unpool(Call& call, const Tensor& self, const Tensor& indices, IntArrayRef kernel_size, IntArrayRef stride,
              IntArrayRef padding, std::optional<IntArrayRef> output_size) {
  Geometry g("max_unpool", self.sizes(), N);
  g.list("kernel_size", kernel_size, 1, g.w.kernel);
  g.list("stride", stride, 1, g.w.stride, g.w.kernel);
  g.list("padding", padding, 0, g.w.padding);
  IntArrayRef wanted = output_size.value_or(IntArrayRef());
  if (count_of(wanted) == N + 2) wanted = wanted.slice(2, N);
  TENON_CHECK(!output_size || count_of(wanted) == N, ShapeError, call.name(), ": output_size: expected ", N, " or ",
              N + 2, " numbers, got ", *output_size);
  DimVector out(static_cast<std::size_t>(N));
  for (int64_t d = 0; d < N; ++d) {
    const int64_t k = 3 - N + d, usual = (g.w.in[k] - 1) * g.w.stride[k] - 2 * g.w.padding[k] + g.w.kernel[k];
    const int64_t size = output_size ? wanted[static_cast<std::size_t>(d)] : usual;
    TENON_CHECK(size > usual - g.w.stride[k] && size < usual + g.w.stride[k] && size > 0, ValueError, call.name(),
                ": output_size: expected between ", usual - g.w.stride[k] + 1, " and ", usual + g.w.stride[k] - 1,
                " in dimension ", d, ", got ", size);
    out[static_cast<std::size_t>(d)] = size;
  }
  return op::max_unpool(self, indices, out);
}

template <int64_t N>
Tensor powers(Call& call, const Tensor& self, const Scalar& norm_type, IntArrayRef kernel_size, IntArrayRef stride,
              bool ceil_mode) {
  const DimVector kernel = spread(call, "kernel_size", kernel_size, N);
  const Tensor means = op::avg_pool(op::pow(self, norm_type), kernel, stride, 0, ceil_mode, true, {});
  int64_t count = 1;
  for (const int64_t k : kernel) count *= k;
  const Tensor sums = op::mul(op::mul(op::sign(means), op::relu(op::abs(means))), count);
  return op::pow(sums, 1 / norm_type.real());
}

template <int64_t N>
std::vector<Tensor> fractions(Call& call, const Tensor& self, IntArrayRef kernel_size,
                              std::optional<IntArrayRef> output_size, TensorList output_ratio, bool return_indices,
                              const Tensor& samples) {
  const DimVector kernel = spread(call, "kernel_size", kernel_size, N);
  const Geometry g("fractional_max_pool", self.sizes(), N);
  check_floating(g, self);
  TENON_CHECK(output_size || output_ratio.size() == N, ValueError, call.name(),
              ": expected output_size, or output_ratio with ", N, " numbers, got ", output_ratio.size());
  DimVector out(static_cast<std::size_t>(N));
  if (output_size) out = spread(call, "output_size", *output_size, N);
  for (std::size_t d = 0; d < N && !output_size; ++d) {
    const double ratio = output_ratio[d].item().real();
    TENON_CHECK(ratio > 0 && ratio < 1, ValueError, call.name(),
                ": output_ratio: expected numbers between 0 and 1, got ", ratio);
    out[d] = static_cast<int64_t>(static_cast<double>(self.sizes()[g.at(static_cast<int64_t>(d))]) * ratio);
  }
  const TensorOptions options = TensorOptions(self.dtype()).device(self.device());
  return one_or_both(
      op::fractional_max_pool(self, kernel, out, samples.defined() ? samples : rand({g.w.n, g.w.channels, N}, options)),
      return_indices);
}

}  // namespace

Tensor avg_pool(Call& call, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override) {
  const Geometry g =
      averages(self.sizes(), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
  return average(call, op::avg_pool, self, self.sizes(), g.sizes, g);
}
Tensor avg_pool_backward(Call& call, const Tensor& grad_output, IntArrayRef input_size, IntArrayRef kernel_size,
                         IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                         std::optional<int64_t> divisor_override) {
  const Geometry g = averages(input_size, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
  return average(call, op::avg_pool_backward, grad_output, g.sizes, input_size, g);
}
Tensor adaptive_avg_pool(Call& call, const Tensor& self, IntArrayRef output_size) {
  Geometry g("adaptive_avg_pool", self.sizes(), count_of(output_size), count_of(output_size) < 3);
  check_floating(g, self);
  return average(call, op::avg_pool, self, self.sizes(), g.adaptive(output_size).sizes, g);
}
Tensor adaptive_avg_pool_backward(Call& call, const Tensor& grad_output, IntArrayRef input_size, int64_t dimensions) {
  Geometry g("adaptive_avg_pool", input_size, dimensions, dimensions < 3);
  TENON_CHECK(grad_output.sizes().size() == input_size.size(), ShapeError, g.who,
              "_backward: grad_output: expected as many dimensions as input_size, ", input_size, ", got ",
              grad_output.sizes());
  g.adaptive(grad_output.sizes().slice(g.at(0), static_cast<std::size_t>(g.n)));
  return average(call, op::avg_pool_backward, grad_output, g.sizes, input_size, g);
}

std::tuple<Tensor, Tensor> max_pool(Call& call, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                                    IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, bool return_indices) {
  Geometry g("max_pool", self.sizes(), count_of(kernel_size));
  return maximum(call, self, g.regular(kernel_size, stride, padding, dilation, ceil_mode), {}, return_indices);
}
std::tuple<Tensor, Tensor> adaptive_max_pool(Call& call, const Tensor& self, IntArrayRef output_size,
                                             bool return_indices) {
  Geometry g("adaptive_max_pool", self.sizes(), count_of(output_size));
  check_floating(g, self);
  return maximum(call, self, g.adaptive(output_size), {}, return_indices);
}
std::tuple<Tensor, Tensor> fractional_max_pool(Call& call, const Tensor& self, IntArrayRef kernel_size,
                                               IntArrayRef output_size, const Tensor& samples) {
  Geometry g("fractional_max_pool", self.sizes(), count_of(kernel_size));
  check_floating(g, self);
  TENON_CHECK(
      samples.dim() == 3 && samples.size(0) >= g.w.n && samples.size(1) == g.w.channels && samples.size(2) == g.n,
      ShapeError, g.who, ": random_samples: expected sizes [", g.w.n, ", ", g.w.channels, ", ", g.n, "], got ",
      samples.sizes());
  TENON_CHECK(samples.dtype() == self.dtype(), DtypeError, g.who, ": random_samples: expected the dtype of self, ",
              self.dtype(), ", got ", samples.dtype());
  return maximum(call, self, g.fractional(kernel_size, output_size), samples, true);
}
Tensor max_pool_backward(Call& call, const Tensor& grad_output, const Tensor& indices, IntArrayRef input_size,
                         int64_t dimensions, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                         IntArrayRef dilation) {
  const Device device = call.device_of({&grad_output, &indices});
  Geometry g(kernel_size.empty() ? "adaptive_max_pool"
             : stride.empty()    ? "fractional_max_pool"
                                 : "max_pool",
             input_size, dimensions);
  TENON_CHECK(grad_output.sizes().size() == input_size.size() && indices.sizes() == grad_output.sizes(), ShapeError,
              g.who, "_backward: grad_output, indices: expected equal sizes of as many dimensions as input_size, ",
              input_size, ", got ", grad_output.sizes(), " and ", indices.sizes());
  TENON_CHECK(indices.dtype() == kInt64, DtypeError, g.who, "_backward: indices: expected int64, got ",
              indices.dtype());
  const IntArrayRef sizes = grad_output.sizes().slice(g.at(0), static_cast<std::size_t>(g.n));
  if (kernel_size.empty()) {
    g.adaptive(sizes);
  } else if (stride.empty()) {
    g.fractional(kernel_size, sizes);
  } else {
    // One of the two roundings gives the output's size; where rounding down does, rounding up is possible.
    Geometry rounded_down = g;
    g.regular(kernel_size, stride, padding, dilation, true);
    if (!(grad_output.sizes() == IntArrayRef(g.sizes)))
      g = rounded_down.regular(kernel_size, stride, padding, dilation, false);
  }
  TENON_CHECK(grad_output.sizes() == IntArrayRef(g.sizes), ShapeError, g.who, "_backward: grad_output: expected sizes ",
              g.sizes, ", got ", grad_output.sizes());
  const MemoryFormat format = format_of(grad_output, g.n);
  Tensor to = dense_output(call, 0, input_size, grad_output.dtype(), device, {&grad_output, &indices}, format);
  if (to.is_meta()) return to;
  const auto kernel = op::max_pool_backward.kernel(grad_output.backend(), dispatch::key_of(grad_output.dtype()));
  if (to.numel() == 0) return to;
  if (grad_output.numel() == 0) return to.zero_();
  kernel(to, grad_output.contiguous(format), indices.contiguous(format), g.windows(format));
  return to;
}

Tensor max_unpool(Call& call, const Tensor& self, const Tensor& indices, IntArrayRef output_size) {
  static constexpr const char* kNames[] = {"max_unpool1d", "max_unpool2d", "max_unpool3d"};
  const Device device = call.device_of({&self, &indices});
  Geometry g("max_unpool", self.sizes(), count_of(output_size));
  TENON_CHECK(indices.dtype() == kInt64, DtypeError, g.who, ": indices: expected int64, got ", indices.dtype());
  TENON_CHECK(indices.sizes() == self.sizes(), ShapeError, g.who, ": indices: expected the sizes of self, ",
              self.sizes(), ", got ", indices.sizes());
  const int64_t planes = g.w.n * g.w.channels, from = self.numel() / std::max<int64_t>(1, planes);
  for (int64_t d = 0; d < g.n; ++d) g.output(3 - g.n + d, output_size[static_cast<std::size_t>(d)]);
  Tensor out = dense_output(call, 0, g.sizes, self.dtype(), device, {&self, &indices}, MemoryFormat::contiguous);
  if (out.is_meta() || out.numel() == 0) return out;
  out.zero_();
  const auto flat = [&](const Tensor& t, int64_t n) { return make_view(t, {planes, n}, {n, 1}, t.storage_offset()); };
  op::scatter.kernel(self.backend(), dispatch::width_key(self.itemsize()))(
      flat(out, g.w.positions_out()), 1, flat(indices.contiguous(), from), flat(self.contiguous(), from),
      kNames[g.n - 1]);
  return out;
}

// clang-format off
#define TENON_POOLS(N) \
  Tensor avg_pool##N##d(Call& call, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) { \
    return op::avg_pool(self, spread(call, "kernel_size", kernel_size, N), stride, padding, ceil_mode, count_include_pad, divisor); \
  } \
  Tensor adaptive_avg_pool##N##d(Call& call, const Tensor& self, IntArrayRef output_size) { \
    return op::adaptive_avg_pool(self, spread(call, "output_size", output_size, N)); \
  } \
  std::vector<Tensor> max_pool##N##d(Call& call, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, bool return_indices) { \
    return one_or_both(op::max_pool(self, spread(call, "kernel_size", kernel_size, N), stride, padding, dilation, ceil_mode, return_indices || recorded(self)), return_indices); \
  } \
  std::tuple<Tensor, Tensor> max_pool##N##d_with_indices(Call& call, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) { \
    return op::max_pool(self, spread(call, "kernel_size", kernel_size, N), stride, padding, dilation, ceil_mode, true); \
  } \
  std::vector<Tensor> adaptive_max_pool##N##d(Call& call, const Tensor& self, IntArrayRef output_size, bool return_indices) { \
    return one_or_both(op::adaptive_max_pool(self, spread(call, "output_size", output_size, N), return_indices || recorded(self)), return_indices); \
  } \
  Tensor max_unpool##N##d(Call& call, const Tensor& self, const Tensor& indices, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, std::optional<IntArrayRef> output_size) { \
    return unpool<N>(call, self, indices, kernel_size, stride, padding, output_size); \
  } \
  Tensor lp_pool##N##d(Call& call, const Tensor& self, const Scalar& norm_type, IntArrayRef kernel_size, IntArrayRef stride, bool ceil_mode) { \
    return powers<N>(call, self, norm_type, kernel_size, stride, ceil_mode); \
  }
#define TENON_POOLS_FROM_2D(N) \
  Tensor max_pool##N##d_with_indices_backward(Call& call, const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool, const Tensor& indices) { \
    const DimVector kernel = spread(call, "kernel_size", kernel_size, N); \
    return op::max_pool_backward(grad_output, indices, self.sizes(), N, kernel, stride.empty() ? IntArrayRef(kernel) : stride, padding, dilation); \
  } \
  std::vector<Tensor> fractional_max_pool##N##d(Call& call, const Tensor& self, IntArrayRef kernel_size, std::optional<IntArrayRef> output_size, TensorList output_ratio, bool return_indices, const Tensor& samples) { \
    return fractions<N>(call, self, kernel_size, output_size, output_ratio, return_indices, samples); \
  }
TENON_POOLS(1)
TENON_POOLS(2)
TENON_POOLS(3)
TENON_POOLS_FROM_2D(2)
TENON_POOLS_FROM_2D(3)
#undef TENON_POOLS
#undef TENON_POOLS_FROM_2D
// clang-format on

Tensor max_pool2d_sum_backward(Call&, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                               IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, bool) {
  const auto [out, indices] = op::max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode);
  return op::max_pool2d_with_indices_backward(ones_like(out), self, kernel_size, stride, padding, dilation, ceil_mode,
                                              indices);
}

// The mean of squares over neighbouring channels is a pool over one dimension; of the windows around an even number of
// channels, which reach further back, the last one is not needed.
Tensor local_response_norm(Call&, const Tensor& self, int64_t size, double alpha, double beta, double k) {
  TENON_CHECK(self.dim() >= 3, ShapeError, "local_response_norm: self: expected at least 3 dimensions, got ",
              self.dim());
  TENON_CHECK(size > 0, ValueError, "local_response_norm: size: expected a positive number, got ", size);
  if (self.numel() == 0) return self;
  const int64_t channels = self.size(1), rest = self.numel() / (self.size(0) * channels);
  const Tensor squares = op::mul(self, self).reshape({self.size(0), 1, channels, rest});
  const Tensor means = op::avg_pool(squares, {size, 1}, 1, {size / 2, 0}, false, true, {}).narrow(2, 0, channels);
  const Tensor factor = op::pow(op::add(op::mul(means, alpha), k, 1), beta);
  return op::div(self, factor.reshape(self.sizes()), {});
}

}  // namespace tenon::impl

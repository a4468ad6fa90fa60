// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/resample.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/pad.h>

#include <cmath>

namespace tenon {
namespace {

using Scale = std::optional<double>;
constexpr std::string_view kModes[] = {"nearest", "nearest-exact", "linear", "cubic", "area", "linear-aa", "cubic-aa"};

IntArrayRef from_entry(IntArrayRef list, std::size_t first) { return list.slice(first, list.size() - first); }
std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

AxisMap map_of(std::string_view who, std::string_view mode) {
  for (std::size_t i = 0; i < std::size(kModes); ++i)
    if (kModes[i] == mode) return static_cast<AxisMap>(static_cast<std::size_t>(AxisMap::nearest) + i);
  TENON_CHECK(false, ValueError, who,
              ": mode: expected nearest, nearest-exact, linear, cubic, area, linear-aa or cubic-aa, got '", mode, "'");
}

// What the last dimensions, of sizes in and out, are made of. Scales: of the last three dimensions.
void make_axes(GridAxis* axes, IntArrayRef in, IntArrayRef out, AxisMap map, bool align_corners, const Scale* scales) {
  const std::size_t spatial = out.size();
  for (std::size_t k = 0; k < spatial; ++k) {
    GridAxis& a = axes[k];
    a.in = in[k], a.out = out[k], a.map = map, a.align_corners = align_corners;
    const auto n = static_cast<double>(a.in), m = static_cast<double>(a.out);
    const Scale& given = scales[3 - spatial + k];
    if (align_corners)
      a.scale = a.out > 1 ? (n - 1) / (m - 1) : 0;
    else
      a.scale = given && *given > 0 ? 1 / *given : n / m;
  }
}

void check_sizes(std::string_view who, std::string_view what, int64_t spatial, IntArrayRef sizes) {
  TENON_CHECK(static_cast<int64_t>(sizes.size()) == spatial, ShapeError, who, ": ", what, ": expected ", spatial,
              spatial == 1 ? " number" : " numbers", ", got ", sizes);
}
void check_positive(std::string_view who, IntArrayRef in, IntArrayRef out) {
  bool positive = true;
  for (const int64_t n : in) positive = positive && n > 0;
  for (const int64_t n : out) positive = positive && n > 0;
  TENON_CHECK(positive, ShapeError, who, ": output_size: expected sizes above 0, got ", in, " for the input and ", out,
              " for the result");
}
void check_input(std::string_view who, int64_t spatial, AxisMap map, const Tensor& self, IntArrayRef out) {
  TENON_CHECK(self.dim() == spatial + 2, ShapeError, who, ": self: expected ", spatial + 2,
              " dimensions [batch, channels, sizes], got sizes ", self.sizes());
  check_sizes(who, "output_size", spatial, out);
  check_positive(who, from_entry(self.sizes(), 2), out);
  TENON_CHECK(self.size(1) > 0, ShapeError, who, ": self: expected at least 1 channel, got sizes ", self.sizes());
  TENON_CHECK(map < AxisMap::linear || is_floating_point(self.dtype()) || (self.dtype() == kUInt8 && spatial == 2),
              DtypeError, who, ": self: expected a floating dtype", spatial == 2 ? " or uint8" : "", ", got ",
              self.dtype());
}

Tensor forward(std::string_view who, int64_t spatial, AxisMap map, const Tensor& self, IntArrayRef out,
               bool align_corners, Scale d, Scale h, Scale w) {
  check_input(who, spatial, map, self, out);
  return op::resample(self, out, kModes[static_cast<int>(map) - static_cast<int>(AxisMap::nearest)], align_corners, d,
                      h, w);
}
// The last of the scales belong to the dimensions there are.
template <class... S>
Tensor forward(std::string_view who, AxisMap map, const Tensor& self, IntArrayRef out, bool align_corners, S... s) {
  const Scale given[] = {s...};
  constexpr std::size_t n = sizeof...(S);
  return forward(who, n, map, self, out, align_corners, n > 2 ? given[0] : Scale(), n > 1 ? given[n - 2] : Scale(),
                 given[n - 1]);
}
template <class... S>
Tensor backward(std::string_view who, AxisMap map, const Tensor& grad, IntArrayRef out, IntArrayRef in,
                bool align_corners, S... s) {
  const Scale given[] = {s...};
  constexpr std::size_t n = sizeof...(S);
  check_sizes(who, "output_size", n, out);
  check_sizes(who, "input_size", n + 2, in);
  DimVector sizes(in);
  for (std::size_t k = 0; k < n; ++k) sizes[k + 2] = out[k];
  TENON_CHECK(grad.sizes() == IntArrayRef(sizes), ShapeError, who, ": grad_output: expected sizes ", IntArrayRef(sizes),
              ", got ", grad.sizes());
  check_positive(who, from_entry(in, 2), out);
  return op::resample_backward(grad, from_entry(in, 2),
                               kModes[static_cast<int>(map) - static_cast<int>(AxisMap::nearest)], align_corners,
                               n > 2 ? given[0] : Scale(), n > 1 ? given[n - 2] : Scale(), given[n - 1]);
}

std::vector<double> numbers(TensorList list) {
  std::vector<double> values;
  for (const Tensor& t : list) values.push_back(t.item().real());
  return values;
}
// Sizes of the result by factors, and the factors as scales of three dimensions.
DimVector scaled_sizes(std::string_view who, const Tensor& self, const std::vector<double>& factors) {
  DimVector sizes;
  for (std::size_t k = 0; k < factors.size(); ++k) {
    const double size = std::floor(static_cast<double>(self.sizes()[k + 2]) * factors[k]);
    TENON_CHECK(size >= 0 && size < 9e18, ShapeError, who, ": scale_factor: ", factors[k], " makes no size of ",
                self.sizes()[k + 2]);
    sizes.push_back(static_cast<int64_t>(size));
  }
  return sizes;
}
Tensor forward_vec(std::string_view who, int64_t spatial, AxisMap map, const Tensor& self,
                   std::optional<IntArrayRef> size, bool align_corners, TensorList scale_factors) {
  TENON_CHECK(size.has_value() == scale_factors.empty(), ValueError, who,
              ": expected one of output_size and scale_factors, got ", size ? "both" : "neither");
  if (size) return forward(who, spatial, map, self, *size, align_corners, {}, {}, {});
  const std::vector<double> factors = numbers(scale_factors);
  TENON_CHECK(static_cast<int64_t>(factors.size()) == spatial && self.dim() == spatial + 2, ShapeError, who,
              ": scale_factors: expected ", spatial, " and a self of ", spatial + 2, " dimensions, got ",
              factors.size(), " and sizes ", self.sizes());
  Scale scales[3];
  for (std::size_t k = 0; k < factors.size(); ++k) scales[3 - factors.size() + k] = factors[k];
  return forward(who, spatial, map, self, scaled_sizes(who, self, factors), align_corners, scales[0], scales[1],
                 scales[2]);
}

constexpr struct {
  std::string_view name;
  AxisMap map;
  int64_t spatial;  // 0: any
} kInterpolations[] = {{"nearest", AxisMap::nearest, 0}, {"nearest-exact", AxisMap::nearest_exact, 0},
                       {"area", AxisMap::area, 0},       {"linear", AxisMap::linear, 1},
                       {"bilinear", AxisMap::linear, 2}, {"trilinear", AxisMap::linear, 3},
                       {"bicubic", AxisMap::cubic, 2}};

Tensor interpolated(std::string_view who, const Tensor& self, const InterpolateOptions& o) {
  const int64_t spatial = self.dim() - 2;
  TENON_CHECK(spatial >= 1 && spatial <= 3, ShapeError, who, ": self: expected 3 to 5 dimensions, got sizes ",
              self.sizes());
  AxisMap map = AxisMap::replicate;
  for (const auto& mode : kInterpolations) {
    if (mode.name != o.mode) continue;
    TENON_CHECK(mode.spatial == 0 || mode.spatial == spatial, ShapeError, who, ": self: mode '", o.mode, "' needs ",
                mode.spatial + 2, " dimensions, got sizes ", self.sizes());
    map = mode.map;
  }
  TENON_CHECK(map != AxisMap::replicate, ValueError, who,
              ": mode: expected nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area, got '", o.mode,
              "'");
  const bool smooth = map == AxisMap::linear || map == AxisMap::cubic;
  TENON_CHECK(smooth || !o.align_corners, ValueError, who,
              ": align_corners: goes with linear and cubic modes only, got '", o.mode, "'");
  TENON_CHECK(!o.antialias || (smooth && spatial == 2), ValueError, who,
              ": antialias: goes with modes bilinear and bicubic only, got '", o.mode, "'");
  TENON_CHECK(o.size.empty() != o.scale_factor.empty(), ValueError, who,
              ": expected one of size and scale_factor, got ", o.size.empty() ? "neither" : "both");
  TENON_CHECK(o.size.empty() || !o.recompute_scale_factor.value_or(false), ValueError, who,
              ": recompute_scale_factor: means nothing with a size");
  std::vector<int64_t> size = o.size;
  std::vector<double> factors = o.scale_factor;
  if (size.size() == 1) size.resize(at(spatial), size[0]);
  if (factors.size() == 1) factors.resize(at(spatial), factors[0]);
  const std::size_t given = std::max(size.size(), factors.size());
  TENON_CHECK(given == at(spatial), ShapeError, who, size.empty() ? ": scale_factor" : ": size", ": expected ", spatial,
              " numbers or one, got ", given);
  if (size.empty()) size = IntArrayRef(scaled_sizes(who, self, factors)).vec();
  if (o.antialias) map = map == AxisMap::linear ? AxisMap::linear_antialias : AxisMap::cubic_antialias;
  Scale scales[3];
  for (std::size_t k = 0; k < factors.size() && !o.recompute_scale_factor.value_or(false) && map != AxisMap::area; ++k)
    scales[3 - factors.size() + k] = factors[k];
  if (map == AxisMap::area && self.dim() == spatial + 2) {  // as a pooling operator: an empty result is one
    TENON_CHECK(is_floating_point(self.dtype()), DtypeError, who, ": self: expected a floating dtype, got ",
                self.dtype());
    for (const int64_t n : from_entry(self.sizes(), 1))
      TENON_CHECK(n > 0, ShapeError, who, ": self: only the batch may be empty, got sizes ", self.sizes());
    return op::resample(self, size, "area", false, {}, {}, {});
  }
  return forward(who, spatial, map, self, size, o.align_corners.value_or(false), scales[0], scales[1], scales[2]);
}
InterpolateOptions options(std::optional<IntArrayRef> size, std::vector<double> factors, std::string_view mode,
                           std::optional<bool> align_corners, std::optional<bool> recompute, bool antialias) {
  return {size ? size->vec() : std::vector<int64_t>(), std::move(factors), mode, align_corners, recompute, antialias};
}
std::vector<double> list_of(Scale factor) { return factor ? std::vector<double>{*factor} : std::vector<double>(); }

}  // namespace

Tensor interpolate(const Tensor& self, const InterpolateOptions& o) { return interpolated("interpolate", self, o); }

namespace impl {

Tensor resample(Call& call, const Tensor& self, IntArrayRef output_size, std::string_view mode, bool align_corners,
                Scale scales_d, Scale scales_h, Scale scales_w) {
  const AxisMap map = map_of("_resample", mode);
  const std::size_t spatial = output_size.size();
  TENON_CHECK(spatial >= 1 && spatial <= 3 && self.sizes().size() >= spatial, ShapeError,
              "_resample: output_size: expected 1 to 3 numbers and no more than self has dimensions, got ", output_size,
              " for sizes ", self.sizes());
  const Scale scales[] = {scales_d, scales_h, scales_w};
  GridAxis axes[3];
  const IntArrayRef in = from_entry(self.sizes(), self.sizes().size() - spatial);
  if (map != AxisMap::area) check_positive("_resample", in, output_size);
  make_axes(axes, in, output_size, map, align_corners, scales);
  // PyTorch on the CPU keeps the weights of these maps in the dtype of the tensor.
  if ((map == AxisMap::linear && spatial != 2) || map == AxisMap::cubic)
    for (GridAxis& a : axes) a.rounded = self.dtype();
  const detail::GridTensors t(call, self, {axes, spatial});
  const Backend backend = t.out.backend();
  if (t.any() && map < AxisMap::linear)
    op::pad_edges.kernel(backend, dispatch::width_key(t.out.itemsize()))(t.out, t.self, t.grid);
  else if (t.any())
    op::resample.kernel(backend, dispatch::key_of(t.out.dtype()))(t.out, t.self, t.grid, false);
  return t.finish();
}

Tensor resample_backward(Call& call, const Tensor& grad_output, IntArrayRef input_size, std::string_view mode,
                         bool align_corners, Scale scales_d, Scale scales_h, Scale scales_w) {
  const AxisMap map = map_of("_resample_backward", mode);
  const std::size_t spatial = input_size.size();
  TENON_CHECK(
      spatial >= 1 && spatial <= 3 && grad_output.sizes().size() >= spatial, ShapeError,
      "_resample_backward: input_size: expected 1 to 3 numbers and no more than grad_output has dimensions, got ",
      input_size, " for sizes ", grad_output.sizes());
  TENON_CHECK(is_floating_point(grad_output.dtype()), DtypeError,
              "_resample_backward: grad_output: expected a floating dtype, got ", grad_output.dtype());
  const Scale scales[] = {scales_d, scales_h, scales_w};
  GridAxis axes[3];
  const IntArrayRef out = from_entry(grad_output.sizes(), grad_output.sizes().size() - spatial);
  if (map != AxisMap::area) check_positive("_resample_backward", input_size, out);
  make_axes(axes, input_size, out, map, align_corners, scales);
  const detail::GridTensors t(call, grad_output, {axes, spatial}, true);
  if (t.any() && t.self.numel() == 0)
    Tensor(t.out).zero_();
  else if (t.any())
    op::resample.kernel(t.out.backend(), dispatch::key_of(t.out.dtype()))(t.out, t.self, t.grid, true);
  return t.finish();
}

Tensor interpolate(Call&, const Tensor& self, std::optional<IntArrayRef> size, Scale scale_factor,
                   std::string_view mode, std::optional<bool> align_corners, std::optional<bool> recompute_scale_factor,
                   bool antialias) {
  return interpolated("interpolate", self,
                      options(size, list_of(scale_factor), mode, align_corners, recompute_scale_factor, antialias));
}
Tensor interpolate_list(Call&, const Tensor& self, std::optional<IntArrayRef> size, TensorList scale_factor,
                        std::string_view mode, std::optional<bool> align_corners,
                        std::optional<bool> recompute_scale_factor, bool antialias) {
  return interpolated("interpolate", self,
                      options(size, numbers(scale_factor), mode, align_corners, recompute_scale_factor, antialias));
}
Tensor upsample_nearest(Call&, const Tensor& self, std::optional<IntArrayRef> size, Scale scale_factor) {
  return interpolated("upsample_nearest", self, options(size, list_of(scale_factor), "nearest", {}, {}, false));
}
Tensor upsample_bilinear(Call&, const Tensor& self, std::optional<IntArrayRef> size, Scale scale_factor) {
  return interpolated("upsample_bilinear", self, options(size, list_of(scale_factor), "bilinear", true, {}, false));
}

// clang-format off
#define TENON_PARAMETERS1 Scale a
#define TENON_PARAMETERS2 Scale a, Scale b
#define TENON_PARAMETERS3 Scale a, Scale b, Scale c
#define TENON_ARGUMENTS1 a
#define TENON_ARGUMENTS2 a, b
#define TENON_ARGUMENTS3 a, b, c
#define TENON_UPSAMPLE(op_name, rank, map) \
  Tensor op_name(Call& call, const Tensor& self, IntArrayRef output_size, TENON_PARAMETERS##rank) { return forward(call.name(), AxisMap::map, self, output_size, false, TENON_ARGUMENTS##rank); } \
  Tensor op_name##_vec(Call& call, const Tensor& input, std::optional<IntArrayRef> output_size, TensorList scale_factors) { return forward_vec(call.name(), rank, AxisMap::map, input, output_size, false, scale_factors); } \
  Tensor op_name##_backward(Call& call, const Tensor& grad_output, IntArrayRef output_size, IntArrayRef input_size, TENON_PARAMETERS##rank) { return backward(call.name(), AxisMap::map, grad_output, output_size, input_size, false, TENON_ARGUMENTS##rank); }
#define TENON_UPSAMPLE_ALIGNED(op_name, rank, map) \
  Tensor op_name(Call& call, const Tensor& self, IntArrayRef output_size, bool align_corners, TENON_PARAMETERS##rank) { return forward(call.name(), AxisMap::map, self, output_size, align_corners, TENON_ARGUMENTS##rank); } \
  Tensor op_name##_vec(Call& call, const Tensor& input, std::optional<IntArrayRef> output_size, bool align_corners, TensorList scale_factors) { return forward_vec(call.name(), rank, AxisMap::map, input, output_size, align_corners, scale_factors); } \
  Tensor op_name##_backward(Call& call, const Tensor& grad_output, IntArrayRef output_size, IntArrayRef input_size, bool align_corners, TENON_PARAMETERS##rank) { return backward(call.name(), AxisMap::map, grad_output, output_size, input_size, align_corners, TENON_ARGUMENTS##rank); }
TENON_UPSAMPLE(upsample_nearest1d, 1, nearest)
TENON_UPSAMPLE(upsample_nearest2d, 2, nearest)
TENON_UPSAMPLE(upsample_nearest3d, 3, nearest)
TENON_UPSAMPLE(upsample_nearest_exact1d, 1, nearest_exact)
TENON_UPSAMPLE(upsample_nearest_exact2d, 2, nearest_exact)
TENON_UPSAMPLE(upsample_nearest_exact3d, 3, nearest_exact)
TENON_UPSAMPLE_ALIGNED(upsample_linear1d, 1, linear)
TENON_UPSAMPLE_ALIGNED(upsample_bilinear2d, 2, linear)
TENON_UPSAMPLE_ALIGNED(upsample_trilinear3d, 3, linear)
TENON_UPSAMPLE_ALIGNED(upsample_bicubic2d, 2, cubic)
TENON_UPSAMPLE_ALIGNED(upsample_bilinear2d_aa, 2, linear_antialias)
TENON_UPSAMPLE_ALIGNED(upsample_bicubic2d_aa, 2, cubic_antialias)
// clang-format on

}  // namespace impl
}  // namespace tenon

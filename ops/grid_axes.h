// SPDX-License-Identifier: Apache-2.0
// GridAxis: which entries of a dimension an entry of the result is made of, and with which weights. Padding and
// interpolation are separable: one map per dimension says it all, whatever the rank. The arithmetic, the same on every
// device, is kernels/grid_axes.h.
#pragma once

#include <tenon/core/tensor.h>

#include <span>

namespace tenon {

/// Maps that pick one entry, and (from linear on) those that weigh several.
enum class AxisMap : uint8_t {
  reflect,
  replicate,
  circular,
  nearest,
  nearest_exact,
  linear,
  cubic,
  area,
  linear_antialias,
  cubic_antialias
};
struct GridAxis {
  int64_t in = 1, out = 1;
  int64_t shift = 0;  ///< padding: result entry i lies over entry i - shift
  double scale = 1;   ///< interpolation: entries of the input per entry of the result
  AxisMap map = AxisMap::replicate;
  bool align_corners = false;
  DType rounded = DType::undefined;  ///< a 16-bit float that weights are rounded to
};
/// Arrays of [outer][axes 0, 1, 2][inner] elements; axes that are not needed have one entry.
struct Grid {
  int64_t outer = 1, inner = 1;
  GridAxis axes[3];
};

namespace dispatch {
class Call;
}
namespace detail {
/// What a kernel over a grid reads and writes, in dense memory: the last axes.size() dimensions of self are the axes, and
/// channels-last stays channels-last. `transposed`: from the sizes of results to those of inputs.
struct GridTensors {
  GridTensors(dispatch::Call& call, const Tensor& input, std::span<const GridAxis> axes, bool transposed = false);
  bool any() const { return !out.is_meta() && out.numel() > 0; }
  /// The call's result, after the kernel has written `out`.
  Tensor finish() const;

  Tensor self, out, result;
  Grid grid;
};
}  // namespace detail

}  // namespace tenon

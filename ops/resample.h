// SPDX-License-Identifier: Apache-2.0
// Interpolation to another size, of [batch, channels, 1 to 3 spatial dimensions].
//
//   interpolate(x, {.scale_factor = {2}, .mode = "bilinear"})
//   interpolate(x, {.size = {224, 224}, .mode = "bicubic", .antialias = true})
//
// Every mode is separable: GridAxis says per dimension what an entry is made of, and one kernel per device does the rest,
// forwards and backwards. Sums are in float32 for 16-bit floats; backward gathers, in a fixed order. uint8 (two spatial
// dimensions) is computed with 16-bit weights, rounded after each dimension, as PyTorch does on the CPU.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>
#include <tenon/ops/grid_axes.h>

namespace tenon {

struct InterpolateOptions {
  std::vector<int64_t> size = {};         ///< of the result, one number per spatial dimension or one for all; or
  std::vector<double> scale_factor = {};  ///< size of the result over the input's, rounded down
  std::string_view mode = "nearest";      ///< nearest-exact, linear, bilinear, trilinear, bicubic, area
  std::optional<bool> align_corners =
      {};  ///< linear and cubic: the outermost entries, not the edges, lie over each other
  std::optional<bool> recompute_scale_factor = {};  ///< scale by the sizes as rounded
  bool antialias = false;                           ///< bilinear, bicubic: a wider filter when the result is smaller
};
TENON_API Tensor interpolate(const Tensor& self, const InterpolateOptions& options);

// clang-format off
/// What all of them are made of. mode: nearest, nearest-exact, linear, cubic, area, linear-aa or cubic-aa; scales: none, or how many entries of the result there are per entry of self.
TENON_OP(resample, "_resample(Tensor self, int[] output_size, str mode, bool align_corners=False, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&, IntArrayRef, std::string_view, bool, std::optional<double>, std::optional<double>, std::optional<double>), void(const Tensor& out, const Tensor& self, const Grid& grid, bool transposed))
/// Its gradient for a self with the given spatial sizes.
TENON_OP(resample_backward, "_resample_backward(Tensor grad_output, int[] input_size, str mode, bool align_corners=False, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&, IntArrayRef, std::string_view, bool, std::optional<double>, std::optional<double>, std::optional<double>), void())

/// To `size`, or by `scale_factor`, in any mode.
TENON_OP(interpolate, "interpolate(Tensor self, int[]? size=None, float? scale_factor=None, str mode='nearest', bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, std::optional<IntArrayRef>, std::optional<double>, std::string_view, std::optional<bool>, std::optional<bool>, bool), void())
TENON_OP(interpolate_list, "interpolate.list(Tensor self, int[]? size=None, Tensor[] scale_factor=[], str mode='nearest', bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, std::optional<IntArrayRef>, TensorList, std::string_view, std::optional<bool>, std::optional<bool>, bool), void())
/// interpolate with mode nearest.
TENON_OP(upsample_nearest, "upsample_nearest(Tensor self, int[]? size=None, float? scale_factor=None) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, std::optional<IntArrayRef>, std::optional<double>), void())
/// interpolate with mode bilinear and align_corners.
TENON_OP(upsample_bilinear, "upsample_bilinear(Tensor self, int[]? size=None, float? scale_factor=None) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, std::optional<IntArrayRef>, std::optional<double>), void())
inline Tensor upsample_nearest(const Tensor& self, std::optional<IntArrayRef> size, std::optional<double> scale_factor = {}) { return op::upsample_nearest(self, size, scale_factor); }
inline Tensor upsample_bilinear(const Tensor& self, std::optional<IntArrayRef> size, std::optional<double> scale_factor = {}) { return op::upsample_bilinear(self, size, scale_factor); }

// ATen's names: to output_size by scales, to one of output_size and scale_factors, and the gradient.
#define TENON_SCALES1 ", float? scales=None) -> Tensor"
#define TENON_SCALES2 ", float? scales_h=None, float? scales_w=None) -> Tensor"
#define TENON_SCALES3 ", float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"
#define TENON_GIVEN1 std::optional<double> a = {}
#define TENON_GIVEN2 std::optional<double> a = {}, std::optional<double> b = {}
#define TENON_GIVEN3 std::optional<double> a = {}, std::optional<double> b = {}, std::optional<double> c = {}
#define TENON_PASSED1 a
#define TENON_PASSED2 a, b
#define TENON_PASSED3 a, b, c
#define TENON_DOUBLES1 std::optional<double>
#define TENON_DOUBLES2 std::optional<double>, std::optional<double>
#define TENON_DOUBLES3 std::optional<double>, std::optional<double>, std::optional<double>
#define TENON_UPSAMPLE(name, text, rank) \
  TENON_OP(name, text "(Tensor self, int[] output_size" TENON_SCALES##rank, composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, TENON_DOUBLES##rank), void()) \
  TENON_OP(name##_vec, text ".vec(Tensor input, int[]? output_size, Tensor[] scale_factors=[]) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, std::optional<IntArrayRef>, TensorList), void()) \
  TENON_OP(name##_backward, text "_backward(Tensor grad_output, int[] output_size, int[] input_size" TENON_SCALES##rank, composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, IntArrayRef, TENON_DOUBLES##rank), void()) \
  inline Tensor name(const Tensor& self, IntArrayRef output_size, TENON_GIVEN##rank) { return op::name(self, output_size, TENON_PASSED##rank); }
#define TENON_UPSAMPLE_ALIGNED(name, text, rank) \
  TENON_OP(name, text "(Tensor self, int[] output_size, bool align_corners" TENON_SCALES##rank, composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, bool, TENON_DOUBLES##rank), void()) \
  TENON_OP(name##_vec, text ".vec(Tensor input, int[]? output_size, bool align_corners, Tensor[] scale_factors=[]) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, std::optional<IntArrayRef>, bool, TensorList), void()) \
  TENON_OP(name##_backward, text "_backward(Tensor grad_output, int[] output_size, int[] input_size, bool align_corners" TENON_SCALES##rank, composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, IntArrayRef, bool, TENON_DOUBLES##rank), void()) \
  inline Tensor name(const Tensor& self, IntArrayRef output_size, bool align_corners, TENON_GIVEN##rank) { return op::name(self, output_size, align_corners, TENON_PASSED##rank); }
TENON_UPSAMPLE(upsample_nearest1d, "upsample_nearest1d", 1)  ///< The entry at the same place, rounded down.
TENON_UPSAMPLE(upsample_nearest2d, "upsample_nearest2d", 2)  ///< The entry at the same place, rounded down.
TENON_UPSAMPLE(upsample_nearest3d, "upsample_nearest3d", 3)  ///< The entry at the same place, rounded down.
TENON_UPSAMPLE(upsample_nearest_exact1d, "_upsample_nearest_exact1d", 1)  ///< The entry nearest to the centre.
TENON_UPSAMPLE(upsample_nearest_exact2d, "_upsample_nearest_exact2d", 2)  ///< The entry nearest to the centre.
TENON_UPSAMPLE(upsample_nearest_exact3d, "_upsample_nearest_exact3d", 3)  ///< The entry nearest to the centre.
TENON_UPSAMPLE_ALIGNED(upsample_linear1d, "upsample_linear1d", 1)  ///< Linear between neighbours.
TENON_UPSAMPLE_ALIGNED(upsample_bilinear2d, "upsample_bilinear2d", 2)  ///< Linear between neighbours.
TENON_UPSAMPLE_ALIGNED(upsample_trilinear3d, "upsample_trilinear3d", 3)  ///< Linear between neighbours.
TENON_UPSAMPLE_ALIGNED(upsample_bicubic2d, "upsample_bicubic2d", 2)  ///< Cubic convolution of four neighbours a dimension, parameter -0.75.
TENON_UPSAMPLE_ALIGNED(upsample_bilinear2d_aa, "_upsample_bilinear2d_aa", 2)  ///< A triangle as wide as an entry of the result.
TENON_UPSAMPLE_ALIGNED(upsample_bicubic2d_aa, "_upsample_bicubic2d_aa", 2)  ///< Cubic, parameter -0.5, as wide as an entry of the result.
#undef TENON_UPSAMPLE
#undef TENON_UPSAMPLE_ALIGNED
#undef TENON_SCALES1
#undef TENON_SCALES2
#undef TENON_SCALES3
#undef TENON_GIVEN1
#undef TENON_GIVEN2
#undef TENON_GIVEN3
#undef TENON_PASSED1
#undef TENON_PASSED2
#undef TENON_PASSED3
#undef TENON_DOUBLES1
#undef TENON_DOUBLES2
#undef TENON_DOUBLES3
// clang-format on

}  // namespace tenon

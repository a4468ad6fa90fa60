// SPDX-License-Identifier: Apache-2.0
// Sampling at given places: `grid` holds, per entry of the result, a position in `input` with coordinates from -1 to 1, the
// last dimension of input first.
//
//   grid_sample(image, affine_grid(theta, image.sizes()))      image [n, c, h, w], theta [n, 2, 3]
//
// Volumes are [n, c, d, h, w], with three coordinates. Gradients of both; they have none of their own, as in PyTorch.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// Modes by ATen's numbers.
struct SampleMode {
  int64_t interpolation = 0;   ///< 0 bilinear (in volumes trilinear), 1 nearest, 2 bicubic (images only)
  int64_t padding = 0;         ///< beyond the edges: 0 zeros, 1 the edge, 2 mirrored
  bool align_corners = false;  ///< whether -1 and 1 are the centres of the outermost entries, or their outer edges
};

// clang-format off
#define TENON_GRID_SAMPLER(rank) \
  TENON_OP(grid_sampler_##rank##d, "grid_sampler_" #rank "d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&, const Tensor&, int64_t, int64_t, bool), void(const Tensor& out, const Tensor& input, const Tensor& grid, const SampleMode& mode)) \
  TENON_OP(grid_sampler_##rank##d_backward, "grid_sampler_" #rank "d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, int[] output_mask=[1,1]) -> (Tensor grad_input, Tensor grad_grid)", kernel, kNoInplace | kNonDeterministic, std::tuple<Tensor COMMA Tensor>(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, bool, IntArrayRef), void(const Tensor& grad_input, const Tensor& grad_grid, const Tensor& grad_output, const Tensor& input, const Tensor& grid, const SampleMode& mode)) \
  inline Tensor grid_sampler_##rank##d(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode, bool align_corners) { return op::grid_sampler_##rank##d(input, grid, interpolation_mode, padding_mode, align_corners); }
#define COMMA ,
TENON_GRID_SAMPLER(2)  ///< Samples of images [n, c, h, w] at grid [n, h', w', 2].
TENON_GRID_SAMPLER(3)  ///< Samples of volumes [n, c, d, h, w] at grid [n, d', h', w', 3].
#undef COMMA
#undef TENON_GRID_SAMPLER
/// Of images or volumes, modes by number.
TENON_OP(grid_sampler, "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, const Tensor&, int64_t, int64_t, bool), void())
/// mode: bilinear, nearest or bicubic; padding_mode: zeros, border or reflection.
TENON_OP(grid_sample, "grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool align_corners=False) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, const Tensor&, std::string_view, std::string_view, bool), void())
inline Tensor grid_sample(const Tensor& input, const Tensor& grid, std::string_view mode = "bilinear", std::string_view padding_mode = "zeros", bool align_corners = false) { return op::grid_sample(input, grid, mode, padding_mode, align_corners); }
/// The grid that reads an image or volume of sizes `size` through the affine maps theta [n, 2, 3] or [n, 3, 4].
TENON_OP(affine_grid_generator, "affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, bool), void())
TENON_OP(affine_grid, "affine_grid(Tensor theta, int[] size, bool align_corners=False) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, bool), void())
inline Tensor affine_grid(const Tensor& theta, IntArrayRef size, bool align_corners = false) { return op::affine_grid(theta, size, align_corners); }
// clang-format on

}  // namespace tenon

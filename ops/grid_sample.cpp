// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/grid_sample.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/view.h>

namespace tenon {
namespace {

SampleMode check_sampler(const Call& call, int64_t rank, const Tensor& input, const Tensor& grid, int64_t interpolation,
                         int64_t padding, bool align_corners) {
  const std::string_view who = call.name();
  call.device_of({&input, &grid});
  TENON_CHECK(input.dim() == rank + 2, ShapeError, who, ": input: expected ", rank + 2, " dimensions, got sizes ",
              input.sizes());
  TENON_CHECK(grid.dim() == rank + 2 && grid.size(-1) == rank && grid.size(0) == input.size(0), ShapeError, who,
              ": grid: expected ", rank + 2, " dimensions, ", input.size(0), " of the first and ", rank,
              " of the last, got sizes ", grid.sizes());
  for (int64_t d = 2; d < input.dim(); ++d)
    TENON_CHECK(input.size(d) > 0, ShapeError, who, ": input: expected something to sample, got sizes ", input.sizes());
  TENON_CHECK(is_floating_point(input.dtype()), DtypeError, who, ": input: expected a floating dtype, got ",
              input.dtype());
  TENON_CHECK(grid.dtype() == input.dtype(), DtypeError, who, ": grid: expected the ", input.dtype(), " of input, got ",
              grid.dtype());
  TENON_CHECK(interpolation >= 0 && interpolation <= 2, ValueError, who, ": interpolation_mode: expected 0 to 2, got ",
              interpolation);
  TENON_CHECK(padding >= 0 && padding <= 2, ValueError, who, ": padding_mode: expected 0 to 2, got ", padding);
  TENON_CHECK(interpolation != 2 || rank == 2, ValueError, who, ": interpolation_mode: bicubic is for images only");
  return {interpolation, padding, align_corners};
}

DimVector sampled_sizes(const Tensor& input, const Tensor& grid) {
  DimVector sizes(grid.sizes().slice(0, grid.sizes().size() - 1));
  sizes.insert(1, input.size(1));
  return sizes;
}

template <class Op>
Tensor sample(Call& call, const Op& op, int64_t rank, const Tensor& input, const Tensor& grid, int64_t interpolation,
              int64_t padding, bool align_corners) {
  const SampleMode mode = check_sampler(call, rank, input, grid, interpolation, padding, align_corners);
  const Tensor result = call.output(0, sampled_sizes(input, grid), input.dtype(), input.device(), {&input, &grid});
  if (result.is_meta() || result.numel() == 0) return result;
  const Tensor out =
      result.is_contiguous() ? result : dispatch::make_tensor(result.sizes(), result.dtype(), result.device());
  op.kernel(out.backend(), dispatch::key_of(out.dtype()))(out, input.contiguous(), grid.contiguous(), mode);
  if (!out.is_same(result)) Tensor(result).copy_(out);
  return result;
}

template <class Op>
std::tuple<Tensor, Tensor> sample_backward(Call& call, const Op& op, int64_t rank, const Tensor& grad_output,
                                           const Tensor& input, const Tensor& grid, int64_t interpolation,
                                           int64_t padding, bool align_corners, IntArrayRef mask) {
  const SampleMode mode = check_sampler(call, rank, input, grid, interpolation, padding, align_corners);
  call.device_of({&grad_output, &input, &grid});
  const DimVector sizes = sampled_sizes(input, grid);
  TENON_CHECK(grad_output.sizes() == IntArrayRef(sizes) && grad_output.dtype() == input.dtype(), ShapeError,
              call.name(), ": grad_output: expected sizes ", IntArrayRef(sizes), " of ", input.dtype(), ", got ",
              grad_output.sizes(), " of ", grad_output.dtype());
  TENON_CHECK(mask.size() == 2, ShapeError, call.name(), ": output_mask: expected 2 flags, got ", mask);
  Tensor results[2];  // of input and grid, where they are asked for
  for (int k = 0; k < 2; ++k) {
    if (mask[static_cast<std::size_t>(k)] == 0) continue;
    const Tensor& like = k == 0 ? input : grid;
    results[k] = call.output(k, like.sizes(), like.dtype(), like.device(), {&grad_output, &input, &grid});
    if (!results[k].is_meta() && results[k].numel() > 0 && (k == 0 || grad_output.numel() == 0)) results[k].zero_();
  }
  if (!input.is_meta() && grad_output.numel() > 0) {
    Tensor to[2];
    for (int k = 0; k < 2; ++k)
      if (results[k].defined())
        to[k] = results[k].is_contiguous()
                    ? results[k]
                    : zeros(results[k].sizes(), TensorOptions(results[k].dtype()).device(results[k].device()));
    op.kernel(input.backend(), dispatch::key_of(input.dtype()))(to[0], to[1], grad_output.contiguous(),
                                                                input.contiguous(), grid.contiguous(), mode);
    for (int k = 0; k < 2; ++k)
      if (results[k].defined() && !to[k].is_same(results[k])) results[k].copy_(to[k]);
  }
  return {results[0], results[1]};
}

int64_t mode_number(std::string_view who, std::string_view argument, std::string_view given,
                    std::initializer_list<std::string_view> names) {
  int64_t i = 0;
  for (const std::string_view name : names) {
    if (name == given) return i;
    ++i;
  }
  const std::string_view* const n = names.begin();
  TENON_CHECK(false, ValueError, who, ": ", argument, ": expected '", n[0], "', '", n[1], "' or '", n[2], "', got '",
              given, "'");
  return 0;
}

}  // namespace

namespace impl {

Tensor grid_sampler_2d(Call& call, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                       int64_t padding_mode, bool align_corners) {
  return sample(call, op::grid_sampler_2d, 2, input, grid, interpolation_mode, padding_mode, align_corners);
}
Tensor grid_sampler_3d(Call& call, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                       int64_t padding_mode, bool align_corners) {
  return sample(call, op::grid_sampler_3d, 3, input, grid, interpolation_mode, padding_mode, align_corners);
}
std::tuple<Tensor, Tensor> grid_sampler_2d_backward(Call& call, const Tensor& grad_output, const Tensor& input,
                                                    const Tensor& grid, int64_t interpolation_mode,
                                                    int64_t padding_mode, bool align_corners, IntArrayRef output_mask) {
  return sample_backward(call, op::grid_sampler_2d_backward, 2, grad_output, input, grid, interpolation_mode,
                         padding_mode, align_corners, output_mask);
}
std::tuple<Tensor, Tensor> grid_sampler_3d_backward(Call& call, const Tensor& grad_output, const Tensor& input,
                                                    const Tensor& grid, int64_t interpolation_mode,
                                                    int64_t padding_mode, bool align_corners, IntArrayRef output_mask) {
  return sample_backward(call, op::grid_sampler_3d_backward, 3, grad_output, input, grid, interpolation_mode,
                         padding_mode, align_corners, output_mask);
}

Tensor grid_sampler(Call& call, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                    int64_t padding_mode, bool align_corners) {
  TENON_CHECK(input.dim() == 4 || input.dim() == 5, ShapeError,
              "grid_sampler: input: expected 4 or 5 dimensions, got sizes ", input.sizes());
  check_sampler(call, input.dim() - 2, input, grid, interpolation_mode, padding_mode, align_corners);
  return input.dim() == 4 ? op::grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)
                          : op::grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners);
}
Tensor grid_sample(Call& call, const Tensor& input, const Tensor& grid, std::string_view mode,
                   std::string_view padding_mode, bool align_corners) {
  const int64_t interpolation = mode_number("grid_sample", "mode", mode, {"bilinear", "nearest", "bicubic"});
  const int64_t padding = mode_number("grid_sample", "padding_mode", padding_mode, {"zeros", "border", "reflection"});
  TENON_CHECK(input.dim() == 4 || input.dim() == 5, ShapeError,
              "grid_sample: input: expected 4 or 5 dimensions, got sizes ", input.sizes());
  check_sampler(call, input.dim() - 2, input, grid, interpolation, padding, align_corners);
  return op::grid_sampler(input, grid, interpolation, padding, align_corners);
}

Tensor affine_grid_generator(Call& call, const Tensor& theta, IntArrayRef size, bool align_corners) {
  const auto rank = static_cast<int64_t>(size.size()) - 2;
  TENON_CHECK(rank == 2 || rank == 3, ShapeError, call.name(), ": size: expected 4 or 5 numbers, got ", size);
  TENON_CHECK(is_floating_point(theta.dtype()), DtypeError, call.name(), ": theta: expected a floating dtype, got ",
              theta.dtype());
  for (const int64_t n : size)
    TENON_CHECK(n > 0, ValueError, call.name(), ": size: expected numbers above 0, got ", size);
  TENON_CHECK(theta.sizes() == IntArrayRef({size[0], rank, rank + 1}), ShapeError, call.name(),
              ": theta: expected sizes ", IntArrayRef({size[0], rank, rank + 1}), " for the size ", size, ", got ",
              theta.sizes());
  // Homogeneous coordinates of every place, the last dimension's first.
  const IntArrayRef places = size.slice(2, static_cast<std::size_t>(rank));
  const TensorOptions options = theta.options();
  std::vector<Tensor> coordinates;
  for (int64_t d = rank - 1; d >= 0; --d) {
    const int64_t n = places[static_cast<std::size_t>(d)];
    Tensor line = n > 1 ? linspace(-1, 1, n, options) : zeros(n, options);
    if (!align_corners) line = op::mul(line, static_cast<double>(n - 1) / static_cast<double>(n));
    DimVector sizes(static_cast<std::size_t>(rank), 1);
    sizes[static_cast<std::size_t>(d)] = n;
    coordinates.push_back(line.view(sizes).expand(places));
  }
  coordinates.push_back(ones(places, options));
  const Tensor base = stack(coordinates, -1).view({1, -1, rank + 1}).expand({size[0], -1, -1});
  DimVector sizes(places);
  sizes.insert(0, size[0]);
  sizes.push_back(rank);
  return op::matmul(base, theta.transpose(1, 2)).view(sizes);
}
Tensor affine_grid(Call& call, const Tensor& theta, IntArrayRef size, bool align_corners) {
  return affine_grid_generator(call, theta, size, align_corners);
}

}  // namespace impl
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Gradients of samples. Their own gradients are not there: differentiating twice names the backward operator.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/grid_sample.h>

namespace tenon {
using dispatch::Gradients;

namespace {
template <class Op>
void sampled(Gradients& g, const Op& backward, const Tensor& input, const Tensor& grid, int64_t interpolation,
             int64_t padding, bool align_corners) {
  const int64_t mask[] = {g.needs(0), g.needs(1)};
  const auto [of_input, of_grid] =
      backward(g.grad(), input, grid, interpolation, padding, align_corners, IntArrayRef(mask, 2));
  if (g.needs(0)) g.put(0, of_input);
  if (g.needs(1)) g.put(1, of_grid);
}
}  // namespace

TENON_REGISTER_GRADIENT(op::grid_sampler_2d, inputs(0, 1),
                        [](Gradients& g, const Tensor& input, const Tensor& grid, int64_t interpolation,
                           int64_t padding, bool align_corners) {
                          sampled(g, op::grid_sampler_2d_backward, input, grid, interpolation, padding, align_corners);
                        });
TENON_REGISTER_GRADIENT(op::grid_sampler_3d, inputs(0, 1),
                        [](Gradients& g, const Tensor& input, const Tensor& grid, int64_t interpolation,
                           int64_t padding, bool align_corners) {
                          sampled(g, op::grid_sampler_3d_backward, input, grid, interpolation, padding, align_corners);
                        });

}  // namespace tenon

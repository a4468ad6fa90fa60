// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/call.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/grid_axes.h>

namespace tenon::detail {

GridTensors::GridTensors(dispatch::Call& call, const Tensor& input, std::span<const GridAxis> axes, bool transposed) {
  const std::size_t rank = input.sizes().size(), spatial = axes.size(), first = rank - spatial;
  DimVector sizes(input.sizes());
  for (std::size_t k = 0; k < spatial; ++k) {
    sizes[first + k] = transposed ? axes[k].in : axes[k].out;
    grid.axes[3 - spatial + k] = axes[k];
  }
  checked_numel(sizes, call.name().data());
  const MemoryFormat last = rank == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
  const bool channels_last =
      first == 2 && spatial >= 2 && !input.is_contiguous() && input.sizes()[1] > 1 && input.is_contiguous(last);
  DimVector strides;  // of the result, when channels come last
  for (std::size_t d = 0; d < first; ++d) (channels_last && d == 1 ? grid.inner : grid.outer) *= sizes[d];
  if (channels_last) {
    strides.resize(rank);
    int64_t step = grid.inner;
    for (std::size_t d = rank; d-- > 2; step *= sizes[d]) strides[d] = step;
    strides[0] = step, strides[1] = 1;
  }
  self = channels_last || input.is_contiguous() || input.is_meta() ? input : input.contiguous();
  result = call.output(0, sizes, input.dtype(), input.device(), {&input}, strides);
  const bool fits = channels_last ? result.strides() == IntArrayRef(strides) : result.is_contiguous();
  out = fits || result.is_meta() ? result : dispatch::make_tensor(sizes, input.dtype(), input.device(), strides);
}

Tensor GridTensors::finish() const {
  if (!out.is_same(result)) Tensor(result).copy_(out);
  return result;
}

}  // namespace tenon::detail

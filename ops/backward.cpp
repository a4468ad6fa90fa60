// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/backward.h>

#include <tenon/dispatch/make_tensor.h>

#include <algorithm>

namespace tenon {
namespace {

Tensor zeros(const Tensor& like, IntArrayRef sizes, IntArrayRef strides = {}) {
  Tensor t = dispatch::make_tensor(sizes, like.dtype(), like.device(), strides);
  t.zero_();
  return t;
}

// Adds `part` to what `window` shows; elements that the window shows several times get every contribution.
void add_into(const Tensor& window, const Tensor& part) {
  if (!dispatch::overlaps_itself(window)) {
    Tensor w = window;
    w.add_(part);
    return;
  }
  // The dimensions that meet one another are those up to the first whose step the smaller ones reach; taken one entry
  // at a time, the shortest of them costs the fewest additions.
  DimVector order;
  for (int64_t d = 0; d < window.dim(); ++d)
    if (window.size(d) > 1) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return window.stride(a) < window.stride(b); });
  int64_t reach = 0, dim = order[0];
  for (const int64_t d : order) {
    if (window.size(d) < window.size(dim)) dim = d;
    if (window.stride(d) <= reach) break;
    reach += window.stride(d) * (window.size(d) - 1);
  }
  for (int64_t i = 0; i < window.size(dim); ++i) add_into(window.select(dim, i), part.select(dim, i));
}

}  // namespace

namespace impl {

Tensor as_strided_backward(Call&, const Tensor& grad, IntArrayRef size, IntArrayRef stride, int64_t storage_offset,
                           IntArrayRef base_size, IntArrayRef base_stride, int64_t base_offset) {
  // Expanded dimensions: all their entries are one element.
  DimVector repeated, sizes, strides;
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (stride[d] == 0 && size[d] > 1) {
      repeated.push_back(static_cast<int64_t>(d));
    } else {
      sizes.push_back(size[d]);
      strides.push_back(stride[d]);
    }
  }
  const Tensor part = repeated.empty() ? grad : grad.sum(repeated);
  Tensor base = zeros(grad, base_size, base_stride);
  if (part.numel() == 0) return base;
  int64_t last = storage_offset - base_offset, room = -1;
  for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  if (base.numel() > 0) room = 0;
  for (std::size_t d = 0; room >= 0 && d < base_size.size(); ++d) room += (base_size[d] - 1) * base_stride[d];
  TENON_CHECK(storage_offset >= base_offset && last <= room, AutogradError, "as_strided: sizes ", size,
              " with strides ", stride, " and offset ", storage_offset,
              " reach outside of the elements of the tensor that was differentiated, of sizes ", base_size,
              " and offset ", base_offset, "; take the view of the whole tensor instead");
  Tensor window = dispatch::make_view(base, sizes, strides, storage_offset - base_offset);
  if (dispatch::overlaps_itself(window))
    add_into(window, part);
  else
    window.copy_(part);
  return base;
}

}  // namespace impl
}  // namespace tenon

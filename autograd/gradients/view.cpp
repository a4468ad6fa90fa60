// SPDX-License-Identifier: Apache-2.0
// Gradients of views: the inverse change of geometry, or the gradient put into zeros of the input's sizes. The engine
// sums over what expand repeated.
#include <tenon/dispatch/gradient.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/backward.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/shape.h>
#include <tenon/ops/view.h>

namespace tenon {
namespace {

using dispatch::Gradients;

// Pieces along a dimension: each gradient goes to its place in zeros, in one tensor.
Tensor join_pieces(Gradients& g, int count, int64_t dim, bool stacked) {
  const DimVector sizes = g.meta(0).sizes;
  if (sizes.empty()) return {};
  const auto d = static_cast<std::size_t>(dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim);
  Tensor whole = zeros(sizes, g.meta(0).options());
  int64_t at = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t length = stacked ? 1 : g.result_meta(i).sizes[d];
    if (g.has_grad(i) && length > 0) {
      Tensor place = stacked ? whole.select(dim, at) : whole.slice(dim, at, at + length);
      place.copy_(g.grad(i));
    }
    at += length;
  }
  return whole;
}

// `t` in exactly this geometry (offset 0), so that a view's strides fit.
Tensor in_geometry(const Tensor& t, IntArrayRef sizes, IntArrayRef strides) {
  if (t.strides() == strides && t.storage_offset() == 0) return t;
  Tensor copy = dispatch::make_tensor(sizes, t.dtype(), t.device(), strides);
  copy.copy_(t);
  return copy;
}

// The gradient put back where `view` took it from. What it took is seen from the view of a tensor without memory.
template <class View>
void put_back(Gradients& g, View&& view) {
  g.set(0, [&] {
    const Tensor base = empty(g.meta(0).sizes, TensorOptions(g.meta(0).dtype).device(Device(kMeta)));
    const Tensor part = view(base);
    return op::as_strided_backward(g.grad(), part.sizes(), part.strides(), part.storage_offset(), base.sizes(),
                                   base.strides(), 0);
  });
}

constexpr auto reshaped = [](Gradients& g, const Tensor&, const auto&...) {
  g.set(0, [&] { return g.grad().reshape(g.meta(0).sizes); });
};
constexpr auto joined = [](Gradients& g, const Tensor&, IntArrayRef pieces, int64_t dim) {
  g.set(0, [&] { return join_pieces(g, static_cast<int>(pieces.size()), dim, false); });
};

}  // namespace

TENON_REGISTER_GRADIENT(op::view, nothing(), reshaped);
TENON_REGISTER_GRADIENT(op::squeeze, nothing(), reshaped);
TENON_REGISTER_GRADIENT(op::squeeze_dims, nothing(), reshaped);
TENON_REGISTER_GRADIENT(op::unsqueeze, nothing(), reshaped);
TENON_REGISTER_GRADIENT(op::permute, nothing(), [](Gradients& g, const Tensor&, IntArrayRef dims) {
  g.set(0, [&] {
    DimVector inverse(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const int64_t d = dims[i] < 0 ? dims[i] + static_cast<int64_t>(dims.size()) : dims[i];
      inverse[static_cast<std::size_t>(d)] = static_cast<int64_t>(i);
    }
    return g.grad().permute(inverse);
  });
});
TENON_REGISTER_GRADIENT(op::transpose, nothing(), [](Gradients& g, const Tensor&, int64_t dim0, int64_t dim1) {
  g.set(0, [&] { return g.grad().transpose(dim0, dim1); });
});
TENON_REGISTER_GRADIENT(op::expand, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef, bool) { g.set(0, [&] { return g.grad(); }); });
TENON_REGISTER_GRADIENT(op::select, nothing(), [](Gradients& g, const Tensor&, int64_t dim, int64_t index) {
  put_back(g, [&](const Tensor& base) { return op::select(base, dim, index); });
});
TENON_REGISTER_GRADIENT(op::slice, nothing(),
                        [](Gradients& g, const Tensor&, int64_t dim, std::optional<int64_t> start,
                           std::optional<int64_t> end, int64_t step) {
                          put_back(g, [&](const Tensor& base) { return op::slice(base, dim, start, end, step); });
                        });
TENON_REGISTER_GRADIENT(op::split, nothing(), [](Gradients& g, const Tensor&, int64_t size, int64_t dim) {
  g.set(0, [&] {
    const DimVector& sizes = g.meta(0).sizes;
    const int64_t length = sizes[static_cast<std::size_t>(dim < 0 ? dim + g.meta(0).dim() : dim)];
    return join_pieces(g, static_cast<int>(length == 0 || size == 0 ? 1 : (length + size - 1) / size), dim, false);
  });
});
TENON_REGISTER_GRADIENT(op::split_with_sizes, nothing(), joined);
TENON_REGISTER_GRADIENT(op::unsafe_split_with_sizes, nothing(), joined);
TENON_REGISTER_GRADIENT(op::unbind, nothing(), [](Gradients& g, const Tensor&, int64_t dim) {
  g.set(0, [&] {
    const int64_t count = g.meta(0).sizes[static_cast<std::size_t>(dim < 0 ? dim + g.meta(0).dim() : dim)];
    return join_pieces(g, static_cast<int>(count), dim, true);
  });
});
TENON_REGISTER_GRADIENT(op::as_strided, geometry(0),
                        [](Gradients& g, const Tensor& self, IntArrayRef size, IntArrayRef stride,
                           std::optional<int64_t> offset) {
                          g.set(0, [&] {
                            return op::as_strided_backward(g.grad(), size, stride,
                                                           offset.value_or(self.storage_offset()), self.sizes(),
                                                           self.strides(), self.storage_offset());
                          });
                        });

TENON_REGISTER_GRADIENT(op::diagonal, nothing(),
                        [](Gradients& g, const Tensor&, int64_t offset, int64_t dim1, int64_t dim2) {
                          put_back(g, [&](const Tensor& base) { return op::diagonal(base, offset, dim1, dim2); });
                        });
TENON_REGISTER_GRADIENT(op::unfold, nothing(),
                        [](Gradients& g, const Tensor&, int64_t dimension, int64_t size, int64_t step) {
                          put_back(g, [&](const Tensor& base) { return op::unfold(base, dimension, size, step); });
                        });

// --- gradients of gradients --------------------------------------------------------------------------------------
TENON_REGISTER_GRADIENT(
    op::as_strided_backward, nothing(),
    [](Gradients& g, const Tensor&, IntArrayRef size, IntArrayRef stride, int64_t offset, IntArrayRef base_size,
       IntArrayRef base_stride, int64_t base_offset) {
      g.set(0, [&] {
        return in_geometry(g.grad(), base_size, base_stride).as_strided(size, stride, offset - base_offset);
      });
    });

}  // namespace tenon

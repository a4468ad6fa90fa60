// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/nonzero.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/index.h>
#include <tenon/ops/places.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/rounding.h>
#include <tenon/ops/view.h>

namespace tenon {

Tensor nonzero(const Tensor& self) { return op::nonzero(self); }
std::vector<Tensor> where(const Tensor& condition) { return op::where_positions(condition); }
Tensor masked_select(const Tensor& self, const Tensor& mask) { return op::masked_select(self, mask); }
Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  return op::masked_scatter(self, mask, source);
}
Tensor take(const Tensor& self, const Tensor& index) { return op::take(self, index); }
Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  return op::put(self, index, source, accumulate);
}
Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  return op::take_along_dim(self, indices, dim);
}
std::vector<Tensor> unravel_index(const Tensor& indices, IntArrayRef shape) {
  return op::unravel_index(indices, shape);
}

namespace impl {
namespace {

// The positions where mask, broadcast to `sizes`, holds, numbered in row-major order.
Tensor true_places(const char* who, const Tensor& mask, IntArrayRef sizes) {
  TENON_CHECK(mask.dtype() == kBool, DtypeError, who, ": mask: expected a bool tensor, got ", mask.dtype());
  return op::nonzero(mask.expand(sizes).reshape({-1})).view({-1});
}
Tensor wrapped_places(const char* who, const Tensor& index, int64_t size, int64_t dim) {
  TENON_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32, DtypeError, who,
              ": index: expected int64 or int32, got ", index.dtype());
  return wrapped_index(who, index, size, dim);
}
Tensor flat_places(const char* who, const Tensor& index, const Tensor& flat) {
  return wrapped_places(who, index, flat.numel(), 0).view({-1});
}

}  // namespace

Tensor nonzero(Call& call, const Tensor& self) {
  TENON_CHECK(!self.is_meta(), DeviceError,
              "nonzero: self: the result's size depends on values, which a meta tensor has not");
  call.enter(self.device());
  const Tensor mask = (self.dtype() == kBool ? self : op::ne(self, 0)).contiguous();
  const int64_t n = mask.numel() == 0 ? 0 : op::sum(mask, {}, false, {}).item<int64_t>();
  const Tensor places = dispatch::make_tensor({n, self.dim()}, kInt64, self.device());
  if (places.numel() != 0) op::nonzero.kernel(self.backend(), dispatch::key_of(kBool))(places, mask);
  return places;
}
std::vector<Tensor> where_positions(Call&, const Tensor& condition) {
  return op::nonzero(condition.dim() > 0 ? condition : condition.reshape({1})).unbind(1);
}
std::vector<Tensor> nonzero_tuple(Call&, const Tensor& self, bool as_tuple) {
  return as_tuple ? op::where_positions(self) : std::vector<Tensor>{op::nonzero(self)};
}

Tensor masked_select(Call&, const Tensor& self, const Tensor& mask) {
  const DimVector sizes = dispatch::broadcast_sizes(self.sizes(), mask.sizes(), "masked_select");
  return op::index_select(self.expand(sizes).reshape({-1}), 0, true_places("masked_select", mask, sizes));
}

Tensor masked_scatter(Call&, const Tensor& self, const Tensor& mask, const Tensor& source) {
  TENON_CHECK(self.dtype() == source.dtype(), DtypeError, "masked_scatter: source: expected the dtype of self, ",
              self.dtype(), ", got ", source.dtype());
  const DimVector sizes = dispatch::broadcast_sizes(self.sizes(), mask.sizes(), "masked_scatter");
  const Tensor places = true_places("masked_scatter", mask, sizes);
  TENON_CHECK(places.numel() <= source.numel(), ShapeError,
              "masked_scatter: source: expected as many elements as mask holds, ", places.numel(), ", got ",
              source.numel());
  const Tensor flat = self.expand(sizes).reshape({-1}), values = source.reshape({-1}).narrow(0, 0, places.numel());
  return op::index_copy(flat, 0, places, values).view(sizes);
}

Tensor take(Call&, const Tensor& self, const Tensor& index) {
  const Tensor flat = self.reshape({-1});
  return op::index_select(flat, 0, flat_places("take", index, flat)).view(index.sizes());
}

Tensor put(Call&, const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  TENON_CHECK(index.numel() == source.numel(), ShapeError, "put: source: expected as many elements as index, ",
              index.numel(), ", got ", source.numel());
  TENON_CHECK(self.dtype() == source.dtype(), DtypeError, "put: source: expected the dtype of self, ", self.dtype(),
              ", got ", source.dtype());
  const Tensor flat = self.reshape({-1}), values = source.reshape({-1}), places = flat_places("put", index, flat);
  return (accumulate ? op::index_add(flat, 0, places, values, 1) : op::index_copy(flat, 0, places, values))
      .view(self.sizes());
}

Tensor take_along_dim(Call&, const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  if (!dim) {
    const Tensor flat = self.reshape({-1});
    return op::gather(flat, 0, flat_places("take_along_dim", indices, flat), false);
  }
  TENON_CHECK(self.dim() == indices.dim(), ShapeError, "take_along_dim: indices: expected as many dimensions as self (",
              self.dim(), "), got ", indices.dim());
  const int64_t d = wrap_dim(*dim, self.dim(), "take_along_dim");
  const Tensor places = wrapped_places("take_along_dim", indices, self.dim() > 0 ? self.size(d) : 1, d);
  if (self.dim() == 0) return op::gather(self, d, places, false);
  const auto k = static_cast<std::size_t>(d);
  DimVector from(self.sizes());
  from[k] = indices.size(d);
  DimVector by = dispatch::broadcast_sizes(from, indices.sizes(), "take_along_dim");
  from = by;
  from[k] = self.size(d);
  return op::gather(self.expand(from), d, places.expand(by), false);
}

std::vector<Tensor> unravel_index(Call&, const Tensor& indices, IntArrayRef shape) {
  TENON_CHECK(is_integral(indices.dtype()), DtypeError, "unravel_index: indices: expected integers, got ",
              indices.dtype());
  int64_t step = 1;
  std::vector<Tensor> result(shape.size());
  const Tensor places = indices.to(kInt64);
  for (std::size_t d = shape.size(); d-- > 0; step *= shape[d]) {
    TENON_CHECK(shape[d] > 0, ValueError, "unravel_index: shape: expected positive sizes, got ", shape);
    result[d] = op::remainder(op::div(places, step, "floor"), shape[d]);
  }
  return result;
}

}  // namespace impl
}  // namespace tenon

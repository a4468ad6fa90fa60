// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/triangle.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/shape.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon {
namespace {

Tensor triangle(Call& call, const Tensor& self, int64_t diagonal, bool upper) {
  TENON_CHECK(self.dim() >= 2, ShapeError, call.name(), ": self: expected at least 2 dimensions, got ", self.dim());
  const bool own = !call.destinations.empty() && call.destinations[0].is_same(self);
  const Tensor out = call.output(0, self.sizes(), self.dtype(), self.device(), {own ? nullptr : &self});
  if (out.is_meta() || out.numel() == 0) return out;
  // Copies know how to cross two orders of memory; what is left then is done in place.
  const bool crossed = !own && !(out.strides() == self.strides());
  if (crossed) Tensor(out).copy_(self);
  const Tensor& from = crossed ? out : self;
  DimVector steps(self.sizes().size(), 0);
  steps[steps.size() - 2] = -1;
  steps[steps.size() - 1] = 1;
  const Tensor right(
      Ref<TensorImpl>::adopt(TensorImpl::create({}, kUInt8, out.backend(), out.device(), self.sizes(), steps, 0)));
  const PlanOperand operands[] = {
      {&out, nullptr, out.dtype()}, {&from, nullptr, self.dtype()}, {&right, nullptr, kUInt8}};
  LoopPlan plan;
  make_plan(plan, self.sizes(), operands, 1);
  plan.contiguous = false;  // its third operand is not to be read
  op::tril.kernel(out.backend(), dispatch::width_key(out.itemsize()))(
      plan, std::clamp(diagonal, -self.size(-2), self.size(-1)), upper);
  return out;
}

Tensor indices(const Call& call, int64_t rows, int64_t columns, int64_t offset, std::optional<DType> dtype,
               std::optional<Device> device, bool upper) {
  TENON_CHECK(rows >= 0 && columns >= 0, ValueError, call.name(), ": row and col: must not be negative, got ", rows,
              " and ", columns);
  std::vector<int64_t> places, right;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (upper ? j - i >= offset : j - i <= offset) places.push_back(i), right.push_back(j);
  const auto n = static_cast<int64_t>(right.size());
  places.insert(places.end(), right.begin(), right.end());
  return from_vector(std::move(places), {2, n}).to(resolve(device.value_or(kCPU)), dtype.value_or(kInt64));
}

}  // namespace

namespace impl {

Tensor tril(Call& call, const Tensor& self, int64_t diagonal) { return triangle(call, self, diagonal, false); }
Tensor triu(Call& call, const Tensor& self, int64_t diagonal) { return triangle(call, self, diagonal, true); }
Tensor tril_indices(Call& call, int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    std::optional<Device> device) {
  return indices(call, row, col, offset, dtype, device, false);
}
Tensor triu_indices(Call& call, int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    std::optional<Device> device) {
  return indices(call, row, col, offset, dtype, device, true);
}

Tensor diag(Call&, const Tensor& self, int64_t diagonal) {
  TENON_CHECK(self.dim() == 1 || self.dim() == 2, ShapeError, "diag: self: expected 1 or 2 dimensions, got ",
              self.dim());
  return self.dim() == 1 ? op::diag_embed(self, diagonal, 0, 1) : op::diagonal(self, diagonal, 0, 1).clone();
}
Tensor diagflat(Call&, const Tensor& self, int64_t offset) { return op::diag_embed(self.reshape({-1}), offset, 0, 1); }

Tensor diag_embed(Call& call, const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  TENON_CHECK(self.dim() > 0, ShapeError, "diag_embed: self: expected at least 1 dimension, got 0");
  const int64_t rank = self.dim() + 1;
  const int64_t a = wrap_dim(dim1, rank, "diag_embed"), b = wrap_dim(dim2, rank, "diag_embed");
  TENON_CHECK(a != b, ShapeError, "diag_embed: dim1 and dim2: expected two different dimensions, got ", dim1, " and ",
              dim2);
  int64_t n = 0;
  TENON_CHECK(offset != INT64_MIN && !__builtin_add_overflow(self.sizes().back(), offset < 0 ? -offset : offset, &n),
              ShapeError, "diag_embed: offset: too many elements for ", offset);
  DimVector sizes(self.sizes().slice(0, static_cast<std::size_t>(rank) - 2));
  sizes.insert(static_cast<std::size_t>(std::min(a, b)), n);
  sizes.insert(static_cast<std::size_t>(std::max(a, b)), n);
  Tensor out = call.output(0, sizes, self.dtype(), self.device(), {&self});
  out.zero_();
  op::diagonal(out, offset, a, b).copy_(self);
  return out;
}

Tensor trace(Call&, const Tensor& self) {
  TENON_CHECK(self.dim() == 2, ShapeError, "trace: self: expected a matrix, got ", self.dim(), " dimensions");
  return op::sum(op::diagonal(self, 0, 0, 1), {}, false, {});
}

}  // namespace impl
}  // namespace tenon

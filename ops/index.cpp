// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/index.h>

#include <tenon/dispatch/make_tensor.h>

namespace tenon::impl {
namespace {
using dispatch::Form;
using dispatch::make_view;
using dispatch::width_key;

// A 0-dim tensor is a vector of one element to the kernels.
Tensor at_least_1d(const Tensor& t) { return t.dim() > 0 ? t : make_view(t, {1}, {1}, t.storage_offset()); }

// Contiguous int64. Empty index tensors of any dtype are let pass, as PyTorch does.
Tensor prepared_index(const Call& call, const Tensor& index) {
  TENON_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32 || index.numel() == 0, DtypeError, call.name(),
              ": index: expected int64 or int32, got ", index.dtype());
  return (index.dtype() == kInt64 ? index : index.to(kInt64)).contiguous();
}

void check_vector(const Call& call, const Tensor& index) {
  TENON_CHECK(index.dim() <= 1, ShapeError, call.name(), ": index: expected a vector, got ", index.dim(),
              " dimensions");
}

// The copy of `self` an adding or overwriting operator works on; self itself in place.
Tensor working_copy(Call& call, const Tensor& self, Device device, const Tensor& index, const Tensor& source) {
  const bool own = !call.destinations.empty() && call.destinations[0].is_same(self);
  if (own)
    TENON_CHECK(!dispatch::overlaps_itself(self), AliasError, call.name(),
                ": self has several elements at one address (an expanded tensor); write to a clone() instead");
  Tensor out = call.output(0, self.sizes(), self.dtype(), device, {&index, &source, own ? nullptr : &self});
  if (!out.is_same(self)) out.copy_(self);
  return out;
}

}  // namespace

Tensor index_select(Call& call, const Tensor& self, int64_t dim, const Tensor& index) {
  const Device device = call.device_of({&self, &index});
  const int64_t d = wrap_dim(dim, self.dim(), "index_select");
  check_vector(call, index);
  TENON_CHECK(self.dim() > 0 || index.numel() == 1, ShapeError,
              "index_select: index: expected one element for a 0-dim tensor, got ", index.numel());
  const Tensor rows = prepared_index(call, index);
  DimVector sizes(self.sizes());
  if (self.dim() > 0) sizes[static_cast<std::size_t>(d)] = index.numel();
  const Tensor out = call.output(0, sizes, self.dtype(), device, {&self, &index});
  if (out.numel() == 0 || out.is_meta()) return out;
  TENON_CHECK(self.numel() > 0, IndexError, "index_select: index: dimension ", d, " of self has no elements");
  op::index_select.kernel(self.backend(), width_key(self.itemsize()))(at_least_1d(out), at_least_1d(self), d,
                                                                      at_least_1d(rows));
  return out;
}

Tensor gather(Call& call, const Tensor& self, int64_t dim, const Tensor& index, bool) {
  const Device device = call.device_of({&self, &index});
  const int64_t d = wrap_dim(dim, self.dim(), "gather");
  const Tensor places = prepared_index(call, index);
  const Tensor out = call.output(0, index.sizes(), self.dtype(), device, {&self, &index});
  if (index.numel() == 0) return out;
  const Tensor from = at_least_1d(self), by = at_least_1d(places);
  TENON_CHECK(by.dim() == from.dim(), ShapeError, "gather: index: expected as many dimensions as self (", self.dim(),
              "), got ", index.dim());
  for (int64_t k = 0; k < by.dim(); ++k)
    TENON_CHECK(k == d || by.size(k) <= from.size(k), ShapeError,
                "gather: index: expected sizes no larger than those of self, ", self.sizes(), ", outside dimension ", d,
                ", got ", index.sizes());
  if (out.is_meta()) return out;
  TENON_CHECK(from.numel() > 0, IndexError, "gather: index: dimension ", d, " of self has no elements");
  op::gather.kernel(self.backend(), width_key(self.itemsize()))(at_least_1d(out), from, d, by);
  return out;
}

namespace {
// Shape rule of index_add and index_copy; returns the dimension.
int64_t check_slices(const Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const int64_t d = wrap_dim(dim, self.dim(), std::string(call.name()).c_str());
  check_vector(call, index);
  TENON_CHECK(self.dtype() == source.dtype(), DtypeError, call.name(), ": source: expected the dtype of self, ",
              self.dtype(), ", got ", source.dtype());
  const Tensor to = at_least_1d(self), from = at_least_1d(source);
  bool fits = to.dim() == from.dim();
  for (int64_t k = 0; fits && k < to.dim(); ++k) fits = k == d || to.size(k) == from.size(k);
  TENON_CHECK(fits, ShapeError, call.name(), ": source: expected the sizes of self, ", self.sizes(),
              ", outside dimension ", d, ", got ", source.sizes());
  TENON_CHECK(from.size(d) == index.numel(), ShapeError, call.name(), ": index: expected one number for each of the ",
              from.size(d), " slices of source in dimension ", d, ", got ", index.numel());
  return d;
}
}  // namespace

Tensor index_add(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha) {
  const Device device = call.device_of({&self, &index, &source});
  const int64_t d = check_slices(call, self, dim, index, source);
  const DType t = self.dtype();
  const bool fits =
      is_complex(t) || (is_integral(t, true) ? alpha.is_integral() || alpha.is_bool() : !alpha.is_complex());
  TENON_CHECK(fits, DtypeError, "index_add: alpha: expected a number that fits ", t, ", got ", alpha);
  const Tensor rows = prepared_index(call, index);
  const Tensor out = working_copy(call, self, device, index, source);
  if (source.numel() == 0 || out.is_meta()) return out;
  op::index_add.kernel(self.backend(), dispatch::key_of(t))(at_least_1d(out), d, at_least_1d(rows), at_least_1d(source),
                                                            alpha);
  return out;
}

Tensor index_copy(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const Device device = call.device_of({&self, &index, &source});
  const int64_t d = check_slices(call, self, dim, index, source);
  const Tensor rows = prepared_index(call, index);
  const Tensor out = working_copy(call, self, device, index, source);
  if (source.numel() == 0 || out.is_meta()) return out;
  op::index_copy.kernel(self.backend(), width_key(self.itemsize()))(at_least_1d(out), d, at_least_1d(rows),
                                                                    at_least_1d(source));
  return out;
}

Tensor scatter_add(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  const Device device = call.device_of({&self, &index, &src});
  const int64_t d = wrap_dim(dim, self.dim(), "scatter_add");
  TENON_CHECK(self.dtype() == src.dtype(), DtypeError, "scatter_add: src: expected the dtype of self, ", self.dtype(),
              ", got ", src.dtype());
  const Tensor places = prepared_index(call, index);
  if (index.numel() != 0) {
    const Tensor to = at_least_1d(self), by = at_least_1d(index), from = at_least_1d(src);
    TENON_CHECK(by.dim() == to.dim() && from.dim() == to.dim(), ShapeError,
                "scatter_add: expected index and src with as many dimensions as self (", self.dim(), "), got ",
                index.dim(), " and ", src.dim());
    for (int64_t k = 0; k < by.dim(); ++k)
      TENON_CHECK(by.size(k) <= from.size(k) && (k == d || by.size(k) <= to.size(k)), ShapeError,
                  "scatter_add: index: sizes ", index.sizes(), " exceed those of src, ", src.sizes(),
                  ", or, outside dimension ", d, ", of self, ", self.sizes());
  }
  const Tensor out = working_copy(call, self, device, index, src);
  if (index.numel() == 0 || out.is_meta()) return out;
  op::scatter_add.kernel(self.backend(), dispatch::key_of(self.dtype()))(at_least_1d(out), d, at_least_1d(places),
                                                                         at_least_1d(src));
  return out;
}

Tensor embedding(Call& call, const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx,
                 std::optional<double> max_norm, double, bool, bool) {
  const Device device = call.device_of({&input, &weight});
  TENON_CHECK(weight.dim() == 2, ShapeError, "embedding: weight: expected 2 dimensions, got ", weight.dim());
  TENON_CHECK(input.dtype() == kInt64 || input.dtype() == kInt32, DtypeError,
              "embedding: input: expected int64 or int32, got ", input.dtype());
  TENON_CHECK(!max_norm, ValueError, "embedding: max_norm: not supported; renormalise the weight beforehand");
  const int64_t rows = weight.size(0);
  TENON_CHECK(!padding_idx || (*padding_idx >= -rows && *padding_idx < rows), ValueError,
              "embedding: padding_idx: expected ", -rows, " to ", rows - 1, ", got ", *padding_idx);
  DimVector sizes(input.sizes());
  sizes.push_back(weight.size(1));
  const Tensor out = call.output(0, sizes, weight.dtype(), device, {&input, &weight});
  if (out.numel() == 0 || out.is_meta()) return out;
  TENON_CHECK(rows > 0, IndexError, "embedding: input: weight has no rows");
  const Tensor places = prepared_index(call, input);
  const int64_t n = input.numel();
  // The kernel writes rows: an out= tensor of another layout is filled afterwards.
  const Tensor flat = out.is_contiguous() ? out : dispatch::make_tensor(sizes, weight.dtype(), device);
  op::embedding.kernel(weight.backend(), width_key(weight.itemsize()))(
      make_view(flat, {n, weight.size(1)}, {weight.size(1), 1}, flat.storage_offset()), weight, 0,
      make_view(places, {n}, {1}, places.storage_offset()));
  return flat;
}

Tensor embedding_backward(Call& call, const Tensor& grad_output, const Tensor& indices, int64_t num_weights,
                          int64_t padding_idx, bool scale_grad_by_freq) {
  const Device device = call.device_of({&grad_output, &indices});
  TENON_CHECK(
      grad_output.dim() == indices.dim() + 1 && grad_output.sizes().slice(0, indices.sizes().size()) == indices.sizes(),
      ShapeError, "embedding_backward: grad_output: expected sizes of indices and the columns, got ",
      grad_output.sizes(), " for indices ", indices.sizes());
  const int64_t columns = grad_output.sizes().back(), n = indices.numel();
  Tensor out = call.output(0, {num_weights, columns}, grad_output.dtype(), device, {&grad_output, &indices});
  if (out.numel() == 0 || out.is_meta()) return out;
  out.zero_();
  if (n == 0) return out;
  const Tensor places = prepared_index(call, indices), grad = grad_output.contiguous();
  op::embedding_backward.kernel(grad.backend(), dispatch::key_of(grad.dtype()))(
      out, make_view(grad, {n, columns}, {columns, 1}, grad.storage_offset()),
      make_view(places, {n}, {1}, places.storage_offset()), padding_idx, scale_grad_by_freq);
  return out;
}

}  // namespace tenon::impl

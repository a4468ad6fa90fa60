// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/index.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/places.h>
#include <tenon/ops/where.h>

#include <algorithm>
#include <limits>

namespace tenon {

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) { return op::index_select(self, dim, index); }
Tensor gather(const Tensor& self, int64_t dim, const Tensor& index) { return op::gather(self, dim, index, false); }
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  return op::index_add(self, dim, index, source, alpha);
}
Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return op::index_copy(self, dim, index, source);
}
Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  return op::scatter_add(self, dim, index, src);
}
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Operand& src) {
  return op::scatter(self, dim, index, src);
}
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Operand& src, std::string_view reduce) {
  return op::scatter_by(self, dim, index, src, reduce);
}
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                      bool include_self) {
  return op::scatter_reduce(self, dim, index, src, reduce, include_self);
}
Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                    bool include_self) {
  return op::index_reduce(self, dim, index, source, reduce, include_self);
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value) {
  return op::index_fill(self, dim, index, value);
}
int64_t embedding_padding(std::optional<int64_t> padding_idx, int64_t rows) {
  return !padding_idx ? -1 : *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

}  // namespace tenon

namespace tenon::impl {
namespace {
using dispatch::Form;
using dispatch::make_view;
using dispatch::width_key;

// A 0-dim tensor is a vector of one element to the kernels.
Tensor at_least_1d(const Tensor& t) { return t.dim() > 0 ? t : make_view(t, {1}, {1}, t.storage_offset()); }

// int64. Empty index tensors of any dtype are let pass, as PyTorch does.
Tensor as_int64(const Call& call, const Tensor& index) {
  TENON_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32 || index.numel() == 0, DtypeError, call.name(),
              ": index: expected int64 or int32, got ", index.dtype());
  return index.dtype() == kInt64 ? index : index.to(kInt64);
}
Tensor prepared_index(const Call& call, const Tensor& index) { return as_int64(call, index).contiguous(); }
// Contiguous but for dimensions that repeat by stride 0, which stay so.
Tensor prepared_places(const Call& call, const Tensor& index) {
  const Tensor all = as_int64(call, index);
  Tensor once = all;
  for (int64_t d = 0; d < all.dim(); ++d)
    if (all.stride(d) == 0 && all.size(d) > 1) once = once.narrow(d, 0, 1);
  return once.contiguous().expand(all.sizes());
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

// A number in `self`'s dtype, as a tensor of any sizes.
Tensor spread_number(const Call& call, const Tensor& self, const Scalar& number, IntArrayRef sizes) {
  TENON_CHECK(is_complex(self.dtype()) || !number.is_complex(), DtypeError, call.name(),
              ": src: expected a real number for a tensor of ", self.dtype(), ", got ", number);
  Tensor one = dispatch::make_tensor(IntArrayRef(), self.dtype(), self.device());
  if (!one.is_meta()) one.fill_(number);
  return make_view(one, sizes, DimVector(sizes.size(), 0), 0);
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
  for (const Tensor& t : call.destinations)
    TENON_CHECK(t.dtype() == self.dtype(), DtypeError, "gather: out: expected ", self.dtype(), ", got ", t.dtype());
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

namespace {
// Shape rule of scatter and its kind; returns the dimension.
int64_t check_places(const Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  const int64_t d = wrap_dim(dim, self.dim(), std::string(call.name()).c_str());
  TENON_CHECK(self.dtype() == src.dtype(), DtypeError, call.name(), ": src: expected the dtype of self, ", self.dtype(),
              ", got ", src.dtype());
  if (index.numel() == 0) return d;
  const Tensor to = at_least_1d(self), by = at_least_1d(index), from = at_least_1d(src);
  TENON_CHECK(by.dim() == to.dim() && from.dim() == to.dim(), ShapeError, call.name(),
              ": expected index and src with as many dimensions as self (", self.dim(), "), got ", index.dim(), " and ",
              src.dim());
  for (int64_t k = 0; k < by.dim(); ++k)
    TENON_CHECK(by.size(k) <= from.size(k) && (k == d || by.size(k) <= to.size(k)), ShapeError, call.name(),
                ": index: sizes ", index.sizes(), " exceed those of src, ", src.sizes(), ", or, outside dimension ", d,
                ", of self, ", self.sizes());
  return d;
}

// What a reduction starts from.
Scalar neutral(ScatterReduction r, DType t) {
  if (r == ScatterReduction::sum || r == ScatterReduction::mean) return 0;
  if (r == ScatterReduction::prod || t == kBool) return r == ScatterReduction::amax ? 0 : 1;
  const bool low = r == ScatterReduction::amax;
  if (!is_integral(t)) return low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  const int bits = 8 * static_cast<int>(item_size(t)) - (t == kUInt8 ? 0 : 1);
  const auto high = static_cast<int64_t>((uint64_t{1} << bits) - 1);
  return low ? (t == kUInt8 ? 0 : -high - 1) : high;
}

Tensor reduce_places(Call& call, const char* who, const Tensor& self, int64_t d, const Tensor& index, const Tensor& src,
                     std::string_view reduce, bool include_self) {
  const DType t = self.dtype();
  static constexpr std::string_view kNames[] = {"prod", "amax", "amin", "sum", "mean"};
  const auto at = static_cast<std::size_t>(std::find(kNames, kNames + 5, reduce) - kNames);
  const auto r = static_cast<ScatterReduction>(at);
  const bool extreme = r == ScatterReduction::amax || r == ScatterReduction::amin;
  TENON_CHECK(at < 5 && (call.op.schema().name != "index_reduce" || r != ScatterReduction::sum), ValueError, who,
              ": reduce: expected prod, mean, amax, amin", call.op.schema().name == "index_reduce" ? "" : " or sum",
              ", got ", reduce);
  TENON_CHECK(!extreme || !is_complex(t), DtypeError, who, ": self: complex numbers have no order");
  TENON_CHECK(r != ScatterReduction::mean || t != kBool, DtypeError, who, ": self: bool has no mean");
  const Device device = call.device_of({&self, &index, &src});
  const Tensor places = prepared_places(call, index);
  const Tensor out = working_copy(call, self, device, index, src);
  if (index.numel() == 0 || out.is_meta()) return out;
  const Tensor to = at_least_1d(out), by = at_least_1d(places), from = at_least_1d(src);
  const auto add = [&](const Tensor& sums, const Tensor& terms) {
    op::scatter_add.kernel(self.backend(), dispatch::key_of(sums.dtype()))(sums, d, by, terms, who);
  };
  if (!include_self)
    op::scatter.kernel(self.backend(), width_key(self.itemsize()))(
        to, d, by, spread_number(call, self, neutral(r, t), by.sizes()), who);
  if (r == ScatterReduction::sum || r == ScatterReduction::mean)
    add(to, from);
  else
    op::scatter_reduce.kernel(self.backend(), dispatch::key_of(t))(to, d, by, from, r, who);
  if (r == ScatterReduction::mean) {
    const Tensor count = full(to.sizes(), include_self ? 1 : 0, TensorOptions(kInt64).device(device));
    add(count, spread_number(call, count, 1, by.sizes()));
    Tensor(to).copy_(
        op::div(to, clamp_min(count, 1), is_integral(t) ? std::optional<std::string_view>("floor") : std::nullopt));
  }
  return out;
}
}  // namespace

Tensor scatter_add(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  const Device device = call.device_of({&self, &index, &src});
  const int64_t d = check_places(call, self, dim, index, src);
  const Tensor places = prepared_places(call, index);
  const Tensor out = working_copy(call, self, device, index, src);
  if (index.numel() == 0 || out.is_meta()) return out;
  op::scatter_add.kernel(self.backend(), dispatch::key_of(self.dtype()))(at_least_1d(out), d, at_least_1d(places),
                                                                         at_least_1d(src), "scatter_add");
  return out;
}

Tensor scatter(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Operand& src) {
  const Tensor from = src.is_tensor() ? src.tensor() : spread_number(call, self, src.number(), index.sizes());
  const Device device = call.device_of({&self, &index, &from});
  const int64_t d = check_places(call, self, dim, index, from);
  const Tensor places = prepared_places(call, index);
  const Tensor out = working_copy(call, self, device, index, from);
  if (index.numel() == 0 || out.is_meta()) return out;
  op::scatter.kernel(self.backend(), width_key(self.itemsize()))(at_least_1d(out), d, at_least_1d(places),
                                                                 at_least_1d(from), "scatter");
  return out;
}
Tensor scatter_by(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Operand& src,
                  std::string_view reduce) {
  const bool add = reduce == "add";
  TENON_CHECK(add || reduce == "multiply", ValueError, "scatter: reduce: expected add or multiply, got ", reduce);
  const Tensor from = src.is_tensor() ? src.tensor() : spread_number(call, self, src.number(), index.sizes());
  return op::scatter_reduce(self, dim, index, from, add ? "sum" : "prod", true);
}

Tensor scatter_reduce(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                      std::string_view reduce, bool include_self) {
  return reduce_places(call, "scatter_reduce", self, check_places(call, self, dim, index, src), index, src, reduce,
                       include_self);
}
Tensor index_reduce(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool include_self) {
  const int64_t d = check_slices(call, self, dim, index, source);
  return reduce_places(call, "index_reduce", self, d, index_of_slices(index, d, source.sizes()), source, reduce,
                       include_self);
}

Tensor index_fill(Call& call, const Tensor& self, int64_t dim, const Tensor& index, const Operand& value) {
  const int64_t d = wrap_dim(dim, self.dim(), "index_fill");
  check_vector(call, index);
  const Tensor number = value.is_tensor() ? value.tensor() : spread_number(call, self, value.number(), IntArrayRef());
  TENON_CHECK(number.dim() == 0, ShapeError, "index_fill: value: expected a number or a 0-dim tensor, got ",
              number.dim(), " dimensions");
  TENON_CHECK(is_complex(self.dtype()) || !number.is_complex(), DtypeError, "index_fill: value: a ", number.dtype(),
              " does not fit the ", self.dtype(), " of self");
  const Device device = call.device_of({&self, &index});
  DimVector sizes(at_least_1d(self).sizes());
  const Tensor places = wrapped_index("index_fill", as_int64(call, index), sizes[static_cast<std::size_t>(d)], d);
  const Tensor source = number.to(device, self.dtype()), out = working_copy(call, self, device, index, source);
  if (index.numel() == 0 || out.numel() == 0 || out.is_meta()) return out;
  sizes[static_cast<std::size_t>(d)] = index.numel();
  op::scatter.kernel(self.backend(), width_key(self.itemsize()))(
      at_least_1d(out), d, index_of_slices(places, d, sizes),
      make_view(source, sizes, DimVector(sizes.size(), 0), source.storage_offset()), "index_fill");
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

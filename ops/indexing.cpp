// SPDX-License-Identifier: Apache-2.0
// Brackets: Tensor::index and index_put_ with slices and tensors, and the operators behind them. Index tensors become
// one vector of positions in the merged indexed dimensions, so that index_select, index_add and index_copy do the work.
#include <tenon/core/index.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/index.h>
#include <tenon/ops/nonzero.h>
#include <tenon/ops/places.h>
#include <tenon/ops/where.h>

#include <algorithm>

namespace tenon {
namespace {
using dispatch::BelowLayersGuard;
using dispatch::make_tensor;

bool is_mask(const Tensor& t) { return t.dtype() == kBool || t.dtype() == kUInt8; }

// The positions where a bool tensor is true, one vector for each of its dimensions.
std::vector<Tensor> positions(const Tensor& mask) { return op::nonzero(mask).unbind(1); }

// What `indices` mean for a tensor: its indexed dimensions brought together at `start` and merged to one of `merged`
// elements, of which `places` (int64 vector) picks some; `broadcast` are the sizes the picked ones have.
struct Plan {
  DimVector order, before, after, broadcast, permuted;
  int64_t start = 0, merged = 1, picked = 1;
  Tensor places;
};

int64_t product(IntArrayRef sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

// Positions on the host, every index checked. `dims`: which dimensions the indices are of.
Tensor host_places(std::string_view who, std::span<const Tensor> indices, IntArrayRef sizes, IntArrayRef steps,
                   IntArrayRef dims, int64_t n) {
  Tensor places = make_tensor(n, kInt64, kCPU);
  auto* out = static_cast<int64_t*>(places.data_ptr());
  for (int64_t i = 0; i < n; ++i) out[i] = 0;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const auto* index = static_cast<const int64_t*>(indices[k].data_ptr());
    for (int64_t i = 0; i < n; ++i) {
      TENON_CHECK(index[i] >= -sizes[k] && index[i] < sizes[k], IndexError, who, ": ", index[i], " at position ", i,
                  " is out of range for dimension ", dims[k], " of size ", sizes[k], "; expected ", -sizes[k], " to ",
                  sizes[k] - 1);
      out[i] += (index[i] < 0 ? index[i] + sizes[k] : index[i]) * steps[k];
    }
  }
  return places;
}

// The same by operators. Kernels refuse an index out of range: it stays so where it is the only one, else it becomes -1.
Tensor device_places(std::span<const Tensor> indices, IntArrayRef sizes, IntArrayRef steps) {
  Tensor places, wrong;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const Tensor& index = indices[k];
    const Tensor positive = op::where(op::lt(index, 0), op::add(index, sizes[k], 1), index);
    if (indices.size() == 1) return positive;
    const Tensor outside = op::logical_or(op::lt(positive, 0), op::ge(positive, sizes[k]));
    const Tensor scaled = op::mul(positive, steps[k]);
    places = places.defined() ? op::add(places, scaled, 1) : scaled;
    wrong = wrong.defined() ? op::logical_or(wrong, outside) : outside;
  }
  return op::where(wrong, -1, places);
}

Plan make_index_plan(const char* who, const Tensor& self, TensorList indices) {
  const BelowLayersGuard below;
  std::vector<Tensor> dims;  // one for each dimension, undefined where it is left whole
  for (const Tensor& t : indices) {
    if (!t.defined()) {
      dims.emplace_back();
      continue;
    }
    if (!is_mask(t)) {
      TENON_CHECK(is_integral(t.dtype()) || t.numel() == 0, DtypeError, who,
                  ": indices: expected integer or bool tensors, got ", t.dtype());
      dims.push_back(t.to(self.device(), kInt64));
      continue;
    }
    for (int64_t d = 0; d < t.dim(); ++d) {
      const auto at = dims.size() + static_cast<std::size_t>(d);
      TENON_CHECK(at < self.sizes().size() && self.sizes()[at] == t.sizes()[d], IndexError, who,
                  ": indices: a mask of sizes ", t.sizes(), " does not fit dimension ", at, " of sizes ", self.sizes());
    }
    for (const Tensor& column : positions(t)) dims.push_back(column.to(self.device()));
  }
  TENON_CHECK(dims.size() <= self.sizes().size(), IndexError, who, ": indices: too many for a tensor of ", self.dim(),
              " dimensions");
  dims.resize(self.sizes().size());

  Plan plan;
  std::vector<Tensor> used;
  DimVector used_sizes, used_dims, steps;
  int64_t first = -1, last = -1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d].defined()) continue;
    if (first < 0) first = static_cast<int64_t>(d);
    last = static_cast<int64_t>(d);
    plan.broadcast =
        used.empty() ? DimVector(dims[d].sizes()) : dispatch::broadcast_sizes(plan.broadcast, dims[d].sizes(), who);
    used.push_back(dims[d]);
    used_sizes.push_back(self.sizes()[d]);
    used_dims.push_back(last);
  }
  const bool adjacent = last - first + 1 == static_cast<int64_t>(used.size());
  plan.start = adjacent ? first : 0;
  // Kept dimensions before the indexed ones, the indexed ones, then the rest.
  for (int64_t d = 0; d < plan.start; ++d) plan.order.push_back(d);
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (dims[d].defined()) plan.order.push_back(static_cast<int64_t>(d));
  for (std::size_t d = static_cast<std::size_t>(plan.start); d < dims.size(); ++d)
    if (!dims[d].defined()) plan.order.push_back(static_cast<int64_t>(d));
  for (const int64_t d : plan.order) {
    const int64_t size = self.sizes()[static_cast<std::size_t>(d)];
    plan.permuted.push_back(size);
    if (dims[static_cast<std::size_t>(d)].defined())
      plan.merged *= size;
    else
      (static_cast<int64_t>(plan.before.size()) < plan.start ? plan.before : plan.after).push_back(size);
  }
  steps.resize(used.size(), 1);
  for (std::size_t k = used.size(); k-- > 1;) steps[k - 1] = steps[k] * used_sizes[k];
  plan.picked = product(plan.broadcast);
  for (Tensor& t : used) t = t.expand(plan.broadcast).contiguous().view(plan.picked);
  plan.places = self.is_cpu() ? host_places(tenon::detail::concat(who, ": indices"), used, used_sizes, steps, used_dims,
                                            plan.picked)
                              : device_places(used, used_sizes, steps);
  return plan;
}

DimVector joined(IntArrayRef before, IntArrayRef middle, IntArrayRef after) {
  DimVector sizes(before);
  for (const int64_t s : middle) sizes.push_back(s);
  for (const int64_t s : after) sizes.push_back(s);
  return sizes;
}

bool any_defined(TensorList indices) {
  for (const Tensor& t : indices)
    if (t.defined()) return true;
  return false;
}

bool in_order(IntArrayRef order) {
  for (std::size_t d = 0; d < order.size(); ++d)
    if (order[d] != static_cast<int64_t>(d)) return false;
  return true;
}

// The tensor with its indexed dimensions merged.
Tensor merged_view(const Tensor& self, const Plan& plan) {
  const Tensor permuted = in_order(plan.order) ? self : self.permute(plan.order);
  return permuted.reshape(joined(plan.before, plan.merged, plan.after));
}

// Applies everything but tensors; `tensors` gets one entry for each dimension of the result up to the last tensor.
Tensor apply_views(const Tensor& self, std::span<const TensorIndex> indices, std::vector<Tensor>& tensors) {
  using Kind = TensorIndex::Kind;
  TENON_CHECK(self.defined(), ValueError, "index: self: expected a tensor, got an undefined one");
  int64_t consumed = 0;
  for (const TensorIndex& i : indices) {
    TENON_CHECK(i.kind != Kind::tensor || i.tensor.defined(), ValueError,
                "index: indices: expected a tensor, got an undefined one");
    if (i.kind == Kind::integer || i.kind == Kind::slice) ++consumed;
    if (i.kind == Kind::tensor) consumed += is_mask(i.tensor) ? i.tensor.dim() : 1;
  }
  TENON_CHECK(consumed <= self.dim(), IndexError, "index: too many indices for a tensor of ", self.dim(),
              " dimensions: got ", consumed);
  Tensor x = self;
  int64_t dim = 0;
  bool ellipsis = false;
  for (const TensorIndex& given : indices) {
    // A 0-dim tensor is the number it holds: it selects, or, as a mask, keeps or drops a new dimension.
    const bool number =
        given.kind == Kind::tensor && given.tensor.dim() == 0 && is_integral(given.tensor.dtype(), true);
    const TensorIndex i = !number                 ? given
                          : is_mask(given.tensor) ? TensorIndex(given.tensor.item<int64_t>() != 0)
                                                  : TensorIndex(given.tensor.item<int64_t>());
    switch (i.kind) {
      case Kind::none:
        x = x.unsqueeze(dim++);
        break;
      case Kind::ellipsis:
        TENON_CHECK(!ellipsis, IndexError, "index: expected at most one Ellipsis");
        ellipsis = true;
        dim += self.dim() - consumed;
        break;
      case Kind::integer:
        x = x.select(dim, i.integer);
        break;
      case Kind::slice:
        if (i.range.start || i.range.stop || i.range.step != 1)
          x = x.slice(dim, i.range.start, i.range.stop, i.range.step);
        ++dim;
        break;
      case Kind::boolean: {  // a dimension of one element, kept or not
        x = x.unsqueeze(dim);
        tensors.resize(static_cast<std::size_t>(dim));
        Tensor mask = make_tensor(1, kBool, kCPU);
        *static_cast<bool*>(mask.data_ptr()) = i.integer != 0;
        tensors.push_back(mask);
        ++dim;
        break;
      }
      case Kind::tensor: {
        // A mask stands for several dimensions but is one entry: entries after it count from there.
        tensors.resize(static_cast<std::size_t>(dim));
        if (!is_mask(i.tensor)) {
          tensors.push_back(i.tensor);
          ++dim;
          break;
        }
        for (int64_t d = 0; d < i.tensor.dim(); ++d)
          TENON_CHECK(x.size(dim + d) == i.tensor.sizes()[d], IndexError, "index: a mask of sizes ", i.tensor.sizes(),
                      " does not fit a tensor of ", x.sizes(), " at dimension ", dim);
        for (const Tensor& column : positions(i.tensor)) tensors.push_back(column), ++dim;
        break;
      }
    }
  }
  return x;
}

}  // namespace

Tensor wrapped_index(std::string_view who, const Tensor& index, int64_t size, int64_t dim) {
  const BelowLayersGuard below;
  const Tensor numbers = index.to(kInt64).contiguous();
  if (!numbers.is_cpu()) return device_places({&numbers, 1}, size, 1);
  return host_places(tenon::detail::concat(who, ": index"), {&numbers, 1}, size, 1, dim, numbers.numel())
      .view(numbers.sizes());
}
Tensor index_of_slices(const Tensor& index, int64_t dim, IntArrayRef sizes) {
  DimVector own(sizes.size(), 1);
  if (!own.empty()) own[static_cast<std::size_t>(dim)] = index.numel();
  return index.reshape(own).expand(sizes);
}

Tensor index(const Tensor& self, TensorList indices) { return op::index(self, indices); }
Tensor index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  return op::index_put(self, indices, values, accumulate);
}
Tensor index_put_(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  return op::index_put.inplace(self, self, indices, values, accumulate);
}

namespace impl {

Tensor index(Call&, const Tensor& self, TensorList indices) {
  if (!any_defined(indices)) return self;
  const Plan plan = make_index_plan("index", self, indices);
  const Tensor picked = op::index_select(merged_view(self, plan), plan.start, plan.places);
  const DimVector sizes = joined(plan.before, plan.broadcast, plan.after);
  return picked.sizes() == IntArrayRef(sizes) ? picked : picked.view(sizes);
}

Tensor index_put(Call& call, const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  TENON_CHECK(values.dtype() == self.dtype(), DtypeError, "index_put: values: expected the dtype of self, ",
              self.dtype(), ", got ", values.dtype());
  TENON_CHECK(call.form != dispatch::Form::inplace || !dispatch::overlaps_itself(self), AliasError,
              "index_put_: self has several elements at one address (an expanded tensor); write to a clone() instead");
  const auto expanded = [&](const DimVector& sizes) {
    TENON_CHECK(dispatch::broadcast_sizes(sizes, values.sizes(), "index_put: values") == IntArrayRef(sizes), ShapeError,
                "index_put: values: expected sizes that broadcast to ", sizes, ", got ", values.sizes());
    return values.to(self.device()).expand(sizes);
  };
  if (!any_defined(indices)) {
    const Tensor wide = expanded(self.sizes());
    return accumulate ? op::add(self, wide, 1) : wide.clone();
  }
  const Plan plan = make_index_plan("index_put", self, indices);
  const Tensor source =
      expanded(joined(plan.before, plan.broadcast, plan.after)).reshape(joined(plan.before, plan.picked, plan.after));
  const Tensor flat = merged_view(self, plan);
  if (call.form == dispatch::Form::inplace && flat.storage() == self.storage()) {
    // Only what is picked is touched.
    try {
      if (accumulate)
        op::index_add.inplace(flat, flat, plan.start, plan.places, source, 1);
      else
        op::index_copy.inplace(flat, flat, plan.start, plan.places, source);
    } catch (const AutogradError& e) {  // people called index_put_
      const std::string_view text = e.what();
      throw AutogradError(tenon::detail::concat("index_put_", text.substr(std::min(text.find(':'), text.size()))));
    }
    return call.destinations[0];
  }
  const Tensor written = accumulate ? op::index_add(flat, plan.start, plan.places, source, 1)
                                    : op::index_copy(flat, plan.start, plan.places, source);
  const Tensor out = written.view(plan.permuted);
  if (in_order(plan.order)) return out;
  DimVector inverse(plan.order.size());
  for (std::size_t i = 0; i < plan.order.size(); ++i)
    inverse[static_cast<std::size_t>(plan.order[i])] = static_cast<int64_t>(i);
  return out.permute(inverse);
}

}  // namespace impl

Tensor Tensor::operator[](int64_t i) const { return select(0, i); }
Tensor Tensor::index(std::initializer_list<TensorIndex> indices) const {
  return index(std::span<const TensorIndex>(indices.begin(), indices.size()));
}
Tensor Tensor::index(std::span<const TensorIndex> indices) const {
  std::vector<Tensor> tensors;
  const Tensor x = apply_views(*this, indices, tensors);
  return tensors.empty() ? x : op::index(x, tensors);
}
Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, const Operand& value) {
  std::vector<Tensor> tensors;
  Tensor x = apply_views(*this, {indices.begin(), indices.size()}, tensors);
  Tensor given = value.is_tensor() ? value.tensor() : Tensor();
  while (value.is_tensor() && given.dim() > 0 && given.size(0) == 1) given = given.select(0, 0);  // broadcast again
  if (tensors.empty()) {
    if (value.is_tensor())
      x.copy_(given);
    else
      x.fill_(value.number());
    return *this;
  }
  Tensor values;
  if (value.is_tensor()) {
    values = given.to(x.dtype());
  } else {
    values = make_tensor(IntArrayRef(), x.dtype(), x.device());
    values.fill_(value.number());
  }
  op::index_put.inplace(x, x, tensors, values, false);
  return *this;
}

}  // namespace tenon

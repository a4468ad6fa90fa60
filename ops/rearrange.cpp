// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/rearrange.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/memory/allocator.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/scan.h>
#include <tenon/ops/search.h>
#include <tenon/ops/shape.h>
#include <tenon/ops/view.h>

namespace tenon {
namespace detail {
DimVector format_strides(const Tensor& like, MemoryFormat format, const char* who);  // ops/copy.cpp
}

namespace {
using dispatch::make_tensor;
using dispatch::make_view;

std::size_t at(int64_t d) { return static_cast<std::size_t>(d); }

// A copy of self with `src` where `view` shows it.
template <class View>
Tensor with_part(const Call& call, const Tensor& self, const Tensor& src, View&& view) {
  const Tensor out = self.clone();
  Tensor part = view(out);
  TENON_CHECK(part.sizes() == src.sizes(), ShapeError, call.name(), ": src: expected the sizes of the view, ",
              part.sizes(), ", got ", src.sizes());
  part.copy_(src);
  return out;
}

// The tensor and the dimension whose entries are repeated.
std::pair<Tensor, int64_t> repeated_along(const Tensor& self, std::optional<int64_t> dim) {
  const int64_t d = wrap_dim(dim.value_or(0), dim ? self.dim() : 1, "repeat_interleave");
  return {dim && self.dim() > 0 ? self : self.reshape({-1}), d};
}

}  // namespace

namespace impl {

// A view that walks backwards: strides of tensors are not negative anywhere else, but loops do not mind.
Tensor flip(Call& call, const Tensor& self, IntArrayRef dims) {
  DimVector strides(self.sizes().size());
  int64_t offset = self.storage_offset();
  uint32_t turned = 0;
  for (const int64_t dim : dims) {
    const int64_t d = wrap_dim(dim, self.dim(), "flip");
    TENON_CHECK(!((turned >> d) & 1u), ShapeError, "flip: dims: dimension ", d, " is given twice in ", dims);
    turned |= 1u << d;
  }
  for (int64_t d = 0; d < self.dim(); ++d) {
    const bool turn = ((turned >> d) & 1u) != 0 && self.size(d) > 1;
    strides[at(d)] = turn ? -self.stride(d) : self.stride(d);
    if (turn) offset += (self.size(d) - 1) * self.stride(d);
  }
  Tensor out = call.output(0, self.sizes(), self.dtype(), self.device(), {&self},
                           detail::format_strides(self, MemoryFormat::preserve, "flip"));
  if (self.numel() > 0) out.copy_(make_view(self, self.sizes(), strides, offset));
  return out;
}
Tensor fliplr(Call&, const Tensor& self) {
  TENON_CHECK(self.dim() >= 2, ShapeError, "fliplr: self: expected at least 2 dimensions, got ", self.dim());
  return op::flip(self, 1);
}
Tensor flipud(Call&, const Tensor& self) {
  TENON_CHECK(self.dim() >= 1, ShapeError, "flipud: self: expected at least 1 dimension, got 0");
  return op::flip(self, 0);
}

Tensor roll(Call&, const Tensor& self, IntArrayRef shifts, IntArrayRef dims) {
  if (dims.empty() && shifts.size() == 1) return op::roll(self.reshape({-1}), shifts, 0).reshape(self.sizes());
  TENON_CHECK(!shifts.empty() && shifts.size() == dims.size(), ShapeError,
              "roll: shifts: expected one for each of dims ", dims, ", or a single one without dims, got ", shifts);
  TENON_CHECK(self.dim() > 0, IndexError, "roll: dims: expected none for a 0-dim tensor, got ", dims);
  Tensor x = self;
  for (std::size_t i = 0; i < shifts.size(); ++i) {
    const int64_t d = wrap_dim(dims[i], self.dim(), "roll"), size = self.size(d);
    const int64_t shift = size == 0 ? 0 : (shifts[i] % size + size) % size;
    if (shift != 0) x = cat({x.slice(d, size - shift), x.slice(d, 0, size - shift)}, d);
  }
  return x.is_same(self) ? self.clone(MemoryFormat::contiguous) : x;
}

Tensor rot90(Call&, const Tensor& self, int64_t k, IntArrayRef dims) {
  TENON_CHECK(dims.size() == 2, ShapeError, "rot90: dims: expected two dimensions, got ", dims);
  TENON_CHECK(self.dim() >= 2, ShapeError, "rot90: self: expected at least 2 dimensions, got ", self.dim());
  const int64_t a = wrap_dim(dims[0], self.dim(), "rot90"), b = wrap_dim(dims[1], self.dim(), "rot90");
  TENON_CHECK(a != b, ShapeError, "rot90: dims: expected two different dimensions, got ", dims);
  const int64_t turns = (k % 4 + 4) % 4;
  if (turns == 0) return self.clone(MemoryFormat::contiguous);
  if (turns == 2) return op::flip(self, {a, b});
  return op::transpose(op::flip(self, turns == 1 ? b : a), a, b);
}

Tensor repeat(Call&, const Tensor& self, IntArrayRef repeats) {
  TENON_CHECK(repeats.size() >= self.sizes().size() && repeats.size() <= kMaxDims, ShapeError,
              "repeat: repeats: expected ", self.dim(), " to ", kMaxDims, " numbers, got ", repeats);
  DimVector sizes, shape, wide;  // the last two: of the view that has dimensions of repetitions
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    const std::size_t own = d + self.sizes().size() - repeats.size();
    const int64_t size = own < self.sizes().size() ? self.sizes()[own] : 1, times = repeats[d];
    TENON_CHECK(times >= 0, ValueError, "repeat: repeats: must not be negative, got ", repeats);
    int64_t n = 0;
    TENON_CHECK(!__builtin_mul_overflow(size, times, &n), ShapeError, "repeat: repeats: too many elements: ", repeats,
                " times sizes ", self.sizes());
    sizes.push_back(n);
    if (size != 1 && times != 1) {
      shape.push_back(1);
      wide.push_back(times);
    }
    shape.push_back(size);
    wide.push_back(size == 1 ? times : size);
  }
  checked_numel(sizes, "repeat");
  return self.reshape(shape).expand(wide).clone(MemoryFormat::contiguous).view(sizes);
}
Tensor tile(Call&, const Tensor& self, IntArrayRef dims) {
  DimVector repeats(at(std::max<int64_t>(self.dim() - static_cast<int64_t>(dims.size()), 0)), 1);
  for (const int64_t d : dims) repeats.push_back(d);
  return op::repeat(self, repeats);
}

Tensor repeat_interleave(Call&, const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  TENON_CHECK(repeats >= 0, ValueError, "repeat_interleave: repeats: must not be negative, got ", repeats);
  const auto [x, d] = repeated_along(self, dim);
  DimVector times(x.sizes().size() + 1, 1);
  times[at(d) + 1] = repeats;
  const Tensor out = op::repeat(x.unsqueeze(d + 1), times).flatten(d, d + 1);
  TENON_CHECK(!output_size || *output_size == out.size(d), ValueError, "repeat_interleave: output_size: expected ",
              out.size(d), ", got ", *output_size);
  return out;
}
Tensor repeat_interleave_each(Call&, const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                              std::optional<int64_t> output_size) {
  const auto [x, d] = repeated_along(self, dim);
  const bool one = repeats.dim() == 0 || (repeats.dim() == 1 && repeats.size(0) == 1);
  TENON_CHECK(one || (repeats.dim() == 1 && repeats.size(0) == x.size(d)), ShapeError,
              "repeat_interleave: repeats: expected one number, or a vector of ", x.size(d), ", got sizes ",
              repeats.sizes());
  const Tensor each = one ? repeats.reshape({1}).expand(x.size(d)) : repeats;
  return op::index_select(x, d, op::repeated_places(each, output_size));
}
Tensor repeated_places(Call& call, const Tensor& repeats, std::optional<int64_t> output_size) {
  TENON_CHECK(repeats.dtype() == kInt64 || repeats.dtype() == kInt32, DtypeError,
              "repeat_interleave: repeats: expected int64 or int32, got ", repeats.dtype());
  TENON_CHECK(repeats.dim() == 1, ShapeError, "repeat_interleave: repeats: expected a vector, got ", repeats.dim(),
              " dimensions");
  call.enter(repeats.device());
  const bool any = repeats.numel() > 0, known = output_size && !repeats.is_cpu();  // then nothing is waited for
  TENON_CHECK(known || !any || op::amin(repeats, {}, false).item().integer() >= 0, ValueError,
              "repeat_interleave: repeats: must not be negative");
  const Tensor ends = op::cumsum(repeats, 0, kInt64, false);
  const int64_t total = known ? *output_size : any ? ends.select(0, -1).item().integer() : 0;
  TENON_CHECK(!output_size || *output_size == total, ValueError, "repeat_interleave: output_size: expected ", total,
              ", the sum of repeats, got ", *output_size);
  return op::searchsorted(ends, arange(total, TensorOptions(kInt64).device(repeats.device())),
                          repeats.dtype() == kInt32, true, {}, {});
}

Tensor select_scatter(Call& call, const Tensor& self, const Tensor& src, int64_t dim, int64_t index) {
  return with_part(call, self, src, [&](const Tensor& t) { return op::select(t, dim, index); });
}
Tensor slice_scatter(Call& call, const Tensor& self, const Tensor& src, int64_t dim, std::optional<int64_t> start,
                     std::optional<int64_t> end, int64_t step) {
  return with_part(call, self, src, [&](const Tensor& t) { return op::slice(t, dim, start, end, step); });
}
Tensor diagonal_scatter(Call& call, const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1, int64_t dim2) {
  return with_part(call, self, src, [&](const Tensor& t) { return op::diagonal(t, offset, dim1, dim2); });
}
Tensor as_strided_scatter(Call& call, const Tensor& self, const Tensor& src, IntArrayRef size, IntArrayRef stride,
                          std::optional<int64_t> storage_offset) {
  TENON_CHECK(dispatch::is_dense(self), ShapeError,
              "as_strided_scatter: self: expected a tensor without gaps, got sizes ", self.sizes(), " with strides ",
              self.strides());
  return with_part(call, self, src, [&](const Tensor& t) {  // whose offset is 0
    return op::as_strided(t, size, stride, storage_offset ? *storage_offset - self.storage_offset() : 0);
  });
}

Tensor resize(Call& call, const Tensor& self, IntArrayRef size, std::optional<MemoryFormat> memory_format) {
  const bool own = call.form == dispatch::Form::inplace;
  const Tensor t = own ? call.destinations[0] : self.clone(MemoryFormat::contiguous);
  TENON_CHECK(!own || !t.impl()->requires_grad(), AutogradError,
              "resize_: self requires grad, and its size is part of its history");
  const int64_t bytes = (checked_numel(size, "resize") + t.storage_offset()) * t.itemsize();
  call.enter(t.device());
  const int64_t held = t.storage() ? t.storage()->bytes() : 0;
  if (held > 0 && held < bytes) {
    const DataPtr grown = memory::allocate(t.device(), bytes);
    const auto raw = [&](const Storage& s) {
      return Tensor(Ref<TensorImpl>::adopt(TensorImpl::create(s, kUInt8, t.backend(), t.device(), held, 1)));
    };
    raw(Storage::adopt(StorageImpl::create({grown.data}, bytes, t.device()))).copy_(raw(t.storage()));
    t.storage()->replace(grown, bytes);
  }
  t.is_meta() ? t.impl()->set_geometry(size, {}, t.storage_offset()) : dispatch::resize(t, size);
  const MemoryFormat format = memory_format.value_or(MemoryFormat::contiguous);
  if (format != MemoryFormat::contiguous)
    t.impl()->set_geometry(size, detail::format_strides(t, format, "resize"), t.storage_offset());
  return t;
}
Tensor resize_as(Call& call, const Tensor& self, const Tensor& the_template,
                 std::optional<MemoryFormat> memory_format) {
  return resize(call, self, the_template.sizes(), memory_format);
}

}  // namespace impl
}  // namespace tenon

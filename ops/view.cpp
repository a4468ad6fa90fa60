// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/view.h>

#include <tenon/dispatch/make_tensor.h>

#include <algorithm>

namespace tenon {
namespace {
using dispatch::make_view;

std::size_t at(int64_t d) { return static_cast<std::size_t>(d); }

Tensor with_dims(const Tensor& self, const DimVector& sizes, const DimVector& strides) {
  return make_view(self, sizes, strides, self.storage_offset());
}

// Replaces -1; ShapeError unless the element counts agree.
DimVector infer_size(const Tensor& self, IntArrayRef wanted, std::string_view who) {
  TENON_CHECK(wanted.size() <= kMaxDims, ShapeError, who, ": size: a tensor has at most ", kMaxDims,
              " dimensions, got ", wanted.size());
  DimVector sizes(wanted);
  int64_t known = 1;
  int unknown = -1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == -1) {
      TENON_CHECK(unknown < 0, ShapeError, who, ": size: only one entry may be -1, got ", wanted);
      unknown = static_cast<int>(i);
    } else {
      TENON_CHECK(wanted[i] >= 0, ShapeError, who, ": size: entries must not be negative, got ", wanted);
      TENON_CHECK(!__builtin_mul_overflow(known, wanted[i], &known), ShapeError, who, ": size: too many elements in ",
                  wanted);
    }
  }
  if (unknown >= 0) {
    TENON_CHECK(known != 0 && self.numel() % known == 0, ShapeError, who, ": size: cannot fill -1 of ", wanted,
                " with ", self.numel(), " elements");
    sizes[at(unknown)] = self.numel() / known;
    known *= sizes[at(unknown)];
  }
  TENON_CHECK(known == self.numel(), ShapeError, who, ": size: ", wanted, " does not hold the ", self.numel(),
              " elements of self with sizes ", self.sizes());
  return sizes;
}

// Strides that view `self` as `sizes`, or false when only a copy can.
bool view_strides(const Tensor& self, const DimVector& sizes, DimVector& strides) {
  strides = DimVector(sizes.size(), 1);
  if (self.numel() == 0) {
    int64_t step = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      strides[i] = step;
      step *= std::max<int64_t>(sizes[i], 1);
    }
    return true;
  }
  // Walk both shapes from the last dimension, chunk by chunk of old dimensions that are contiguous among themselves.
  std::size_t view = sizes.size();
  int64_t chunk_numel = 1, view_numel = 1;
  int64_t base = self.dim() ? self.strides()[at(self.dim() - 1)] : 1;
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    chunk_numel *= self.sizes()[at(d)];
    const bool ends = d == 0 || (self.sizes()[at(d - 1)] != 1 && self.strides()[at(d - 1)] != chunk_numel * base);
    if (!ends) continue;
    while (view > 0 && (view_numel < chunk_numel || sizes[view - 1] == 1)) {
      strides[view - 1] = view_numel * base;
      view_numel *= sizes[view - 1];
      --view;
    }
    if (view_numel != chunk_numel) return false;
    if (d > 0) {
      base = self.strides()[at(d - 1)];
      chunk_numel = view_numel = 1;
    }
  }
  return view == 0 || self.dim() == 0;
}

TensorVector pieces(const Tensor& self, IntArrayRef lengths, int64_t dim) {
  TensorVector out;
  out.reserve(lengths.size());
  int64_t start = 0;
  const int64_t step = self.dim() ? self.strides()[at(dim)] : 1;
  DimVector sizes(self.sizes());
  for (const int64_t length : lengths) {
    sizes[at(dim)] = length;
    out.push_back(make_view(self, sizes, self.strides(), self.storage_offset() + start * step, true));
    start += length;
  }
  return out;
}

}  // namespace

namespace impl {

Tensor view(Call&, const Tensor& self, IntArrayRef size) {
  const DimVector sizes = infer_size(self, size, "view");
  DimVector strides;
  TENON_CHECK(view_strides(self, sizes, strides), ShapeError, "view: size: ", size, " is not a view of sizes ",
              self.sizes(), " with strides ", self.strides(), "; use reshape");
  return with_dims(self, sizes, strides);
}

Tensor reshape(Call&, const Tensor& self, IntArrayRef shape) {
  const DimVector sizes = infer_size(self, shape, "reshape");
  DimVector strides;
  if (view_strides(self, sizes, strides)) return op::view(self, sizes);
  return op::view(self.clone(MemoryFormat::contiguous), sizes);
}
Tensor view_as(Call&, const Tensor& self, const Tensor& other) { return op::view(self, other.sizes()); }
Tensor reshape_as(Call&, const Tensor& self, const Tensor& other) { return op::reshape(self, other.sizes()); }

Tensor permute(Call&, const Tensor& self, IntArrayRef dims) {
  TENON_CHECK(dims.size() == at(self.dim()), ShapeError, "permute: dims: expected ", self.dim(), " dimensions, got ",
              dims);
  DimVector sizes(dims.size()), strides(dims.size());
  uint32_t seen = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = wrap_dim(dims[i], self.dim(), "permute");
    TENON_CHECK(!((seen >> d) & 1u), ShapeError, "permute: dims: dimension ", d, " is given twice in ", dims);
    seen |= 1u << d;
    sizes[i] = self.sizes()[at(d)];
    strides[i] = self.strides()[at(d)];
  }
  return with_dims(self, sizes, strides);
}

Tensor transpose(Call&, const Tensor& self, int64_t dim0, int64_t dim1) {
  const int64_t a = wrap_dim(dim0, self.dim(), "transpose"), b = wrap_dim(dim1, self.dim(), "transpose");
  DimVector sizes(self.sizes()), strides(self.strides());
  if (self.dim() > 0) {
    std::swap(sizes[at(a)], sizes[at(b)]);
    std::swap(strides[at(a)], strides[at(b)]);
  }
  return with_dims(self, sizes, strides);
}

Tensor t(Call&, const Tensor& self) {
  TENON_CHECK(self.dim() <= 2, ShapeError, "t: self: expected at most 2 dimensions, got ", self.dim());
  return self.dim() < 2 ? op::transpose(self, 0, self.dim() == 1 ? 0 : -1) : op::transpose(self, 0, 1);
}

Tensor expand(Call&, const Tensor& self, IntArrayRef size, bool) {
  const auto rank = at(self.dim());
  TENON_CHECK(size.size() >= rank && size.size() <= kMaxDims, ShapeError, "expand: size: expected ", self.dim(), " to ",
              kMaxDims, " entries, got ", size);
  DimVector sizes(size.size()), strides(size.size());
  for (std::size_t i = 0; i < size.size(); ++i) {
    const bool fresh = i < size.size() - rank;
    const std::size_t own = i - (size.size() - rank);
    const int64_t have = fresh ? 1 : self.sizes()[own];
    TENON_CHECK(size[i] != -1 || !fresh, ShapeError,
                "expand: size: -1 is not allowed for a new leading dimension, got ", size);
    TENON_CHECK(size[i] >= -1, ShapeError, "expand: size: entries must not be negative, got ", size);
    const int64_t want = size[i] == -1 ? have : size[i];
    TENON_CHECK(want == have || have == 1, ShapeError, "expand: size: ", size, " does not fit sizes ", self.sizes(),
                ": dimension ", static_cast<long long>(i), " is not 1");
    sizes[i] = want;
    strides[i] = fresh || (have == 1 && want != 1) ? 0 : self.strides()[own];
  }
  checked_numel(sizes, "expand");
  return with_dims(self, sizes, strides);
}
Tensor expand_as(Call&, const Tensor& self, const Tensor& other) { return op::expand(self, other.sizes(), false); }

Tensor squeeze_dims(Call&, const Tensor& self, IntArrayRef dim) {
  uint32_t mask = 0;
  for (const int64_t d : dim) {
    const int64_t w = wrap_dim(d, self.dim(), "squeeze");
    TENON_CHECK(!((mask >> w) & 1u), IndexError, "squeeze: dim: dimension ", w, " is given twice in ", dim);
    mask |= 1u << w;
  }
  DimVector sizes, strides;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (((mask >> d) & 1u) && self.sizes()[at(d)] == 1) continue;
    sizes.push_back(self.sizes()[at(d)]);
    strides.push_back(self.strides()[at(d)]);
  }
  return with_dims(self, sizes, strides);
}
Tensor squeeze(Call& call, const Tensor& self) {
  DimVector dims;
  for (int64_t d = 0; d < self.dim(); ++d) dims.push_back(d);
  return squeeze_dims(call, self, dims);
}

Tensor unsqueeze(Call&, const Tensor& self, int64_t dim) {
  const int64_t d = wrap_dim(dim, self.dim() + 1, "unsqueeze");
  TENON_CHECK(self.dim() < kMaxDims, ShapeError, "unsqueeze: self: a tensor has at most ", kMaxDims,
              " dimensions, and this one has them");
  DimVector sizes(self.sizes()), strides(self.strides());
  const int64_t step = d < self.dim() ? sizes[at(d)] * strides[at(d)] : 1;
  sizes.insert(at(d), 1);
  strides.insert(at(d), step);
  return with_dims(self, sizes, strides);
}

Tensor select(Call&, const Tensor& self, int64_t dim, int64_t index) {
  TENON_CHECK(self.dim() > 0, IndexError, "select: self: a 0-dim tensor has no dimension to select from");
  const int64_t d = wrap_dim(dim, self.dim(), "select");
  const int64_t size = self.sizes()[at(d)];
  TENON_CHECK(index >= -size && index < size, IndexError, "select: index: expected a value in [", -size, ", ", size - 1,
              "] for dimension ", d, " of sizes ", self.sizes(), ", got ", index);
  DimVector sizes(self.sizes()), strides(self.strides());
  const int64_t offset = self.storage_offset() + (index < 0 ? index + size : index) * strides[at(d)];
  sizes.erase(at(d));
  strides.erase(at(d));
  return make_view(self, sizes, strides, offset);
}

Tensor slice(Call&, const Tensor& self, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
             int64_t step) {
  TENON_CHECK(self.dim() > 0, IndexError, "slice: self: a 0-dim tensor has no dimension to slice");
  TENON_CHECK(step > 0, ValueError, "slice: step: expected a positive number, got ", step);
  const int64_t d = wrap_dim(dim, self.dim(), "slice");
  const int64_t size = self.sizes()[at(d)];
  const auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size); };
  const int64_t from = start ? clamp(*start) : 0;
  const int64_t to = std::max(end ? clamp(*end) : size, from);
  DimVector sizes(self.sizes()), strides(self.strides());
  const int64_t offset = self.storage_offset() + from * strides[at(d)];
  const int64_t count = to - from, n = count / step + (count % step != 0);
  sizes[at(d)] = n;
  int64_t stride = 0;
  if (!__builtin_mul_overflow(strides[at(d)], step, &stride)) strides[at(d)] = stride;  // else it is never taken
  return make_view(self, sizes, strides, offset);
}

Tensor narrow(Call&, const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  TENON_CHECK(self.dim() > 0, IndexError, "narrow: self: a 0-dim tensor has no dimension to narrow");
  const int64_t d = wrap_dim(dim, self.dim(), "narrow");
  const int64_t size = self.sizes()[at(d)];
  TENON_CHECK(length >= 0, ValueError, "narrow: length: must not be negative, got ", length);
  TENON_CHECK(start >= -size && start <= size, IndexError, "narrow: start: expected a value in [", -size, ", ", size,
              "], got ", start);
  const int64_t from = start < 0 ? start + size : start;
  TENON_CHECK(length <= size - from, IndexError, "narrow: start ", from, " + length ", length, " exceeds the size ",
              size, " of dimension ", d);
  return op::slice(self, d, from, from + length, 1);
}

Tensor flatten(Call&, const Tensor& self, int64_t start_dim, int64_t end_dim) {
  const int64_t a = wrap_dim(start_dim, self.dim(), "flatten"), b = wrap_dim(end_dim, self.dim(), "flatten");
  TENON_CHECK(a <= b, ValueError, "flatten: start_dim ", a, " must not come after end_dim ", b);
  if (self.dim() == 0) return op::reshape(self, IntArrayRef(1));
  if (a == b) return self;
  DimVector sizes;
  int64_t product = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d >= a && d <= b) product *= self.sizes()[at(d)];
    if (d < a || d > b) sizes.push_back(self.sizes()[at(d)]);
    if (d == b) sizes.push_back(product);
  }
  return op::reshape(self, sizes);
}

TensorVector split(Call&, const Tensor& self, int64_t split_size, int64_t dim) {
  TENON_CHECK(self.dim() > 0, ShapeError, "split: self: expected at least one dimension");
  const int64_t d = wrap_dim(dim, self.dim(), "split");
  const int64_t size = self.sizes()[at(d)];
  TENON_CHECK(split_size > 0 || (split_size == 0 && size == 0), ValueError,
              "split: split_size: expected a positive number, got ", split_size);
  std::vector<int64_t> lengths;
  for (int64_t start = 0; start < size; start += split_size) lengths.push_back(std::min(split_size, size - start));
  if (lengths.empty()) lengths.push_back(0);
  return pieces(self, lengths, d);
}

TensorVector split_with_sizes(Call&, const Tensor& self, IntArrayRef split_sizes, int64_t dim) {
  TENON_CHECK(self.dim() > 0, ShapeError, "split_with_sizes: self: expected at least one dimension");
  const int64_t d = wrap_dim(dim, self.dim(), "split_with_sizes");
  int64_t total = 0;
  for (const int64_t s : split_sizes) {
    TENON_CHECK(s >= 0, ValueError, "split_with_sizes: split_sizes: entries must not be negative, got ", split_sizes);
    TENON_CHECK(!__builtin_add_overflow(total, s, &total), ShapeError, "split_with_sizes: split_sizes: ", split_sizes,
                " add up to too many elements, expected ", self.sizes()[at(d)]);
  }
  TENON_CHECK(total == self.sizes()[at(d)], ShapeError, "split_with_sizes: split_sizes: ", split_sizes, " add up to ",
              total, ", expected ", self.sizes()[at(d)]);
  return pieces(self, split_sizes, d);
}
TensorVector split_sizes(Call&, const Tensor& self, IntArrayRef split_size, int64_t dim) {
  return op::split_with_sizes(self, split_size, dim);
}

TensorVector chunk(Call&, const Tensor& self, int64_t chunks, int64_t dim) {
  TENON_CHECK(chunks > 0, ValueError, "chunk: chunks: expected a positive number, got ", chunks);
  TENON_CHECK(self.dim() > 0, ShapeError, "chunk: self: expected at least one dimension");
  const int64_t d = wrap_dim(dim, self.dim(), "chunk");
  const int64_t size = self.sizes()[at(d)];
  if (size == 0) {
    TENON_CHECK(chunks <= INT32_MAX, ValueError, "chunk: chunks: expected a sensible number of tensors, got ", chunks);
    return op::split_with_sizes(self, std::vector<int64_t>(at(chunks), 0), d);
  }
  return op::split(self, size / chunks + (size % chunks != 0), d);
}

TensorVector unbind(Call&, const Tensor& self, int64_t dim) {
  TENON_CHECK(self.dim() > 0, ShapeError, "unbind: self: expected at least one dimension");
  const int64_t d = wrap_dim(dim, self.dim(), "unbind");
  DimVector sizes(self.sizes()), strides(self.strides());
  const int64_t step = self.strides()[at(d)], count = self.sizes()[at(d)];
  sizes.erase(at(d));
  strides.erase(at(d));
  TensorVector out;
  out.reserve(at(count));
  for (int64_t i = 0; i < count; ++i)
    out.push_back(make_view(self, sizes, strides, self.storage_offset() + i * step, true));
  return out;
}

Tensor as_strided(Call&, const Tensor& self, IntArrayRef size, IntArrayRef stride,
                  std::optional<int64_t> storage_offset) {
  TENON_CHECK(size.size() == stride.size(), ShapeError, "as_strided: expected as many strides as sizes, got ", size,
              " and ", stride);
  const int64_t offset = storage_offset.value_or(self.storage_offset());
  TENON_CHECK(offset >= 0, ValueError, "as_strided: storage_offset: must not be negative, got ", offset);
  const int64_t n = checked_numel(size, "as_strided");
  int64_t last = offset, step = 0;
  bool fits = true;
  for (std::size_t i = 0; i < size.size(); ++i) {
    TENON_CHECK(stride[i] >= 0, ShapeError, "as_strided: stride: entries must not be negative, got ", stride);
    if (n != 0)
      fits =
          fits && !__builtin_mul_overflow(size[i] - 1, stride[i], &step) && !__builtin_add_overflow(last, step, &last);
  }
  const int64_t held = self.storage() ? self.storage()->bytes() / self.itemsize() : 0;
  TENON_CHECK(n == 0 || (fits && (self.is_meta() || last < held)), ShapeError, "as_strided: sizes ", size,
              " with strides ", stride, " and offset ", offset, " reach beyond the storage, which holds ", held,
              " elements");
  return make_view(self, size, stride, offset);
}

Tensor detach(Call&, const Tensor& self) { return dispatch::make_alias(self); }

}  // namespace impl
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/shape.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon {
namespace {
using dispatch::make_view;

std::size_t at(int64_t d) { return static_cast<std::size_t>(d); }

void check_rank(const Call& call, const Tensor& self, int64_t least) {
  TENON_CHECK(self.dim() >= least, ShapeError, call.name(), ": self: expected at least ", least, " dimensions, got ",
              self.dim());
}
void check_list(const Call& call, TensorList tensors) {
  TENON_CHECK(!tensors.empty(), ValueError, call.name(), ": tensors: expected at least one tensor, got an empty list");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    TENON_CHECK(tensors[i].defined(), ValueError, call.name(), ": tensors: element ", i, " is an undefined tensor");
}

Tensor at_least(const Tensor& t, int64_t rank) {
  if (t.dim() >= rank) return t;
  if (t.dim() == 0) return t.reshape(DimVector(at(rank), 1));
  const Tensor matrix = t.dim() == 1 ? t.unsqueeze(0) : t;
  return rank == 3 ? matrix.unsqueeze(-1) : matrix;
}
template <class F>
TensorVector each(const Call& call, TensorList tensors, F&& f) {
  if (!tensors.empty()) check_list(call, tensors);
  TensorVector out;
  out.reserve(tensors.size());
  for (const Tensor& t : tensors) out.push_back(f(t));
  return out;
}
Tensor joined(const Call& call, TensorList tensors, int64_t rank, int64_t dim) {
  check_list(call, tensors);
  const TensorVector parts = each(call, tensors, [&](const Tensor& t) { return at_least(t, rank); });
  return op::cat(parts, dim < parts[0].dim() ? dim : 0);
}

// The dimension hsplit, vsplit and dsplit cut.
int64_t split_dim(const Call& call, const Tensor& self) {
  const int64_t least = call.name()[0] == 'h' ? 1 : call.name()[0] == 'v' ? 2 : 3;
  check_rank(call, self, least);
  return least == 1 ? (self.dim() == 1 ? 0 : 1) : least == 2 ? 0 : 2;
}
TensorVector split_evenly(const Call& call, const Tensor& self, int64_t sections) {
  const int64_t dim = split_dim(call, self), size = self.size(dim);
  TENON_CHECK(sections > 0 && size % sections == 0, ValueError, call.name(), ": sections: expected a divisor of ", size,
              ", the size of dimension ", dim, ", got ", sections);
  return op::tensor_split(self, sections, dim);
}

// unsafe_split_with_sizes in the pieces `split` makes.
template <class Split>
TensorVector split_unsafely(const Tensor& self, int64_t dim, Split&& split) {
  std::vector<int64_t> lengths;
  {
    const dispatch::BelowLayersGuard below;
    for (const Tensor& t : split()) lengths.push_back(t.size(dim));
  }
  return op::unsafe_split_with_sizes(self, lengths, dim);
}

}  // namespace

namespace impl {

Tensor diagonal(Call&, const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t a = wrap_dim(dim1, self.dim(), "diagonal"), b = wrap_dim(dim2, self.dim(), "diagonal");
  TENON_CHECK(a != b && self.dim() > 1, ShapeError, "diagonal: dim1 and dim2: expected two dimensions of ", self.dim(),
              ", got ", dim1, " and ", dim2);
  const int64_t below = offset < 0 ? offset : 0, right = offset > 0 ? offset : 0;
  const int64_t n = std::max<int64_t>(std::min(self.size(a) + below, self.size(b) - right), 0);
  const int64_t start = n == 0 ? 0 : right * self.stride(b) - below * self.stride(a);
  DimVector sizes(self.sizes()), strides(self.strides());
  for (const int64_t d : {std::max(a, b), std::min(a, b)}) {
    sizes.erase(at(d));
    strides.erase(at(d));
  }
  sizes.push_back(n);
  strides.push_back(self.stride(a) + self.stride(b));
  return make_view(self, sizes, strides, self.storage_offset() + start);
}
Tensor linalg_diagonal(Call&, const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  return op::diagonal(self, offset, dim1, dim2);
}

Tensor unfold(Call&, const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  const int64_t d = wrap_dim(dimension, self.dim(), "unfold"), length = self.dim() ? self.size(d) : 1;
  TENON_CHECK(size >= 0 && size <= length, ValueError, "unfold: size: expected 0 to ", length,
              ", the size of dimension ", d, ", got ", size);
  TENON_CHECK(step > 0, ValueError, "unfold: step: expected a positive number, got ", step);
  TENON_CHECK(self.dim() < kMaxDims, ShapeError, "unfold: self: a tensor has at most ", kMaxDims,
              " dimensions, and this one has them");
  DimVector sizes(self.sizes()), strides(self.strides());
  sizes.push_back(size);
  strides.push_back(self.dim() ? strides[at(d)] : 1);
  if (self.dim()) {
    sizes[at(d)] = (length - size) / step + 1;
    if (sizes[at(d)] > 1) strides[at(d)] *= step;
  }
  return make_view(self, sizes, strides, self.storage_offset());
}

Tensor movedim(Call&, const Tensor& self, IntArrayRef source, IntArrayRef destination) {
  TENON_CHECK(source.size() == destination.size(), ShapeError,
              "movedim: expected as many destinations as sources, got ", source, " and ", destination);
  DimVector order(self.sizes().size(), -1);
  uint32_t moved = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const int64_t from = wrap_dim(source[i], self.dim(), "movedim"),
                  to = wrap_dim(destination[i], self.dim(), "movedim");
    TENON_CHECK(!((moved >> from) & 1u) && (self.dim() == 0 || order[at(to)] < 0), ShapeError,
                "movedim: a dimension is given twice in source ", source, " or destination ", destination);
    moved |= 1u << from;
    if (self.dim() > 0) order[at(to)] = from;
  }
  int64_t next = 0;
  for (int64_t& d : order) {
    if (d >= 0) continue;
    while ((moved >> next) & 1u) ++next;
    d = next++;
  }
  return op::permute(self, order);
}

Tensor numpy_T(Call&, const Tensor& self) {
  DimVector order(self.sizes().size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(order.size() - 1 - d);
  return op::permute(self, order);
}
Tensor mT(Call& call, const Tensor& self) {
  check_rank(call, self, 2);
  return op::transpose(self, -2, -1);
}
Tensor matrix_H(Call& call, const Tensor& self) {
  TENON_CHECK(self.dim() == 2 || self.dim() == 0, ShapeError, call.name(), ": self: expected a matrix, got ",
              self.dim(), " dimensions");
  return conj(self.dim() == 0 ? self : op::transpose(self, 0, 1));
}
Tensor mH(Call& call, const Tensor& self) {
  check_rank(call, self, 2);
  return conj(op::transpose(self, -2, -1));
}
Tensor ravel(Call&, const Tensor& self) { return self.contiguous().view({-1}); }

Tensor unflatten(Call& call, const Tensor& self, int64_t dim, IntArrayRef sizes) {
  check_rank(call, self, 1);
  const int64_t d = wrap_dim(dim, self.dim(), "unflatten"), length = self.size(d);
  TENON_CHECK(!sizes.empty(), ShapeError, "unflatten: sizes: expected at least one, got none");
  // view knows what -1 stands for
  const Tensor line = op::view(empty(length, TensorOptions(kUInt8).device(Device(kMeta))), sizes);
  DimVector shape(self.sizes().slice(0, at(d)));
  for (const int64_t s : line.sizes()) shape.push_back(s);
  for (int64_t k = d + 1; k < self.dim(); ++k) shape.push_back(self.size(k));
  return op::view(self, shape);
}

#define TENON_AT_LEAST(name, rank)                                           \
  Tensor name(Call&, const Tensor& self) { return at_least(self, rank); }    \
  TensorVector name##_list(Call& call, TensorList tensors) {                 \
    return each(call, tensors, [](const Tensor& t) { return op::name(t); }); \
  }
TENON_AT_LEAST(atleast_1d, 1)
TENON_AT_LEAST(atleast_2d, 2)
TENON_AT_LEAST(atleast_3d, 3)
#undef TENON_AT_LEAST

TensorVector broadcast_tensors(Call& call, TensorList tensors) {
  DimVector sizes;
  for (const Tensor& t : tensors)
    if (t.defined()) sizes = dispatch::broadcast_sizes(sizes, t.sizes(), "broadcast_tensors");
  return each(call, tensors, [&](const Tensor& t) { return op::expand(t, sizes, false); });
}

TensorVector meshgrid(Call& call, TensorList tensors, std::string_view indexing) {
  TENON_CHECK(indexing == "ij" || indexing == "xy", ValueError, "meshgrid: indexing: expected ij or xy, got ",
              indexing);
  check_list(call, tensors);
  // With "xy" the first two change places.
  const bool swap = indexing == "xy" && tensors.size() > 1;
  const auto place = [&](std::size_t i) { return swap && i < 2 ? 1 - i : i; };
  DimVector sizes(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    TENON_CHECK(t.dim() <= 1, ShapeError, "meshgrid: tensors: expected vectors, got ", t.dim(), " dimensions");
    TENON_CHECK(t.dtype() == tensors[0].dtype() && t.device() == tensors[0].device(), DtypeError,
                "meshgrid: tensors: expected one dtype and device, got ", tensors[0].dtype(), " on ",
                tensors[0].device(), " and ", t.dtype(), " on ", t.device());
    sizes[place(i)] = t.numel();
  }
  TensorVector out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    DimVector line(tensors.size(), 1);
    line[place(i)] = tensors[i].numel();
    out.push_back(op::expand(tensors[i].view(line), sizes, false));
  }
  return out;
}

TensorVector tensor_split(Call& call, const Tensor& self, int64_t sections, int64_t dim) {
  check_rank(call, self, 1);
  const int64_t size = self.size(wrap_dim(dim, self.dim(), "tensor_split"));
  TENON_CHECK(sections > 0 && sections <= INT32_MAX, ValueError,
              "tensor_split: sections: expected a positive, sensible number, got ", sections);
  std::vector<int64_t> ends;
  for (int64_t i = 1; i < sections; ++i) ends.push_back(size / sections * i + std::min(i, size % sections));
  return op::tensor_split_at(self, ends, dim);
}
TensorVector tensor_split_at(Call& call, const Tensor& self, IntArrayRef indices, int64_t dim) {
  check_rank(call, self, 1);
  const int64_t d = wrap_dim(dim, self.dim(), "tensor_split");
  TensorVector out;
  int64_t start = 0;
  for (const int64_t i : indices) {
    out.push_back(op::slice(self, d, start, i, 1));
    start = i;
  }
  out.push_back(op::slice(self, d, start, {}, 1));
  return out;
}
TensorVector tensor_split_by(Call&, const Tensor& self, const Tensor& by, int64_t dim) {
  TENON_CHECK(by.dtype() == kInt64 && by.dim() <= 1, DtypeError,
              "tensor_split: tensor_indices_or_sections: expected an int64 number or vector, got ", by.dtype(), " of ",
              by.dim(), " dimensions");
  const std::vector<int64_t> values = by.to_vector<int64_t>();
  return by.dim() == 0 ? op::tensor_split(self, values[0], dim) : op::tensor_split_at(self, values, dim);
}

#define TENON_SPLIT(name)                                                                                            \
  TensorVector name(Call& call, const Tensor& self, int64_t sections) { return split_evenly(call, self, sections); } \
  TensorVector name##_at(Call& call, const Tensor& self, IntArrayRef indices) {                                      \
    return op::tensor_split_at(self, indices, split_dim(call, self));                                                \
  }
TENON_SPLIT(hsplit)
TENON_SPLIT(vsplit)
TENON_SPLIT(dsplit)
#undef TENON_SPLIT

TensorVector unsafe_split(Call&, const Tensor& self, int64_t split_size, int64_t dim) {
  return split_unsafely(self, dim, [&] { return op::split(self, split_size, dim); });
}
TensorVector unsafe_chunk(Call&, const Tensor& self, int64_t chunks, int64_t dim) {
  return split_unsafely(self, dim, [&] { return op::chunk(self, chunks, dim); });
}
TensorVector unsafe_split_with_sizes(Call&, const Tensor& self, IntArrayRef split_sizes, int64_t dim) {
  TensorVector pieces = op::split_with_sizes(self, split_sizes, dim);
  for (Tensor& t : pieces) t = dispatch::make_alias(t);
  return pieces;
}

Tensor hstack(Call& call, TensorList tensors) { return joined(call, tensors, 1, 1); }
Tensor vstack(Call& call, TensorList tensors) { return joined(call, tensors, 2, 0); }
Tensor dstack(Call& call, TensorList tensors) { return joined(call, tensors, 3, 2); }
Tensor column_stack(Call& call, TensorList tensors) {
  check_list(call, tensors);
  return op::cat(each(call, tensors, [](const Tensor& t) { return t.dim() <= 1 ? t.reshape({t.numel(), 1}) : t; }), 1);
}

Tensor block_diag(Call& call, TensorList tensors) {
  if (tensors.empty()) return empty({1, 0});
  check_list(call, tensors);
  int64_t columns = 0, left = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TENON_CHECK(tensors[i].dim() <= 2, ShapeError, "block_diag: tensors: expected at most 2 dimensions, got ",
                tensors[i].dim(), " in element ", i);
    columns += at_least(tensors[i], 2).size(1);
  }
  return op::cat(
      each(call, tensors,
           [&](const Tensor& t) {
             const Tensor block = at_least(t, 2);
             const int64_t rows = block.size(0), right = columns - left - block.size(1);
             const Tensor row[] = {zeros({rows, left}, t.options()), block, zeros({rows, right}, t.options())};
             left += block.size(1);
             return op::cat(row, 1);
           }),
      0);
}

Tensor cartesian_prod(Call& call, TensorList tensors) {
  check_list(call, tensors);
  for (const Tensor& t : tensors)
    TENON_CHECK(t.dim() == 1, ShapeError, "cartesian_prod: tensors: expected vectors, got ", t.dim(), " dimensions");
  if (tensors.size() == 1) return tensors[0];
  return op::stack(each(call, op::meshgrid(tensors, "ij"), [](const Tensor& t) { return t.reshape({-1}); }), 1);
}

Tensor combinations(Call&, const Tensor& self, int64_t r, bool with_replacement) {
  TENON_CHECK(self.dim() == 1, ShapeError, "combinations: self: expected a vector, got ", self.dim(), " dimensions");
  TENON_CHECK(r >= 0, ValueError, "combinations: r: must not be negative, got ", r);
  if (r == 0) return empty({0}, self.options());
  const int64_t n = self.numel(), apart = with_replacement ? 0 : 1;
  if (n == 0 || (r > n && !with_replacement)) return empty({0, r}, self.options());
  std::vector<int64_t> places, chosen(at(r));
  for (int64_t i = 0; i < r; ++i) chosen[at(i)] = i * apart;
  for (int64_t k = r; k > 0;) {
    places.insert(places.end(), chosen.begin(), chosen.end());
    // The last place that can move on does, and those behind it follow as closely as they may.
    for (k = r; k > 0 && chosen[at(k - 1)] == n - 1 - (r - k) * apart;) --k;
    if (k > 0) ++chosen[at(k - 1)];
    for (int64_t i = k; k > 0 && i < r; ++i) chosen[at(i)] = chosen[at(i - 1)] + apart;
  }
  const auto count = static_cast<int64_t>(places.size());
  const Tensor index = from_span(std::span<const int64_t>(places), count).to(self.device());
  return op::index_select(self, 0, index).view({count / r, r});
}

}  // namespace impl
}  // namespace tenon

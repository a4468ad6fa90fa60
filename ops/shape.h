// SPDX-License-Identifier: Apache-2.0
// Other shapes, as views wherever PyTorch gives views, and tensors joined in ways that change their shapes first.
//
//   diagonal, linalg_diagonal   the entries i, i + offset of dimensions dim1 and dim2, as a new last dimension
//   unfold                      windows of `size` entries of `dimension`, one every `step`, as a new last dimension
//   movedim                     dimensions `source` at the places `destination`, the others in their order
//   numpy_T, mT, matrix_H, mH   all dimensions reversed; the last two swapped; the same of a matrix, conjugated
//   ravel, unflatten            all elements in one dimension; one dimension as several (one of them may be -1)
//   atleast_1d, _2d, _3d        dimensions of size 1 added: [n] becomes [1, n] and [1, n, 1], [m, n] becomes [m, n, 1]
//   broadcast_tensors, meshgrid expanded to one shape; vectors expanded to a grid of "ij" or "xy" indexing
//   tensor_split                `sections` pieces as equal as can be, or cut before each of `indices`
//                               (what is between braces are indices, one number too)
//   hsplit, vsplit, dsplit      equal pieces, or cut before the indices, along dimension 1 (0 of a vector), 0, 2
//   unsafe_split, unsafe_chunk, unsafe_split_with_sizes
//                               split and chunk whose results count as tensors of their own: autograd lets them be
//                               written in place, and the writer sees to it that nobody needs the whole any more
//
//   hstack, vstack, dstack      joined along dimension 1 (0 for vectors), 0, 2, of at least 1, 2, 3 dimensions
//   column_stack                vectors as columns, joined along dimension 1
//   block_diag                  matrices (vectors are rows) along the diagonal of zeros
//   cartesian_prod              all choices of one element of each vector, as rows; one vector as it is
//   combinations                the subsets of `r` elements of a vector in order, each also more than once if asked
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

using TensorVector = std::vector<Tensor>;
// clang-format off
#define TENON_SHAPE(R, name, kind, schema, types) TENON_OP(name, schema, kind, kNoInplace, R types, void())
#define TENON_SHAPE_FN(R, name, kind, schema, types, function, parameters, ...) \
  TENON_SHAPE(R, name, kind, schema, types) \
  inline R function parameters { return op::name(__VA_ARGS__); }
#define TENON_SHAPE_OF(name) \
  TENON_SHAPE_FN(Tensor, name, composite, #name "(Tensor self) -> Tensor", (const Tensor&), name, (const Tensor& self), self)
#define TENON_AT_LEAST(name) \
  TENON_SHAPE_OF(name) \
  TENON_SHAPE(TensorVector, name##_list, composite, #name ".Sequence(Tensor[] tensors) -> Tensor[]", (TensorList))
#define TENON_SPLIT(name) \
  TENON_SHAPE_FN(TensorVector, name, composite, #name ".int(Tensor self, int sections) -> Tensor[]", (const Tensor&, int64_t), name, (const Tensor& self, int64_t sections), self, sections) \
  TENON_SHAPE_FN(TensorVector, name##_at, composite, #name ".array(Tensor self, int[] indices) -> Tensor[]", (const Tensor&, IntArrayRef), name, (const Tensor& self, IntArrayRef indices), self, indices) \
  inline TensorVector name(const Tensor& self, std::initializer_list<int64_t> indices) { return op::name##_at(self, indices); }
#define TENON_JOIN(name) \
  TENON_SHAPE_FN(Tensor, name, composite, #name "(Tensor[] tensors) -> Tensor", (TensorList), name, (TensorList tensors), tensors) \
  inline Tensor name(std::initializer_list<Tensor> t) { return op::name(TensorList(t.begin(), t.size())); }

TENON_SHAPE_FN(Tensor, diagonal, view, "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor", (const Tensor&, int64_t, int64_t, int64_t), diagonal, (const Tensor& self, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1), self, offset, dim1, dim2)
TENON_SHAPE(Tensor, linalg_diagonal, composite, "linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", (const Tensor&, int64_t, int64_t, int64_t))
TENON_SHAPE_FN(Tensor, unfold, view, "unfold(Tensor self, int dimension, int size, int step) -> Tensor", (const Tensor&, int64_t, int64_t, int64_t), unfold, (const Tensor& self, int64_t dim, int64_t size, int64_t step), self, dim, size, step)
TENON_SHAPE_FN(Tensor, movedim, composite, "movedim(Tensor self, int[] source, int[] destination) -> Tensor", (const Tensor&, IntArrayRef, IntArrayRef), movedim, (const Tensor& self, IntArrayRef source, IntArrayRef destination), self, source, destination)
TENON_SHAPE_FN(Tensor, unflatten, composite, "unflatten.int(Tensor self, int dim, int[] sizes) -> Tensor", (const Tensor&, int64_t, IntArrayRef), unflatten, (const Tensor& self, int64_t dim, IntArrayRef sizes), self, dim, sizes)
TENON_SHAPE_OF(numpy_T)
TENON_SHAPE_OF(mT)
TENON_SHAPE_OF(matrix_H)
TENON_SHAPE_OF(mH)
TENON_SHAPE_OF(ravel)
TENON_AT_LEAST(atleast_1d)
TENON_AT_LEAST(atleast_2d)
TENON_AT_LEAST(atleast_3d)
TENON_SHAPE_FN(TensorVector, broadcast_tensors, composite, "broadcast_tensors(Tensor[] tensors) -> Tensor[]", (TensorList), broadcast_tensors, (TensorList tensors), tensors)
TENON_SHAPE_FN(TensorVector, meshgrid, composite, "meshgrid(Tensor[] tensors, *, str indexing='ij') -> Tensor[]", (TensorList, std::string_view), meshgrid, (TensorList tensors, std::string_view indexing = "ij"), tensors, indexing)
TENON_SHAPE_FN(TensorVector, tensor_split, composite, "tensor_split.sections(Tensor self, int sections, int dim=0) -> Tensor[]", (const Tensor&, int64_t, int64_t), tensor_split, (const Tensor& self, int64_t sections, int64_t dim = 0), self, sections, dim)
TENON_SHAPE_FN(TensorVector, tensor_split_at, composite, "tensor_split.indices(Tensor self, int[] indices, int dim=0) -> Tensor[]", (const Tensor&, IntArrayRef, int64_t), tensor_split, (const Tensor& self, IntArrayRef indices, int64_t dim = 0), self, indices, dim)
inline TensorVector tensor_split(const Tensor& self, std::initializer_list<int64_t> indices, int64_t dim = 0) { return op::tensor_split_at(self, indices, dim); }
TENON_SHAPE(TensorVector, tensor_split_by, composite, "tensor_split.tensor_indices_or_sections(Tensor self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]", (const Tensor&, const Tensor&, int64_t))
TENON_SPLIT(hsplit)
TENON_SPLIT(vsplit)
TENON_SPLIT(dsplit)
TENON_SHAPE(TensorVector, unsafe_split, composite, "unsafe_split(Tensor self, int split_size, int dim=0) -> Tensor[]", (const Tensor&, int64_t, int64_t))
TENON_SHAPE(TensorVector, unsafe_split_with_sizes, kernel, "unsafe_split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]", (const Tensor&, IntArrayRef, int64_t))
TENON_SHAPE(TensorVector, unsafe_chunk, composite, "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", (const Tensor&, int64_t, int64_t))
TENON_JOIN(hstack)
TENON_JOIN(vstack)
TENON_JOIN(dstack)
TENON_JOIN(column_stack)
TENON_JOIN(block_diag)
TENON_JOIN(cartesian_prod)
TENON_SHAPE_FN(Tensor, combinations, composite, "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", (const Tensor&, int64_t, bool), combinations, (const Tensor& self, int64_t r = 2, bool with_replacement = false), self, r, with_replacement)

TENON_ALIAS("moveaxis", "movedim")
TENON_ALIAS("T", "numpy_T")
TENON_ALIAS("H", "matrix_H")
TENON_ALIAS("adjoint", "mH")
TENON_ALIAS("row_stack", "vstack")
// clang-format on
#undef TENON_SHAPE
#undef TENON_SHAPE_FN
#undef TENON_SHAPE_OF
#undef TENON_AT_LEAST
#undef TENON_SPLIT
#undef TENON_JOIN

}  // namespace tenon

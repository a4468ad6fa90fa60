// SPDX-License-Identifier: Apache-2.0
// Views: other geometry over the same storage, no data moved. In-place writes through a view reach its base, and
// autograd follows them. Dimensions may be negative (counted from the end).
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

using TensorVector = std::vector<Tensor>;

/// Other sizes, one of them may be -1. ShapeError when the strides do not allow it; reshape copies then.
TENON_OP(view, "view(Tensor self, int[] size) -> Tensor", view, kNoInplace, Tensor(const Tensor&, IntArrayRef), void())
/// A view when possible, else a contiguous copy.
TENON_OP(reshape, "reshape(Tensor self, int[] shape) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, IntArrayRef), void())
inline Tensor reshape(const Tensor& self, IntArrayRef shape) { return op::reshape(self, shape); }
TENON_OP(view_as, "view_as(Tensor self, Tensor other) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&), void())
TENON_OP(reshape_as, "reshape_as(Tensor self, Tensor other) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&), void())
/// Dimension i of the result is dimension dims[i] of self.
TENON_OP(permute, "permute(Tensor self, int[] dims) -> Tensor", view, kNoInplace, Tensor(const Tensor&, IntArrayRef),
         void())
inline Tensor permute(const Tensor& self, IntArrayRef dims) { return op::permute(self, dims); }
TENON_OP(transpose, "transpose(Tensor self, int dim0, int dim1) -> Tensor", view, kNoInplace,
         Tensor(const Tensor&, int64_t, int64_t), void())
TENON_ALIAS("swapaxes", "transpose")
TENON_ALIAS("swapdims", "transpose")
inline Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) { return op::transpose(self, dim0, dim1); }
/// Transpose of a matrix; vectors and 0-dim tensors are returned as they are.
TENON_OP(t, "t(Tensor self) -> Tensor", composite, kNoInplace, Tensor(const Tensor&), void())
inline Tensor t(const Tensor& self) { return op::t(self); }
/// Dimensions of size 1 repeated without copying; -1 keeps a size. More dimensions may be put in front.
TENON_OP(expand, "expand(Tensor self, int[] size, *, bool implicit=False) -> Tensor", view, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, bool), void())
TENON_ALIAS("broadcast_to", "expand")
inline Tensor expand(const Tensor& self, IntArrayRef size) { return op::expand(self, size, false); }
TENON_OP(expand_as, "expand_as(Tensor self, Tensor other) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&), void())
/// Without all dimensions of size 1.
TENON_OP(squeeze, "squeeze(Tensor self) -> Tensor", view, kNoInplace, Tensor(const Tensor&), void())
inline Tensor squeeze(const Tensor& self) { return op::squeeze(self); }
/// Without those of the given dimensions that have size 1.
TENON_OP(squeeze_dims, "squeeze.dims(Tensor self, int[] dim) -> Tensor", view, kNoInplace,
         Tensor(const Tensor&, IntArrayRef), void())
inline Tensor squeeze(const Tensor& self, IntArrayRef dim) { return op::squeeze_dims(self, dim); }
/// With a new dimension of size 1 at `dim`.
TENON_OP(unsqueeze, "unsqueeze(Tensor self, int dim) -> Tensor", view, kNoInplace, Tensor(const Tensor&, int64_t),
         void())
inline Tensor unsqueeze(const Tensor& self, int64_t dim) { return op::unsqueeze(self, dim); }
/// The slice at `index` of `dim`, without that dimension.
TENON_OP(select, "select.int(Tensor self, int dim, int index) -> Tensor", view, kNoInplace,
         Tensor(const Tensor&, int64_t, int64_t), void())
inline Tensor select(const Tensor& self, int64_t dim, int64_t index) { return op::select(self, dim, index); }
/// start:end:step along `dim`, clamped as Python does; step must be positive.
TENON_OP(slice, "slice.Tensor(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", view,
         kNoInplace, Tensor(const Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>, int64_t), void())
inline Tensor slice(const Tensor& self, int64_t dim = 0, std::optional<int64_t> start = {},
                    std::optional<int64_t> end = {}, int64_t step = 1) {
  return op::slice(self, dim, start, end, step);
}
/// `length` entries of `dim` from `start` on.
TENON_OP(narrow, "narrow(Tensor self, int dim, int start, int length) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, int64_t, int64_t, int64_t), void())
inline Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  return op::narrow(self, dim, start, length);
}
/// Dimensions start_dim..end_dim as one; a view when possible.
TENON_OP(flatten, "flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, int64_t, int64_t), void())
inline Tensor flatten(const Tensor& self, int64_t start_dim = 0, int64_t end_dim = -1) {
  return op::flatten(self, start_dim, end_dim);
}
/// Pieces of split_size along dim, the last one smaller. Views of several outputs cannot be written in place under autograd.
TENON_OP(split, "split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]", view, kNoInplace,
         TensorVector(const Tensor&, int64_t, int64_t), void())
inline TensorVector split(const Tensor& self, int64_t split_size, int64_t dim = 0) {
  return op::split(self, split_size, dim);
}
/// Pieces of the given sizes, which must add up.
TENON_OP(split_sizes, "split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]", composite, kNoInplace,
         TensorVector(const Tensor&, IntArrayRef, int64_t), void())
TENON_OP(split_with_sizes, "split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]", view, kNoInplace,
         TensorVector(const Tensor&, IntArrayRef, int64_t), void())
inline TensorVector split_with_sizes(const Tensor& self, IntArrayRef sizes, int64_t dim = 0) {
  return op::split_with_sizes(self, sizes, dim);
}
/// At most `chunks` equal pieces.
TENON_OP(chunk, "chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", composite, kNoInplace,
         TensorVector(const Tensor&, int64_t, int64_t), void())
inline TensorVector chunk(const Tensor& self, int64_t chunks, int64_t dim = 0) { return op::chunk(self, chunks, dim); }
/// All slices along `dim`.
TENON_OP(unbind, "unbind.int(Tensor self, int dim=0) -> Tensor[]", view, kNoInplace,
         TensorVector(const Tensor&, int64_t), void())
inline TensorVector unbind(const Tensor& self, int64_t dim = 0) { return op::unbind(self, dim); }
/// Any sizes, strides and offset (in elements of the storage); must stay inside the storage. Default offset: self's.
TENON_OP(as_strided, "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor", view,
         kNoInplace, Tensor(const Tensor&, IntArrayRef, IntArrayRef, std::optional<int64_t>), void())
inline Tensor as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride, std::optional<int64_t> offset = {}) {
  return op::as_strided(self, size, stride, offset);
}
/// The same data cut off from the graph; shares memory and version counter.
TENON_OP(detach, "detach(Tensor self) -> Tensor", view, kNoInplace | kNonDifferentiable, Tensor(const Tensor&), void())
inline Tensor detach(const Tensor& self) { return op::detach(self); }

}  // namespace tenon

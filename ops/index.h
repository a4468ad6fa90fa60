// SPDX-License-Identifier: Apache-2.0
// Reading and writing by index tensors. Operators that only move data are keyed on the element width; those that add
// are keyed on the dtype. Index tensors become contiguous int64 before the kernel. The CPU checks every index
// (IndexError with the index, its position and the valid range); a CUDA kernel asserts.
//
// `index` and `index_put` are defined in ops/indexing.cpp, with Tensor's methods for brackets.
// Kernels see `dim` non-negative and tensors of at least one dimension.
#pragma once

#include <tenon/core/index.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

TENON_OP(index_select, "index_select(Tensor self, int dim, Tensor index) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, int64_t, const Tensor&),
         void(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index))
TENON_OP(gather, "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, int64_t, const Tensor&, bool),
         void(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index))
// out holds self already; the kernel adds to it or overwrites in it.
TENON_OP(index_add, "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", kernel,
         kNonDeterministic, Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&, const Scalar&),
         void(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha))
TENON_OP(index_copy, "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&),
         void(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source))
TENON_OP(scatter_add, "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", kernel,
         kNonDeterministic, Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&),
         void(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src))
// The kernel is that of index_select: out [n, columns], weight [rows, columns], dim 0, index [n].
TENON_OP(embedding,
         "embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float norm_type=2.0, "
         "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
         kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&, std::optional<int64_t>, std::optional<double>, double, bool, bool),
         void(const Tensor& out, const Tensor& weight, int64_t dim, const Tensor& index))
// grad [n, columns] -> grad_weight [num_weights, columns]; rows equal to padding_idx (-1: none) are left out.
TENON_OP(embedding_backward,
         "embedding_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, "
         "bool scale_grad_by_freq) -> Tensor",
         kernel, kNoInplace | kNonDeterministic, Tensor(const Tensor&, const Tensor&, int64_t, int64_t, bool),
         void(const Tensor& grad_weight, const Tensor& grad, const Tensor& index, int64_t padding_idx,
              bool scale_grad_by_freq))
TENON_ALIAS("embedding_dense_backward", "embedding_backward")
TENON_OP(index, "index.Tensor(Tensor self, Tensor[] indices) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, TensorList), void())
TENON_OP(index_put, "index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
         composite, kPlain, Tensor(const Tensor&, TensorList, const Tensor&, bool), void())

/// Slices of `self` along `dim` in the order of `index`, an int32 or int64 vector without negative numbers.
inline Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  return op::index_select(self, dim, index);
}
/// out[i][j][k] = self[index[i][j][k]][j][k] for dim = 0, and so on; the result has the sizes of `index`.
inline Tensor gather(const Tensor& self, int64_t dim, const Tensor& index) {
  return op::gather(self, dim, index, false);
}
/// A copy of `self` with alpha * source[i] added to the slice index[i] of dimension `dim`, for every i.
inline Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                        const Scalar& alpha = 1) {
  return op::index_add(self, dim, index, source, alpha);
}
/// A copy of `self` with its slice index[i] of dimension `dim` replaced by source[i], for every i in order.
inline Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return op::index_copy(self, dim, index, source);
}
/// A copy of `self` with src added at the places gather(self, dim, index) would read.
inline Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  return op::scatter_add(self, dim, index, src);
}
/// Rows of `weight` [rows, columns] for `input`, int32 or int64 of any sizes; the result has sizes [..., columns].
/// Row `padding_idx` gets no gradient. With `scale_grad_by_freq` a row's gradient is divided by its count in `input`.
inline Tensor embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx = {},
                        bool scale_grad_by_freq = false) {
  return op::embedding(input, weight, padding_idx, {}, 2.0, scale_grad_by_freq, false);
}
/// What embedding_backward takes for embedding's optional padding_idx: -1 for none, else a row.
inline int64_t embedding_padding(std::optional<int64_t> padding_idx, int64_t rows) {
  return !padding_idx ? -1 : *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}
/// self[indices...]: integer tensors (negative numbers count from the end) broadcast together and pick elements, bool
/// tensors stand for the positions where they are true, undefined tensors for a full slice. Waits for the device when
/// there is a bool tensor.
inline Tensor index(const Tensor& self, TensorList indices) { return op::index(self, indices); }
/// A copy of `self` with `values`, broadcast, written (or added) at self[indices...].
inline Tensor index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate = false) {
  return op::index_put(self, indices, values, accumulate);
}

}  // namespace tenon

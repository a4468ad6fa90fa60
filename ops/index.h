// SPDX-License-Identifier: Apache-2.0
// Reading and writing by index tensors. Operators that only move data are keyed on the element width; those that add
// are keyed on the dtype. Index tensors become contiguous int64 before the kernel. The CPU checks every index
// (IndexError with the index, its position and the valid range); a CUDA kernel asserts.
//
// `index` and `index_put` are defined in ops/indexing.cpp, with Tensor's methods for brackets.
// Kernels see `dim` non-negative and tensors of at least one dimension.
// The kernels of scatter see an index with as many dimensions as `out`; dimensions of it, and of `src`, may repeat by
// stride 0. `who` is a literal, the operator errors name.
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
TENON_OP(index_copy, "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", kernel,
         kNonDeterministic, Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&),
         void(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source))
TENON_OP(scatter_add, "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", kernel,
         kNonDeterministic, Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&),
         void(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const char* who))
TENON_OP(scatter, "scatter.src(Tensor self, int dim, Tensor index, Tensor|Scalar src) -> Tensor", kernel,
         kNonDeterministic, Tensor(const Tensor&, int64_t, const Tensor&, const Operand&),
         void(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const char* who))
TENON_OP(scatter_by, "scatter.reduce(Tensor self, int dim, Tensor index, Tensor|Scalar src, *, str reduce) -> Tensor",
         composite, kNonDeterministic, Tensor(const Tensor&, int64_t, const Tensor&, const Operand&, std::string_view),
         void())
enum class ScatterReduction : uint8_t { prod, amax, amin, sum, mean };  // the last two are made of scatter_add's kernel
TENON_OP(scatter_reduce,
         "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> "
         "Tensor",
         kernel, kNonDeterministic,
         Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&, std::string_view, bool),
         void(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, ScatterReduction,
              const char* who))
TENON_OP(index_reduce,
         "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> "
         "Tensor",
         kernel, kNonDeterministic,
         Tensor(const Tensor&, int64_t, const Tensor&, const Tensor&, std::string_view, bool), void())
TENON_OP(index_fill, "index_fill(Tensor self, int dim, Tensor index, Tensor|Scalar value) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, int64_t, const Tensor&, const Operand&), void())
// The kernel is that of index_select: out [n, columns], weight [rows, columns], dim 0, index [n].
TENON_OP(embedding,
         "embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float norm_type=2.0, "
         "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
         kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&, std::optional<int64_t>, std::optional<double>, double, bool, bool),
         void(const Tensor& out, const Tensor& weight, int64_t dim, const Tensor& index))
// grad [n, columns] -> grad_weight [num_weights, columns]; rows equal to padding_idx (-1: none) are left out.
/// The gradient of embedding.
TENON_OP(embedding_backward,
         "embedding_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, "
         "bool scale_grad_by_freq) -> Tensor",
         kernel, kNoInplace, Tensor(const Tensor&, const Tensor&, int64_t, int64_t, bool),
         void(const Tensor& grad_weight, const Tensor& grad, const Tensor& index, int64_t padding_idx,
              bool scale_grad_by_freq))
TENON_ALIAS("embedding_dense_backward", "embedding_backward")
TENON_OP(index, "index.Tensor(Tensor self, Tensor[] indices) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, TensorList), void())
TENON_OP(index_put, "index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
         composite, kNonDeterministic, Tensor(const Tensor&, TensorList, const Tensor&, bool), void())

/// Slices of `self` along `dim` in the order of `index`, an int32 or int64 vector without negative numbers.
TENON_API Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index);
/// out[i][j][k] = self[index[i][j][k]][j][k] for dim = 0, and so on; the result has the sizes of `index`.
TENON_API Tensor gather(const Tensor& self, int64_t dim, const Tensor& index);
/// A copy of `self` with alpha * source[i] added to the slice index[i] of dimension `dim`, for every i.
TENON_API Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                           const Scalar& alpha = 1);
/// A copy of `self` with its slice index[i] of dimension `dim` replaced by source[i] (of several, any on CUDA).
TENON_API Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source);
/// A copy of `self` with src added at the places gather(self, dim, index) would read.
TENON_API Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src);
/// A copy of `self` with src, a tensor or a number, written at the places gather(self, dim, index) would read.
TENON_API Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Operand& src);
/// The same with `reduce` "add" or "multiply": self's elements are added to, or multiplied, instead of replaced.
TENON_API Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Operand& src,
                         std::string_view reduce);
/// What src holds for one place of scatter, and self's element with `include_self`: its sum, prod, mean, amax or amin.
TENON_API Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                                std::string_view reduce, bool include_self = true);
/// The same for the slices index[i] of index_add: prod, mean, amax or amin.
TENON_API Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                              std::string_view reduce, bool include_self = true);
/// A copy of `self` with its slices index[i] (negative ones count from the end) filled with a number or a 0-dim tensor.
TENON_API Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Operand& value);
/// Rows of `weight` [rows, columns] for `input`, int32 or int64 of any sizes; the result has sizes [..., columns].
/// Row `padding_idx` gets no gradient. With `scale_grad_by_freq` a row's gradient is divided by its count in `input`.
inline Tensor embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx = {},
                        bool scale_grad_by_freq = false) {
  return op::embedding(input, weight, padding_idx, {}, 2.0, scale_grad_by_freq, false);
}
/// What embedding_backward takes for embedding's optional padding_idx: -1 for none, else a row.
TENON_API int64_t embedding_padding(std::optional<int64_t> padding_idx, int64_t rows);
/// self[indices...]: integer tensors (negative numbers count from the end) broadcast together and pick elements, bool
/// tensors stand for the positions where they are true, undefined tensors for a full slice. Waits for the device when
/// there is a bool tensor.
TENON_API Tensor index(const Tensor& self, TensorList indices);
/// A copy of `self` with `values`, broadcast, written (or added) at self[indices...]. index_put_ writes to `self`.
TENON_API Tensor index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate = false);
TENON_API Tensor index_put_(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate = false);

}  // namespace tenon

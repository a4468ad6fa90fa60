// SPDX-License-Identifier: Apache-2.0
// Joining tensors: cat along a present dimension, stack along a new one. Only data is moved, so the kernel's key is
// the element width; tensors of different dtypes are promoted first.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

TENON_OP(cat, "cat(Tensor[] tensors, int dim=0) -> Tensor", kernel, kNoInplace, Tensor(TensorList, int64_t),
         void(const Tensor& out, TensorList tensors, int64_t dim))
TENON_ALIAS("concat", "cat")
TENON_ALIAS("concatenate", "cat")
TENON_OP(stack, "stack(Tensor[] tensors, int dim=0) -> Tensor", composite, kNoInplace, Tensor(TensorList, int64_t),
         void())

/// Joins tensors along dimension `dim`; the others must agree. Result in the promoted dtype. One-dimensional tensors
/// without elements are skipped whatever the rank of the rest. ShapeError, IndexError (dim), ValueError (no tensors).
inline Tensor cat(TensorList tensors, int64_t dim = 0) { return op::cat(tensors, dim); }
inline Tensor cat(std::initializer_list<Tensor> tensors, int64_t dim = 0) {
  return op::cat(TensorList(tensors.begin(), tensors.size()), dim);
}
/// Joins tensors of equal sizes along a new dimension `dim` of the result.
inline Tensor stack(TensorList tensors, int64_t dim = 0) { return op::stack(tensors, dim); }
inline Tensor stack(std::initializer_list<Tensor> tensors, int64_t dim = 0) {
  return op::stack(TensorList(tensors.begin(), tensors.size()), dim);
}

}  // namespace tenon

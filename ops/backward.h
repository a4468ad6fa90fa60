// SPDX-License-Identifier: Apache-2.0
// Operators that only gradients call: the gradients of views, which put a tensor into zeros of the base's sizes. They are
// operators so that they can be differentiated again, and run on every device that copies.
#pragma once

#include <tenon/dispatch/register.h>

namespace tenon {

/// Zeros of `base_size` and `base_stride`, in which the elements that the view (size, stride, storage_offset) of a tensor
/// of that geometry at base_offset covers hold grad; where the view covers an element several times, their sum.
TENON_OP(as_strided_backward,
         "as_strided_backward(Tensor grad, int[] size, int[] stride, int storage_offset, int[] base_size, int[] "
         "base_stride, "
         "int base_offset) -> Tensor",
         kernel, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, IntArrayRef, int64_t, IntArrayRef, IntArrayRef, int64_t), void())
/// Zeros of `input_sizes` with grad at `index` of `dim`.
TENON_OP(select_backward, "select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor",
         kernel, kNoInplace, Tensor(const Tensor&, IntArrayRef, int64_t, int64_t), void())
/// Zeros of `input_sizes` with grad at start:end:step of `dim`.
TENON_OP(slice_backward,
         "slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step) -> Tensor",
         kernel, kNoInplace, Tensor(const Tensor&, IntArrayRef, int64_t, int64_t, int64_t, int64_t), void())

}  // namespace tenon

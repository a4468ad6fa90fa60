// SPDX-License-Identifier: Apache-2.0
// The gradient of views, which puts a tensor into zeros of the base's sizes: an operator, so that it can be differentiated
// again.
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

}  // namespace tenon

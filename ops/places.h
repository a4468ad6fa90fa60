// SPDX-License-Identifier: Apache-2.0
// Index tensors in the forms operators over several families bring them to.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon {

/// Contiguous int64 with negative numbers, which count from the end, replaced by what they stand for. The CPU checks the
/// range (`size` elements, dimension `dim` of what `who` reads); on a device the kernel that uses them does.
Tensor wrapped_index(std::string_view who, const Tensor& index, int64_t size, int64_t dim);
/// A vector that numbers slices along `dim`, repeated for every element of them: as gather and scatter take it.
Tensor index_of_slices(const Tensor& index, int64_t dim, IntArrayRef sizes);

}  // namespace tenon

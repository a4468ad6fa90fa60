// SPDX-License-Identifier: Apache-2.0
// Positions of elements, what stands there and how to write there. What gives as many results as elements hold waits for the
// device. Index tensors are int64 or int32; masks are bool. Positions number the elements in row-major order; negative
// ones count from the end. A position out of range is an IndexError: of the operator on the CPU, later on CUDA.
//
// Kernel of nonzero: places [n, dims] gets the positions of the n true elements of mask, contiguous, in order.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

TENON_OP(nonzero, "nonzero(Tensor self) -> Tensor", dynamic, kNoInplace | kNonDifferentiable | kNotCapturable,
         Tensor(const Tensor&), void(const Tensor& places, const Tensor& mask))
TENON_ALIAS("argwhere", "nonzero")
TENON_OP(nonzero_tuple, "nonzero.tuple(Tensor self, *, bool as_tuple) -> Tensor[]", composite,
         kNoInplace | kNotCapturable, std::vector<Tensor>(const Tensor&, bool), void())
TENON_OP(where_positions, "where(Tensor condition) -> Tensor[]", composite, kNoInplace | kNotCapturable,
         std::vector<Tensor>(const Tensor&), void())
TENON_OP(masked_select, "masked_select(Tensor self, Tensor mask) -> Tensor", composite, kNoInplace | kNotCapturable,
         Tensor(const Tensor&, const Tensor&), void())
TENON_OP(masked_scatter, "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", composite, kNotCapturable,
         Tensor(const Tensor&, const Tensor&, const Tensor&), void())
TENON_OP(take, "take(Tensor self, Tensor index) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, const Tensor&),
         void())
TENON_OP(put, "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", composite,
         kNonDeterministic, Tensor(const Tensor&, const Tensor&, const Tensor&, bool), void())
TENON_OP(take_along_dim, "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&, std::optional<int64_t>), void())
TENON_OP(unravel_index, "unravel_index(Tensor indices, int[] shape) -> Tensor[]", composite, kNoInplace,
         std::vector<Tensor>(const Tensor&, IntArrayRef), void())

/// Positions of the elements that are not zero: int64 [n, dims], in row-major order.
TENON_API Tensor nonzero(const Tensor& self);
/// The same as one vector for each dimension (of one for a 0-dim tensor), to index with.
TENON_API std::vector<Tensor> where(const Tensor& condition);
/// The elements of self where mask holds, in order, as a vector; both broadcast.
TENON_API Tensor masked_select(const Tensor& self, const Tensor& mask);
/// self, broadcast with mask, with the first elements of source, in order, where mask holds.
TENON_API Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source);
/// The elements at the positions `index`, in its sizes.
TENON_API Tensor take(const Tensor& self, const Tensor& index);
/// self with the elements of source written (or added) at the positions `index`.
TENON_API Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate = false);
/// gather with self and indices broadcast outside dim, or from all elements without one; negative ones count from the end.
TENON_API Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim = {});
/// Positions in a tensor of sizes `shape` as one int64 tensor for each dimension.
TENON_API std::vector<Tensor> unravel_index(const Tensor& indices, IntArrayRef shape);

}  // namespace tenon

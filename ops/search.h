// SPDX-License-Identifier: Apache-2.0
// Searching in sorted tensors, and membership. NaN is greater than any number, as in sort.
//
// searchsorted's kernel serves bucketize: `boundaries` [..., n], `input` [..., m] with the same leading sizes, or any
// sizes for a vector of boundaries, `sorter` undefined or as `boundaries`, all contiguous; `out` int32 or int64.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

TENON_OP(searchsorted,
         "searchsorted(Tensor sorted_sequence, Tensor|Scalar self, *, bool out_int32=False, bool right=False, "
         "str? side=None, Tensor? sorter=None) -> Tensor",
         kernel, kNoInplace | kNonDifferentiable,
         Tensor(const Tensor&, const Operand&, bool, bool, std::optional<std::string_view>, const Tensor&),
         void(const Tensor& out, const Tensor& boundaries, const Tensor& input, const Tensor& sorter, bool right))
/// For every element of `self` the position in `sorted_sequence` (ascending along its last dimension) it could be
/// inserted at: before equal elements, or behind them with `right` or side "right". int64, or int32 with out_int32.
/// The leading sizes of both agree, or the sequence is a vector. `sorter`: the order of a sequence that is not sorted
/// (argsort's result). ShapeError when the sizes do not fit.
inline Tensor searchsorted(const Tensor& sorted_sequence, const Operand& self, bool out_int32 = false,
                           bool right = false, std::optional<std::string_view> side = {}, const Tensor& sorter = {}) {
  return op::searchsorted(sorted_sequence, self, out_int32, right, side, sorter);
}
TENON_OP(bucketize,
         "bucketize(Tensor|Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
         kernel, kNoInplace | kNonDifferentiable, Tensor(const Operand&, const Tensor&, bool, bool), void())
/// The bucket of every element between `boundaries`, an ascending vector: boundaries[i - 1] < x <= boundaries[i]
/// gives i; with `right` boundaries[i - 1] <= x < boundaries[i].
inline Tensor bucketize(const Operand& self, const Tensor& boundaries, bool out_int32 = false, bool right = false) {
  return op::bucketize(self, boundaries, out_int32, right);
}
TENON_OP(isin,
         "isin(Tensor|Scalar elements, Tensor|Scalar test_elements, *, bool assume_unique=False, bool invert=False) -> "
         "Tensor",
         composite, kNoInplace | kNonDifferentiable, Tensor(const Operand&, const Operand&, bool, bool), void())
/// Whether each of `elements` is among `test_elements` (or, with `invert`, is not): bool of the sizes of `elements`.
/// NaN is never among them. At least one of the two is a tensor.
inline Tensor isin(const Operand& elements, const Operand& test_elements, bool assume_unique = false,
                   bool invert = false) {
  return op::isin(elements, test_elements, assume_unique, invert);
}

}  // namespace tenon

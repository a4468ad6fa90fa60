// SPDX-License-Identifier: Apache-2.0
// Distinct elements, or slices along a dimension. A NaN equals nothing, itself included, so each of them is distinct.
// The number of results depends on the data: on a device these operators wait for it.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

// Results: the values, then the inverse and the counts where they are asked for.
// Kernel: writes the order of `rows` [n, m], contiguous, into `order` [n]; stable, from the first column on.
TENON_OP(unique,
         "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) -> "
         "Tensor[]",
         dynamic, kNoInplace | kNonDifferentiable | kNotCapturable,
         std::vector<Tensor>(const Tensor&, bool, bool, bool, std::optional<int64_t>),
         void(const Tensor& order, const Tensor& rows))
// Kernel: the rows of `rows` [n, m], taken in `order` (undefined: as they are), fall into groups of equal neighbours.
// groups [n]: the number of each row's group; starts [n]: the first row of every group. Returns how many there are.
TENON_OP(
    unique_consecutive,
    "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> Tensor[]",
    dynamic, kNoInplace | kNonDifferentiable | kNotCapturable,
    std::vector<Tensor>(const Tensor&, bool, bool, std::optional<int64_t>),
    int64_t(const Tensor& groups, const Tensor& starts, const Tensor& rows, const Tensor& order))

/// What unique gives; `inverse` and `counts` are undefined unless asked for.
struct UniqueResult {
  Tensor values;   ///< distinct elements [count], or slices along dim
  Tensor inverse;  ///< int64: where each element (slice) of the input stands in values
  Tensor counts;   ///< int64 [count]: how many there were of each
};
inline UniqueResult unique_result(std::vector<Tensor> list, bool inverse) {
  UniqueResult r;
  r.values = list[0];
  if (inverse) r.inverse = list[1];
  if (list.size() > (inverse ? 2u : 1u)) r.counts = list.back();
  return r;
}

/// The distinct elements of `self`, or its distinct slices along `dim`, ascending (also when `sorted` is false).
/// DtypeError for complex numbers.
inline UniqueResult unique(const Tensor& self, bool sorted = true, bool return_inverse = false,
                           bool return_counts = false, std::optional<int64_t> dim = {}) {
  return unique_result(op::unique(self, sorted, return_inverse, return_counts, dim), return_inverse);
}
/// `self` without the elements (slices along `dim`) that equal the one before them.
inline UniqueResult unique_consecutive(const Tensor& self, bool return_inverse = false, bool return_counts = false,
                                       std::optional<int64_t> dim = {}) {
  return unique_result(op::unique_consecutive(self, return_inverse, return_counts, dim), return_inverse);
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Counting: how often integers occur, and how many elements fall into bins. NaN falls into none. A bin holds its
// lower edge, the last one its upper edge too. Counts are exact integers before they become the result's dtype; sums
// of weights are taken in float64 (float32 on CUDA where the weights are).
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

// Kernel, keyed on the result's dtype (int64, float32, float64): out[i] += weights of the places where self is i, or
// 1 where `weights` is undefined; what is not in 0 to size - 1 is left out. `self` int64, all contiguous, `out` zero
// before.
TENON_OP(bincount, "bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor", dynamic,
         kNoInplace | kNonDifferentiable | kNotCapturable | kNonDeterministic,
         Tensor(const Tensor&, const Tensor&, int64_t),
         void(const Tensor& out, const Tensor& self, const Tensor& weights))
/// How often each of 0, 1, 2, ... occurs in `self`, a vector of integers that are not negative: int64; with `weights`
/// the sum of the weights there: float32 for float32, else float64. At least `minlength` results. ValueError on a
/// negative element.
inline Tensor bincount(const Tensor& self, const Tensor& weights = {}, int64_t minlength = 0) {
  return op::bincount(self, weights, minlength);
}

// Kernel: counts [bins], int64, zero before, of the elements of `self` (contiguous) between low and high, low < high.
TENON_OP(histc, "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", kernel,
         kNoInplace | kNonDifferentiable, Tensor(const Tensor&, int64_t, const Scalar&, const Scalar&),
         void(const Tensor& counts, const Tensor& self, double low, double high))
/// Counts in `bins` equal bins from min to max, in the dtype of `self`; the range of the data when both are equal.
/// ValueError when a bound or the data's range is not finite.
inline Tensor histc(const Tensor& self, int64_t bins = 100, const Scalar& min = 0, const Scalar& max = 0) {
  return op::histc(self, bins, min, max);
}

TENON_OP(histogram_bins,
         "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> "
         "(Tensor hist, Tensor bin_edges)",
         composite, kNoInplace | kNonDifferentiable | kNonDeterministic,
         std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, bool), void())
TENON_OP(
    histogram,
    "histogram.bin_ct(Tensor self, int bins=100, *, Tensor? range=None, Tensor? weight=None, bool density=False) -> "
    "(Tensor hist, Tensor bin_edges)",
    composite, kNoInplace | kNonDifferentiable | kNonDeterministic,
    std::tuple<Tensor, Tensor>(const Tensor&, int64_t, const Tensor&, const Tensor&, bool), void())
/// Counts, or sums of `weight` (of self's sizes), in the bins between `bins`, an ascending vector of self's floating
/// dtype; `density` divides them by their total and the widths. Returns them and the edges.
inline std::tuple<Tensor, Tensor> histogram(const Tensor& self, const Tensor& bins, const Tensor& weight = {},
                                            bool density = false) {
  return op::histogram_bins(self, bins, weight, density);
}
/// The same in `bins` equal bins over `range`, two numbers in a tensor (absent: the range of the data).
inline std::tuple<Tensor, Tensor> histogram(const Tensor& self, int64_t bins = 100, const Tensor& range = {},
                                            const Tensor& weight = {}, bool density = false) {
  return op::histogram(self, bins, range, weight, density);
}

}  // namespace tenon

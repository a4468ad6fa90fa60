// SPDX-License-Identifier: Apache-2.0
// Quantiles: elements of the sorted order at fractional ranks. Compositions, differentiable in both arguments.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

#define TENON_QUANTILE_OP(name)                                                                                   \
  TENON_OP(name,                                                                                                  \
           #name                                                                                                  \
           "(Tensor self, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> " \
           "Tensor",                                                                                              \
           composite, kNoInplace,                                                                                 \
           Tensor(const Tensor&, const Operand&, std::optional<int64_t>, bool, std::string_view), void())         \
  inline Tensor name(const Tensor& self, const Operand& q, std::optional<int64_t> dim = {}, bool keepdim = false, \
                     std::string_view interpolation = "linear") {                                                 \
    return op::name(self, q, dim, keepdim, interpolation);                                                        \
  }
// The elements at ranks q (n - 1) of the n along `dim`, or of all; q in [0, 1]: a number, or a tensor of self's dtype
// of at most one dimension, which becomes the first of the result. A rank between two elements takes, by
// `interpolation`: "linear" between them, "lower", "higher", "nearest" (halves to even) or "midpoint". quantile gives
// NaN where there is one, nanquantile leaves NaN out. float32 and float64. ValueError on a q outside [0, 1] (seen on
// the CPU), ShapeError when there are no elements.
TENON_QUANTILE_OP(quantile)     ///< The elements at ranks q (n - 1) of the n along `dim`, or of all.
TENON_QUANTILE_OP(nanquantile)  ///< The same of what is not NaN.
#undef TENON_QUANTILE_OP

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Reductions over dimensions. `dim` absent or empty means all of them; keepdim keeps them with size 1. Sums of
// integers and bool are int64; 16-bit floats accumulate in float32. No identity (amax, max, argmax) over no elements is
// an IndexError.
#pragma once

#include <tenon/dispatch/reduction.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

using OptionalDims = std::optional<IntArrayRef>;

/// Sum. dtype: self is converted to it first.
TENON_OP(sum, "sum(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, OptionalDims, bool, std::optional<DType>), void(const ReducePlan&))
inline Tensor sum(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false, std::optional<DType> dtype = {}) {
  return op::sum(self, dim, keepdim, dtype);
}
/// Mean; floating or complex self, or dtype given. NaN over no elements.
TENON_OP(mean, "mean(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, OptionalDims, bool, std::optional<DType>), void(const ReducePlan&))
inline Tensor mean(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false, std::optional<DType> dtype = {}) {
  return op::mean(self, dim, keepdim, dtype);
}
/// Variance with N - correction in the denominator, by Welford's or a two-pass method. Complex gives the real dtype.
TENON_OP(var, "var.correction(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
         kernel, kNoInplace, Tensor(const Tensor&, OptionalDims, const std::optional<Scalar>&, bool),
         void(const ReducePlan&, const double& correction))
TENON_OP(var_unbiased, "var.unbiased(Tensor self, bool unbiased) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, bool), void())
TENON_OP(var_dim, "var.dim(Tensor self, int[]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", composite,
         kNoInplace, Tensor(const Tensor&, OptionalDims, bool, bool), void())
inline Tensor var(const Tensor& self, IntArrayRef dim = {}, const std::optional<Scalar>& correction = {},
                  bool keepdim = false) {
  return op::var(self, dim, correction, keepdim);
}
/// Square root of var.
TENON_OP(std, "std.correction(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, OptionalDims, const std::optional<Scalar>&, bool), void())
TENON_OP(std_unbiased, "std.unbiased(Tensor self, bool unbiased) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, bool), void())
TENON_OP(std_dim, "std.dim(Tensor self, int[]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", composite,
         kNoInplace, Tensor(const Tensor&, OptionalDims, bool, bool), void())

#define TENON_EXTREME_OPS(amax, max, max_dim, max_other, argmax, maximum)                                             \
  TENON_OP(amax, #amax "(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor", kernel, kNoInplace,               \
           Tensor(const Tensor&, IntArrayRef, bool), void(const ReducePlan&))                                         \
  inline Tensor amax(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false) {                                \
    return op::amax(self, dim, keepdim);                                                                              \
  }                                                                                                                   \
  TENON_OP(max, #max "(Tensor self) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&), void(const ReducePlan&))   \
  inline Tensor max(const Tensor& self) { return op::max(self); }                                                     \
  TENON_OP(max_dim, #max ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", kernel, \
           kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, int64_t, bool), void(const ReducePlan&))             \
  inline std::tuple<Tensor, Tensor> max(const Tensor& self, int64_t dim, bool keepdim = false) {                      \
    return op::max_dim(self, dim, keepdim);                                                                           \
  }                                                                                                                   \
  TENON_OP(max_other, #max ".other(Tensor self, Tensor other) -> Tensor", composite, kNoInplace,                      \
           Tensor(const Tensor&, const Tensor&), void())                                                              \
  inline Tensor max(const Tensor& self, const Tensor& other) { return op::max_other(self, other); }                   \
  TENON_OP(argmax, #argmax "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", kernel,                      \
           kNoInplace | kNonDifferentiable, Tensor(const Tensor&, std::optional<int64_t>, bool),                      \
           void(const ReducePlan&))                                                                                   \
  inline Tensor argmax(const Tensor& self, std::optional<int64_t> dim = {}, bool keepdim = false) {                   \
    return op::argmax(self, dim, keepdim);                                                                            \
  }
// NaN beats every number. Among equals max.dim and argmax give the first position (int64). The kernels of max are those
// of amax over all dimensions.
TENON_EXTREME_OPS(amax, max, max_dim, max_other, argmax, maximum)  ///< The largest element, or the larger of two.
TENON_EXTREME_OPS(amin, min, min_dim, min_other, argmin, minimum)  ///< The smallest element, or the smaller of two.
#undef TENON_EXTREME_OPS

/// Whether all (any) elements are nonzero: bool, or uint8 for uint8 tensors. NaN counts as nonzero.
TENON_OP(all, "all(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", kernel,
         kNoInplace | kNonDifferentiable, Tensor(const Tensor&, OptionalDims, bool), void(const ReducePlan&))
inline Tensor all(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false) {
  return op::all(self, dim, keepdim);
}
TENON_OP(any, "any(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", kernel,
         kNoInplace | kNonDifferentiable, Tensor(const Tensor&, OptionalDims, bool), void(const ReducePlan&))
inline Tensor any(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false) {
  return op::any(self, dim, keepdim);
}

/// `self` summed over the dimensions in which `sizes` broadcasts to it; what gradients of broadcasting need.
TENON_OP(sum_to_size, "sum_to_size(Tensor self, int[] size) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, IntArrayRef), void())
inline Tensor sum_to_size(const Tensor& self, IntArrayRef size) { return op::sum_to_size(self, size); }

}  // namespace tenon

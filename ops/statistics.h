// SPDX-License-Identifier: Apache-2.0
// Reductions made of others: products, pairs of results, reductions around NaN, log-sum-exp. `dim` absent or empty
// means all dimensions; keepdim keeps the reduced ones with size 1.
#pragma once

#include <tenon/dispatch/reduction.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

using OptionalDims = std::optional<IntArrayRef>;

/// Product. Integers and bool multiply in int64 (wrapping), 16-bit floats in float32. dtype: self is converted first.
TENON_OP(prod, "prod(Tensor self, *, dtype? dtype=None) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, std::optional<DType>), void(const ReducePlan&))
TENON_OP(prod_dim, "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, int64_t, bool, std::optional<DType>), void(const ReducePlan&))
inline Tensor prod(const Tensor& self, std::optional<DType> dtype = {}) { return op::prod(self, dtype); }
inline Tensor prod(const Tensor& self, int64_t dim, bool keepdim = false, std::optional<DType> dtype = {}) {
  return op::prod_dim(self, dim, keepdim, dtype);
}

/// log(sum(exp(x))) without overflow (complex too); -infinity over no elements. Integers give the default float.
TENON_OP(logsumexp, "logsumexp(Tensor self, int[] dim, bool keepdim=False) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, bool), void())
TENON_ALIAS("special_logsumexp", "logsumexp")
inline Tensor logsumexp(const Tensor& self, IntArrayRef dim, bool keepdim = false) {
  return op::logsumexp(self, dim, keepdim);
}

/// Sum and mean of what is not NaN. Real dtypes; the mean of floating ones only, NaN where nothing is left.
TENON_OP(nansum, "nansum(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", composite,
         kNoInplace, Tensor(const Tensor&, OptionalDims, bool, std::optional<DType>), void())
inline Tensor nansum(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false, std::optional<DType> dtype = {}) {
  return op::nansum(self, dim, keepdim, dtype);
}
TENON_OP(nanmean, "nanmean(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, OptionalDims, bool, std::optional<DType>), void())
inline Tensor nanmean(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false, std::optional<DType> dtype = {}) {
  return op::nanmean(self, dim, keepdim, dtype);
}

/// Elements that are not zero, as int64.
TENON_OP(count_nonzero, "count_nonzero(Tensor self, int[]? dim=None) -> Tensor", composite,
         kNoInplace | kNonDifferentiable, Tensor(const Tensor&, OptionalDims), void())
inline Tensor count_nonzero(const Tensor& self, IntArrayRef dim = {}) { return op::count_nonzero(self, dim); }

/// Variance (or its root) and mean.
#define TENON_MOMENTS(var)                                                                                           \
  TENON_OP(var##_mean,                                                                                               \
           #var                                                                                                      \
           "_mean.correction(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False)"          \
           " -> (Tensor, Tensor)",                                                                                   \
           composite, kNoInplace,                                                                                    \
           std::tuple<Tensor, Tensor>(const Tensor&, OptionalDims, const std::optional<Scalar>&, bool), void())      \
  TENON_OP(var##_mean_unbiased, #var "_mean(Tensor self, bool unbiased) -> (Tensor, Tensor)", composite, kNoInplace, \
           std::tuple<Tensor, Tensor>(const Tensor&, bool), void())                                                  \
  TENON_OP(var##_mean_dim,                                                                                           \
           #var "_mean.dim(Tensor self, int[]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",    \
           composite, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, OptionalDims, bool, bool), void())       \
  inline std::tuple<Tensor, Tensor> var##_mean(const Tensor& self, IntArrayRef dim = {},                             \
                                               const std::optional<Scalar>& correction = {}, bool keepdim = false) { \
    return op::var##_mean(self, dim, correction, keepdim);                                                           \
  }
TENON_MOMENTS(var)  ///< Variance and mean.
TENON_MOMENTS(std)  ///< Standard deviation and mean.
#undef TENON_MOMENTS

/// The smallest and the largest element, over one dimension or all.
TENON_OP(aminmax, "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", composite,
         kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, std::optional<int64_t>, bool), void())
inline std::tuple<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim = {}, bool keepdim = false) {
  return op::aminmax(self, dim, keepdim);
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Sorting and order statistics along one dimension, for real numbers and bool. Every order here is stable: equal
// elements keep the order of their positions, with `descending` too. -0 and 0 are equal; NaN is greater than any
// number, so it comes last, or first when descending. Indices are int64. A dimension out of range is an IndexError, a
// complex `self` a DtypeError.
//
// Kernels see contiguous lines: `self` [..., n] holds the dimension last, results [..., count], or [...] for one
// element a line. The cells of sort serve argsort and mode's first half, those of kthvalue the medians.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// What kthvalue's kernel takes from a line of n elements.
enum class OrderStatistic : uint8_t {
  kth,       ///< the k-th of the ascending order, from 1
  median,    ///< the lower median; the first NaN if there is one
  nanmedian  ///< the lower median of what is not NaN; NaN if nothing is
};

TENON_OP(
    sort,
    "sort(Tensor self, int dim=-1, bool descending=False, *, bool? stable=None) -> (Tensor values, Tensor indices)",
    kernel, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, int64_t, bool, std::optional<bool>),
    void(const Tensor& values, const Tensor& indices, const Tensor& self, bool descending))
/// The elements in order, and where each was. `stable` is accepted and always so.
inline std::tuple<Tensor, Tensor> sort(const Tensor& self, int64_t dim = -1, bool descending = false,
                                       std::optional<bool> stable = {}) {
  return op::sort(self, dim, descending, stable);
}
/// Positions of the elements in order: the indices of sort.
TENON_OP(argsort, "argsort(Tensor self, int dim=-1, bool descending=False, *, bool? stable=None) -> Tensor", kernel,
         kNoInplace | kNonDifferentiable, Tensor(const Tensor&, int64_t, bool, std::optional<bool>), void())
inline Tensor argsort(const Tensor& self, int64_t dim = -1, bool descending = false, std::optional<bool> stable = {}) {
  return op::argsort(self, dim, descending, stable);
}
/// The values of sort along the first dimension.
TENON_OP(msort, "msort(Tensor self) -> Tensor", composite, kNoInplace, Tensor(const Tensor&), void())
inline Tensor msort(const Tensor& self) { return op::msort(self); }

/// The k largest (or smallest) elements in order, equal ones by position, and where they were. ValueError unless
/// 0 <= k <= the size of the dimension. They come in order whether or not `sorted` asks for it.
TENON_OP(topk,
         "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
         kernel, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, int64_t, int64_t, bool, bool),
         void(const Tensor& values, const Tensor& indices, const Tensor& self, bool largest))
inline std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim = -1, bool largest = true,
                                       bool sorted = true) {
  return op::topk(self, k, dim, largest, sorted);
}
/// The k-th smallest element (k from 1; ValueError otherwise) and its position in the order of sort.
TENON_OP(kthvalue, "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
         kernel, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, int64_t, int64_t, bool),
         void(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t k, OrderStatistic statistic))
inline std::tuple<Tensor, Tensor> kthvalue(const Tensor& self, int64_t k, int64_t dim = -1, bool keepdim = false) {
  return op::kthvalue(self, k, dim, keepdim);
}

#define TENON_MEDIAN_OPS(median, median_dim)                                                                        \
  TENON_OP(median, #median "(Tensor self) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&), void())            \
  inline Tensor median(const Tensor& self) { return op::median(self); }                                             \
  TENON_OP(median_dim, #median ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", \
           kernel, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, int64_t, bool), void())                    \
  inline std::tuple<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim = false) {                 \
    return op::median_dim(self, dim, keepdim);                                                                      \
  }
// The lower of the two middle elements when their number is even. median gives NaN (and the position of the first) when
// there is one, nanmedian leaves them out. Of no elements: NaN over all of a floating tensor, else an IndexError.
TENON_MEDIAN_OPS(median, median_dim)        ///< The lower of the two middle elements when their number is even.
TENON_MEDIAN_OPS(nanmedian, nanmedian_dim)  ///< The median of what is not NaN.
#undef TENON_MEDIAN_OPS

/// The element that occurs most often (the smallest of several; a NaN equals nothing) and its last position. The kernel
/// reads lines that are sorted already. IndexError when the dimension has no elements.
TENON_OP(mode, "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", kernel,
         kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, int64_t, bool),
         void(const Tensor& values, const Tensor& indices, const Tensor& sorted, const Tensor& order))
inline std::tuple<Tensor, Tensor> mode(const Tensor& self, int64_t dim = -1, bool keepdim = false) {
  return op::mode(self, dim, keepdim);
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Norms of vectors and matrices. Floating and complex dtypes; complex ones give the real dtype. `dim` absent or empty
// means all dimensions. Sums of powers are taken in float64 on the CPU and in float32 or better on CUDA.
#pragma once

#include <tenon/dispatch/reduction.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

using OptionalDims = std::optional<IntArrayRef>;

/// (sum |x|^ord)^(1/ord); ord 0 counts what is not zero, infinity (-infinity) takes the largest (smallest) |x|. Over no
/// elements 0, but an IndexError for negative and infinite ord. dtype: self is converted first.
TENON_OP(linalg_vector_norm,
         "linalg_vector_norm(Tensor self, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)"
         " -> Tensor",
         kernel, kNoInplace, Tensor(const Tensor&, const Scalar&, OptionalDims, bool, std::optional<DType>),
         void(const ReducePlan&, const double& ord))
inline Tensor vector_norm(const Tensor& self, const Scalar& ord = 2, IntArrayRef dim = {}, bool keepdim = false,
                          std::optional<DType> dtype = {}) {
  return op::linalg_vector_norm(self, ord, dim, keepdim, dtype);
}
/// Of the matrices in two dimensions: ord 1 (-1) the largest (smallest) sum of |column|, infinity (-infinity) of |row|,
/// "fro" the root of all squares, 2 (-2) the largest (smallest) singular value, "nuc" their sum.
TENON_OP(linalg_matrix_norm,
         "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, dtype? dtype=None)"
         " -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, const Scalar&, IntArrayRef, bool, std::optional<DType>), void())
TENON_OP(linalg_matrix_norm_str,
         "linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2,-1], bool keepdim=False, *,"
         " dtype? dtype=None) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, std::string_view, IntArrayRef, bool, std::optional<DType>),
         void())
/// The norm of a vector (one dimension given, or a one-dimensional tensor), of matrices (two), or without ord of all
/// elements.
TENON_OP(linalg_norm,
         "linalg_norm(Tensor self, Scalar? ord=None, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)"
         " -> Tensor",
         composite, kNoInplace,
         Tensor(const Tensor&, const std::optional<Scalar>&, OptionalDims, bool, std::optional<DType>), void())
TENON_OP(linalg_norm_str,
         "linalg_norm.ord_str(Tensor self, str ord, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)"
         " -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, std::string_view, OptionalDims, bool, std::optional<DType>),
         void())

/// The vector norm of order p, over all dimensions or those of dim; "fro" is p = 2.
TENON_OP(norm, "norm(Tensor self, Scalar? p=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
         composite, kNoInplace,
         Tensor(const Tensor&, const std::optional<Scalar>&, OptionalDims, bool, std::optional<DType>), void())
TENON_OP(norm_str, "norm.str(Tensor self, str p, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, std::string_view, OptionalDims, bool, std::optional<DType>),
         void())
inline Tensor norm(const Tensor& self, const Scalar& p = 2, IntArrayRef dim = {}, bool keepdim = false,
                   std::optional<DType> dtype = {}) {
  return op::norm(self, p, dim, keepdim, dtype);
}
/// norm(self - other, p).
TENON_OP(dist, "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&, const Scalar&), void())
inline Tensor dist(const Tensor& self, const Tensor& other, const Scalar& p = 2) { return op::dist(self, other, p); }
/// self with every slice along `dim` whose p-norm is beyond maxnorm scaled down to it.
TENON_OP(renorm, "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", composite, kPlain,
         Tensor(const Tensor&, const Scalar&, int64_t, const Scalar&), void())
inline Tensor renorm(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  return op::renorm(self, p, dim, maxnorm);
}

}  // namespace tenon

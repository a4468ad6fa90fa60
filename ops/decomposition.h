// SPDX-License-Identifier: Apache-2.0
// Decompositions of matrices [..., m, n] of float32, float64 and complex dtypes. On CUDA they are computed on the host.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// The inverse of square matrices; ValueError on a singular one. Kernel: both contiguous.
TENON_OP(linalg_inv, "linalg_inv(Tensor A) -> Tensor", kernel, kNoInplace | kNotCapturable, Tensor(const Tensor&),
         void(const Tensor& out, const Tensor& a))
TENON_ALIAS("inverse", "linalg_inv")
inline Tensor inverse(const Tensor& self) { return op::linalg_inv(self); }
/// U [m, k], S [k] descending, Vh [k, n] with k = min(m, n) and A = U S Vh. Kernel: all contiguous.
TENON_OP(_linalg_svd, "_linalg_svd(Tensor A) -> (Tensor U, Tensor S, Tensor Vh)", kernel, kNoInplace | kNotCapturable,
         std::tuple<Tensor, Tensor, Tensor>(const Tensor&),
         void(const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& a))

}  // namespace tenon

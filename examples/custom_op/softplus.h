// SPDX-License-Identifier: Apache-2.0
// my::softplus, declared as tenon declares its own operators.
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>

namespace my {
using namespace tenon;  // NOLINT

TENON_OP(softplus, "my::softplus(Tensor self, float beta=1) -> Tensor", kernel, kPlain, Tensor(const Tensor&, double),
         void(const LoopPlan&, double))
/// log(1 + exp(beta x)) / beta without overflow, beta > 0. Any shape, floating dtypes. DtypeError, ValueError otherwise.
inline Tensor softplus(const Tensor& x, double beta = 1) { return op::softplus(x, beta); }

}  // namespace my

// SPDX-License-Identifier: Apache-2.0
// Gradients of vector norms: x |x|^(p-2) / norm^(p-1). Where the norm is 0, and at zeros for p < 2, the subgradient 0.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/vector_norm.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <cmath>

namespace tenon {
namespace {

using dispatch::Gradients;

// With size 1 in the reduced dimensions.
Tensor kept(const Tensor& t, IntArrayRef dims, bool keepdim, IntArrayRef input) {
  if (keepdim || t.dim() == static_cast<int64_t>(input.size())) return t;
  DimVector sizes(input);
  const auto rank = static_cast<int64_t>(input.size());
  for (int64_t d = 0; d < rank; ++d) {
    bool gone = dims.empty();
    for (const int64_t each : dims) gone = gone || (each < 0 ? each + rank : each) == d;
    if (gone) sizes[static_cast<std::size_t>(d)] = 1;
  }
  return t.reshape(sizes);
}

// base^power where base is not 0, else 0: with finite derivatives of every order.
Tensor power_or_zero(const Tensor& base, double power) {
  const Tensor zero = eq(base, 0);
  return where(zero, 0, pow(where(zero, 1, base), power));
}

Tensor gradient_of_norm(const Tensor& x, const Tensor& grad, const Tensor& norm, double p, IntArrayRef dims) {
  if (p == 0) return mul(x, 0);
  if (p == 1) return mul(sgn(x), grad);
  if (std::isinf(p)) {  // evenly over those that have it; a NaN is one
    const Tensor size = abs(x);
    const Tensor hit = logical_or(eq(size, norm), logical_and(isnan(size), isnan(norm)));
    return mul(sgn(x), where(hit, div(grad, sum(hit, dims, true)), 0));
  }
  const Tensor zero = eq(norm, 0), safe = where(zero, 1, norm);
  if (p == 2) return mul(x, where(zero, 0, div(grad, safe)));
  const Tensor scale = where(zero, 0, mul(grad, pow(safe, 1 - p)));
  if (p < 2) return mul(mul(sgn(x), power_or_zero(abs(x), p - 1)), scale);
  return mul(mul(x, power_or_zero(abs(x), p - 2)), scale);
}

}  // namespace

TENON_REGISTER_GRADIENT(op::linalg_vector_norm, inputs(0) | result(),
                        [](Gradients& g, const Tensor& self, const Scalar& ord, OptionalDims dim, bool keepdim,
                           std::optional<DType> dtype) {
                          g.set(0, [&] {
                            const IntArrayRef dims = dim ? *dim : IntArrayRef();
                            const Tensor x = dtype ? self.to(*dtype) : self;
                            const DimVector sizes(self.sizes());
                            return gradient_of_norm(x, kept(g.grad(), dims, keepdim, sizes),
                                                    kept(g.result(), dims, keepdim, sizes), ord.real(), dims);
                          });
                        });

}  // namespace tenon

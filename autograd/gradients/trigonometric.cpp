// SPDX-License-Identifier: Apache-2.0
// Gradients of circular and hyperbolic functions. Complex derivatives are conjugated, as everywhere.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/trigonometric.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

namespace tenon {

using dispatch::Gradients;

// grad times the conjugate of a derivative written in `x`.
#define TENON_GRADIENT_OF(name, derivative)                                        \
  TENON_REGISTER_GRADIENT(op::name, inputs(0), [](Gradients& g, const Tensor& x) { \
    g.set(0, [&] { return mul(g.grad(), conj(derivative)); });                     \
  });
#define TENON_GRADIENT_QUOTIENT(name, denominator)                                 \
  TENON_REGISTER_GRADIENT(op::name, inputs(0), [](Gradients& g, const Tensor& x) { \
    g.set(0, [&] { return div(g.grad(), conj(denominator)); });                    \
  });

TENON_GRADIENT_OF(sin, cos(x))
TENON_GRADIENT_OF(cos, neg(sin(x)))
TENON_GRADIENT_OF(sinh, cosh(x))
TENON_GRADIENT_OF(cosh, sinh(x))
TENON_GRADIENT_OF(asin, rsqrt(sub(1, mul(x, x))))
TENON_GRADIENT_OF(acos, neg(rsqrt(sub(1, mul(x, x)))))
TENON_GRADIENT_OF(asinh, rsqrt(add(mul(x, x), 1)))
TENON_GRADIENT_QUOTIENT(atan, add(mul(x, x), 1))
TENON_GRADIENT_QUOTIENT(atanh, sub(1, mul(x, x)))
#undef TENON_GRADIENT_OF
#undef TENON_GRADIENT_QUOTIENT

TENON_REGISTER_GRADIENT(op::tan, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return mul(g.grad(), conj(add(square(g.result()), 1))); });
});
// Two roots for complex x: the product would leave the principal branch. |x|: at -1 the product is 0, not -0.
TENON_REGISTER_GRADIENT(op::acosh, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] {
    const Tensor y = x.is_complex() ? x : abs(x), less = sub(y, 1), more = add(y, 1);
    return mul(g.grad(), x.is_complex() ? conj(mul(rsqrt(less), rsqrt(more))) : rsqrt(mul(less, more)));
  });
});
// (cos(pi x) - sinc(x)) / x, which cancels near 0: there its series.
TENON_REGISTER_GRADIENT(op::sinc, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] {
    const Tensor near = lt(abs(x), 0.05), safe = where(near, 1, x);
    const Tensor slope = div(sub(cos(mul(safe, 3.14159265358979324)), sinc(safe)), safe);
    const Tensor z = square(where(near, x, 0));  // pi^2 / 3, pi^4 / 30, pi^6 / 840, pi^8 / 45360
    const Tensor series =
        sub(mul(z, sub(3.24696970113341457, mul(z, sub(1.14451094473250528, mul(z, 0.209182782541238))))),
            3.28986813369645287);
    return mul(g.grad(), conj(where(near, mul(x, series), slope)));
  });
});
TENON_REGISTER_GRADIENT(op::atan2, inputs(0, 1), [](Gradients& g, const Tensor& self, const Tensor& other) {
  const auto square_sum = [&] {  // 0 at the origin
    const Tensor sum = add(mul(self, self), mul(other, other));
    return where(eq(sum, 0), 1, sum);
  };
  g.set(0, [&] { return mul(g.grad(), div(other, square_sum())); });
  g.set(1, [&] { return mul(g.grad(), div(neg(self), square_sum())); });
});
TENON_REGISTER_GRADIENT(op::hypot, inputs(0, 1) | result(), [](Gradients& g, const Tensor& self, const Tensor& other) {
  g.set(0, [&] { return mul(g.grad(), div(self, g.result())); });
  g.set(1, [&] { return mul(g.grad(), div(other, g.result())); });
});

}  // namespace tenon

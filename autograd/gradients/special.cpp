// SPDX-License-Identifier: Apache-2.0
// Gradients of special functions.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/special.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

namespace tenon {

using dispatch::Gradients;

namespace {

constexpr double kTwoOverSqrtPi = 1.12837916709551257, kHalfSqrtPi = 0.88622692545275801;
constexpr double kSqrtTwoPi = 2.50662827463100050, kSqrtHalf = 0.70710678118654752;

// f(x) / x with the limit 1/2 at 0, differentiable on both sides.
Tensor over(const Tensor& f, const Tensor& x) {
  const Tensor zero = eq(x, 0);
  return where(zero, 0.5, div(f, where(zero, 1, x)));
}

}  // namespace

TENON_REGISTER_GRADIENT(op::lgamma, inputs(0),
                        [](Gradients& g, const Tensor& x) { g.set(0, [&] { return mul(g.grad(), digamma(x)); }); });
TENON_REGISTER_GRADIENT(op::digamma, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return mul(g.grad(), polygamma(1, x)); });
});
TENON_REGISTER_GRADIENT(op::polygamma, inputs(1), [](Gradients& g, int64_t n, const Tensor& x) {
  g.set(1, [&] { return mul(g.grad(), polygamma(n + 1, x)); });
});

TENON_REGISTER_GRADIENT(op::erf, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return mul(g.grad(), mul(exp(neg(square(x))), kTwoOverSqrtPi)); });
});
TENON_REGISTER_GRADIENT(op::erfc, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return mul(g.grad(), mul(exp(neg(square(x))), -kTwoOverSqrtPi)); });
});
TENON_REGISTER_GRADIENT(op::erfinv, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return mul(g.grad(), mul(exp(square(g.result())), kHalfSqrtPi)); });
});
TENON_REGISTER_GRADIENT(op::special_erfcx, inputs(0) | result(), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return mul(g.grad(), sub(mul(mul(x, g.result()), 2), kTwoOverSqrtPi)); });
});
TENON_REGISTER_GRADIENT(op::special_ndtr, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return mul(g.grad(), div(exp(mul(square(x), -0.5)), kSqrtTwoPi)); });
});
// phi / Phi = sqrt(2/pi) / erfcx(-x / sqrt 2): finite in the lower tail.
TENON_REGISTER_GRADIENT(op::special_log_ndtr, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return div(mul(g.grad(), 2 / kSqrtTwoPi), special_erfcx(mul(x, -kSqrtHalf))); });
});
TENON_REGISTER_GRADIENT(op::special_ndtri, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return mul(g.grad(), mul(exp(mul(square(g.result()), 0.5)), kSqrtTwoPi)); });
});

TENON_REGISTER_GRADIENT(op::i0, inputs(0),
                        [](Gradients& g, const Tensor& x) { g.set(0, [&] { return mul(g.grad(), special_i1(x)); }); });
TENON_REGISTER_GRADIENT(op::special_i0e, inputs(0) | result(), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return mul(g.grad(), sub(special_i1e(x), mul(sgn(x), g.result()))); });
});
TENON_REGISTER_GRADIENT(op::special_i1, inputs(0) | result(), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return mul(g.grad(), sub(i0(x), over(g.result(), x))); });
});
TENON_REGISTER_GRADIENT(op::special_i1e, inputs(0) | result(), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] {
    const Tensor y = g.result();
    return mul(g.grad(), sub(sub(special_i0e(x), over(y, x)), mul(sgn(x), y)));
  });
});

}  // namespace tenon

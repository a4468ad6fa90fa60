// SPDX-License-Identifier: Apache-2.0
// Gradients of elementwise functions of one tensor. At kinks: relu'(0) = 0, abs'(0) = 0.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

#include <cmath>

namespace tenon {

using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::neg, nothing(),
                        [](Gradients& g, const Tensor&) { g.set(0, [&] { return neg(g.grad()); }); });
TENON_REGISTER_GRADIENT(op::abs, inputs(0),
                        [](Gradients& g, const Tensor& self) { g.set(0, [&] { return mul(sgn(self), g.grad()); }); });
TENON_REGISTER_GRADIENT(op::sgn, inputs(0) | result(), [](Gradients& g, const Tensor& self) {
  if (!self.is_complex()) return;
  // d(z / |z|) turns z only: the part of grad across z, divided by |z|.
  g.set(0, [&] {
    const Tensor modulus = abs(self), along = g.result();
    const Tensor turned =
        sub(g.grad(), mul(mul(add(mul(g.grad(), conj(along)), mul(conj(g.grad()), along)), 0.5), along));
    return where(eq(modulus, 0), 0, div(turned, modulus));
  });
});
TENON_REGISTER_GRADIENT(op::square, inputs(0), [](Gradients& g, const Tensor& self) {
  g.set(0, [&] { return mul(g.grad(), mul(conj(self), 2)); });
});
TENON_REGISTER_GRADIENT(op::relu, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return op::threshold_backward(g.grad(), g.result(), 0); });
});
TENON_REGISTER_GRADIENT(op::conj, nothing(),
                        [](Gradients& g, const Tensor&) { g.set(0, [&] { return conj(g.grad()); }); });
TENON_REGISTER_GRADIENT(op::exp, result(),
                        [](Gradients& g, const Tensor&) { g.set(0, [&] { return mul(g.grad(), conj(g.result())); }); });
TENON_REGISTER_GRADIENT(op::log, inputs(0),
                        [](Gradients& g, const Tensor& self) { g.set(0, [&] { return div(g.grad(), conj(self)); }); });
TENON_REGISTER_GRADIENT(op::sqrt, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return div(g.grad(), mul(conj(g.result()), 2)); });
});
TENON_REGISTER_GRADIENT(op::rsqrt, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] {
    const Tensor y = conj(g.result());
    return mul(mul(g.grad(), -0.5), mul(mul(y, y), y));
  });
});
TENON_REGISTER_GRADIENT(op::reciprocal, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] {
    const Tensor y = conj(g.result());
    return mul(neg(g.grad()), mul(y, y));
  });
});
TENON_REGISTER_GRADIENT(op::tanh, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return op::tanh_backward(g.grad(), g.result()); });
});
TENON_REGISTER_GRADIENT(op::sigmoid, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return op::sigmoid_backward(g.grad(), g.result()); });
});
TENON_REGISTER_GRADIENT(op::gelu, inputs(0), [](Gradients& g, const Tensor& self, std::string_view approximate) {
  g.set(0, [&] { return op::gelu_backward(g.grad(), self, approximate); });
});
TENON_REGISTER_GRADIENT(op::gelu_backward, inputs(0, 1),
                        [](Gradients& g, const Tensor& grad, const Tensor& self, std::string_view approximate) {
                          g.set(0, [&] { return op::gelu_backward(g.grad(), self, approximate); });
                          g.set(1, [&] {
                            const Tensor outer = mul(g.grad(), grad), square_of = mul(self, self);
                            if (approximate == "none") {
                              // (2 - x^2) times the normal density.
                              const Tensor density = mul(exp(mul(square_of, -0.5)), 0.3989422804014327);
                              return mul(outer, mul(density, sub(2, square_of)));
                            }
                            // y = x/2 (1 + t), t = tanh u, u = k (x + c x^3): y'' = t' + x/2 t''.
                            const double k = 0.7978845608028654, c = 0.044715;
                            const Tensor t = tanh(mul(add(self, mul(mul(square_of, self), c)), k));
                            const Tensor u1 = mul(add(mul(square_of, 3 * c), 1), k), u2 = mul(self, 6 * c * k);
                            const Tensor s = sub(1, mul(t, t));
                            const Tensor t1 = mul(s, u1), t2 = sub(mul(s, u2), mul(mul(mul(t, t1), u1), 2));
                            return mul(outer, add(t1, mul(mul(self, t2), 0.5)));
                          });
                        });

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Gradients of operators of three tensors.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/ternary.h>
#include <tenon/ops/unary.h>

namespace tenon {

using dispatch::Gradients;

namespace {

Scalar conjugate(const Scalar& s) {
  if (!s.is_complex()) return s;
  const auto z = s.to<complex<double>>();
  return Scalar(complex<double>(z.re, -z.im));
}

}  // namespace

TENON_REGISTER_GRADIENT(op::addcmul, crosswise(1, 2),
                        [](Gradients& g, const Tensor&, const Tensor& a, const Tensor& b, const Scalar& value) {
                          g.set(0, [&] { return g.grad(); });
                          g.set(1, [&] { return mul(mul(g.grad(), conj(b)), conjugate(value)); });
                          g.set(2, [&] { return mul(mul(g.grad(), conj(a)), conjugate(value)); });
                        });
TENON_REGISTER_GRADIENT(op::addcdiv, inputs(1, 2),
                        [](Gradients& g, const Tensor&, const Tensor& a, const Tensor& b, const Scalar& value) {
                          g.set(0, [&] { return g.grad(); });
                          g.set(1, [&] { return mul(div(g.grad(), conj(b)), conjugate(value)); });
                          g.set(2, [&] { return neg(mul(mul(g.grad(), conj(div(a, mul(b, b)))), conjugate(value))); });
                        });
TENON_REGISTER_GRADIENT(op::lerp, inputs(0, 1, 2),
                        [](Gradients& g, const Tensor& self, const Tensor& end, const Operand& weight) {
                          const auto w = [&]() -> Tensor { return conj(weight.tensor()); };
                          if (weight.is_tensor()) {
                            g.set(0, [&] { return mul(g.grad(), sub(1, w())); });
                            g.set(1, [&] { return mul(g.grad(), w()); });
                            g.set(2, [&] { return mul(g.grad(), conj(sub(end, self))); });
                          } else {
                            const Scalar k = conjugate(weight.number());
                            g.set(0, [&] { return sub(g.grad(), mul(g.grad(), k)); });
                            g.set(1, [&] { return mul(g.grad(), k); });
                          }
                        });

}  // namespace tenon

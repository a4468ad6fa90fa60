// SPDX-License-Identifier: Apache-2.0
// Gradients of what joins and parts complex numbers; the angle has none at 0.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/complex.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

namespace tenon {

using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::make_complex, nothing(), [](Gradients& g, const Tensor&, const Tensor&) {
  g.set(0, [&] { return real(g.grad()); });
  g.set(1, [&] { return imag(g.grad()); });
});
TENON_REGISTER_GRADIENT(op::view_as_real, nothing(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return view_as_complex(g.grad().contiguous()); });
});
TENON_REGISTER_GRADIENT(op::view_as_complex, nothing(),
                        [](Gradients& g, const Tensor&) { g.set(0, [&] { return view_as_real(g.grad()); }); });
TENON_REGISTER_GRADIENT(op::angle, inputs(0), [](Gradients& g, const Tensor& self) {
  if (!self.is_complex()) return;
  // The direction i z / |z|, across z, over the modulus.
  g.set(0, [&] {
    const Tensor modulus = abs(self), zero = eq(modulus, 0);
    const Tensor across = mul(sgn(self), Scalar(complex<double>(0, 1)));
    return mul(across, where(zero, 0, div(g.grad(), where(zero, 1, modulus))));
  });
});

}  // namespace tenon

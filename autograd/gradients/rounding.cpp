// SPDX-License-Identifier: Apache-2.0
// Gradients of rounding, which is flat, and of remainders, which are flat but for their slope in self.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/rounding.h>
#include <tenon/ops/unary.h>

namespace tenon {

using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::ceil, nothing(), [](Gradients&, const Tensor&) {});
TENON_REGISTER_GRADIENT(op::floor, nothing(), [](Gradients&, const Tensor&) {});
TENON_REGISTER_GRADIENT(op::trunc, nothing(), [](Gradients&, const Tensor&) {});
TENON_REGISTER_GRADIENT(op::round, nothing(), [](Gradients&, const Tensor&) {});
TENON_REGISTER_GRADIENT(op::round_decimals, nothing(), [](Gradients&, const Tensor&, int64_t) {});
TENON_REGISTER_GRADIENT(op::frac, nothing(), [](Gradients& g, const Tensor&) { g.set(0, [&] { return g.grad(); }); });
TENON_REGISTER_GRADIENT(op::fmod, inputs(0, 1), [](Gradients& g, const Operand& self, const Operand& other) {
  g.set(0, [&] { return g.grad(); });
  g.set(1, [&] { return neg(mul(g.grad(), div(self, other, "trunc"))); });
});
TENON_REGISTER_GRADIENT(op::remainder, inputs(0, 1), [](Gradients& g, const Operand& self, const Operand& other) {
  g.set(0, [&] { return g.grad(); });
  g.set(1, [&] { return neg(mul(g.grad(), div(self, other, "floor"))); });
});

}  // namespace tenon

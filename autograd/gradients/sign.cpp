// SPDX-License-Identifier: Apache-2.0
// Gradients of signs: sign is flat; copysign has slope 1 or -1, taken as 0 at 0, and is flat in the sign's giver.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/sign.h>
#include <tenon/ops/where.h>

namespace tenon {

using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::sign, nothing(), [](Gradients&, const Tensor&) {});
TENON_REGISTER_GRADIENT(op::copysign, inputs(0) | result(), [](Gradients& g, const Tensor& self, const Operand&) {
  g.set(0, [&] {
    const Tensor zero = eq(self, 0);
    return where(zero, 0, mul(g.grad(), div(g.result().detach(), where(zero, 1, self.detach()))));
  });
});

}  // namespace tenon

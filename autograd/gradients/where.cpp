// SPDX-License-Identifier: Apache-2.0
// Gradients of choices. At a clamp's bound the gradient passes.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

namespace tenon {
namespace {
using dispatch::Gradients;

Tensor inside(const Tensor& grad, const Tensor& within) { return where(within, grad, 0); }
}  // namespace

TENON_REGISTER_GRADIENT(op::where, inputs(0),
                        [](Gradients& g, const Tensor& condition, const Operand&, const Operand&) {
                          g.set(1, [&] { return where(condition, g.grad(), 0); });
                          g.set(2, [&] { return where(condition, 0, g.grad()); });
                        });
TENON_REGISTER_GRADIENT(op::clamp_min, inputs(0, 1), [](Gradients& g, const Tensor& self, const Operand& min) {
  g.set(0, [&] { return inside(g.grad(), ge(self, min)); });
  g.set(1, [&] { return inside(g.grad(), lt(self, min)); });
});
TENON_REGISTER_GRADIENT(op::clamp_max, inputs(0, 1), [](Gradients& g, const Tensor& self, const Operand& max) {
  g.set(0, [&] { return inside(g.grad(), le(self, max)); });
  g.set(1, [&] { return inside(g.grad(), gt(self, max)); });
});
TENON_REGISTER_GRADIENT(op::clamp, inputs(0),
                        [](Gradients& g, const Tensor& self, const std::optional<Scalar>& min,
                           const std::optional<Scalar>& max) {
                          g.set(0, [&] {
                            if (min && max) return inside(g.grad(), logical_and(ge(self, *min), le(self, *max)));
                            return inside(g.grad(), min ? ge(self, *min) : le(self, *max));
                          });
                        });
TENON_REGISTER_GRADIENT(
    op::clamp_tensor, inputs(0, 1, 2), [](Gradients& g, const Tensor& self, const Tensor& min, const Tensor& max) {
      g.set(0, [&] {
        if (min.defined() && max.defined()) return inside(g.grad(), logical_and(ge(self, min), le(self, max)));
        return inside(g.grad(), min.defined() ? ge(self, min) : le(self, max));
      });
      // max wins where the bounds cross.
      g.set(1,
            [&] { return inside(g.grad(), max.defined() ? logical_and(lt(self, min), le(min, max)) : lt(self, min)); });
      g.set(2,
            [&] { return inside(g.grad(), min.defined() ? logical_or(gt(self, max), gt(min, max)) : gt(self, max)); });
    });

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Gradients of elementwise losses. At kinks the derivative of |d| is 0, and that of the squared side where two meet.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/elementwise_loss.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

namespace tenon {
namespace {
using dispatch::Gradients;

bool of_difference(int64_t kind) { return kind <= static_cast<int64_t>(ElementLoss::huber); }

// Second derivative of the loss with respect to self, times `outer`; undefined where it is zero.
Tensor second(const Tensor& outer, const Tensor& x, const Tensor& t, ElementLoss kind, double number) {
  switch (kind) {
    case ElementLoss::absolute:
      return {};
    case ElementLoss::squared:
      return mul(outer, 2);
    case ElementLoss::smooth:
      return where(lt(abs(sub(x, t)), number), div(outer, number), 0);
    case ElementLoss::huber:
      return where(le(abs(sub(x, t)), number), outer, 0);
    case ElementLoss::binary: {
      const Tensor no = sub(1, x);
      return mul(outer, add(div(t, mul(x, x)), div(sub(1, t), mul(no, no))));
    }
    case ElementLoss::logits:
      return op::sigmoid_backward(outer, sigmoid(x));
  }
  return {};
}
// The logarithms of probabilities, bounded as the loss bounds them.
Tensor bounded_log(const Tensor& p) { return clamp_min(log(p), -100); }
}  // namespace

TENON_REGISTER_GRADIENT(op::elementwise_loss, inputs(0, 1),
                        [](Gradients& g, const Tensor& x, const Tensor& t, int64_t kind, double number) {
                          const bool both = of_difference(kind) && g.needs(1);
                          Tensor slope;
                          if (g.needs(0) || both) slope = op::elementwise_loss_backward(g.grad(), x, t, kind, number);
                          g.set(0, [&] { return slope; });
                          g.set(1, [&]() -> Tensor {
                            if (of_difference(kind)) return neg(slope);
                            if (kind == static_cast<int64_t>(ElementLoss::logits)) return neg(mul(g.grad(), x));
                            return mul(g.grad(), sub(bounded_log(sub(1, x)), bounded_log(x)));
                          });
                        });
TENON_REGISTER_GRADIENT(op::elementwise_loss_backward, inputs(0, 1, 2),
                        [](Gradients& g, const Tensor& grad, const Tensor& x, const Tensor& t, int64_t kind,
                           double number) {
                          g.set(0, [&] { return op::elementwise_loss_backward(g.grad(), x, t, kind, number); });
                          if (!g.needs(1) && !g.needs(2)) return;
                          const Tensor outer = mul(g.grad(), grad);
                          const Tensor bend = second(outer, x, t, static_cast<ElementLoss>(kind), number);
                          g.set(1, [&] { return bend; });
                          g.set(2, [&]() -> Tensor {
                            if (of_difference(kind)) return bend.defined() ? neg(bend) : bend;
                            if (kind == static_cast<int64_t>(ElementLoss::logits)) return neg(outer);
                            return neg(div(outer, mul(x, sub(1, x))));
                          });
                        });

}  // namespace tenon

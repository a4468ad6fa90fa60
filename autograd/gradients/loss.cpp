// SPDX-License-Identifier: Apache-2.0
// Gradients of losses. nll_loss is linear in its input, so the gradient of its gradient is nll_loss again.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/loss.h>

namespace tenon {

namespace {
using dispatch::Gradients;

void check_weight(Gradients& g, int i) {
  TENON_CHECK(!g.needs(i), AutogradError, "nll_loss: weight: is not differentiable, but requires grad; detach() it");
}
}  // namespace

TENON_REGISTER_GRADIENT(op::nll_loss_forward, inputs(0, 1, 2) | outputs(1),
                        [](Gradients& g, const Tensor& self, const Tensor& target, const Tensor& weight,
                           int64_t reduction, int64_t ignore) {
                          check_weight(g, 2);
                          g.set(0, [&] {
                            return op::nll_loss_backward(g.grad(), self, target, weight, reduction, ignore,
                                                         g.result(1));
                          });
                        });
TENON_REGISTER_GRADIENT(op::nll_loss_backward, inputs(2, 3),
                        [](Gradients& g, const Tensor&, const Tensor&, const Tensor& target, const Tensor& weight,
                           int64_t reduction, int64_t ignore, const Tensor&) {
                          check_weight(g, 3);
                          g.set(0, [&] {
                            return std::get<0>(op::nll_loss_forward(g.grad(), target, weight, reduction, ignore));
                          });
                        });

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Gradient of dropout: what was kept, scaled alike.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/random.h>

namespace tenon {

using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::native_dropout, outputs(1),
                        [](Gradients& g, const Tensor&, double p, std::optional<bool> train) {
                          g.set(0, [&] {
                            const double scale = !train.value_or(true) ? 1.0 : p < 1 ? 1 / (1 - p) : 0.0;
                            return op::native_dropout_backward(g.grad(), g.result(1), scale);
                          });
                        });

}  // namespace tenon

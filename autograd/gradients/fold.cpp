// SPDX-License-Identifier: Apache-2.0
// im2col and col2im are each other's gradient.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/fold.h>

namespace tenon {
using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::im2col, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef kernel_size, IntArrayRef dilation,
                           IntArrayRef padding, IntArrayRef stride) {
                          g.set(0, [&] {
                            const DimVector& sizes = g.meta(0).sizes;
                            return op::col2im(g.grad(), IntArrayRef(sizes).slice(sizes.size() - 2, 2), kernel_size,
                                              dilation, padding, stride);
                          });
                        });
TENON_REGISTER_GRADIENT(op::col2im, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef, IntArrayRef kernel_size, IntArrayRef dilation,
                           IntArrayRef padding, IntArrayRef stride) {
                          g.set(0, [&] { return op::im2col(g.grad(), kernel_size, dilation, padding, stride); });
                        });

}  // namespace tenon

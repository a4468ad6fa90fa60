// SPDX-License-Identifier: Apache-2.0
// Gradients of convolutions. A convolution is bilinear in input and weight, so the gradients of its backward operator are
// convolutions and backward operators again, with what flows to a gradient in place of what the gradient belongs to.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/convolution.h>

namespace tenon {

TENON_REGISTER_GRADIENT(op::convolution, inputs(0, 1),
                        [](Gradients& g, const Tensor& input, const Tensor& weight, const Tensor&, IntArrayRef stride,
                           IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                           int64_t groups) {
                          const int64_t mask = (g.needs(0) ? 1 : 0) | (g.needs(1) ? 2 : 0) | (g.needs(2) ? 4 : 0);
                          if (mask == 0) return;
                          auto [dx, dw, db] =
                              op::convolution_backward(g.grad(), input, weight, stride, padding, dilation, transposed,
                                                       output_padding, groups, mask);
                          g.put(0, dx);
                          g.put(1, dw);
                          g.put(2, db);
                        });

TENON_REGISTER_GRADIENT(op::convolution_backward, inputs(0, 1, 2),
                        [](Gradients& g, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                           IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                           IntArrayRef output_padding, int64_t groups, int64_t) {
                          const auto forward = [&](const Tensor& x, const Tensor& w, const Tensor& bias) {
                            return op::convolution(x, w, bias, stride, padding, dilation, transposed, output_padding,
                                                   groups);
                          };
                          const auto backward = [&](const Tensor& x, const Tensor& w, int64_t mask) {
                            return op::convolution_backward(grad_output, x, w, stride, padding, dilation, transposed,
                                                            output_padding, groups, mask);
                          };
                          const bool to_input = g.has_grad(0), to_weight = g.has_grad(1), to_bias = g.has_grad(2);
                          if (g.needs(0)) {
                            const Tensor bias = to_bias ? g.grad(2) : Tensor();
                            if (to_input) g.put(0, forward(g.grad(0), weight, bias));
                            if (to_weight) g.put(0, forward(input, g.grad(1), to_input ? Tensor() : bias));
                            if (to_bias && !to_input && !to_weight) {
                              DimVector sizes(g.meta(0).sizes.size(), 1);
                              sizes[1] = bias.numel();
                              g.put(0, bias.reshape(sizes).expand(g.meta(0).sizes));
                            }
                          }
                          if (to_weight && g.needs(1)) g.put(1, std::get<0>(backward(input, g.grad(1), 1)));
                          if (to_input && g.needs(2)) g.put(2, std::get<1>(backward(g.grad(0), weight, 2)));
                        });

}  // namespace tenon

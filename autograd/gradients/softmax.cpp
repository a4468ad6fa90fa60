// SPDX-License-Identifier: Apache-2.0
// Gradients of softmax and its logarithm, and of those gradients.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/unary.h>

namespace tenon {
namespace {
using dispatch::Gradients;

Tensor total(const Tensor& t, int64_t dim) { return sum(t, IntArrayRef(dim), true); }
}  // namespace

TENON_REGISTER_GRADIENT(op::softmax, result(), [](Gradients& g, const Tensor&, int64_t dim, std::optional<DType>) {
  g.set(0, [&] { return op::softmax_backward(g.grad(), g.result(), dim, g.meta(0).dtype); });
});
TENON_REGISTER_GRADIENT(op::log_softmax, result(), [](Gradients& g, const Tensor&, int64_t dim, std::optional<DType>) {
  g.set(0, [&] { return op::log_softmax_backward(g.grad(), g.result(), dim, g.meta(0).dtype); });
});
TENON_REGISTER_GRADIENT(op::softmax_backward, inputs(0, 1),
                        [](Gradients& g, const Tensor& grad, const Tensor& output, int64_t dim, DType) {
                          const Tensor gg = g.grad().to(grad.dtype());
                          g.set(0, [&] { return op::softmax_backward(gg, output, dim, grad.dtype()); });
                          g.set(1, [&] {
                            return sub(mul(gg, sub(grad, total(mul(grad, output), dim))),
                                       mul(grad, total(mul(gg, output), dim)));
                          });
                        });
TENON_REGISTER_GRADIENT(op::log_softmax_backward, inputs(0, 1),
                        [](Gradients& g, const Tensor& grad, const Tensor& output, int64_t dim, DType) {
                          const Tensor gg = g.grad().to(grad.dtype()), probability = exp(output);
                          g.set(0, [&] { return sub(gg, total(mul(gg, probability), dim)); });
                          g.set(1, [&] { return neg(mul(mul(gg, probability), total(grad, dim))); });
                        });

}  // namespace tenon

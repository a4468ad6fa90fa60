// SPDX-License-Identifier: Apache-2.0
// Gradients of embedding_bag: each index's row of the gradient is its bag's, summed by index as embedding's is.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/embedding_bag.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

namespace tenon {
namespace {

using dispatch::Gradients;

// The gradient of each index's bag, [n, columns]; zeros for indices that do not count.
Tensor spread(const Tensor& grad, const Tensor& bag_of) {
  const Tensor rows = index_select(grad, 0, clamp_min(bag_of, 0));
  return where(lt(bag_of, 0).unsqueeze(1), 0, rows);
}

}  // namespace

TENON_REGISTER_GRADIENT(op::embedding_bag_forward, crosswise(0, 4) | inputs(1) | outputs(1, 2, 3),
                        [](Gradients& g, const Tensor& weight, const Tensor& indices, const Tensor&, int64_t mode,
                           const Tensor& scales, bool scale_grad_by_freq, bool, int64_t padding_idx) {
                          const Tensor grad = g.grad(), bag_of = g.result(1);
                          const bool empty = grad.size(0) == 0;
                          g.set(0, [&] {
                            const IntArrayRef sizes = g.meta(0).sizes;
                            if (empty || bag_of.numel() == 0) return zeros(sizes, grad.options());
                            if (mode == kBagMax) {
                              const Tensor places = g.result(3);
                              return scatter_add(zeros(sizes, grad.options()), 0, clamp_min(places, 0),
                                                 where(lt(places, 0), 0, grad));
                            }
                            Tensor rows = spread(
                                mode == kBagMean ? div(grad, clamp_min(g.result(2), 1).unsqueeze(1)) : grad, bag_of);
                            if (scales.defined()) rows = mul(rows, scales.unsqueeze(1));
                            return op::embedding_backward(rows, indices, sizes[0], padding_idx, scale_grad_by_freq);
                          });
                          g.set(4, [&] {
                            if (empty || bag_of.numel() == 0) return zeros(bag_of.sizes(), grad.options());
                            return sum(mul(spread(grad, bag_of), index_select(weight, 0, indices)), 1);
                          });
                        });

}  // namespace tenon

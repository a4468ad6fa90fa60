// SPDX-License-Identifier: Apache-2.0
// Gradients of sorting and order statistics: what came from a position goes back to it. The median over all elements
// shares its gradient among the equal ones.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/sort.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

namespace tenon {
namespace {

using dispatch::Gradients;

// The gradient of values along `dim` at their positions, zeros elsewhere. `reduced`: the dimension was dropped.
Tensor at_positions(Gradients& g, Tensor indices, int64_t dim, bool reduced) {
  const DimVector& sizes = g.meta(0).sizes;
  Tensor grad = g.grad();
  if (sizes.empty()) return grad;
  const int64_t d = dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim;
  if (reduced) grad = grad.unsqueeze(d), indices = indices.unsqueeze(d);
  return scatter_add(zeros(sizes, TensorOptions(grad.dtype()).device(grad.device())), d, indices, grad);
}

Tensor among_equals(Gradients& g, const Tensor& self, const Tensor& median) {
  const Tensor hit = logical_or(eq(self, median), logical_and(isnan(self), isnan(median)));
  return where(hit, div(g.grad(), sum(hit)), 0);
}

}  // namespace

TENON_REGISTER_GRADIENT(op::sort, outputs(1), [](Gradients& g, const Tensor&, int64_t dim, bool, std::optional<bool>) {
  g.set(0, [&] { return at_positions(g, g.result(1), dim, false); });
});
TENON_REGISTER_GRADIENT(op::topk, outputs(1), [](Gradients& g, const Tensor&, int64_t, int64_t dim, bool, bool) {
  g.set(0, [&] { return at_positions(g, g.result(1), dim, false); });
});
TENON_REGISTER_GRADIENT(op::kthvalue, outputs(1), [](Gradients& g, const Tensor&, int64_t, int64_t dim, bool keepdim) {
  g.set(0, [&] { return at_positions(g, g.result(1), dim, !keepdim); });
});
TENON_REGISTER_GRADIENT(op::median_dim, outputs(1), [](Gradients& g, const Tensor&, int64_t dim, bool keepdim) {
  g.set(0, [&] { return at_positions(g, g.result(1), dim, !keepdim); });
});
TENON_REGISTER_GRADIENT(op::nanmedian_dim, outputs(1), [](Gradients& g, const Tensor&, int64_t dim, bool keepdim) {
  g.set(0, [&] { return at_positions(g, g.result(1), dim, !keepdim); });
});
TENON_REGISTER_GRADIENT(op::mode, outputs(1), [](Gradients& g, const Tensor&, int64_t dim, bool keepdim) {
  g.set(0, [&] { return at_positions(g, g.result(1), dim, !keepdim); });
});
TENON_REGISTER_GRADIENT(op::median, inputs(0) | result(), [](Gradients& g, const Tensor& self) {
  g.set(0, [&] { return among_equals(g, self, g.result()); });
});
TENON_REGISTER_GRADIENT(op::nanmedian, inputs(0) | result(), [](Gradients& g, const Tensor& self) {
  g.set(0, [&] { return among_equals(g, self, g.result()); });
});

}  // namespace tenon

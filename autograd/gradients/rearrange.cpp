// SPDX-License-Identifier: Apache-2.0
// Gradients of rearranged copies, triangles and diagonals: the same backwards.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/rearrange.h>
#include <tenon/ops/shape.h>
#include <tenon/ops/triangle.h>

namespace tenon {
using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::flip, nothing(), [](Gradients& g, const Tensor&, IntArrayRef dims) {
  g.set(0, [&] { return op::flip(g.grad(), dims); });
});
TENON_REGISTER_GRADIENT(op::tril, nothing(), [](Gradients& g, const Tensor&, int64_t diagonal) {
  g.set(0, [&] { return op::tril(g.grad(), diagonal); });
});
TENON_REGISTER_GRADIENT(op::triu, nothing(), [](Gradients& g, const Tensor&, int64_t diagonal) {
  g.set(0, [&] { return op::triu(g.grad(), diagonal); });
});
TENON_REGISTER_GRADIENT(op::diag_embed, nothing(),
                        [](Gradients& g, const Tensor&, int64_t offset, int64_t dim1, int64_t dim2) {
                          g.set(0, [&] { return op::diagonal(g.grad(), offset, dim1, dim2); });
                        });

}  // namespace tenon

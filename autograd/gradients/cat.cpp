// SPDX-License-Identifier: Apache-2.0
// Gradient of joining: each tensor gets its stretch.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/cat.h>

namespace tenon {

using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::cat, nothing(), [](Gradients& g, TensorList tensors, int64_t dim) {
  const Tensor grad = g.grad();
  int64_t at = 0;
  for (int j = 0; j < static_cast<int>(tensors.size()); ++j) {
    const dispatch::TensorMeta& m = g.meta(0, j);
    if (m.dim() != grad.dim()) {  // a vector without elements among tensors of another rank
      if (g.needs(0, j)) g.put(0, grad.flatten().slice(0, 0, 0), j);
      continue;
    }
    const int64_t length = m.sizes[static_cast<std::size_t>(dim < 0 ? dim + m.dim() : dim)];
    if (g.needs(0, j)) g.put(0, grad.slice(dim, at, at + length), j);
    at += length;
  }
});

}  // namespace tenon

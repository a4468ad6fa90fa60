// SPDX-License-Identifier: Apache-2.0
// The gradient of products: of element i, the product of all others.
//
// Without zeros that is the result divided by the element. With one zero only that element has a gradient, with more
// none has. Under create_graph these cases would lose higher derivatives, so there, if zeros exist, the product of
// the others is written out: rows of the elements, with 1 on the diagonal.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/statistics.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

namespace tenon {
namespace {

using dispatch::Gradients;

// `grad` and `result` with size 1 in `dim`.
Tensor gradient_of_product(const Tensor& x, const Tensor& grad, const Tensor& result, int64_t dim) {
  const Tensor zero = eq(x, 0);
  if (grad_enabled()) {
    if (!any(zero).item<bool>()) return mul(grad, conj(div(result, x)));
    const int64_t n = x.size(dim), last = x.dim();
    const Tensor rows = x.transpose(dim, -1).unsqueeze(-2);  // [..., 1, n]
    DimVector sizes(rows.sizes());
    sizes[static_cast<std::size_t>(last) - 1] = n;
    const Tensor diagonal = eye(n, x.options().dtype(kBool));
    const Tensor others = prod(where(diagonal, 1, rows.expand(sizes)), -1);  // [..., n]
    return mul(grad, conj(others.transpose(dim, -1)));
  }
  const int64_t dims[1] = {dim};
  const Tensor zeros = sum(zero, IntArrayRef(dims, 1), true);
  const Tensor others = prod(where(zero, 1, x), dim, true);  // where one zero is left out
  const Tensor with_zeros = where(logical_and(zero, eq(zeros, 1)), others, 0);
  return mul(grad, conj(where(eq(zeros, 0), div(result, where(zero, 1, x)), with_zeros)));
}

}  // namespace

TENON_REGISTER_GRADIENT(op::prod, inputs(0) | result(), [](Gradients& g, const Tensor& self, std::optional<DType>) {
  g.set(0, [&] {
    const Tensor grad = g.grad().reshape({1}), x = self.to(grad.dtype());
    return gradient_of_product(x.reshape({-1}), grad, g.result().reshape({1}), 0).reshape(self.sizes());
  });
});
TENON_REGISTER_GRADIENT(op::prod_dim, inputs(0) | result(),
                        [](Gradients& g, const Tensor& self, int64_t dim, bool keepdim, std::optional<DType>) {
                          g.set(0, [&] {
                            if (self.dim() == 0) return g.grad().reshape({});
                            const Tensor grad =
                                keepdim ? g.grad() : g.grad().unsqueeze(dim < 0 ? dim + self.dim() : dim);
                            const Tensor result =
                                keepdim ? g.result() : g.result().unsqueeze(dim < 0 ? dim + self.dim() : dim);
                            return gradient_of_product(self.to(grad.dtype()), grad, result, dim);
                          });
                        });

}  // namespace tenon

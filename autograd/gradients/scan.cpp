// SPDX-License-Identifier: Apache-2.0
// Gradients of scans. An element reaches all later results, so gradients are scans from the other end.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/finite.h>
#include <tenon/ops/index.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/scan.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <limits>

namespace tenon {
namespace {

using dispatch::Gradients;

// Of element i: the sum over k >= i of grad k times the product of elements up to k without i. Without zeros that is the
// sum of grad times result, divided by the element. With zeros the products are written out: rows of the elements, with
// 1 on the diagonal. That is differentiable at zeros too, and costs the square of the length.
Tensor gradient_of_cumprod(const Tensor& x, const Tensor& grad, const Tensor& result, int64_t dim, bool reverse) {
  if (!any(eq(x, 0)).item<bool>()) return div(cumsum(mul(grad, conj(result)), dim, {}, !reverse), conj(x));
  const int64_t n = x.size(dim);
  const Tensor rows = x.transpose(dim, -1).unsqueeze(-2), g = grad.transpose(dim, -1).unsqueeze(-2);
  DimVector sizes(rows.sizes());
  sizes[sizes.size() - 2] = n;
  const Tensor position = arange(n, x.options().dtype(kInt64));
  const Tensor own = position.unsqueeze(-1), other = position.unsqueeze(0);
  const Tensor without = where(eq(own, other), 1, rows.expand(sizes));
  const Tensor products = cumprod(without, -1, {}, reverse);
  const Tensor reached = reverse ? le(other, own) : ge(other, own);
  const int64_t last[1] = {-1};
  return sum(where(reached, mul(g, conj(products)), 0), IntArrayRef(last, 1)).transpose(dim, -1);
}

// Everything goes to the position that was reported.
Tensor at_positions(Gradients& g, int64_t dim) {
  const DimVector& sizes = g.meta(0).sizes;
  const Tensor grad = g.grad(0);
  if (sizes.empty()) return grad;
  return scatter_add(zeros(IntArrayRef(sizes), grad.options()), dim, g.result(1), grad);
}

}  // namespace

TENON_REGISTER_GRADIENT(op::cumsum, nothing(),
                        [](Gradients& g, const Tensor&, int64_t dim, std::optional<DType>, bool reverse) {
                          g.set(0, [&] { return cumsum(g.grad(), dim, {}, !reverse); });
                        });
TENON_REGISTER_GRADIENT(op::cumprod, inputs(0) | result(),
                        [](Gradients& g, const Tensor& self, int64_t dim, std::optional<DType>, bool reverse) {
                          g.set(0, [&] {
                            if (self.dim() == 0 || self.numel() == 0) return g.grad();
                            const Tensor grad = g.grad();
                            return gradient_of_cumprod(self.to(grad.dtype()), grad, g.result(), dim, reverse);
                          });
                        });
// exp(x) times the sum of grad exp(-result), which are too large or too small to be anything but logarithms.
TENON_REGISTER_GRADIENT(op::logcumsumexp, inputs(0) | result(),
                        [](Gradients& g, const Tensor& self, int64_t dim, bool reverse) {
                          g.set(0, [&] {
                            const Tensor grad = g.grad(), result = g.result();
                            if (!self.is_complex())
                              return op::scaled_cumsum(grad, neg(result), neg(self), dim, !reverse);
                            const Tensor terms = sub(log(conj(grad)), result);
                            return conj(exp(add(op::logcumsumexp(terms, dim, !reverse), self)));
                          });
                        });
TENON_REGISTER_GRADIENT(op::scaled_cumsum, inputs(0, 1, 2) | result(),
                        [](Gradients& g, const Tensor& self, const Tensor& up, const Tensor& down, int64_t dim,
                           bool reverse) {
                          const Tensor back = op::scaled_cumsum(g.grad(), neg(down), neg(up), dim, !reverse);
                          g.set(0, [&] { return back; });
                          g.set(1, [&] { return mul(self, back); });
                          g.set(2, [&] { return neg(mul(g.grad(), g.result())); });
                        });
TENON_REGISTER_GRADIENT(op::cummax, outputs(1), [](Gradients& g, const Tensor&, int64_t dim) {
  g.set(0, [&] { return at_positions(g, dim); });
});
TENON_REGISTER_GRADIENT(op::cummin, outputs(1), [](Gradients& g, const Tensor&, int64_t dim) {
  g.set(0, [&] { return at_positions(g, dim); });
});

}  // namespace tenon

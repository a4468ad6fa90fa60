// SPDX-License-Identifier: Apache-2.0
// Gradients of decompositions. That of singular vectors exists where singular values differ from each other and from 0;
// that of singular values alone needs no such thing.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/decomposition.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

namespace tenon {
namespace {

using dispatch::Gradients;

Tensor adjoint(const Tensor& t) { return conj(t).transpose(-2, -1); }
Tensor skew(const Tensor& t) { return sub(t, adjoint(t)); }

Tensor gradient_of_svd(Gradients& g) {
  const Tensor u = g.result(0), s = g.result(1), vh = g.result(2);
  const int64_t k = s.size(-1);
  const bool left = g.has_grad(0), right = g.has_grad(2);
  const Tensor unit = eye(k, s.options()), row = s.unsqueeze(-2), column = s.unsqueeze(-1);
  // U^H grad V, of which the singular values have the diagonal.
  Tensor inner = mul(g.grad(1).unsqueeze(-1), unit).to(u.dtype());
  if (left || right) {
    const Tensor gaps = add(sub(mul(row, row), mul(column, column)), unit);
    const Tensor turn = left ? skew(matmul(adjoint(u), g.grad(0))) : Tensor();
    if (left) inner = add(inner, mul(div(turn, gaps), row));
    if (right) inner = add(inner, mul(div(skew(matmul(vh, adjoint(g.grad(2)))), gaps), column));
    if (left && right && u.is_complex()) inner = add(inner, div(mul(turn, unit), mul(column, 2)));
  }
  Tensor grad = matmul(matmul(u, inner), vh);
  if (left && u.size(-2) > k) {  // what leads out of the space of U, and of V
    const Tensor out = div(g.grad(0), row);
    grad = add(grad, matmul(sub(out, matmul(u, matmul(adjoint(u), out))), vh));
  }
  if (right && vh.size(-1) > k) {
    const Tensor out = div(g.grad(2), column);
    grad = add(grad, matmul(u, sub(out, matmul(matmul(out, adjoint(vh)), vh))));
  }
  return grad;
}

}  // namespace

TENON_REGISTER_GRADIENT(op::linalg_inv, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] {
    const Tensor turned = adjoint(g.result());
    return neg(matmul(matmul(turned, g.grad()), turned));
  });
});
TENON_REGISTER_GRADIENT(op::_linalg_svd, outputs(0, 1, 2),
                        [](Gradients& g, const Tensor&) { g.set(0, [&] { return gradient_of_svd(g); }); });

}  // namespace tenon

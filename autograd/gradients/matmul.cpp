// SPDX-License-Identifier: Apache-2.0
// Gradients of matrix products: each factor's is the output's times the other factor, conjugated and transposed.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/unary.h>

namespace tenon {
namespace {

using dispatch::Gradients;

Tensor adjoint(const Tensor& t) { return conj(t).transpose(-2, -1); }
Tensor scaled(const Tensor& t, const Scalar& s) {
  if (s.equal(1)) return t;
  return mul(t, s.is_complex() ? Scalar(complex<double>(s.real(), -s.imag())) : s);
}

}  // namespace

TENON_REGISTER_GRADIENT(op::mm, crosswise(0, 1), [](Gradients& g, const Tensor& self, const Tensor& mat2) {
  g.set(0, [&] { return mm(g.grad(), adjoint(mat2)); });
  g.set(1, [&] { return mm(adjoint(self), g.grad()); });
});
TENON_REGISTER_GRADIENT(op::bmm, crosswise(0, 1), [](Gradients& g, const Tensor& self, const Tensor& mat2) {
  g.set(0, [&] { return bmm(g.grad(), adjoint(mat2)); });
  g.set(1, [&] { return bmm(adjoint(self), g.grad()); });
});
TENON_REGISTER_GRADIENT(op::addmm, crosswise(1, 2),
                        [](Gradients& g, const Tensor&, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                           const Scalar& alpha) {
                          g.set(0, [&] { return scaled(g.grad(), beta); });
                          g.set(1, [&] { return scaled(mm(g.grad(), adjoint(mat2)), alpha); });
                          g.set(2, [&] { return scaled(mm(adjoint(mat1), g.grad()), alpha); });
                        });
TENON_REGISTER_GRADIENT(op::baddbmm, crosswise(1, 2),
                        [](Gradients& g, const Tensor&, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                           const Scalar& alpha) {
                          g.set(0, [&] { return scaled(g.grad(), beta); });
                          g.set(1, [&] { return scaled(bmm(g.grad(), adjoint(batch2)), alpha); });
                          g.set(2, [&] { return scaled(bmm(adjoint(batch1), g.grad()), alpha); });
                        });

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Gradients of attention. With A = scale q k^T + mask, P = softmax(A), O = P v and its gradient g:
//   dv = P^T g, dA = P (g v^T - delta), delta = rowsum(g O), dq = scale dA k, dk = scale dA^T q,
// which the backward operator computes; its own gradient follows by differentiating these once more.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/attention.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>

namespace tenon {
namespace {
using dispatch::Gradients;

Tensor turned(const Tensor& t) { return t.transpose(-2, -1); }
Tensor row_sum(const Tensor& t) { return sum(t, IntArrayRef(-1), true); }
}  // namespace

TENON_REGISTER_GRADIENT(op::scaled_dot_product_attention_forward, inputs(0, 1, 2, 3) | outputs(0, 1),
                        [](Gradients& g, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                           bool is_causal, double scale) {
                          TENON_CHECK(!g.has_grad(1) && !g.needs(3), AutogradError,
                                      "scaled_dot_product_attention_forward: logsumexp and attn_mask have no gradient");
                          auto [dq, dk, dv] = op::scaled_dot_product_attention_backward(
                              g.grad(0), q, k, v, g.result(0), g.result(1), mask, is_causal, scale);
                          g.set(0, [&] { return dq; });
                          g.set(1, [&] { return dk; });
                          g.set(2, [&] { return dv; });
                        });
TENON_REGISTER_GRADIENT(op::scaled_dot_product_attention_backward, inputs(0, 1, 2, 3, 6),
                        [](Gradients& g, const Tensor& grad, const Tensor& q0, const Tensor& k0, const Tensor& v0,
                           const Tensor&, const Tensor&, const Tensor& mask, bool is_causal, double scale) {
                          const DType t = is_half(q0.dtype()) ? kFloat32 : q0.dtype();
                          const Tensor dO = grad.to(t), q = q0.to(t), k = k0.to(t), v = v0.to(t);
                          const Tensor x = g.grad(0).to(t), y = g.grad(1).to(t), z = g.grad(2).to(t);
                          const Tensor p = attention_probabilities(q, k, mask, is_causal, scale),
                                       dp = matmul(dO, turned(v));
                          const Tensor centred = dp.sub(row_sum(dp.mul(p)));
                          // What flows into dA, through it into dP and P, and from P into A.
                          const Tensor to_da = matmul(x, turned(k)).add(matmul(q, turned(y))).mul(scale);
                          const Tensor total = row_sum(to_da.mul(p)), to_dp = p.mul(to_da.sub(total));
                          const Tensor to_p = to_da.mul(centred).sub(dp.mul(total)).add(matmul(dO, turned(z)));
                          const Tensor to_a = p.mul(to_p.sub(row_sum(to_p.mul(p)))).mul(scale);
                          const Tensor da = p.mul(centred).mul(scale);
                          g.set(0, [&] { return matmul(to_dp, v).add(matmul(p, z)); });
                          g.set(1, [&] { return matmul(da, y).add(matmul(to_a, k)); });
                          g.set(2, [&] { return matmul(turned(da), x).add(matmul(turned(to_a), q)); });
                          g.set(3, [&] { return matmul(turned(to_dp), dO); });
                        });

}  // namespace tenon

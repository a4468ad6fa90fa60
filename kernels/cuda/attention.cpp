// SPDX-License-Identifier: Apache-2.0
// Attention (ops/attention.h) by matrix products of the whole scores, which live for the call only; 16-bit floats are
// computed in float32. The two operators below are what a kernel over tiles would take the place of.
#include <tenon/ops/attention.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/statistics.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

#include <limits>

namespace tenon::cuda {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// exp(scores - logsumexp), 0 in rows without a key.
Tensor probabilities(const Tensor& scores, const Tensor& logsumexp) {
  const Tensor shift = logsumexp.unsqueeze(-1);
  return exp(scores.sub(masked_fill(shift, shift.eq(kNever), 0)));
}
void write(const Tensor& to, const Tensor& values) {
  Tensor target = to;
  target.copy_(values);
}

template <class T>
void attention_cuda(const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& mask, bool is_causal, double scale) {
  const DType wide = lse.dtype();
  const Tensor s = attention_scores(q.to(wide), k.to(wide), mask, is_causal, scale);
  write(lse, s.size(-1) == 0 ? full_like(lse, kNever) : logsumexp(s, -1));
  write(out, matmul(probabilities(s, lse), v.to(wide)));
}

template <class T>
void attention_backward_cuda(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& grad, const Tensor& q,
                             const Tensor& k, const Tensor& v, const Tensor&, const Tensor& lse, const Tensor& mask,
                             bool is_causal, double scale) {
  const DType wide = lse.dtype();
  const Tensor wq = q.to(wide), wk = k.to(wide), g = grad.to(wide);
  const Tensor p = probabilities(attention_scores(wq, wk, mask, is_causal, scale), lse);
  write(dv, matmul(p.transpose(-2, -1), g));
  const Tensor dp = matmul(g, v.to(wide).transpose(-2, -1));
  const Tensor all = sum(p, IntArrayRef(-1), true);  // 1, but for rounding and rows without a key
  const Tensor centre = sum(p.mul(dp), IntArrayRef(-1), true).div(masked_fill(all, all.eq(0), 1));
  const Tensor ds = p.mul(dp.sub(centre)).mul(scale);
  write(dq, matmul(ds, wk));
  write(dk, matmul(ds.transpose(-2, -1), wq));
}
TENON_REGISTER_KERNEL(op::scaled_dot_product_attention_forward, cuda, FloatsAndHalves, attention_cuda);
TENON_REGISTER_KERNEL(op::scaled_dot_product_attention_backward, cuda, FloatsAndHalves, attention_backward_cuda);

}  // namespace
}  // namespace tenon::cuda

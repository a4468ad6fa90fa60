// SPDX-License-Identifier: Apache-2.0
// Gradient of layer normalisation. The fused operator serves first order; when the gradient is to be differentiated
// again, the same formula runs in operators, with the statistics as functions of the input.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/norm.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>

namespace tenon {
namespace {

using dispatch::Gradients;

void differentiable(Gradients& g, const Tensor& input, IntArrayRef shape, const Tensor& weight, double eps) {
  DimVector inner, outer;
  for (int64_t d = 0; d < input.dim(); ++d)
    (d < input.dim() - static_cast<int64_t>(shape.size()) ? outer : inner).push_back(d);
  const DType wide = g.result_meta(1).dtype;  // 16-bit input has float32 statistics beside float32 weights
  const Tensor x = input.to(wide), centred = sub(x, mean(x, inner, true));
  const Tensor rstd = rsqrt(add(mean(mul(centred, centred), inner, true), eps)), normal = mul(centred, rstd);
  const auto count = static_cast<double>(inner.empty() ? 1 : input.numel() == 0 ? 1 : input.numel() / rstd.numel());
  const Tensor grad = g.has_grad(0) ? g.grad(0).to(wide) : Tensor();
  g.set(0, [&] {
    Tensor total;
    const auto add_to = [&](const Tensor& t) { total = total.defined() ? add(total, t) : t; };
    if (grad.defined()) {
      const Tensor inside = weight.defined() ? mul(grad, weight) : grad;
      add_to(
          mul(rstd, sub(sub(inside, mean(inside, inner, true)), mul(normal, mean(mul(inside, normal), inner, true)))));
    }
    if (g.has_grad(1)) add_to(div(g.grad(1), count));
    if (g.has_grad(2)) add_to(mul(mul(g.grad(2), mul(rstd, rstd)), mul(normal, -1.0 / count)));
    return total;
  });
  if (!grad.defined()) return;
  const auto over_rows = [&](const Tensor& t) { return outer.empty() ? t : sum(t, outer); };
  g.set(2, [&] { return over_rows(mul(grad, normal)); });
  g.set(3, [&] { return over_rows(grad); });
}

}  // namespace

TENON_REGISTER_GRADIENT(op::native_layer_norm, inputs(0, 2, 3) | outputs(1, 2),
                        [](Gradients& g, const Tensor& input, IntArrayRef shape, const Tensor& weight,
                           const Tensor& bias, double eps) {
                          if (grad_enabled() || g.has_grad(1) || g.has_grad(2))
                            return differentiable(g, input, shape, weight, eps);
                          const int64_t mask = (g.needs(0) ? 1 : 0) | (g.needs(2) ? 2 : 0) | (g.needs(3) ? 4 : 0);
                          auto [dx, dweight, dbias] = op::native_layer_norm_backward(
                              g.grad(), input, shape, g.result(1), g.result(2), weight, bias, mask);
                          g.put(0, dx);
                          g.put(2, dweight);
                          g.put(3, dbias);
                        });

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Gradients of layer normalisation. The fused backward operator serves every order: it takes mean and rstd as
// arguments, so its own gradient, written in operators, treats them as independent, and what flows to them goes on
// through the gradients of native_layer_norm's second and third result.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/norm.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

namespace tenon {
namespace {

using dispatch::Gradients;

// The normalised dimensions, the others, and the sizes of the statistics.
struct RowLayout {
  DimVector inner, outer, statistics;
  double count = 1;  // elements of a row
  RowLayout(IntArrayRef sizes, std::size_t normalized) {
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const bool kept = d < sizes.size() - normalized;
      (kept ? outer : inner).push_back(static_cast<int64_t>(d));
      statistics.push_back(kept ? sizes[d] : 1);
      if (!kept) count *= static_cast<double>(sizes[d]);
    }
    if (count == 0) count = 1;
  }
  Tensor row_mean(const Tensor& t) const { return mean(t, inner, true); }
  Tensor row_sum(const Tensor& t) const { return sum(t, inner, true); }
  Tensor over_rows(const Tensor& t) const { return outer.empty() ? t : sum(t, outer); }
};

}  // namespace

TENON_REGISTER_GRADIENT(op::native_layer_norm, inputs(0, 2, 3) | outputs(1, 2),
                        [](Gradients& g, const Tensor& input, IntArrayRef shape, const Tensor& weight,
                           const Tensor& bias, double) {
                          const Tensor centre = g.result(1), rstd = g.result(2);
                          const int64_t mask = (g.needs(0) ? 1 : 0) | (g.needs(2) ? 2 : 0) | (g.needs(3) ? 4 : 0);
                          if (g.has_grad(0) && mask != 0) {
                            auto [dx, dweight, dbias] = op::native_layer_norm_backward(g.grad(), input, shape, centre,
                                                                                       rstd, weight, bias, mask);
                            g.put(0, dx);
                            g.put(2, dweight);
                            g.put(3, dbias);
                          }
                          if (!g.needs(0) || !(g.has_grad(1) || g.has_grad(2))) return;
                          const RowLayout layout(input.sizes(), shape.size());
                          if (g.has_grad(1)) g.put(0, div(g.grad(1), layout.count).expand(input.sizes()));
                          if (g.has_grad(2)) {
                            const Tensor normal = mul(sub(input.to(rstd.dtype()), centre), rstd);
                            g.put(0, mul(mul(g.grad(2), mul(rstd, rstd)), mul(normal, -1 / layout.count)));
                          }
                        });

// With y = (x - mean) rstd, v = grad weight and the row means M: dx = rstd (v - M(v) - y M(v y)), which is linear and
// symmetric in v; dweight = sum of grad y, dbias = sum of grad.
TENON_REGISTER_GRADIENT(op::native_layer_norm_backward, inputs(0, 1, 3, 4, 5),
                        [](Gradients& g, const Tensor& grad_output, const Tensor& input, IntArrayRef shape,
                           const Tensor& centre, const Tensor& scale, const Tensor& weight, const Tensor&, int64_t) {
                          const RowLayout layout(input.sizes(), shape.size());
                          const DType wide = scale.dtype();
                          const Tensor rstd = scale.reshape(layout.statistics), grad = grad_output.to(wide);
                          const Tensor centred = sub(input.to(wide), centre.reshape(layout.statistics)),
                                       y = mul(centred, rstd);
                          const Tensor v = weight.defined() ? mul(grad, weight) : grad;
                          const auto project = [&](const Tensor& t) {
                            return mul(rstd, sub(sub(t, layout.row_mean(t)), mul(y, layout.row_mean(mul(t, y)))));
                          };
                          Tensor to_grad, to_y, to_rstd, to_weight;
                          const auto add_to = [](Tensor& sum, const Tensor& t) {
                            sum = sum.defined() ? add(sum, t) : t;
                          };
                          if (g.has_grad(0)) {
                            const Tensor a = g.grad(0).to(wide), projected = project(a);
                            to_grad = weight.defined() ? mul(projected, weight) : projected;
                            to_weight = layout.over_rows(mul(projected, grad));
                            to_y = mul(neg(rstd),
                                       add(mul(a, layout.row_mean(mul(v, y))), mul(v, layout.row_mean(mul(a, y)))));
                            to_rstd = layout.row_sum(div(mul(a, project(v)), rstd));
                          }
                          if (g.has_grad(1)) {
                            add_to(to_grad, mul(g.grad(1), y));
                            add_to(to_y, mul(g.grad(1), grad));
                          }
                          if (g.has_grad(2)) add_to(to_grad, g.grad(2).expand(input.sizes()));
                          g.set(0, [&] { return to_grad; });
                          g.set(5, [&] { return to_weight; });
                          if (!to_y.defined()) return;
                          g.set(1, [&] { return mul(to_y, rstd); });
                          g.set(3, [&] { return neg(layout.row_sum(mul(to_y, rstd))).reshape(g.meta(3).sizes); });
                          g.set(4, [&] {
                            add_to(to_rstd, layout.row_sum(mul(to_y, centred)));
                            return to_rstd.reshape(g.meta(4).sizes);
                          });
                        });

}  // namespace tenon

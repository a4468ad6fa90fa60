// SPDX-License-Identifier: Apache-2.0
// Gradients of normalisations. The fused backward operators serve every order: they take mean and rstd as arguments, so
// their own gradients, written in operators, treat them as independent, and what flows to them goes on through the
// gradients of the forward operators' statistics.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/batch_norm.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/norm.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/shape.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

namespace tenon {
namespace {

using dispatch::Gradients;

enum class Statistics { given, both, squares };  // what follows the input: nothing, mean and rstd, rstd around 0

// How the input is seen: its sizes, the dimensions that are normalised together, the sizes of statistics and weights beside
// it, which broadcast.
struct NormLayout {
  DimVector sizes, inner, statistics, weights;
  double count = 1;  // elements of one normalisation
  Statistics kind = Statistics::both;

  void dimension(int64_t size, bool normalized, bool weighted) {
    if (normalized) {
      inner.push_back(static_cast<int64_t>(sizes.size()));
      count *= static_cast<double>(size);
    }
    sizes.push_back(size);
    statistics.push_back(normalized ? 1 : size);
    weights.push_back(weighted ? size : 1);
  }
  /// The last `n` dimensions, each element of which has its weight.
  static NormLayout rows(IntArrayRef sizes, std::size_t n, Statistics kind) {
    NormLayout l;
    l.kind = kind;
    for (std::size_t d = 0; d < sizes.size(); ++d) l.dimension(sizes[d], d + n >= sizes.size(), d + n >= sizes.size());
    return l;
  }
  /// All but dimension 1.
  static NormLayout channels(IntArrayRef sizes, Statistics kind) {
    NormLayout l;
    l.kind = kind;
    for (std::size_t d = 0; d < sizes.size(); ++d) l.dimension(sizes[d], d != 1, d == 1);
    return l;
  }
  static NormLayout groups(int64_t n, int64_t channels, int64_t inner, int64_t groups) {
    NormLayout l;
    l.dimension(n, false, false), l.dimension(groups, false, true);
    l.dimension(channels / groups, true, true), l.dimension(inner, true, false);
    return l;
  }
  Tensor mean_of(const Tensor& t) const { return mean(t, inner, true); }
  Tensor sum_of(const Tensor& t) const { return sum(t, inner, true); }

  // What flows to the input through mean (argument or result `first`) and rstd after it.
  void through_statistics(Gradients& g, int first, const Tensor& input, const Tensor& centre,
                          const Tensor& scale) const {
    const double n = count == 0 ? 1 : count;
    const bool centred = kind == Statistics::both;
    if (centred && g.has_grad(first))
      g.put(0, div(g.grad(first).reshape(statistics), n).expand(sizes).reshape(input.sizes()));
    const int spread = centred ? first + 1 : first;
    if (!g.has_grad(spread)) return;
    const Tensor rstd = scale.reshape(statistics), x = input.reshape(sizes).to(rstd.dtype());
    const Tensor normal = mul(centred ? sub(x, centre.reshape(statistics)) : x, rstd);
    g.put(0, mul(mul(g.grad(spread).reshape(statistics), mul(rstd, rstd)), mul(normal, -1 / n)).reshape(input.sizes()));
  }
};

// The gradient of a backward operator. `at`: its arguments' positions. With y = (x - mean) rstd, v = grad weight and the
// means M: dx = rstd (v - M(v) - y M(v y)), which is linear and symmetric in v; dweight = sum of grad y, dbias = sum of grad.
struct Positions {
  int grad, input, weight, mean, rstd;
};
void second_order(Gradients& g, const NormLayout& l, Positions at, const Tensor& grad_output, const Tensor& input,
                  const Tensor& weight_given, const Tensor& centre, const Tensor& scale) {
  const DType wide = is_half(scale.dtype()) ? kFloat32 : scale.dtype();
  const Tensor rstd = scale.reshape(l.statistics).to(wide), grad = grad_output.reshape(l.sizes).to(wide);
  const Tensor x = input.reshape(l.sizes).to(wide),
               centred = centre.defined() ? sub(x, centre.reshape(l.statistics).to(wide)) : x;
  const Tensor y = mul(centred, rstd);
  const Tensor weight = weight_given.defined() ? weight_given.reshape(l.weights).to(wide) : weight_given;
  const Tensor v = weight.defined() ? mul(grad, weight) : grad;
  const auto project = [&](const Tensor& t) {
    if (l.kind == Statistics::given) return mul(rstd, t);
    const Tensor across = sub(t, mul(y, l.mean_of(mul(t, y))));
    return mul(rstd, l.kind == Statistics::both ? sub(across, l.mean_of(t)) : across);
  };
  Tensor to_grad, to_y, to_rstd, to_weight;
  const auto add_to = [](Tensor& sum, const Tensor& t) { sum = sum.defined() ? add(sum, t) : t; };
  if (g.has_grad(0)) {
    const Tensor a = g.grad(0).reshape(l.sizes).to(wide), projected = project(a);
    to_grad = weight.defined() ? mul(projected, weight) : projected;
    if (weight.defined()) to_weight = sum_to_size(mul(projected, grad), l.weights);
    if (l.kind != Statistics::given)
      to_y = mul(neg(rstd), add(mul(a, l.mean_of(mul(v, y))), mul(v, l.mean_of(mul(a, y)))));
    to_rstd = l.sum_of(div(mul(a, project(v)), rstd));
  }
  if (g.has_grad(1)) {
    const Tensor b = g.grad(1).reshape(l.weights);
    add_to(to_grad, mul(b, y));
    add_to(to_y, mul(b, grad));
  }
  if (l.kind != Statistics::squares && g.has_grad(2)) add_to(to_grad, g.grad(2).reshape(l.weights).expand(l.sizes));
  if (to_grad.defined()) g.set(at.grad, [&] { return to_grad.reshape(g.meta(at.grad).sizes); });
  if (to_weight.defined()) g.set(at.weight, [&] { return to_weight.reshape(g.meta(at.weight).sizes); });
  if (to_y.defined()) {
    g.set(at.input, [&] { return mul(to_y, rstd).reshape(input.sizes()); });
    if (at.mean >= 0) g.set(at.mean, [&] { return neg(l.sum_of(mul(to_y, rstd))).reshape(g.meta(at.mean).sizes); });
    add_to(to_rstd, l.sum_of(mul(to_y, centred)));
  }
  if (to_rstd.defined()) g.set(at.rstd, [&] { return to_rstd.reshape(g.meta(at.rstd).sizes); });
}

int64_t mask_of(Gradients& g, int input, int weight, int bias) {
  return (g.needs(input) ? 1 : 0) | (g.needs(weight) ? 2 : 0) | (g.needs(bias) ? 4 : 0);
}
void put_all(Gradients& g, const std::tuple<Tensor, Tensor, Tensor>& r, int weight, int bias) {
  g.put(0, std::get<0>(r)), g.put(weight, std::get<1>(r)), g.put(bias, std::get<2>(r));
}
bool follows(Gradients& g) { return g.needs(0) && (g.has_grad(1) || g.has_grad(2)); }

}  // namespace

TENON_REGISTER_GRADIENT(
    op::native_layer_norm, inputs(0, 2, 3) | outputs(1, 2),
    [](Gradients& g, const Tensor& input, IntArrayRef shape, const Tensor& weight, const Tensor& bias, double) {
      const Tensor centre = g.result(1), rstd = g.result(2);
      const int64_t mask = mask_of(g, 0, 2, 3);
      if (g.has_grad(0) && mask != 0)
        put_all(g, op::native_layer_norm_backward(g.grad(), input, shape, centre, rstd, weight, bias, mask), 2, 3);
      if (follows(g))
        NormLayout::rows(input.sizes(), shape.size(), Statistics::both).through_statistics(g, 1, input, centre, rstd);
    });
TENON_REGISTER_GRADIENT(op::native_layer_norm_backward, inputs(0, 1, 3, 4, 5),
                        [](Gradients& g, const Tensor& grad_output, const Tensor& input, IntArrayRef shape,
                           const Tensor& centre, const Tensor& scale, const Tensor& weight, const Tensor&, int64_t) {
                          second_order(g, NormLayout::rows(input.sizes(), shape.size(), Statistics::both),
                                       {0, 1, 5, 3, 4}, grad_output, input, weight, centre, scale);
                        });

TENON_REGISTER_GRADIENT(
    op::fused_rms_norm, inputs(0, 2) | outputs(1),
    [](Gradients& g, const Tensor& input, IntArrayRef shape, const Tensor& weight, double) {
      const Tensor rstd = g.result(1);
      const int64_t mask = (g.needs(0) ? 1 : 0) | (g.needs(2) ? 2 : 0);
      if (g.has_grad(0) && mask != 0) {
        const auto [dx, dweight] = op::fused_rms_norm_backward(g.grad(), input, shape, rstd, weight, mask);
        g.put(0, dx), g.put(2, dweight);
      }
      if (g.needs(0) && g.has_grad(1))
        NormLayout::rows(input.sizes(), shape.size(), Statistics::squares).through_statistics(g, 1, input, {}, rstd);
    });
TENON_REGISTER_GRADIENT(op::fused_rms_norm_backward, inputs(0, 1, 3, 4),
                        [](Gradients& g, const Tensor& grad_output, const Tensor& input, IntArrayRef shape,
                           const Tensor& scale, const Tensor& weight, int64_t) {
                          second_order(g, NormLayout::rows(input.sizes(), shape.size(), Statistics::squares),
                                       {0, 1, 4, -1, 3}, grad_output, input, weight, {}, scale);
                        });

TENON_REGISTER_GRADIENT(
    op::batch_norm_train, inputs(0, 1) | outputs(1, 2),
    [](Gradients& g, const Tensor& input, const Tensor& weight, const Tensor&, const Tensor&, const Tensor&, double,
       double) {
      const Tensor centre = g.result(1), rstd = g.result(2);
      const int64_t mask = mask_of(g, 0, 1, 2);
      if (g.has_grad(0) && mask != 0)
        put_all(g, op::batch_norm_backward(g.grad(), input, weight, centre, rstd, true, mask), 1, 2);
      if (follows(g))
        NormLayout::channels(input.sizes(), Statistics::both).through_statistics(g, 1, input, centre, rstd);
    });
TENON_REGISTER_GRADIENT(op::batch_norm_apply, inputs(0, 1, 3, 4),
                        [](Gradients& g, const Tensor& input, const Tensor& weight, const Tensor&, const Tensor& centre,
                           const Tensor& rstd) {
                          const int64_t mask = mask_of(g, 0, 1, 2) | (g.needs(3) || g.needs(4) ? 6 : 0);
                          const auto r = op::batch_norm_backward(g.grad(), input, weight, centre, rstd, false, mask);
                          put_all(g, r, 1, 2);
                          const auto weighted = [&](const Tensor& t) { return weight.defined() ? mul(t, weight) : t; };
                          g.set(3, [&] { return neg(mul(weighted(std::get<2>(r)), rstd)); });
                          g.set(4, [&] { return div(weighted(std::get<1>(r)), rstd); });
                        });
TENON_REGISTER_GRADIENT(op::batch_norm_backward, inputs(0, 1, 2, 3, 4),
                        [](Gradients& g, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                           const Tensor& centre, const Tensor& scale, bool train, int64_t) {
                          second_order(
                              g, NormLayout::channels(input.sizes(), train ? Statistics::both : Statistics::given),
                              {0, 1, 2, 3, 4}, grad_output, input, weight, centre, scale);
                        });

TENON_REGISTER_GRADIENT(
    op::native_group_norm, inputs(0, 1) | outputs(1, 2),
    [](Gradients& g, const Tensor& input, const Tensor& weight, const Tensor&, int64_t n, int64_t channels,
       int64_t inner, int64_t groups, double) {
      const Tensor centre = g.result(1), rstd = g.result(2);
      const int64_t mask = mask_of(g, 0, 1, 2);
      if (g.has_grad(0) && mask != 0)
        put_all(g,
                op::native_group_norm_backward(g.grad(), input, centre, rstd, weight, n, channels, inner, groups, mask),
                1, 2);
      if (follows(g)) NormLayout::groups(n, channels, inner, groups).through_statistics(g, 1, input, centre, rstd);
    });
TENON_REGISTER_GRADIENT(op::native_group_norm_backward, inputs(0, 1, 2, 3, 4),
                        [](Gradients& g, const Tensor& grad_output, const Tensor& input, const Tensor& centre,
                           const Tensor& scale, const Tensor& weight, int64_t n, int64_t channels, int64_t inner,
                           int64_t groups, int64_t) {
                          second_order(g, NormLayout::groups(n, channels, inner, groups), {0, 1, 4, 2, 3}, grad_output,
                                       input, weight, centre, scale);
                        });

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Gradients of functions that step around infinities and NaN.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/exponential.h>
#include <tenon/ops/finite.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

namespace tenon {

using dispatch::Gradients;

// What was replaced has no slope.
TENON_REGISTER_GRADIENT(op::nan_to_num, inputs(0),
                        [](Gradients& g, const Tensor& self, std::optional<double>, std::optional<double>,
                           std::optional<double>) { g.set(0, [&] { return where(isfinite(self), g.grad(), 0); }); });
// The whole gradient goes to the one that was taken: self at ties.
TENON_REGISTER_GRADIENT(op::fmax, inputs(0, 1), [](Gradients& g, const Tensor& self, const Tensor& other) {
  const Tensor first = logical_or(ge(self, other), isnan(other));
  g.set(0, [&] { return where(first, g.grad(), 0); });
  g.set(1, [&] { return where(first, 0, g.grad()); });
});
TENON_REGISTER_GRADIENT(op::fmin, inputs(0, 1), [](Gradients& g, const Tensor& self, const Tensor& other) {
  const Tensor first = logical_or(le(self, other), isnan(other));
  g.set(0, [&] { return where(first, g.grad(), 0); });
  g.set(1, [&] { return where(first, 0, g.grad()); });
});
TENON_REGISTER_GRADIENT(op::frexp, outputs(1), [](Gradients& g, const Tensor&) {
  if (!g.has_grad(0)) return;
  g.set(0, [&] { return mul(g.grad(0), exp2(neg(g.result(1)).to(g.grad(0).dtype()))); });
});

}  // namespace tenon

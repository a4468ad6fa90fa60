// SPDX-License-Identifier: Apache-2.0
// Gradients of exponentials and logarithms.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/exponential.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

#include <limits>

namespace tenon {

using dispatch::Gradients;

namespace {

constexpr double kLn2 = 0.69314718055994531, kLn10 = 2.30258509299404568;

// self - other, 0 where both are the same infinity.
Tensor distance(const Tensor& self, const Tensor& other) {
  const Tensor difference = sub(self, other);
  return where(logical_and(isnan(difference), eq(self, other)), 0, difference);
}

Tensor tensor_like(const Operand& x, const Tensor& other) {
  return x.is_tensor() ? x.tensor() : mul(ones_like(other), x.number());
}

}  // namespace

TENON_REGISTER_GRADIENT(op::exp2, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return mul(g.grad(), mul(conj(g.result()), kLn2)); });
});
TENON_REGISTER_GRADIENT(op::expm1, result(), [](Gradients& g, const Tensor&) {
  g.set(0, [&] { return mul(g.grad(), conj(add(g.result(), 1))); });
});
TENON_REGISTER_GRADIENT(op::log2, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return div(g.grad(), mul(conj(x), kLn2)); });
});
TENON_REGISTER_GRADIENT(op::log10, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return div(g.grad(), mul(conj(x), kLn10)); });
});
TENON_REGISTER_GRADIENT(op::log1p, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return div(g.grad(), add(conj(x), 1)); });
});
TENON_REGISTER_GRADIENT(op::special_entr, inputs(0), [](Gradients& g, const Tensor& x) {
  g.set(0, [&] { return mul(g.grad(), neg(add(log(x), 1))); });
});
// 1 / (x (1 - x)); 0 where x was clamped, NaN where logit is.
TENON_REGISTER_GRADIENT(op::logit, inputs(0), [](Gradients& g, const Tensor& x, std::optional<double> eps) {
  g.set(0, [&] {
    const double low = eps.value_or(0);
    const Tensor outside = logical_or(lt(x, low), gt(x, 1 - low));  // NaN is not
    const Tensor slope = div(g.grad(), mul(x, sub(1, x)));
    return where(outside, eps ? 0.0 : std::numeric_limits<double>::quiet_NaN(), slope);
  });
});

TENON_REGISTER_GRADIENT(op::logaddexp, inputs(0, 1), [](Gradients& g, const Tensor& self, const Tensor& other) {
  g.set(0, [&] { return mul(g.grad(), conj(sigmoid(distance(self, other)))); });
  g.set(1, [&] { return mul(g.grad(), conj(sigmoid(distance(other, self)))); });
});
TENON_REGISTER_GRADIENT(op::logaddexp2, inputs(0, 1), [](Gradients& g, const Tensor& self, const Tensor& other) {
  g.set(0, [&] { return mul(g.grad(), sigmoid(mul(distance(self, other), kLn2))); });
  g.set(1, [&] { return mul(g.grad(), sigmoid(mul(distance(other, self), kLn2))); });
});
// With respect to self: log(other), 0 where self is 0 and the logarithm does not exist.
TENON_REGISTER_GRADIENT(op::xlogy, inputs(0, 1), [](Gradients& g, const Operand& self, const Operand& other) {
  g.set(0, [&] {
    const Tensor y = tensor_like(other, self.tensor());
    return where(logical_and(eq(self.tensor(), 0), le(y, 0)), 0, xlogy(g.grad(), y));
  });
  g.set(1, [&] { return div(mul(g.grad(), self), other); });
});
TENON_REGISTER_GRADIENT(op::special_xlog1py, inputs(0, 1), [](Gradients& g, const Operand& self, const Operand& other) {
  g.set(0, [&] {
    const Tensor y = tensor_like(other, self.tensor());
    return where(logical_and(eq(self.tensor(), 0), le(y, -1)), 0, special_xlog1py(g.grad(), y));
  });
  g.set(1, [&] { return div(mul(g.grad(), self), add(other.tensor(), 1)); });
});

}  // namespace tenon

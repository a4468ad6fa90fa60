// SPDX-License-Identifier: Apache-2.0
// Gradients of elementwise arithmetic. At ties maximum and minimum give half to each side.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/complex.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

#include <cmath>

namespace tenon {
namespace {

using dispatch::Gradients;

// Exponents of which the power of 0 is 0 (or 1) around them.
Tensor not_negative(const Tensor& e) { return e.is_complex() ? logical_and(ge(real(e), 0), eq(imag(e), 0)) : ge(e, 0); }
Tensor conj_of(const Operand& o) { return conj(o.tensor()); }
Scalar conj_of(const Scalar& s) { return s.is_complex() ? Scalar(complex<double>(s.real(), -s.imag())) : s; }
// grad * conj(other), where other may be a number.
Tensor times_conj(const Tensor& grad, const Operand& other) {
  return other.is_tensor() ? mul(grad, conj_of(other)) : mul(grad, conj_of(other.number()));
}
Tensor over_conj(const Tensor& grad, const Operand& other) {
  return other.is_tensor() ? div(grad, conj_of(other)) : div(grad, conj_of(other.number()));
}
Tensor scaled(const Tensor& grad, const Scalar& alpha) { return alpha.equal(1) ? grad : mul(grad, conj_of(alpha)); }

// Half the gradient where the operands tie, so that the two gradients add up to grad. Beside a NaN nobody loses: both
// operands get all of it.
Tensor side(const Tensor& grad, const Tensor& loses, const Tensor& ties) {
  return where(loses, 0, where(ties, mul(grad, 0.5), grad));
}

}  // namespace

TENON_REGISTER_GRADIENT(op::add, nothing(), [](Gradients& g, const Operand&, const Operand&, const Scalar& alpha) {
  g.set(0, [&] { return g.grad(); });
  g.set(1, [&] { return scaled(g.grad(), alpha); });
});
TENON_REGISTER_GRADIENT(op::sub, nothing(), [](Gradients& g, const Operand&, const Operand&, const Scalar& alpha) {
  g.set(0, [&] { return g.grad(); });
  g.set(1, [&] { return scaled(g.grad(), -alpha); });
});
TENON_REGISTER_GRADIENT(op::mul, crosswise(0, 1), [](Gradients& g, const Operand& self, const Operand& other) {
  g.set(0, [&] { return times_conj(g.grad(), other); });
  g.set(1, [&] { return times_conj(g.grad(), self); });
});
TENON_REGISTER_GRADIENT(op::div, inputs(1) | crosswise(0, 1),
                        [](Gradients& g, const Operand& self, const Operand& other,
                           std::optional<std::string_view> rounding) {
                          if (rounding) return;  // steps: zero everywhere
                          g.set(0, [&] { return over_conj(g.grad(), other); });
                          g.set(1, [&] { return times_conj(neg(g.grad()), div(div(self, other), other)); });
                        });
TENON_REGISTER_GRADIENT(
    op::pow, inputs(0, 1) | result(), [](Gradients& g, const Operand& self, const Operand& exponent) {
      g.set(0, [&] {
        if (!exponent.is_tensor()) {
          const Scalar& e = exponent.number();
          if (e.equal(0)) return zeros(g.meta(0).sizes, g.meta(0).options());
          if (e.equal(1)) return g.grad();
          if (e.equal(2)) return times_conj(g.grad(), mul(self, 2));
          const Scalar less = e.is_complex()          ? Scalar(complex<double>(e.real() - 1, e.imag()))
                              : e.is_floating_point() ? Scalar(e.real() - 1)
                                                      : Scalar(e.integer() - 1);
          return times_conj(g.grad(), mul(pow(self, less), e));
        }
        // x^0 is constant, also where x^-1 is infinite. To be differentiated again, 1^-1 stands
        // for that: behind a mask it would still make NaN, and a mask on e = 0 hides d2/dx de = 1/x.
        const Tensor &x = self.tensor(), &e = exponent.tensor(), constant = eq(e, 0);
        if (!grad_enabled()) return where(constant, 0, times_conj(g.grad(), mul(pow(x, sub(e, 1)), e)));
        const Tensor apart = logical_and(constant, logical_not(gt(abs(x.detach()), 0)));
        return times_conj(g.grad(), mul(pow(where(apart, 1, x), sub(e, 1)), e));
      });
      g.set(1, [&] {
        // 0^e is 0 around every positive e; log 0 would make it NaN.
        if (!self.is_tensor()) {
          const Scalar& base = self.number();
          if (base.equal(0)) {
            const Tensor flat = not_negative(exponent.tensor());
            const Tensor logarithm = where(flat, 0, full({}, -INFINITY, g.result().options()));
            return where(flat, 0, times_conj(g.grad(), mul(g.result(), logarithm)));
          }
          if (base.is_complex() || base.real() < 0) {
            const Tensor number = mul(exponent.tensor().detach(), 0).add(base);
            return times_conj(g.grad(), mul(g.result(), log(number)));
          }
          return times_conj(g.grad(), mul(g.result(), std::log(base.real())));
        }
        const Tensor at_zero = logical_and(eq(self.tensor(), 0), not_negative(exponent.tensor()));
        const Tensor base = grad_enabled() ? where(at_zero, 1, self.tensor()) : self.tensor();
        return where(at_zero, 0, times_conj(g.grad(), mul(g.result(), log(base))));
      });
    });
TENON_REGISTER_GRADIENT(op::maximum, inputs(0, 1), [](Gradients& g, const Tensor& self, const Tensor& other) {
  const Tensor ties = eq(self, other);
  g.set(0, [&] { return side(g.grad(), lt(self, other), ties); });
  g.set(1, [&] { return side(g.grad(), lt(other, self), ties); });
});
TENON_REGISTER_GRADIENT(op::minimum, inputs(0, 1), [](Gradients& g, const Tensor& self, const Tensor& other) {
  const Tensor ties = eq(self, other);
  g.set(0, [&] { return side(g.grad(), gt(self, other), ties); });
  g.set(1, [&] { return side(g.grad(), gt(other, self), ties); });
});

// --- gradients of gradients, which read conj(output) -------------------------------------------------------------
TENON_REGISTER_GRADIENT(op::tanh_backward, inputs(0, 1), [](Gradients& g, const Tensor& grad, const Tensor& output) {
  g.set(0, [&] { return op::tanh_backward(g.grad(), conj(output)); });
  g.set(1, [&] { return mul(mul(mul(conj(g.grad()), grad), conj(output)), -2); });
});
TENON_REGISTER_GRADIENT(op::sigmoid_backward, inputs(0, 1), [](Gradients& g, const Tensor& grad, const Tensor& output) {
  g.set(0, [&] { return op::sigmoid_backward(g.grad(), conj(output)); });
  g.set(1, [&] { return mul(mul(conj(g.grad()), grad), sub(1, mul(conj(output), 2))); });
});
TENON_REGISTER_GRADIENT(op::threshold_backward, inputs(1),
                        [](Gradients& g, const Tensor&, const Tensor& self, const Scalar& threshold) {
                          g.set(0, [&] { return op::threshold_backward(g.grad(), self, threshold); });
                        });

}  // namespace tenon

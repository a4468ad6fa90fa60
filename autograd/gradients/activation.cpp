// SPDX-License-Identifier: Apache-2.0
// Gradients of activations: the backward operators, and theirs. Pieces of lines have no second derivative.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/activation.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

namespace tenon {

using dispatch::Gradients;

// f has backward operator f_backward, which is linear in its gradient; `second(outer, self, numbers...)` is its derivative
// with respect to self, outer = grad * the gradient that came in.
#define TENON_ACTIVATION_GRADIENT(name, parameters, numbers, second)                                          \
  TENON_REGISTER_GRADIENT(op::name, inputs(0), [](Gradients& g, const Tensor& self TENON_UNPACK parameters) { \
    g.set(0, [&] { return op::name##_backward(g.grad(), self TENON_UNPACK numbers); });                       \
  });                                                                                                         \
  TENON_REGISTER_GRADIENT(                                                                                    \
      op::name##_backward, inputs(0, 1),                                                                      \
      [](Gradients& g, [[maybe_unused]] const Tensor& grad, const Tensor& self TENON_UNPACK parameters) {     \
        g.set(0, [&] { return op::name##_backward(g.grad(), self TENON_UNPACK numbers); });                   \
        second                                                                                                \
      });
#define TENON_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__
#define TENON_SECOND(expression) g.set(1, [&]() -> Tensor { return expression; });

TENON_ACTIVATION_GRADIENT(elu, (double a, double b, double c), (a, b, c),
                          TENON_SECOND(where(lt(self, 0), op::elu_backward(mul(mul(g.grad(), grad), c), self, a, b, c),
                                             0)))
TENON_ACTIVATION_GRADIENT(hardshrink, (double lambd), (lambd), )
TENON_ACTIVATION_GRADIENT(softshrink, (double lambd), (lambd), )
TENON_ACTIVATION_GRADIENT(hardsigmoid, (), (), )
TENON_ACTIVATION_GRADIENT(hardswish, (), (),
                          TENON_SECOND(op::hardtanh_backward(mul(mul(g.grad(), grad), 1.0 / 3), self, -3, 3)))
TENON_ACTIVATION_GRADIENT(hardtanh, (double low, double high), (low, high), )
TENON_ACTIVATION_GRADIENT(leaky_relu, (double slope), (slope), )
TENON_ACTIVATION_GRADIENT(log_sigmoid, (), (),
                          TENON_SECOND(op::sigmoid_backward(neg(mul(g.grad(), grad)), sigmoid(self))))
TENON_ACTIVATION_GRADIENT(softplus, (double beta, double bound), (beta, bound),
                          TENON_SECOND(where(gt(mul(self, beta), bound), 0,
                                             op::sigmoid_backward(mul(mul(g.grad(), grad), beta),
                                                                  sigmoid(mul(self, beta))))))

namespace {
// (1 - t^2) s (2 + x (1 - s - 2 t s)) with t = tanh(softplus(x)), s = sigmoid(x).
Tensor mish_second(const Tensor& outer, const Tensor& x) {
  const Tensor s = sigmoid(x), t = tanh(softplus(x));
  const Tensor inner = add(mul(x, sub(sub(1, s), mul(mul(t, s), 2))), 2);
  return mul(outer, mul(mul(sub(1, mul(t, t)), s), inner));
}
// s (1 - s) (2 + x (1 - 2 s)).
Tensor silu_second(const Tensor& outer, const Tensor& x) {
  const Tensor s = sigmoid(x);
  return mul(outer, conj(mul(mul(s, sub(1, s)), add(mul(x, sub(1, mul(s, 2))), 2))));
}
}  // namespace
TENON_ACTIVATION_GRADIENT(mish, (), (), TENON_SECOND(mish_second(mul(g.grad(), grad), self)))
TENON_REGISTER_GRADIENT(op::silu, inputs(0), [](Gradients& g, const Tensor& self) {
  g.set(0, [&] { return op::silu_backward(g.grad(), self); });
});
TENON_REGISTER_GRADIENT(op::silu_backward, inputs(0, 1), [](Gradients& g, const Tensor& grad, const Tensor& self) {
  g.set(0, [&] { return op::silu_backward(g.grad(), conj(self)); });
  g.set(1, [&] { return silu_second(mul(conj(g.grad()), grad), self); });
});

TENON_REGISTER_GRADIENT(op::threshold, inputs(0),
                        [](Gradients& g, const Tensor& self, const Scalar& threshold, const Scalar&) {
                          g.set(0, [&] { return op::threshold_backward(g.grad(), self, threshold); });
                        });
TENON_REGISTER_GRADIENT(op::prelu_kernel, inputs(0, 1), [](Gradients& g, const Tensor& self, const Tensor& weight) {
  g.set(0, [&] { return op::prelu_backward(g.grad(), self, weight); });
  g.set(1, [&] { return mul(g.grad(), clamp_max(self, 0)); });
});
TENON_REGISTER_GRADIENT(op::prelu_backward, inputs(0, 1, 2),
                        [](Gradients& g, const Tensor& grad, const Tensor& self, const Tensor& weight) {
                          g.set(0, [&] { return op::prelu_backward(g.grad(), self, weight); });
                          g.set(2, [&] { return where(gt(self, 0), 0, mul(g.grad(), grad)); });
                        });

// From the result, which has no NaN.
TENON_REGISTER_GRADIENT(op::safe_softmax, result(), [](Gradients& g, const Tensor&, int64_t dim, std::optional<DType>) {
  g.set(0, [&] { return op::softmax_backward(g.grad(), g.result(), dim, g.meta(0).dtype); });
});
TENON_REGISTER_GRADIENT(op::glu, inputs(0), [](Gradients& g, const Tensor& self, int64_t dim) {
  g.set(0, [&] { return op::glu_backward(g.grad(), self, dim); });
});
// With s = sigmoid(b): the results are grad s and grad a s (1 - s).
TENON_REGISTER_GRADIENT(
    op::glu_backward, inputs(0, 1), [](Gradients& g, const Tensor& grad, const Tensor& self, int64_t dim) {
      const int64_t n = self.size(dim) / 2;
      const Tensor a = self.narrow(dim, 0, n), s = sigmoid(self.narrow(dim, n, n));
      const Tensor first = g.grad().narrow(dim, 0, n), second = g.grad().narrow(dim, n, n);
      const Tensor slope = mul(s, sub(1, s));
      g.set(0, [&] { return add(mul(first, s), mul(second, mul(a, slope))); });
      g.set(1, [&] {
        const Tensor bend = mul(mul(second, a), sub(1, mul(s, 2)));
        return mul(cat({mul(second, slope), mul(add(first, bend), slope)}, dim), cat({grad, grad}, dim));
      });
    });

}  // namespace tenon

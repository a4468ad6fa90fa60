// SPDX-License-Identifier: Apache-2.0
// Activation functions beside relu and gelu (ops/unary.h). Floating dtypes unless told otherwise; every one has an in-place
// form. Kinks take the sub-gradients PyTorch takes. Nearly all share one kind of kernel: a function of up to three
// operands and up to three numbers (kernels/activation.h).
#pragma once

#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// The numbers of an activation, in the schema's order.
struct ActivationNumbers {
  double a = 0, b = 0, c = 0;
};
using ActivationKernel = void(const LoopPlan&, const ActivationNumbers&);

// An activation of one tensor and its gradient, with the schema's text and the types of its numbers.
#define TENON_ACTIVATION(name, numbers, ...)                                                                    \
  TENON_OP(name, #name "(Tensor self" numbers ") -> Tensor", kernel, kPlain, Tensor(const Tensor& __VA_ARGS__), \
           ActivationKernel)                                                                                    \
  TENON_OP(name##_backward, #name "_backward(Tensor grad_output, Tensor self" numbers ") -> Tensor", kernel,    \
           kNoInplace, Tensor(const Tensor&, const Tensor& __VA_ARGS__), ActivationKernel)

/// scale * x above 0, else scale * alpha * (exp(input_scale * x) - 1).
TENON_ACTIVATION(elu, ", float alpha=1.0, float scale=1, float input_scale=1", , double, double, double)
/// 0 within [-lambd, lambd], else x.
TENON_ACTIVATION(hardshrink, ", float lambd=0.5", , double)
/// x moved toward 0 by lambd, 0 within [-lambd, lambd].
TENON_ACTIVATION(softshrink, ", float lambd=0.5", , double)
/// min(max(x + 3, 0), 6) / 6.
TENON_ACTIVATION(hardsigmoid, "", )
/// x * hardsigmoid(x).
TENON_ACTIVATION(hardswish, "", )
/// x clamped to [min_val, max_val]; integers too.
TENON_ACTIVATION(hardtanh, ", float min_val=-1.0, float max_val=1.0", , double, double)
/// x above 0, else negative_slope * x.
TENON_ACTIVATION(leaky_relu, ", float negative_slope=0.01", , double)
/// log(sigmoid(x)).
TENON_ACTIVATION(log_sigmoid, "", )
TENON_ALIAS("logsigmoid", "log_sigmoid")
/// x * tanh(softplus(x)) (Misra 2019).
TENON_ACTIVATION(mish, "", )
/// x * sigmoid(x); complex tensors too.
TENON_ACTIVATION(silu, "", )
/// log(1 + exp(beta x)) / beta; x itself where beta x > threshold.
TENON_ACTIVATION(softplus, ", float beta=1.0, float threshold=20.0", , double, double)
#undef TENON_ACTIVATION
/// value where x <= threshold, else x; integers too.
TENON_OP(threshold, "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Scalar&, const Scalar&), ActivationKernel)
/// x above 0, else weight * x; weight broadcasts.
TENON_OP(prelu_kernel, "_prelu_kernel(Tensor self, Tensor weight) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&), ActivationKernel)
/// grad above 0, else weight * grad: the gradient of _prelu_kernel with respect to self.
TENON_OP(prelu_backward, "prelu_backward(Tensor grad_output, Tensor self, Tensor weight) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&, const Tensor&), ActivationKernel)
/// x above 0, else weight * x, with one weight or one for each entry of dimension 1.
TENON_OP(prelu, "prelu(Tensor self, Tensor weight) -> Tensor", composite, kPlain, Tensor(const Tensor&, const Tensor&),
         void())
/// a * sigmoid(b) of the two halves a, b along `dim`.
TENON_OP(glu, "glu(Tensor self, int dim=-1) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&, int64_t),
         ActivationKernel)
// Kernel: grad, a, b; number a: 0 for the gradient of the first half, 1 for that of the second.
/// Its gradient.
TENON_OP(glu_backward, "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&, int64_t), ActivationKernel)

/// elu with input_scale 1 / alpha.
TENON_OP(celu, "celu(Tensor self, float alpha=1.0) -> Tensor", composite, kPlain, Tensor(const Tensor&, double), void())
/// elu with the numbers that keep mean 0 and variance 1 (Klambauer and others 2017).
TENON_OP(selu, "selu(Tensor self) -> Tensor", composite, kPlain, Tensor(const Tensor&), void())
/// min(max(x, 0), 6); integers too.
TENON_OP(relu6, "relu6(Tensor self) -> Tensor", composite, kPlain, Tensor(const Tensor&), void())
/// x / (1 + |x|); integers give the default float, complex tensors are welcome.
TENON_OP(softsign, "softsign(Tensor input) -> Tensor", composite, kPlain, Tensor(const Tensor&), void())
/// x - tanh(x); integers give the default float, complex tensors are welcome.
TENON_OP(tanhshrink, "tanhshrink(Tensor input) -> Tensor", composite, kPlain, Tensor(const Tensor&), void())
/// leaky_relu whose slope is drawn from [lower, upper) for each element in training, and is their mean else.
TENON_OP(rrelu, "rrelu(Tensor self, float lower=0.125, float upper=0.3333333333333333, bool training=False) -> Tensor",
         composite, kPlain, Tensor(const Tensor&, double, double, bool), void())
/// softmax of -x.
TENON_OP(softmin, "softmin(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, int64_t, std::optional<DType>), void())
/// softmax, with 0 instead of NaN for rows of negative infinities.
TENON_OP(safe_softmax, "_safe_softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, int64_t, std::optional<DType>), void())
/// A sample of the relaxed categorical distribution with these logits (Jang, Gu and Poole 2017): softmax of logits plus
/// Gumbel noise over tau; hard: one-hot, with the gradient of the soft one.
TENON_OP(gumbel_softmax,
         "gumbel_softmax(Tensor logits, float tau=1, bool hard=False, float eps=1e-10, int dim=-1) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, double, bool, double, int64_t), void())

inline Tensor elu(const Tensor& x, double alpha = 1) { return op::elu(x, alpha, 1, 1); }
inline Tensor celu(const Tensor& x, double alpha = 1) { return op::celu(x, alpha); }
inline Tensor selu(const Tensor& x) { return op::selu(x); }
inline Tensor hardshrink(const Tensor& x, double lambd = 0.5) { return op::hardshrink(x, lambd); }
inline Tensor softshrink(const Tensor& x, double lambd = 0.5) { return op::softshrink(x, lambd); }
inline Tensor hardsigmoid(const Tensor& x) { return op::hardsigmoid(x); }
inline Tensor hardswish(const Tensor& x) { return op::hardswish(x); }
inline Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1) {
  return op::hardtanh(x, min_val, max_val);
}
inline Tensor relu6(const Tensor& x) { return op::relu6(x); }
inline Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01) { return op::leaky_relu(x, negative_slope); }
inline Tensor logsigmoid(const Tensor& x) { return op::log_sigmoid(x); }
inline Tensor mish(const Tensor& x) { return op::mish(x); }
inline Tensor silu(const Tensor& x) { return op::silu(x); }
inline Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20) {
  return op::softplus(x, beta, threshold);
}
inline Tensor threshold(const Tensor& x, const Scalar& threshold, const Scalar& value) {
  return op::threshold(x, threshold, value);
}
inline Tensor prelu(const Tensor& x, const Tensor& weight) { return op::prelu(x, weight); }
inline Tensor rrelu(const Tensor& x, double lower = 1. / 8, double upper = 1. / 3, bool training = false) {
  return op::rrelu(x, lower, upper, training);
}
inline Tensor glu(const Tensor& x, int64_t dim = -1) { return op::glu(x, dim); }
inline Tensor softsign(const Tensor& x) { return op::softsign(x); }
inline Tensor tanhshrink(const Tensor& x) { return op::tanhshrink(x); }
inline Tensor softmin(const Tensor& x, int64_t dim, std::optional<DType> dtype = {}) {
  return op::softmin(x, dim, dtype);
}
inline Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, int64_t dim = -1) {
  return op::gumbel_softmax(logits, tau, hard, 1e-10, dim);
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/activation.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

#include <cmath>
#include <limits>

namespace tenon::detail {
bool holds(DType t, const Scalar& number);  // ops/compare.cpp
}

namespace tenon::impl {
namespace {
using dispatch::Pointwise;
using Numbers = ActivationNumbers;

void check_floating(const Call& call, const Tensor& self) {
  TENON_CHECK(self.is_floating_point(), DtypeError, call.name(), ": self: expected a floating dtype, got ",
              self.dtype());
}
template <class... Rest>
Tensor activation(Call& call, const Numbers& numbers, const Tensor& self, const Rest&... rest) {
  const Tensor* const tensors[] = {&self, &rest...};
  const Tensor& input = *tensors[sizeof...(rest) > 0];  // after the gradient, if there is one
  check_floating(call, input);
  return Pointwise(call, self, rest...).template run<ActivationKernel>(input.dtype(), numbers);
}
// A bound that elements of `t` are compared with, as PyTorch rounds it.
double rounded(DType t, double v) {
  if (t == kFloat16) return static_cast<double>(static_cast<float>(float16(static_cast<float>(v))));
  if (t == kBFloat16) return static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(v))));
  return v;
}
double not_negative(const Call& call, double lambd) {
  TENON_CHECK(lambd >= 0, ValueError, call.name(), ": lambd: expected a number that is not negative, got ", lambd);
  return lambd;
}

struct Halves {
  Tensor first, second;
};
Halves halves(const Call& call, const Tensor& self, int64_t dim) {
  TENON_CHECK(self.dim() > 0, ShapeError, call.name(), ": self: expected at least one dimension, got a 0-dim tensor");
  const int64_t d = wrap_dim(dim, self.dim(), std::string(call.name()).c_str()), n = self.size(d);
  TENON_CHECK(n % 2 == 0, ShapeError, call.name(), ": self: expected an even size of dimension ", d, ", got ", n);
  return {self.narrow(d, 0, n / 2), self.narrow(d, n / 2, n / 2)};
}

}  // namespace

#define TENON_PLAIN(name)                                                             \
  Tensor name(Call& call, const Tensor& self) { return activation(call, {}, self); }  \
  Tensor name##_backward(Call& call, const Tensor& grad_output, const Tensor& self) { \
    return activation(call, {}, grad_output, self);                                   \
  }
TENON_PLAIN(hardsigmoid)
TENON_PLAIN(hardswish)
TENON_PLAIN(log_sigmoid)
TENON_PLAIN(mish)
#undef TENON_PLAIN

Tensor silu(Call& call, const Tensor& self) {
  return self.is_complex() ? Pointwise(call, self).run<ActivationKernel>(self.dtype(), Numbers{})
                           : activation(call, {}, self);
}
Tensor silu_backward(Call& call, const Tensor& grad_output, const Tensor& self) {
  return self.is_complex() ? Pointwise(call, grad_output, self).run<ActivationKernel>(self.dtype(), Numbers{})
                           : activation(call, {}, grad_output, self);
}
Tensor elu(Call& call, const Tensor& self, double alpha, double scale, double input_scale) {
  return activation(call, {alpha, scale, input_scale}, self);
}
Tensor elu_backward(Call& call, const Tensor& grad, const Tensor& self, double alpha, double scale,
                    double input_scale) {
  return activation(call, {alpha, scale, input_scale}, grad, self);
}
Tensor hardshrink(Call& call, const Tensor& self, double lambd) {
  return activation(call, {rounded(self.dtype(), lambd)}, self);
}
Tensor hardshrink_backward(Call& call, const Tensor& grad, const Tensor& self, double lambd) {
  return activation(call, {rounded(self.dtype(), lambd)}, grad, self);
}
Tensor softshrink(Call& call, const Tensor& self, double lambd) {
  return activation(call, {rounded(self.dtype(), not_negative(call, lambd))}, self);
}
Tensor softshrink_backward(Call& call, const Tensor& grad, const Tensor& self, double lambd) {
  return activation(call, {rounded(self.dtype(), not_negative(call, lambd))}, grad, self);
}
Tensor leaky_relu(Call& call, const Tensor& self, double slope) { return activation(call, {slope}, self); }
Tensor leaky_relu_backward(Call& call, const Tensor& grad, const Tensor& self, double slope) {
  return activation(call, {slope}, grad, self);
}
Tensor softplus(Call& call, const Tensor& self, double beta, double threshold) {
  return activation(call, {beta, threshold}, self);
}
Tensor softplus_backward(Call& call, const Tensor& grad, const Tensor& self, double beta, double threshold) {
  return activation(call, {beta, threshold}, grad, self);
}

Tensor hardtanh(Call& call, const Tensor& self, double min_val, double max_val) {
  const DType t = self.dtype();
  TENON_CHECK(t != kBool && !is_complex(t), DtypeError, call.name(), ": self: expected a real number dtype, got ", t);
  TENON_CHECK(!(min_val > max_val), ValueError, call.name(), ": min_val: expected at most max_val, ", max_val, ", got ",
              min_val);
  Operand low = Scalar(min_val), high = Scalar(max_val);
  if (is_integral(t)) {
    for (Operand* bound : {&low, &high}) {
      const double v = bound->number().real();
      TENON_CHECK(detail::holds(t, v) && (t != kUInt8 || v >= 0), ValueError, call.name(),
                  ": min_val, max_val: expected numbers ", t, " can hold, got ", v);
      *bound = Scalar(static_cast<int64_t>(v));
    }
  }
  return Pointwise(call, self, low, high).run_as<void(const LoopPlan&)>(op::clamp, t, t, dispatch::key_of(t));
}
Tensor hardtanh_backward(Call& call, const Tensor& grad, const Tensor& self, double min_val, double max_val) {
  return activation(call, {rounded(self.dtype(), min_val), rounded(self.dtype(), max_val)}, grad, self);
}

Tensor threshold(Call& call, const Tensor& self, const Scalar& threshold, const Scalar& value) {
  const DType t = self.dtype();
  TENON_CHECK(t != kBool && !is_complex(t), DtypeError, "threshold: self: expected a real number dtype, got ", t);
  for (const Scalar* s : {&threshold, &value})
    TENON_CHECK(!s->is_complex() && detail::holds(t, *s) && (t != kUInt8 || s->real() > -1), ValueError,
                "threshold: threshold, value: expected numbers ", t, " can hold, got ", *s);
  return Pointwise(call, self).run<ActivationKernel>(t, Numbers{rounded(t, threshold.real()), value.real()});
}

Tensor prelu_kernel(Call& call, const Tensor& self, const Tensor& weight) { return activation(call, {}, self, weight); }
Tensor prelu_backward(Call& call, const Tensor& grad, const Tensor& self, const Tensor& weight) {
  return activation(call, {}, grad, self, weight);
}
Tensor prelu(Call&, const Tensor& self, const Tensor& weight) {
  TENON_CHECK(self.dtype() == weight.dtype(), DtypeError, "prelu: weight: expected the dtype of self, ", self.dtype(),
              ", got ", weight.dtype());
  TENON_CHECK(weight.dim() <= 1, ShapeError, "prelu: weight: expected a vector or a number, got sizes ",
              weight.sizes());
  const int64_t n = weight.numel(), channels = self.dim() > 1 ? self.size(1) : 1;
  TENON_CHECK(n == 1 || (n == channels && self.dim() > 0), ShapeError, "prelu: weight: expected 1 or ", channels,
              " elements for self of ", self.sizes(), ", got ", n);
  DimVector sizes(self.sizes().size(), 1);
  if (sizes.size() > 1) sizes[1] = n;
  return op::prelu_kernel(self, weight.view(sizes));
}

Tensor glu(Call& call, const Tensor& self, int64_t dim) {
  const Halves h = halves(call, self, dim);
  return activation(call, {}, h.first, h.second);
}
Tensor glu_backward(Call& call, const Tensor& grad_output, const Tensor& self, int64_t dim) {
  check_floating(call, self);
  const Halves h = halves(call, self, dim);
  TENON_CHECK(grad_output.sizes() == h.first.sizes() && grad_output.dtype() == self.dtype(), ShapeError,
              "glu_backward: grad_output: expected ", self.dtype(), " of sizes ", h.first.sizes(), ", got ",
              grad_output.dtype(), " of ", grad_output.sizes());
  const Tensor out =
      call.output(0, self.sizes(), self.dtype(), call.device_of({&grad_output, &self}), {&grad_output, &self});
  if (out.is_meta() || out.numel() == 0) return out;
  const Halves to = halves(call, out, dim);
  const auto kernel = op::glu_backward.kernel(self.backend(), dispatch::key_of(self.dtype()));
  for (const double part : {0., 1.}) {
    LoopPlan plan;
    const PlanOperand operands[] = {{part == 0 ? &to.first : &to.second, nullptr, {}},
                                    {&grad_output, nullptr, {}},
                                    {&h.first, nullptr, {}},
                                    {&h.second, nullptr, {}}};
    make_plan(plan, h.first.sizes(), operands, 1);
    kernel(plan, Numbers{part});
  }
  return out;
}

Tensor celu(Call&, const Tensor& self, double alpha) {
  TENON_CHECK(alpha != 0, ValueError, "celu: alpha: expected a number other than 0");
  return op::elu(self, alpha, 1, 1 / alpha);
}
Tensor selu(Call&, const Tensor& self) { return op::elu(self, 1.6732632423543772, 1.0507009873554805, 1); }
Tensor relu6(Call&, const Tensor& self) { return op::hardtanh(self, 0, 6); }
Tensor softsign(Call&, const Tensor& input) { return op::div(input, op::add(op::abs(input), 1, 1), {}); }
Tensor tanhshrink(Call&, const Tensor& input) { return op::sub(input, op::tanh(input), 1); }

Tensor rrelu(Call& call, const Tensor& self, double lower, double upper, bool training) {
  check_floating(call, self);
  TENON_CHECK(std::isfinite(lower) && std::isfinite(upper) && lower <= upper, ValueError,
              "rrelu: lower, upper: expected finite numbers in order, got ", lower, " and ", upper);
  if (!training) return op::leaky_relu(self, (lower + upper) / 2);
  Tensor slope;
  {
    const NoGradGuard no_grad;
    slope = op::where(op::gt(self, 0), 1, op::uniform(self.detach(), lower, upper));
  }
  return op::mul(self, slope);
}

Tensor softmin(Call&, const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  return op::softmax(op::neg(input), dim, dtype);  // unsigned integers wrap first, as PyTorch's
}
Tensor safe_softmax(Call&, const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  const Tensor out = op::softmax(self, dim, dtype);
  const Tensor empty = op::all(op::eq(self, -std::numeric_limits<double>::infinity()), IntArrayRef(dim), true);
  return op::masked_fill(out, empty, 0);
}
Tensor gumbel_softmax(Call&, const Tensor& logits, double tau, bool hard, double, int64_t dim) {
  TENON_CHECK(logits.is_floating_point(), DtypeError, "gumbel_softmax: logits: expected a floating dtype, got ",
              logits.dtype());
  Tensor noise;
  {
    const NoGradGuard no_grad;
    noise = op::neg(op::log(op::exponential(logits.detach(), 1)));
  }
  const Tensor soft = op::softmax(op::div(op::add(logits, noise, 1), tau, {}), dim, {});
  if (!hard) return soft;
  const Tensor best = op::argmax(soft.detach(), dim, true);
  const Tensor picked = op::scatter(op::zeros_like(logits.detach(), {}, {}, {}),
                                    wrap_dim(dim, logits.dim(), "gumbel_softmax"), best, 1.0);
  return op::add(op::sub(picked, soft.detach(), 1), soft, 1);
}

}  // namespace tenon::impl

// SPDX-License-Identifier: Apache-2.0
// Activations (ops/activation.h). Pieces of lines are loops the compiler vectorises; those with exponentials have vector
// bodies for float32 and the 16-bit floats, and take the C library for float64.
#include <tenon/kernels/activation.h>
#include <tenon/kernels/cpu/run_plan.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/activation.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>
#include <tenon/kernels/cpu/simd_math.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

using Numbers = ActivationNumbers;
constexpr int64_t kActivationGrain = 4096;  // elements of a function of some 20 instructions worth a second thread

template <template <class> class F, class C>
void activation_loop(const LoopPlan& plan, const Numbers& n, int64_t grain = kGrain) {
  elementwise(plan, F<C>(n), grain);
}

#define TENON_LINEAR_ACTIVATION(name, Function)                   \
  template <class T>                                              \
  void name##_cpu(const LoopPlan& plan, const Numbers& n) {       \
    activation_loop<activation::Function, compute_t<T>>(plan, n); \
  }                                                               \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);

TENON_LINEAR_ACTIVATION(hardshrink, Hardshrink)
TENON_LINEAR_ACTIVATION(hardshrink_backward, ShrinkBackward)
TENON_LINEAR_ACTIVATION(softshrink, Softshrink)
TENON_LINEAR_ACTIVATION(softshrink_backward, ShrinkBackward)
TENON_LINEAR_ACTIVATION(hardsigmoid, Hardsigmoid)
TENON_LINEAR_ACTIVATION(hardsigmoid_backward, HardsigmoidBackward)
TENON_LINEAR_ACTIVATION(hardswish, Hardswish)
TENON_LINEAR_ACTIVATION(hardswish_backward, HardswishBackward)
TENON_LINEAR_ACTIVATION(hardtanh_backward, HardtanhBackward)
TENON_LINEAR_ACTIVATION(prelu_kernel, Prelu)
TENON_LINEAR_ACTIVATION(prelu_backward, PreluBackward)
TENON_LINEAR_ACTIVATION(threshold, Threshold)
#undef TENON_LINEAR_ACTIVATION

// Written as loops these become branches.
struct LeakyReluBackwardBody {
  Numbers n;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad, V x) const {
    const V below = hn::Mul(grad, hn::Set(d, static_cast<hn::TFromD<D>>(n.a)));
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), grad, below);
  }
};
struct LeakyReluBody {
  Numbers n;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return LeakyReluBackwardBody{n}(d, x, x);
  }
};
template <class T>
void leaky_relu_cpu(const LoopPlan& plan, const Numbers& n) {
  elementwise<T>(plan, LeakyReluBody{n});
}
template <class T>
void leaky_relu_backward_cpu(const LoopPlan& plan, const Numbers& n) {
  elementwise<T>(plan, LeakyReluBackwardBody{n});
}
TENON_REGISTER_SIMD_KERNEL(op::leaky_relu, FloatsAndHalves, leaky_relu_cpu);
TENON_REGISTER_SIMD_KERNEL(op::leaky_relu_backward, FloatsAndHalves, leaky_relu_backward_cpu);

// A vector body: n has the numbers as floats in x, y, z; `arguments` are its operands.
#define TENON_SMOOTH_ACTIVATION(name, Function, arguments, ...)                 \
  struct name##_body {                                                          \
    Numbers n;                                                                  \
    template <class D, class V>                                                 \
    HWY_INLINE V operator() arguments const __VA_ARGS__                         \
  };                                                                            \
  template <class T>                                                            \
  void name##_cpu(const LoopPlan& plan, const Numbers& n) {                     \
    if constexpr (std::is_same_v<T, double>)                                    \
      activation_loop<activation::Function, double>(plan, n, kActivationGrain); \
    else                                                                        \
      elementwise<float>(plan, name##_body{n}, kActivationGrain);               \
  }                                                                             \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);

template <class D>
HWY_INLINE hn::Vec<D> number(D d, double v) {
  return hn::Set(d, static_cast<float>(v));
}
/// log(1 + exp(-|x|)).
template <class D, class V>
HWY_INLINE V log1p_exp_below(D d, V x) {
  const V one = hn::Set(d, 1.f), e = exp(d, hn::Neg(hn::Abs(x))), u = hn::Add(one, e);
  // What the sum lost comes back as a part of the derivative.
  return hn::Add(log(d, u), hn::Div(hn::Sub(e, hn::Sub(u, one)), u));
}
/// exp(x) - 1 for x up to 88.
template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, std::expm1(hn::GetLane(x)));
#else
  V n;
  const V r = reduced_expm1(d, at_least(d, -87.f, x), n), s = power_of_two(d, n);
  return hn::MulAdd(s, r, hn::Sub(s, hn::Set(d, 1.f)));
#endif
}

TENON_SMOOTH_ACTIVATION(log_sigmoid, LogSigmoid, (D d, V x),
                        { return hn::Sub(hn::Min(hn::Zero(d), x), log1p_exp_below(d, x)); })
TENON_SMOOTH_ACTIVATION(log_sigmoid_backward, LogSigmoidBackward, (D d, V grad, V x),
                        { return hn::Mul(grad, sigmoid(d, hn::Neg(x))); })
TENON_SMOOTH_ACTIVATION(mish, Mish, (D d, V x), {
  const V two = hn::Set(d, 2.f), e = exp(d, hn::Min(hn::Set(d, 20.f), x)), m = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(m, hn::Add(m, two)));
})
TENON_SMOOTH_ACTIVATION(mish_backward, MishBackward, (D d, V grad, V x), {
  const V two = hn::Set(d, 2.f), y = hn::Min(hn::Set(d, 20.f), x), e = exp(d, y);
  const V m = hn::Mul(e, hn::Add(e, two)), inverse = hn::Div(hn::Set(d, 1.f), hn::Add(m, two));
  const V inner = hn::Mul(hn::Mul(hn::MulAdd(e, e, e), inverse), hn::Mul(hn::Set(d, 4.f), y));
  return hn::Mul(hn::Mul(grad, inverse), hn::Add(m, inner));
})
TENON_SMOOTH_ACTIVATION(silu, Silu, (D d, V x), { return hn::Mul(x, sigmoid(d, x)); })
TENON_SMOOTH_ACTIVATION(silu_backward, SiluBackward, (D d, V grad, V x), {
  const V one = hn::Set(d, 1.f), s = sigmoid(d, x);
  return hn::Mul(hn::Mul(grad, s), hn::MulAdd(x, hn::Sub(one, s), one));
})
TENON_SMOOTH_ACTIVATION(softplus, Softplus, (D d, V x), {
  const V z = hn::Mul(x, number(d, n.a));
  const V y = hn::Div(hn::Add(hn::Max(hn::Zero(d), z), log1p_exp_below(d, z)), number(d, n.a));
  return hn::IfThenElse(hn::Gt(z, number(d, n.b)), x, y);
})
TENON_SMOOTH_ACTIVATION(softplus_backward, SoftplusBackward, (D d, V grad, V x), {
  const V z = hn::Mul(x, number(d, n.a));
  return hn::IfThenElse(hn::Gt(z, number(d, n.b)), grad, hn::Mul(grad, sigmoid(d, z)));
})
TENON_SMOOTH_ACTIVATION(glu, Glu, (D d, V a, V b), { return hn::Mul(a, sigmoid(d, b)); })
TENON_SMOOTH_ACTIVATION(glu_backward, GluBackward, (D d, V grad, V a, V b), {
  const V s = sigmoid(d, b);
  if (n.a == 0) return hn::Mul(grad, s);
  return hn::Mul(hn::Mul(grad, a), hn::NegMulAdd(s, s, s));
})

struct EluBody {
  Numbers n;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d), below = expm1(d, hn::Mul(hn::Min(zero, x), number(d, n.c)));
    return hn::IfThenElse(hn::Gt(x, zero), hn::Mul(x, number(d, n.b)), hn::Mul(below, number(d, n.a * n.b)));
  }
};
struct EluBackwardBody {
  Numbers n;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad, V x) const {
    const V below = hn::Mul(exp(d, hn::Mul(x, number(d, n.c))), number(d, n.a * n.b * n.c));
    return hn::Mul(grad, hn::IfThenElse(hn::Le(x, hn::Zero(d)), below, number(d, n.b)));
  }
};
template <class T>
void elu_cpu(const LoopPlan& plan, const Numbers& n) {
  if (std::is_same_v<T, double> || n.c < 0)  // vectors take exponents up to 0
    activation_loop<activation::Elu, compute_t<T>>(plan, n, kActivationGrain);
  else
    elementwise<float>(plan, EluBody{n}, kActivationGrain);
}
template <class T>
void elu_backward_cpu(const LoopPlan& plan, const Numbers& n) {
  if constexpr (std::is_same_v<T, double>)
    activation_loop<activation::EluBackward, double>(plan, n, kActivationGrain);
  else
    elementwise<float>(plan, EluBackwardBody{n}, kActivationGrain);
}
TENON_REGISTER_SIMD_KERNEL(op::elu, FloatsAndHalves, elu_cpu);
TENON_REGISTER_SIMD_KERNEL(op::elu_backward, FloatsAndHalves, elu_backward_cpu);
#undef TENON_SMOOTH_ACTIVATION

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {
template <class T>
void threshold_integer(const LoopPlan& plan, const ActivationNumbers& n) {
  const auto whole = [](double v) { return static_cast<T>(static_cast<int64_t>(v)); };
  HWY_NAMESPACE::elementwise(plan, [bound = whole(n.a), value = whole(n.b)](T x) { return x <= bound ? value : x; });
}
template <class T>
void silu_complex(const LoopPlan& plan, const ActivationNumbers& n) {
  HWY_NAMESPACE::elementwise(plan, activation::Silu<T>(n), 256);
}
template <class T>
void silu_backward_complex(const LoopPlan& plan, const ActivationNumbers&) {
  HWY_NAMESPACE::elementwise(
      plan,
      [](T grad, T x) {
        const T s = activation::sigmoid(x), slope = s * (T(1) + x * (T(1) - s));
        return grad * conj(slope);
      },
      256);
}
TENON_REGISTER_KERNEL(op::threshold, cpu, Integers, threshold_integer);
TENON_REGISTER_KERNEL(op::silu, cpu, Complexes, silu_complex);
TENON_REGISTER_KERNEL(op::silu_backward, cpu, Complexes, silu_backward_complex);
}  // namespace
}  // namespace tenon::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of one tensor. The halves compute in float and round once.
#include <tenon/kernels/math.h>
#include <tenon/ops/unary.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using RealsAndComplexes = Join<Numbers, Complexes>;
using FloatsAndComplexes = Join<FloatsAndHalves, Complexes>;

template <class T>
struct Neg {
  __device__ T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - static_cast<uint64_t>(x));
    else if constexpr (is_complex_v<T>)
      return -x;
    else
      return static_cast<T>(-static_cast<cuda::compute_t<T>>(x));
  }
};
template <class T>
void neg_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Neg<T>{});
}

template <class T>
struct Abs {
  __device__ T operator()(T x) const {
    if constexpr (cuda::is_float_v<T>)
      return static_cast<T>(math::fabs(static_cast<cuda::compute_t<T>>(x)));
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? static_cast<T>(0 - static_cast<uint64_t>(x)) : x;
    else
      return x;
  }
};
template <class T>
struct Abs<complex<T>> {
  __device__ T operator()(complex<T> x) const { return math::abs(x); }
};
template <class T>
void abs_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Abs<T>{});
}

// NaN has no sign and gives 0, as in PyTorch.
template <class T>
struct Sgn {
  __device__ T operator()(T x) const {
    if constexpr (is_complex_v<T>) {
      const auto r = math::abs(x);
      if (r == 0) return T(0);
      return {x.re / r, x.im / r};
    } else if constexpr (std::is_same_v<T, bool>) {
      return x;
    } else {
      using C = cuda::compute_t<T>;
      const C v = x;
      if constexpr (std::is_unsigned_v<C>)
        return v != 0;
      else
        return static_cast<T>(static_cast<C>(static_cast<int>(v > C(0)) - static_cast<int>(v < C(0))));
    }
  }
};
template <class T>
void sgn_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Sgn<T>{});
}

template <class T>
struct Square {
  __device__ T operator()(T x) const { return static_cast<T>(x * x); }
};
template <class T>
void square_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Square<T>{});
}

template <class T>
struct Relu {
  using C = cuda::compute_t<T>;
  __device__ T operator()(T x) const { return static_cast<C>(x) <= C(0) ? static_cast<T>(C(0)) : x; }  // NaN stays
};
template <class T>
void relu_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Relu<T>{});
}

template <class T>
struct Conj {
  __device__ T operator()(T x) const { return conj(x); }
};
template <class T>
void conj_cuda(const LoopPlan& plan) {
  if constexpr (is_complex_v<T>)
    cuda::elementwise(plan, Conj<T>{});
  else
    cuda::elementwise(plan, cuda::Identity<cuda::word_t<sizeof(T)>>{});
}

// A float function for real and complex types. Complex ones are long: one element at a time.
#define TENON_FLOAT_FUNCTION(Name, name, expression)                        \
  template <class T>                                                        \
  struct Name {                                                             \
    static constexpr int kUnroll = sizeof(cuda::compute_t<T>) == 4 ? 2 : 1; \
    static constexpr int kWidth = is_complex_v<T> ? 1 : 8;                  \
    __device__ T operator()(T v) const {                                    \
      const cuda::compute_t<T> x = v;                                       \
      return static_cast<T>(expression);                                    \
    }                                                                       \
  };                                                                        \
  template <class T>                                                        \
  void name(const LoopPlan& plan) {                                         \
    cuda::elementwise(plan, Name<T>{});                                     \
  }

TENON_FLOAT_FUNCTION(Exp, exp_cuda, math::exp(x))
TENON_FLOAT_FUNCTION(Log, log_cuda, math::log(x))
TENON_FLOAT_FUNCTION(Sqrt, sqrt_cuda, math::sqrt(x))
TENON_FLOAT_FUNCTION(Rsqrt, rsqrt_cuda, (cuda::compute_t<T>(1) / math::sqrt(x)))
TENON_FLOAT_FUNCTION(Reciprocal, reciprocal_cuda, (cuda::compute_t<T>(1) / x))
TENON_FLOAT_FUNCTION(Tanh, tanh_cuda, math::tanh(x))
TENON_FLOAT_FUNCTION(Sigmoid, sigmoid_cuda, math::sigmoid(x))
#undef TENON_FLOAT_FUNCTION

template <class T, bool kTanh>
struct Gelu {
  static constexpr int kUnroll = sizeof(cuda::compute_t<T>) == 4 ? 2 : 1;
  __device__ T operator()(T v) const {
    const cuda::compute_t<T> x = v;
    return static_cast<T>(kTanh ? math::gelu_tanh(x) : math::gelu(x));
  }
};
template <class T>
void gelu_cuda(const LoopPlan& plan, const bool& tanh_form) {
  if (tanh_form)
    cuda::elementwise(plan, Gelu<T, true>{});
  else
    cuda::elementwise(plan, Gelu<T, false>{});
}
template <class T, bool kTanh>
struct GeluBackward {
  static constexpr int kUnroll = 1;
  __device__ T operator()(T grad, T v) const {
    const cuda::compute_t<T> g = grad, x = v;
    return static_cast<T>(g * (kTanh ? math::gelu_tanh_derivative(x) : math::gelu_derivative(x)));
  }
};
template <class T>
void gelu_backward_cuda(const LoopPlan& plan, const bool& tanh_form) {
  if (tanh_form)
    cuda::elementwise(plan, GeluBackward<T, true>{});
  else
    cuda::elementwise(plan, GeluBackward<T, false>{});
}

template <class T>
struct IsNan {
  __device__ bool operator()(T x) const { return cuda::is_nan(x); }
};
template <class T>
void isnan_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, IsNan<T>{});
}
template <class T>
struct LogicalNot {
  __device__ bool operator()(T x) const { return !cuda::is_nonzero(x); }
};
template <class T>
void logical_not_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, LogicalNot<T>{});
}

TENON_REGISTER_KERNEL(op::neg, cuda, RealsAndComplexes, neg_cuda);
using NumbersAndComplexes = Join<Numbers, Complexes>;
TENON_REGISTER_KERNEL(op::abs, cuda, NumbersAndComplexes, abs_cuda);
TENON_REGISTER_KERNEL(op::sgn, cuda, AllTypes, sgn_cuda);
TENON_REGISTER_KERNEL(op::square, cuda, RealsAndComplexes, square_cuda);
TENON_REGISTER_KERNEL(op::relu, cuda, Numbers, relu_cuda);
TENON_REGISTER_KERNEL(op::conj, cuda, AllTypes, conj_cuda);
TENON_REGISTER_KERNEL(op::exp, cuda, FloatsAndComplexes, exp_cuda);
TENON_REGISTER_KERNEL(op::log, cuda, FloatsAndComplexes, log_cuda);
TENON_REGISTER_KERNEL(op::sqrt, cuda, FloatsAndComplexes, sqrt_cuda);
TENON_REGISTER_KERNEL(op::rsqrt, cuda, FloatsAndComplexes, rsqrt_cuda);
TENON_REGISTER_KERNEL(op::reciprocal, cuda, FloatsAndComplexes, reciprocal_cuda);
TENON_REGISTER_KERNEL(op::tanh, cuda, FloatsAndComplexes, tanh_cuda);
TENON_REGISTER_KERNEL(op::sigmoid, cuda, FloatsAndComplexes, sigmoid_cuda);
TENON_REGISTER_KERNEL(op::gelu, cuda, FloatsAndHalves, gelu_cuda);
TENON_REGISTER_KERNEL(op::gelu_backward, cuda, FloatsAndHalves, gelu_backward_cuda);
TENON_REGISTER_KERNEL(op::isnan, cuda, AllTypes, isnan_cuda);
TENON_REGISTER_KERNEL(op::logical_not, cuda, AllTypes, logical_not_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Arithmetic of two operands. The halves compute in float and round once; integers wrap.
#include <tenon/ops/binary.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using Reals = Numbers;
using RealsAndComplexes = Join<Numbers, Complexes>;
using FloatsAndComplexes = Join<FloatsAndHalves, Complexes>;
using RealsAndBool = Join<Numbers, Bools>;

// a + alpha b. Sub is the same with -alpha, which is exact.
template <class T>
struct Add {
  using C = cuda::compute_t<T>;
  C alpha;
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>) {
      return a || (alpha && b);
    } else if constexpr (is_complex_v<T>) {
      // A real alpha scales both parts: a full product would make NaN of infinities.
      if (alpha.im == 0) return {a.re + alpha.re * b.re, a.im + alpha.re * b.im};
      return a + alpha * b;
    } else {
      return static_cast<T>(static_cast<C>(a) + alpha * static_cast<C>(b));
    }
  }
};
template <class T>
void add_cuda(const LoopPlan& plan, const Scalar& alpha) {
  cuda::elementwise(plan, Add<T>{alpha.to<cuda::compute_t<T>>()});
}
template <class T>
void sub_cuda(const LoopPlan& plan, const Scalar& alpha) {
  using C = cuda::compute_t<T>;
  const C value = alpha.to<C>();
  if constexpr (std::is_integral_v<C>)
    cuda::elementwise(plan, Add<T>{static_cast<C>(0 - static_cast<uint64_t>(value))});
  else
    cuda::elementwise(plan, Add<T>{-value});
}

template <class T>
struct Mul {
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else
      return static_cast<T>(a * b);
  }
};
template <class T>
void mul_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Mul<T>{});
}

template <class T>
struct Maximum {
  using C = cuda::compute_t<T>;
  __device__ T operator()(T a, T b) const { return static_cast<T>(cuda::larger<C>(a, b)); }
};
template <class T>
struct Minimum {
  using C = cuda::compute_t<T>;
  __device__ T operator()(T a, T b) const { return static_cast<T>(cuda::smaller<C>(a, b)); }
};
template <class T>
void maximum_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Maximum<T>{});
}
template <class T>
void minimum_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Minimum<T>{});
}

// Backward of functions known by their results; complex derivatives are conjugated.
template <class T>
struct TanhBackward {
  __device__ T operator()(T grad, T y) const {
    if constexpr (is_complex_v<T>) {
      return grad * conj(T(1) - y * y);
    } else {
      const cuda::compute_t<T> g = grad, v = y;
      return static_cast<T>(g * (1 - v * v));
    }
  }
};
template <class T>
void tanh_backward_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, TanhBackward<T>{});
}

template <class T>
struct SigmoidBackward {
  __device__ T operator()(T grad, T y) const {
    if constexpr (is_complex_v<T>) {
      return grad * conj((T(1) - y) * y);
    } else {
      const cuda::compute_t<T> g = grad, v = y;
      return static_cast<T>(g * (1 - v) * v);
    }
  }
};
template <class T>
void sigmoid_backward_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, SigmoidBackward<T>{});
}

// NaN passes the gradient on, as relu passes NaN.
template <class T>
struct ThresholdBackward {
  using C = cuda::compute_t<T>;
  C threshold;
  __device__ T operator()(T grad, T x) const { return static_cast<C>(x) <= threshold ? static_cast<T>(C(0)) : grad; }
};
template <class T>
void threshold_backward_cuda(const LoopPlan& plan, const Scalar& threshold) {
  cuda::elementwise(plan, ThresholdBackward<T>{threshold.to<cuda::compute_t<T>>()});
}

TENON_REGISTER_KERNEL(op::add, cuda, AllTypes, add_cuda);
TENON_REGISTER_KERNEL(op::sub, cuda, RealsAndComplexes, sub_cuda);
TENON_REGISTER_KERNEL(op::mul, cuda, AllTypes, mul_cuda);
TENON_REGISTER_KERNEL(op::maximum, cuda, RealsAndBool, maximum_cuda);
TENON_REGISTER_KERNEL(op::minimum, cuda, RealsAndBool, minimum_cuda);
TENON_REGISTER_KERNEL(op::tanh_backward, cuda, FloatsAndComplexes, tanh_backward_cuda);
TENON_REGISTER_KERNEL(op::sigmoid_backward, cuda, FloatsAndComplexes, sigmoid_backward_cuda);
TENON_REGISTER_KERNEL(op::threshold_backward, cuda, Reals, threshold_backward_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Infinities and NaN.
#include <tenon/kernels/bits.h>
#include <tenon/ops/finite.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using IntegersAndBool = Join<Integers, Bools>;
using Reals = Join<Numbers, Bools>;

enum class Test : uint8_t { finite, infinite, positive, negative, real };

template <class C>
__device__ __forceinline__ bool is_infinite(C x) {
  return ::isinf(x) != 0;
}
// One kernel a dtype for all tests: memory is the limit.
template <class T>
struct Classify {
  Test test;
  __device__ bool operator()(T v) const {
    if constexpr (is_complex_v<T>) {
      const bool infinite = is_infinite(v.re) || is_infinite(v.im), nan = v.re != v.re || v.im != v.im;
      return test == Test::finite ? !infinite && !nan : test == Test::infinite ? infinite : v.im == 0;
    } else if constexpr (cuda::is_float_v<T>) {
      const cuda::compute_t<T> x = v;
      switch (test) {
        case Test::finite:
          return !is_infinite(x) && x == x;
        case Test::infinite:
          return is_infinite(x);
        case Test::positive:
          return is_infinite(x) && x > 0;
        case Test::negative:
          return is_infinite(x) && x < 0;
        default:
          return true;
      }
    } else {
      return test == Test::finite || test == Test::real;
    }
  }
};
#define TENON_FINITE_TEST(name, test, Types)          \
  template <class T>                                  \
  void name##_cuda(const LoopPlan& plan) {            \
    cuda::elementwise(plan, Classify<T>{Test::test}); \
  }                                                   \
  TENON_REGISTER_KERNEL(op::name, cuda, Types, name##_cuda);
TENON_FINITE_TEST(isfinite, finite, AllTypes)
TENON_FINITE_TEST(isinf, infinite, AllTypes)
TENON_FINITE_TEST(isreal, real, AllTypes)
TENON_FINITE_TEST(isposinf, positive, Reals)
TENON_FINITE_TEST(isneginf, negative, Reals)
#undef TENON_FINITE_TEST

template <class T>
struct NanToNum {
  using C = cuda::compute_t<T>;
  C nan, above, below;
  __device__ C part(C x) const { return x != x ? nan : ::isinf(x) ? (x > 0 ? above : below) : x; }
  __device__ T operator()(T v) const { return static_cast<T>(part(static_cast<C>(v))); }
};
template <class R>
struct NanToNum<complex<R>> {
  R nan, above, below;
  __device__ R part(R x) const { return x != x ? nan : ::isinf(x) ? (x > 0 ? above : below) : x; }
  __device__ complex<R> operator()(complex<R> z) const { return {part(z.re), part(z.im)}; }
};
template <class T>
void nan_to_num_cuda(const LoopPlan& plan, const double& nan, const double& posinf, const double& neginf) {
  if constexpr (is_complex_v<T>) {
    using C = typename T::value_type;
    cuda::elementwise(plan, NanToNum<T>{static_cast<C>(nan), static_cast<C>(posinf), static_cast<C>(neginf)});
  } else if constexpr (cuda::is_float_v<T>) {
    using C = cuda::compute_t<T>;
    cuda::elementwise(plan, NanToNum<T>{static_cast<C>(nan), static_cast<C>(posinf), static_cast<C>(neginf)});
  } else {
    cuda::elementwise(plan, cuda::Identity<cuda::word_t<sizeof(T)>>{});
  }
}
TENON_REGISTER_KERNEL(op::nan_to_num, cuda, AllTypes, nan_to_num_cuda);

template <class T>
struct NumberFirst {
  bool largest;
  __device__ T operator()(T a, T b) const {
    const cuda::compute_t<T> x = a, y = b;
    if (cuda::is_nan(b)) return a;
    return (largest ? x > y : x < y) ? a : b;
  }
};
template <class T>
void fmax_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, NumberFirst<T>{true});
}
template <class T>
void fmin_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, NumberFirst<T>{false});
}
TENON_REGISTER_KERNEL(op::fmax, cuda, Reals, fmax_cuda);
TENON_REGISTER_KERNEL(op::fmin, cuda, Reals, fmin_cuda);

template <class T>
struct NextAfter {
  static constexpr int kUnroll = 1;
  __device__ T operator()(T a, T b) const {
    if constexpr (sizeof(T) == 2)
      return math::next_half(a, b);
    else
      return ::nextafter(a, b);
  }
};
template <class T>
void nextafter_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, NextAfter<T>{});
}
TENON_REGISTER_KERNEL(op::nextafter, cuda, FloatsAndHalves, nextafter_cuda);

template <class T>
struct Frexp {
  static constexpr int kUnroll = 1;
  __device__ cuda::Two<T, int32_t> operator()(T v) const {
    const cuda::compute_t<T> x = v;
    int exponent = 0;
    const auto mantissa = ::frexp(x, &exponent);
    return {static_cast<T>(mantissa), ::isfinite(x) ? exponent : 0};
  }
};
template <class T>
void frexp_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Frexp<T>{});
}
TENON_REGISTER_KERNEL(op::frexp, cuda, FloatsAndHalves, frexp_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// div in its three roundings, and pow: functions too long to unroll much.
#include <tenon/kernels/math.h>
#include <tenon/ops/binary.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using RealsAndComplexes = Join<Numbers, Complexes>;

template <class T>
struct Divide {
  static constexpr int kUnroll = is_complex_v<T> ? 1 : 2;
  __device__ T operator()(T a, T b) const { return static_cast<T>(a / b); }
};
template <class T>
struct DivideRounded {
  static constexpr int kUnroll = 1, kWidth = 4;
  bool down;  // to minus infinity, else to zero
  __device__ T operator()(T a, T b) const {
    using C = cuda::compute_t<T>;
    if constexpr (std::is_integral_v<C>) {
      return down ? math::floor_divide(a, b) : math::trunc_divide(a, b);
    } else {
      const C x = a, y = b;
      return static_cast<T>(down ? math::floor_divide<C>(x, y) : math::trunc(x / y));
    }
  }
};
template <class T>
void div_cuda(const LoopPlan& plan, const Rounding& rounding) {
  if constexpr (!std::is_integral_v<T>) {
    if (rounding == Rounding::none) return cuda::elementwise(plan, Divide<T>{});
  }
  if constexpr (!is_complex_v<T>) cuda::elementwise(plan, DivideRounded<T>{rounding == Rounding::floor});
}

template <class T>
struct Pow {
  static constexpr int kUnroll = 1, kWidth = is_complex_v<T> ? 1 : 4;
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return math::integer_pow(a, b);
    else if constexpr (is_complex_v<T>)
      return math::pow(a, b);
    else
      return static_cast<T>(math::pow(static_cast<cuda::compute_t<T>>(a), static_cast<cuda::compute_t<T>>(b)));
  }
};
// Exponents met every day, given as numbers: a few operations instead of a hundred. As in PyTorch, 0.5 is sqrt.
enum class Power : uint8_t { square, cube, root, inverse, inverse_square, inverse_root, other };
template <class T>
struct FixedPow {
  Power power;
  __device__ T operator()(T v, T) const {
    const cuda::compute_t<T> x = v;
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(power == Power::square ? x * x : x * x * x);
    } else {
      auto y = x;
      if (power == Power::root || power == Power::inverse_root) y = math::sqrt(x);
      if (power == Power::square || power == Power::inverse_square) y = x * x;
      if (power == Power::cube) y = x * x * x;
      return static_cast<T>(power >= Power::inverse ? 1 / y : y);
    }
  }
};
template <class T>
Power fixed_power(const LoopPlan& plan) {
  if (!plan.is_number(2)) return Power::other;
  T number;
  __builtin_memcpy(&number, plan.number[2], sizeof(T));
  const auto e = static_cast<double>(static_cast<cuda::compute_t<T>>(number));
  if (e == 2) return Power::square;
  if (e == 3) return Power::cube;
  if (std::is_integral_v<T>) return Power::other;
  if (e == 0.5) return Power::root;
  if (e == -1) return Power::inverse;
  if (e == -2) return Power::inverse_square;
  return e == -0.5 ? Power::inverse_root : Power::other;
}
template <class T>
void pow_cuda(const LoopPlan& plan) {
  if constexpr (!is_complex_v<T>) {
    if (const Power power = fixed_power<T>(plan); power != Power::other)
      return cuda::elementwise(plan, FixedPow<T>{power});
  }
  cuda::elementwise(plan, Pow<T>{});
}

TENON_REGISTER_KERNEL(op::div, cuda, RealsAndComplexes, div_cuda);
TENON_REGISTER_KERNEL(op::pow, cuda, RealsAndComplexes, pow_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Rounding and remainders.
#include <tenon/kernels/math.h>
#include <tenon/ops/rounding.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

// One kernel a dtype: which rounding is a number it gets, and memory is the limit.
enum class Direction : uint8_t { up, down, zero, nearest, rest };
template <class T>
struct Round {
  Direction direction;
  __device__ T operator()(T v) const {
    const cuda::compute_t<T> x = v;
    switch (direction) {
      case Direction::up:
        return static_cast<T>(::ceil(x));
      case Direction::down:
        return static_cast<T>(::floor(x));
      case Direction::zero:
        return static_cast<T>(::trunc(x));
      case Direction::nearest:
        return static_cast<T>(::rint(x));
      default:
        return static_cast<T>(x - ::trunc(x));
    }
  }
};
template <class T>
void round_to(const LoopPlan& plan, Direction direction) {
  if constexpr (std::is_integral_v<T>)
    cuda::elementwise(plan, cuda::Identity<cuda::word_t<sizeof(T)>>{});
  else
    cuda::elementwise(plan, Round<T>{direction});
}
#define TENON_ROUNDING(name, direction)      \
  template <class T>                         \
  void name##_cuda(const LoopPlan& plan) {   \
    round_to<T>(plan, Direction::direction); \
  }
TENON_ROUNDING(ceil, up)
TENON_ROUNDING(floor, down)
TENON_ROUNDING(trunc, zero)
TENON_ROUNDING(round, nearest)
TENON_ROUNDING(frac, rest)
#undef TENON_ROUNDING
TENON_REGISTER_KERNEL(op::ceil, cuda, Numbers, ceil_cuda);
TENON_REGISTER_KERNEL(op::floor, cuda, Numbers, floor_cuda);
TENON_REGISTER_KERNEL(op::trunc, cuda, Numbers, trunc_cuda);
TENON_REGISTER_KERNEL(op::round, cuda, Numbers, round_cuda);
TENON_REGISTER_KERNEL(op::frac, cuda, FloatsAndHalves, frac_cuda);

template <class T>
struct RoundDecimals {
  static constexpr int kUnroll = 1;
  cuda::compute_t<T> scale;
  bool before;  // the point
  __device__ T operator()(T v) const {
    const cuda::compute_t<T> x = v;
    return static_cast<T>(before ? ::rint(x / scale) * scale : ::rint(x * scale) / scale);
  }
};
template <class T>
void round_decimals_cuda(const LoopPlan& plan, const int64_t& decimals) {
  if constexpr (std::is_integral_v<T>) {
    round_to<T>(plan, Direction::nearest);
  } else {
    const double scale = std::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals));
    cuda::elementwise(plan, RoundDecimals<T>{static_cast<cuda::compute_t<T>>(scale), decimals < 0});
  }
}
TENON_REGISTER_KERNEL(op::round_decimals, cuda, Numbers, round_decimals_cuda);

template <class T>
struct Remainder {
  static constexpr int kUnroll = 1, kWidth = 4;
  bool floored;  // the sign of the divisor
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return floored ? math::remainder(a, b) : math::fmod_integer(a, b);
    } else {
      using C = cuda::compute_t<T>;
      const C x = a, y = b;
      return static_cast<T>(floored ? math::remainder(x, y) : ::fmod(x, y));
    }
  }
};
template <class T>
void fmod_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Remainder<T>{false});
}
template <class T>
void remainder_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Remainder<T>{true});
}
TENON_REGISTER_KERNEL(op::fmod, cuda, Numbers, fmod_cuda);
TENON_REGISTER_KERNEL(op::remainder, cuda, Numbers, remainder_cuda);

}  // namespace
}  // namespace tenon

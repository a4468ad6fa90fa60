// SPDX-License-Identifier: Apache-2.0
// Bits of integers. One kernel an element width serves and, or and xor.
#include <tenon/kernels/bits.h>
#include <tenon/ops/bitwise.h>
#include <tenon/kernels/cuda/loops.cuh>

namespace tenon {
namespace {

using IntegersAndBool = Join<Integers, Bools>;

enum class Gate : uint8_t { and_, or_, xor_ };
template <class Word>
struct Combine {
  Gate gate;
  __device__ Word operator()(Word a, Word b) const {
    return static_cast<Word>(gate == Gate::and_ ? a & b : gate == Gate::or_ ? a | b : a ^ b);
  }
};
template <class T>
void combine(const LoopPlan& plan, Gate gate) {
  using Word = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  cuda::elementwise(plan, Combine<Word>{gate});
}
template <class T>
void bitwise_and_cuda(const LoopPlan& plan) {
  combine<T>(plan, Gate::and_);
}
template <class T>
void bitwise_or_cuda(const LoopPlan& plan) {
  combine<T>(plan, Gate::or_);
}
template <class T>
void bitwise_xor_cuda(const LoopPlan& plan) {
  combine<T>(plan, Gate::xor_);
}
TENON_REGISTER_KERNEL(op::bitwise_and, cuda, IntegersAndBool, bitwise_and_cuda);
TENON_REGISTER_KERNEL(op::bitwise_or, cuda, IntegersAndBool, bitwise_or_cuda);
TENON_REGISTER_KERNEL(op::bitwise_xor, cuda, IntegersAndBool, bitwise_xor_cuda);

#define TENON_INTEGER_BINARY(Name, name, function)                           \
  template <class T>                                                         \
  struct Name {                                                              \
    static constexpr int kUnroll = 1, kWidth = 4;                            \
    __device__ T operator()(T a, T b) const { return math::function(a, b); } \
  };                                                                         \
  template <class T>                                                         \
  void name##_cuda(const LoopPlan& plan) {                                   \
    cuda::elementwise(plan, Name<T>{});                                      \
  }                                                                          \
  TENON_REGISTER_KERNEL(op::name, cuda, Integers, name##_cuda);
TENON_INTEGER_BINARY(LeftShift, bitwise_left_shift, left_shift)
TENON_INTEGER_BINARY(RightShift, bitwise_right_shift, right_shift)
TENON_INTEGER_BINARY(Gcd, gcd, gcd)
TENON_INTEGER_BINARY(Lcm, lcm, lcm)
#undef TENON_INTEGER_BINARY

template <class T>
struct Not {
  __device__ T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return static_cast<T>(~x);
  }
};
template <class T>
void bitwise_not_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Not<T>{});
}
TENON_REGISTER_KERNEL(op::bitwise_not, cuda, IntegersAndBool, bitwise_not_cuda);

}  // namespace
}  // namespace tenon

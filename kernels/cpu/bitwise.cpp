// SPDX-License-Identifier: Apache-2.0
// Bits of integers (ops/bitwise.h), compiled once: memory is the limit for these, or division.
#include <tenon/kernels/bits.h>
#include <tenon/kernels/cpu/loops.h>
#include <tenon/ops/bitwise.h>

namespace tenon::cpu {
namespace {

using IntegersAndBool = Join<Integers, Bools>;

#define TENON_BITWISE(name, Types, expression, grain)           \
  template <class T>                                            \
  void name##_cpu(const LoopPlan& plan) {                       \
    elementwise(                                                \
        plan, [](T a, T b) -> T { return expression; }, grain); \
  }                                                             \
  TENON_REGISTER_KERNEL(op::name, cpu, Types, name##_cpu);
TENON_BITWISE(bitwise_and, IntegersAndBool, static_cast<T>(a& b), kGrain)
TENON_BITWISE(bitwise_or, IntegersAndBool, static_cast<T>(a | b), kGrain)
TENON_BITWISE(bitwise_xor, IntegersAndBool, static_cast<T>(a ^ b), kGrain)
TENON_BITWISE(bitwise_left_shift, Integers, math::left_shift(a, b), kGrain)
TENON_BITWISE(bitwise_right_shift, Integers, math::right_shift(a, b), kGrain)
TENON_BITWISE(gcd, Integers, math::gcd(a, b), 1024)
TENON_BITWISE(lcm, Integers, math::lcm(a, b), 1024)
#undef TENON_BITWISE

template <class T>
void bitwise_not_cpu(const LoopPlan& plan) {
  if constexpr (std::is_same_v<T, bool>)
    elementwise(plan, [](bool x) -> bool { return !x; });
  else
    elementwise(plan, [](T x) -> T { return static_cast<T>(~x); });
}
TENON_REGISTER_KERNEL(op::bitwise_not, cpu, IntegersAndBool, bitwise_not_cpu);

}  // namespace
}  // namespace tenon::cpu

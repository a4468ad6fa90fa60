// SPDX-License-Identifier: Apache-2.0
// Elementwise losses (ops/elementwise_loss.h). Differences are loops the compiler vectorises; the logits' entropy has a
// vector body for float32 and the 16-bit floats.
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/elementwise_loss.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/elementwise_loss.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/loops.h>
#include <tenon/kernels/cpu/simd_math.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr int64_t kLossGrain = 4096;

struct LogitsBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V t) const {
    const V one = hn::Set(d, 1.f), zero = hn::Zero(d), e = exp(d, hn::Neg(hn::Abs(x))), u = hn::Add(one, e);
    const V soft = hn::Add(log(d, u), hn::Div(hn::Sub(e, hn::Sub(u, one)), u));
    return hn::MulAdd(hn::Sub(one, t), x, hn::Add(hn::Max(zero, hn::Neg(x)), soft));
  }
};
struct LogitsSlopeBody {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad, V x, V t) const {
    return hn::Mul(grad, hn::Sub(sigmoid(d, x), t));
  }
};
// Probabilities are checked on the way.
template <class C>
struct BinaryLoss {
  C operator()(C x, C t) const {
    TENON_CHECK(x >= C(0) && x <= C(1), ValueError,
                "binary_cross_entropy: self: expected probabilities in [0, 1], got ", static_cast<double>(x));
    return losses::Loss<C, ElementLoss::binary>{}(x, t);
  }
};

template <class T>
void elementwise_loss_cpu(const LoopPlan& plan, ElementLoss kind, double number) {
  using C = compute_t<T>;
  if (kind == ElementLoss::binary) return elementwise(plan, BinaryLoss<C>(), kLossGrain);
  if constexpr (std::is_same_v<C, float>)
    if (kind == ElementLoss::logits) return elementwise<float>(plan, LogitsBody(), kLossGrain);
  losses::with_loss<losses::Loss, C>(kind, number, [&](const auto& loss) { elementwise(plan, loss); });
}
template <class T>
void elementwise_loss_backward_cpu(const LoopPlan& plan, ElementLoss kind, double number) {
  using C = compute_t<T>;
  if constexpr (std::is_same_v<C, float>)
    if (kind == ElementLoss::logits) return elementwise<float>(plan, LogitsSlopeBody(), kLossGrain);
  losses::with_loss<losses::Slope, C>(kind, number, [&](const auto& slope) { elementwise(plan, slope); });
}
TENON_REGISTER_SIMD_KERNEL(op::elementwise_loss, FloatsAndHalves, elementwise_loss_cpu);
TENON_REGISTER_SIMD_KERNEL(op::elementwise_loss_backward, FloatsAndHalves, elementwise_loss_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

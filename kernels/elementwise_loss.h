// SPDX-License-Identifier: Apache-2.0
// The losses of ops/elementwise_loss.h as function objects over a compute type C, which both devices share.
#pragma once

#include <tenon/kernels/math.h>
#include <tenon/ops/elementwise_loss.h>

namespace tenon::losses {

template <class C, ElementLoss kKind>
struct Loss {
  C number;
  TENON_HOST_DEVICE C operator()(C x, C t) const {
    const C d = x - t, size = math::fabs(d);
    if constexpr (kKind == ElementLoss::absolute) return size;
    if constexpr (kKind == ElementLoss::squared) return d * d;
    if constexpr (kKind == ElementLoss::smooth) return size < number ? C(0.5) * d * d / number : size - C(0.5) * number;
    if constexpr (kKind == ElementLoss::huber)
      return size <= number ? C(0.5) * d * d : number * (size - C(0.5) * number);
    if constexpr (kKind == ElementLoss::binary) {
      const C yes = math::log(x), no = math::log1p(-x);
      return (t - C(1)) * (no < C(-100) ? C(-100) : no) - t * (yes < C(-100) ? C(-100) : yes);
    }
    if constexpr (kKind == ElementLoss::logits)  // (1 - t) x + log(1 + exp(-x))
      return (C(1) - t) * x + ((x < C(0) ? -x : C(0)) + math::log1p(math::exp(-math::fabs(x))));
  }
};

template <class C, ElementLoss kKind>
struct Slope {
  C number;
  TENON_HOST_DEVICE C operator()(C grad, C x, C t) const {
    const C d = x - t, size = math::fabs(d);
    const C sign = d > C(0) ? C(1) : d < C(0) ? C(-1) : C(0);
    if constexpr (kKind == ElementLoss::absolute) return grad * sign;
    if constexpr (kKind == ElementLoss::squared) return grad * C(2) * d;
    if constexpr (kKind == ElementLoss::smooth) return grad * (size < number ? d / number : sign);
    if constexpr (kKind == ElementLoss::huber) return grad * (size <= number ? d : number * sign);
    if constexpr (kKind == ElementLoss::binary) {
      const C slope = (C(1) - x) * x;
      return grad * d / (slope < C(1e-12) ? C(1e-12) : slope);
    }
    if constexpr (kKind == ElementLoss::logits) return grad * (C(1) / (C(1) + math::exp(-x)) - t);
  }
};

/// f(loss) with the loss of that kind as a type: F<C, kind>{number}.
template <template <class, ElementLoss> class F, class C, class Run>
void with_loss(ElementLoss kind, double number, Run run) {
  const C n = static_cast<C>(number);
  switch (kind) {
    case ElementLoss::absolute:
      return run(F<C, ElementLoss::absolute>{n});
    case ElementLoss::squared:
      return run(F<C, ElementLoss::squared>{n});
    case ElementLoss::smooth:
      return run(F<C, ElementLoss::smooth>{n});
    case ElementLoss::huber:
      return run(F<C, ElementLoss::huber>{n});
    case ElementLoss::binary:
      return run(F<C, ElementLoss::binary>{n});
    case ElementLoss::logits:
      return run(F<C, ElementLoss::logits>{n});
  }
}

}  // namespace tenon::losses

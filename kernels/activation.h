// SPDX-License-Identifier: Apache-2.0
// The activation functions of ops/activation.h as function objects over a compute type C, which both devices share. At kinks
// they choose the side PyTorch chooses; NaN comes through wherever it does there.
#pragma once

#include <tenon/kernels/math.h>
#include <tenon/ops/activation.h>

namespace tenon::activation {

#define TENON_FUNCTION TENON_HOST_DEVICE C operator()
using Numbers = ActivationNumbers;

template <class C>
TENON_HOST_DEVICE inline C sigmoid(C x) {
  return C(1) / (C(1) + math::exp(-x));
}
/// The function has no numbers.
struct NoNumbers {
  NoNumbers(const Numbers&) {}  // NOLINT(google-explicit-constructor)
};

// --- pieces of lines -----------------------------------------------------------------------------------------
template <class C>
struct Hardshrink {
  C lambd;
  explicit Hardshrink(const Numbers& n) : lambd(static_cast<C>(n.a)) {}
  TENON_FUNCTION(C x) const { return x >= -lambd && x <= lambd ? C(0) : x; }
};
template <class C>
struct Softshrink {
  C lambd;
  explicit Softshrink(const Numbers& n) : lambd(static_cast<C>(n.a)) {}
  TENON_FUNCTION(C x) const { return x > lambd ? x - lambd : x < -lambd ? x + lambd : x * C(0); }
};
template <class C>
struct ShrinkBackward {
  C lambd;
  explicit ShrinkBackward(const Numbers& n) : lambd(static_cast<C>(n.a)) {}
  TENON_FUNCTION(C grad, C x) const { return x >= -lambd && x <= lambd ? C(0) : grad; }
};
template <class C>
TENON_HOST_DEVICE inline C ramp(C x) {  // min(max(x + 3, 0), 6)
  const C y = x + C(3);
  return y < C(0) ? C(0) : y > C(6) ? C(6) : y;
}
template <class C>
struct Hardsigmoid : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C x) const { return ramp(x) / C(6); }
};
template <class C>
struct HardsigmoidBackward : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C grad, C x) const { return x > C(-3) && x < C(3) ? grad / C(6) : C(0); }
};
template <class C>
struct Hardswish : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C x) const { return x * ramp(x) / C(6); }
};
template <class C>
struct HardswishBackward : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C grad, C x) const { return x <= C(-3) ? C(0) : x < C(3) ? grad * (x / C(3) + C(0.5)) : grad; }
};
template <class C>
struct HardtanhBackward {
  C low, high;
  explicit HardtanhBackward(const Numbers& n) : low(static_cast<C>(n.a)), high(static_cast<C>(n.b)) {}
  TENON_FUNCTION(C grad, C x) const { return x <= low || x >= high ? C(0) : grad; }
};
template <class C>
struct LeakyRelu {
  C slope;
  explicit LeakyRelu(const Numbers& n) : slope(static_cast<C>(n.a)) {}
  TENON_FUNCTION(C x) const { return x > C(0) ? x : x * slope; }
};
template <class C>
struct LeakyReluBackward {
  C slope;
  explicit LeakyReluBackward(const Numbers& n) : slope(static_cast<C>(n.a)) {}
  TENON_FUNCTION(C grad, C x) const { return x > C(0) ? grad : grad * slope; }
};
template <class C>
struct Prelu : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C x, C weight) const { return x > C(0) ? x : x * weight; }
};
template <class C>
struct PreluBackward : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C grad, C x, C weight) const { return x > C(0) ? grad : grad * weight; }
};
template <class C>
struct Threshold {
  C bound, value;
  explicit Threshold(const Numbers& n) : bound(static_cast<C>(n.a)), value(static_cast<C>(n.b)) {}
  TENON_FUNCTION(C x) const { return x <= bound ? value : x; }
};

// --- with exponentials ---------------------------------------------------------------------------------------
template <class C>
struct Elu {
  C below, above, rate;
  explicit Elu(const Numbers& n)
      : below(static_cast<C>(n.a * n.b)), above(static_cast<C>(n.b)), rate(static_cast<C>(n.c)) {}
  TENON_FUNCTION(C x) const { return x > C(0) ? x * above : math::expm1(x * rate) * below; }
};
template <class C>
struct EluBackward {
  C below, above, rate;
  explicit EluBackward(const Numbers& n)
      : below(static_cast<C>(n.a * n.b * n.c)), above(static_cast<C>(n.b)), rate(static_cast<C>(n.c)) {}
  TENON_FUNCTION(C grad, C x) const { return grad * (x <= C(0) ? below * math::exp(x * rate) : above); }
};
template <class C>
struct LogSigmoid : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C x) const { return (x > C(0) ? C(0) : x) - math::log1p(math::exp(-math::fabs(x))); }
};
template <class C>
struct LogSigmoidBackward : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C grad, C x) const { return grad * sigmoid(-x); }
};
/// tanh(log(1 + e)) = n / (n + 2) with e = exp(x), n = e (e + 2): no loss on either side.
template <class C>
struct Mish : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C x) const {
    const C e = math::exp(x > C(20) ? C(20) : x), n = e * (e + C(2));
    return x * (n / (n + C(2)));
  }
};
template <class C>
struct MishBackward : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C grad, C x) const {
    const C y = x > C(20) ? C(20) : x, e = math::exp(y), n = e * (e + C(2)), d = n + C(2);
    return grad * (n / d + C(4) * y * e * (C(1) + e) / (d * d));
  }
};
template <class C>
struct Silu : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C x) const { return x / (C(1) + math::exp(-x)); }
};
template <class C>
struct SiluBackward : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C grad, C x) const {
    const C s = sigmoid(x);
    return grad * s * (C(1) + x * (C(1) - s));
  }
};
template <class C>
struct Softplus {
  C beta, bound;
  explicit Softplus(const Numbers& n) : beta(static_cast<C>(n.a)), bound(static_cast<C>(n.b)) {}
  TENON_FUNCTION(C x) const {
    const C z = x * beta;
    return z > bound ? x : ((z < C(0) ? C(0) : z) + math::log1p(math::exp(-math::fabs(z)))) / beta;
  }
};
template <class C>
struct SoftplusBackward {
  C beta, bound;
  explicit SoftplusBackward(const Numbers& n) : beta(static_cast<C>(n.a)), bound(static_cast<C>(n.b)) {}
  TENON_FUNCTION(C grad, C x) const { return x * beta > bound ? grad : grad * sigmoid(x * beta); }
};
template <class C>
struct Glu : NoNumbers {
  using NoNumbers::NoNumbers;
  TENON_FUNCTION(C a, C b) const { return a * sigmoid(b); }
};
template <class C>
struct GluBackward {
  bool second;
  explicit GluBackward(const Numbers& n) : second(n.a != 0) {}
  TENON_FUNCTION(C grad, C a, C b) const {
    const C s = sigmoid(b);
    return grad * (second ? a * s * (C(1) - s) : s);
  }
};
#undef TENON_FUNCTION

}  // namespace tenon::activation

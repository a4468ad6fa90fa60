// SPDX-License-Identifier: Apache-2.0
// float32 functions on Highway vectors: exp, log, tanh, sigmoid, the normal distribution's functions. At most 2 ULP
// from the exact result where the target has fused multiply-add, with the limits of the C library at infinities, NaN,
// overflow and subnormal numbers. The scalar target uses the C library. Read once per SIMD target, after targets.h.
//
// The polynomials interpolate at Chebyshev nodes; the range reductions are Cody and Waite's (1980).
#include <cmath>

#if defined(TENON_KERNELS_CPU_SIMD_MATH) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_SIMD_MATH
#undef TENON_KERNELS_CPU_SIMD_MATH
#else
#define TENON_KERNELS_CPU_SIMD_MATH
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  return hn::Set(d, std::exp(hn::GetLane(x)));
}
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  return hn::Set(d, static_cast<float>(1 / (1 + std::exp(-static_cast<double>(hn::GetLane(x))))));
}
template <class D, class V>
HWY_INLINE V exp_bounded(D d, V x) {
  return exp(d, x);
}
template <class D, class V>
HWY_INLINE V at_least(D, float, V x) {
  return x;
}
template <class D, class V>
HWY_INLINE V log(D d, V x) {
  return hn::Set(d, std::log(hn::GetLane(x)));
}
// In double where float's own functions lose more than 2 ULP.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  return hn::Set(d, static_cast<float>(std::tanh(static_cast<double>(hn::GetLane(x)))));
}
template <class D, class V>
HWY_INLINE V normal_cdf(D d, V x) {
  return hn::Set(d, static_cast<float>(0.5 * std::erfc(hn::GetLane(x) * -0.70710678118654752)));
}
template <class D, class V>
HWY_INLINE V normal_exp(D d, V x) {
  const double v = hn::GetLane(x);
  return hn::Set(d, static_cast<float>(std::exp(-0.5 * v * v)));
}

#else

/// c0 + c1 x + c2 x^2 + ...
template <class D, class V, class... C>
HWY_INLINE V polynomial(D d, [[maybe_unused]] V x, float c0, C... c) {
  if constexpr (sizeof...(C) == 0)
    return hn::Set(d, c0);
  else
    return hn::MulAdd(polynomial(d, x, c...), x, hn::Set(d, c0));
}

/// x = n ln 2 + r with whole n and |r| <= ln 2 / 2; returns exp(r) - 1. Needs |x| < 30000.
template <class D, class V>
HWY_INLINE V reduced_expm1(D d, V x, V& n) {
  n = hn::Round(hn::Mul(x, hn::Set(d, 1.442695041f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  const V p = polynomial(d, r, 0.5f, 0.166666672f, 0.0416664556f, 0.00833331048f, 0.00139345415f, 0.000198919806f);
  return hn::MulAdd(p, hn::Mul(r, r), r);
}

/// x 2^n for whole n in [-252, 254] (power_of_two: [-126, 127]).
#if HWY_TARGET == HWY_AVX3
template <class D, class V>
HWY_INLINE V scale(D, V x, V n) {
  return V{_mm512_scalef_ps(x.raw, n.raw)};
}
template <class D, class V>
HWY_INLINE V power_of_two(D d, V n) {
  return scale(d, hn::Set(d, 1.f), n);
}
#else
template <class D, class V>
HWY_INLINE V power_of_two(D d, V n) {
  const hn::RebindToSigned<D> di;
  // Next to 1.5 * 2^23 the last bits of a float are the whole number; the rest is shifted out.
  const auto whole = hn::BitCast(di, hn::Add(n, hn::Set(d, 12582912.f)));
  return hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(whole), hn::Set(di, 0x3f800000)));
}
template <class D, class V>
HWY_INLINE V scale(D d, V x, V n) {  // in two steps: n goes beyond the exponents of normal numbers
  const V half = hn::Round(hn::Mul(n, hn::Set(d, 0.5f)));
  return hn::Mul(hn::Mul(x, power_of_two(d, half)), power_of_two(d, hn::Sub(n, half)));
}
#endif

/// exp for x in [-104, 89].
template <class D, class V>
HWY_INLINE V exp_bounded(D d, V x) {
  V n;
  const V e = hn::Add(reduced_expm1(d, x, n), hn::Set(d, 1.f));
  return scale(d, e, n);
}
/// The bounds keep NaN: with one, Min and Max give their second operand.
template <class D, class V>
HWY_INLINE V at_least(D d, float low, V x) {
  return hn::Max(hn::Set(d, low), x);
}
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  return exp_bounded(d, hn::Min(hn::Set(d, 89.f), at_least(d, -104.f, x)));
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V zero = hn::Zero(d), infinity = hn::Set(d, __builtin_huge_valf());
  const auto tiny = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.f)), x);
  const auto bits = hn::BitCast(di, scaled);
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));  // mantissa in [sqrt(1/2), sqrt(2))
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e))), hn::Set(d, 1.f));
  const V n = hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(tiny, hn::Set(d, 23.f)));
  const V p = polynomial(d, f, 0.333333313f, -0.24999997f, 0.200007305f, -0.166678503f, 0.142485514f, -0.124240376f,
                         0.116890714f, -0.114945464f, 0.0698070154f);
  const V f2 = hn::Mul(f, f);
  const V low = hn::MulAdd(hn::Mul(f2, f), p, hn::Mul(n, hn::Set(d, -2.12194440e-4f)));
  const V sum = hn::Add(f, hn::NegMulAdd(f2, hn::Set(d, 0.5f), low));
  V y = hn::MulAdd(n, hn::Set(d, 0.693359375f), sum);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, __builtin_nanf("")), y);
  return hn::IfThenElse(hn::Lt(x, infinity), y, x);  // infinity and NaN
}

/// expm1(2 |x|) / (expm1(2 |x|) + 2) with the sign of x; an odd polynomial below 1/2.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V one = hn::Set(d, 1.f);
  const V a = hn::Min(hn::Set(d, 10.f), hn::Abs(x));
  V n;
  const V r = reduced_expm1(d, hn::Add(a, a), n);
  const V s = power_of_two(d, n);
  const V t = hn::MulAdd(s, r, hn::Sub(s, one));
  const V large = hn::CopySign(hn::Div(t, hn::Add(t, hn::Set(d, 2.f))), x);
  const V square = hn::Mul(x, x);
  const V p = polynomial(d, square, -0.333333313f, 0.133332253f, -0.0539334677f, 0.0214706827f, -0.00694294181f);
  const V small = hn::MulAdd(hn::Mul(square, p), x, x);
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.5f)), small, large);
}

/// exp(-x^2 / 2), with the rounding error of the square taken into account. |x| <= 14.42.
template <class D, class V>
HWY_INLINE V normal_exp_bounded(D d, V x) {
  const V square = hn::Mul(x, x), half = hn::Set(d, -0.5f);
  const V e = exp_bounded(d, hn::Mul(square, half));
  return hn::MulAdd(e, hn::Mul(hn::MulSub(x, x, square), half), e);
}
template <class D, class V>
HWY_INLINE V normal_exp(D d, V x) {
  return normal_exp_bounded(d, hn::Min(hn::Set(d, 14.42f), hn::Abs(x)));
}

/// Phi(x) = erfc(-x / sqrt 2) / 2, relatively accurate in the lower tail: for t = |x| / sqrt 2,
/// erfc(t) = exp(-t^2) P((t - 2) / (t + 2)) / (1 + 2 t).
template <class D, class V>
HWY_INLINE V normal_cdf(D d, V x) {
  const V one = hn::Set(d, 1.f), two = hn::Set(d, 2.f);
  const V a = hn::Min(hn::Set(d, 14.42f), hn::Abs(x));
  const V t = hn::Mul(a, hn::Set(d, 0.707106781f));
  const V bottom = hn::Add(t, two), scale = hn::MulAdd(two, t, one);
  const V inverse = hn::Div(one, hn::Mul(bottom, scale));  // one division for both quotients
  const V u = hn::Mul(hn::Mul(hn::Sub(t, two), inverse), scale);
  const V p = polynomial(d, u, 1.27697837f, -0.0927639604f, -0.166030437f, 0.164055198f, -0.0542138778f,
                         -0.00806206837f, 0.00866199844f, 0.00132876774f, -0.0012606344f, -0.00042251547f);
  const V tail = hn::Mul(hn::Mul(hn::Mul(p, bottom), hn::Mul(inverse, hn::Set(d, 0.5f))), normal_exp_bounded(d, a));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
}

/// 1 / (1 + exp(-x)). Below 0 what the last sum of exp and the divisor lose counts twice where the quotient is just below
/// a power of two: both are put back, relative to powers and divisors near 1.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.f);
  V n;
  const V small = reduced_expm1(d, at_least(d, -104.f, hn::Neg(hn::Abs(x))), n), power = hn::Add(small, one);
  const V e = scale(d, power, n), sum = hn::Add(one, e);
  const auto negative = hn::Lt(x, hn::Zero(d));
  const V q = hn::Div(hn::IfThenElse(negative, e, one), sum);
  const V lost = hn::Sub(hn::Sub(small, hn::Sub(power, one)), hn::Sub(e, hn::Sub(sum, one)));
  return hn::MulAdd(q, hn::IfThenElseZero(negative, lost), q);
}

#endif

/// 2 sqrt(2/pi) (x + 0.044715 x^3): gelu's tanh form is x sigmoid of it.
template <class D, class V>
HWY_INLINE V gelu_inner(D d, V x) {
  return hn::Mul(x, hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.0713548162726f), hn::Set(d, 1.5957691216f)));
}
template <class D, class V>
HWY_INLINE V gelu(D d, V x) {
  return hn::Mul(x, normal_cdf(d, x));
}
template <class D, class V>
HWY_INLINE V gelu_tanh(D d, V x) {
  return hn::Mul(x, sigmoid(d, gelu_inner(d, x)));
}
/// Phi(x) + x phi(x).
template <class D, class V>
HWY_INLINE V gelu_slope(D d, V x) {
  return hn::MulAdd(hn::Mul(x, hn::Set(d, 0.398942280f)), normal_exp(d, x), normal_cdf(d, x));
}
template <class D, class V>
HWY_INLINE V gelu_tanh_slope(D d, V x) {
  const V z = gelu_inner(d, x), one = hn::Set(d, 1.f);
  const V e = exp(d, hn::Neg(hn::Abs(z))), inverse = hn::Div(one, hn::Add(one, e));
  const V s = hn::Mul(hn::IfThenElse(hn::Lt(z, hn::Zero(d)), e, one), inverse);
  const V inner_slope = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.2140644488178f), hn::Set(d, 1.5957691216f));
  return hn::MulAdd(hn::Mul(x, inner_slope), hn::Mul(e, hn::Mul(inverse, inverse)), s);  // e / (1 + e)^2 = s (1 - s)
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

// SPDX-License-Identifier: Apache-2.0
// Functions of double vectors for float32 results: in_double(d, x, f) computes f on the lanes of x in double and rounds
// once. The functions here are exact to about 1e-12, so float results lie within 0.51 ULP, over the whole range of
// float, with the limits of the C library. Read once per SIMD target, after targets.h; the scalar target, which has no
// vectors to spend, uses the C library.
//
// The polynomials interpolate at Chebyshev nodes. Range reductions: Cody and Waite (1980) for exp and the circular
// functions; log by 2 atanh(f / (2 + f)); atan by the addition theorem at pi/4 and pi/2.
#include <cmath>

#if defined(TENON_KERNELS_CPU_SIMD_DOUBLE_MATH) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_SIMD_DOUBLE_MATH
#undef TENON_KERNELS_CPU_SIMD_DOUBLE_MATH
#else
#define TENON_KERNELS_CPU_SIMD_DOUBLE_MATH
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
namespace wide {
#define TENON_WIDE(name)                          \
  template <class D, class V>                     \
  HWY_INLINE V name(D d, V x) {                   \
    return hn::Set(d, std::name(hn::GetLane(x))); \
  }
// clang-format off
TENON_WIDE(exp) TENON_WIDE(exp2) TENON_WIDE(expm1) TENON_WIDE(log) TENON_WIDE(log1p)
TENON_WIDE(sin) TENON_WIDE(cos) TENON_WIDE(tan) TENON_WIDE(asin) TENON_WIDE(acos) TENON_WIDE(atan)
TENON_WIDE(sinh) TENON_WIDE(cosh) TENON_WIDE(asinh) TENON_WIDE(acosh) TENON_WIDE(atanh)
TENON_WIDE(erf) TENON_WIDE(erfc)
// clang-format on
#undef TENON_WIDE
            template <class D, class V>
            HWY_INLINE V atan2(D d, V y, V x) {
  return hn::Set(d, std::atan2(hn::GetLane(y), hn::GetLane(x)));
}
}  // namespace wide
#else
namespace wide {

template <class D>
using Bits = hn::RebindToSigned<D>;

/// c0 + c1 x + c2 x^2 + ...
template <class D, class V, class... C>
HWY_INLINE V poly(D d, [[maybe_unused]] V x, double c0, C... c) {
  if constexpr (sizeof...(C) == 0)
    return hn::Set(d, c0);
  else
    return hn::MulAdd(poly(d, x, c...), x, hn::Set(d, c0));
}
/// `special` where a function of one number must be asked lane by lane.
template <class D, class V, class M>
HWY_NOINLINE V lane_by_lane(D d, V x, V y, M special, double (*f)(double)) {
  HWY_ALIGN double in[hn::MaxLanes(d)], out[hn::MaxLanes(d)];
  hn::Store(x, d, in);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) out[i] = f(in[i]);
  return hn::IfThenElse(special, hn::Load(d, out), y);
}

// Next to 1.5 * 2^52 the last bits of a double are the whole number.
inline constexpr double kWhole = 6755399441055744.0;

/// x = n ln 2 + r, |r| <= ln 2 / 2; gives exp(r) - 1 and n. Needs |x| < 2^40.
template <class D, class V>
HWY_INLINE V reduced_expm1(D d, V x, V& n) {
  n = hn::Sub(hn::MulAdd(x, hn::Set(d, 1.4426950408889634), hn::Set(d, kWhole)), hn::Set(d, kWhole));
  V r = hn::NegMulAdd(n, hn::Set(d, 6.93147180369123816490e-01), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.90821492927058770002e-10), r);
  const V q = poly(d, r, 0.49999999999955071, 0.16666666666662583, 0.041666666786337555, 0.0083333333442095066,
                   0.0013888839090641379, 0.00019841224581544105, 2.4867883453521804e-5, 2.7617576848354133e-6);
  return hn::MulAdd(hn::Mul(r, r), q, r);
}
/// 2^n for whole n in [-1022, 1023].
template <class D, class V>
HWY_INLINE V power_of_two(D d, V n) {
  const Bits<D> di;
  const auto whole = hn::BitCast(di, hn::Add(n, hn::Set(d, kWhole + 1023)));
  return hn::BitCast(d, hn::ShiftLeft<52>(whole));
}
template <class D, class V>
HWY_INLINE V clamp(D d, V x, double low, double high) {  // keeps NaN: with one, Min and Max give the second operand
  return hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), x));
}
/// Beyond +-300 a float has overflowed or vanished long ago.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  V n;
  const V e = reduced_expm1(d, clamp(d, x, -300, 300), n);
  const V s = power_of_two(d, n);
  return hn::MulAdd(e, s, s);
}
template <class D, class V>
HWY_INLINE V exp2(D d, V x) {
  const V v = clamp(d, x, -300, 300);
  const V n = hn::Sub(hn::Add(v, hn::Set(d, kWhole)), hn::Set(d, kWhole));
  V zero;
  const V e = reduced_expm1(d, hn::Mul(hn::Sub(v, n), hn::Set(d, 0.69314718055994531)), zero);
  const V s = power_of_two(d, hn::Add(n, zero));
  return hn::MulAdd(e, s, s);
}
template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  V n;
  const V e = reduced_expm1(d, clamp(d, x, -300, 300), n);
  const V s = power_of_two(d, n);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::MulAdd(e, s, hn::Sub(s, hn::Set(d, 1.0))));
}

/// log(1 + f) + n ln 2 with 1 + f in [sqrt(1/2), sqrt 2], relatively exact also for tiny f.
template <class D, class V>
HWY_INLINE V log_of_reduced(D d, V f, V n) {
  const V s = hn::Div(f, hn::Add(f, hn::Set(d, 2.0))), z = hn::Mul(s, s);
  const V p = poly(d, z, 0.66666666666662055, 0.40000000011263543, 0.2857142412022083, 0.22222864249374918,
                   0.18140107756610345, 0.16623116584283471);
  const V y = hn::MulAdd(hn::Mul(s, z), p, hn::Add(s, s));
  return hn::MulAdd(n, hn::Set(d, 6.93147180369123816490e-01),
                    hn::MulAdd(n, hn::Set(d, 1.90821492927058770002e-10), y));
}
/// x = 2^n (1 + f) for normal x > 0.
template <class D, class V>
HWY_INLINE V mantissa(D d, V x, V& n) {
  const Bits<D> di;
  const auto bits = hn::BitCast(di, x);
  // The exponent, with sqrt(1/2) counted as the bottom of a binade; + 2048 keeps the shifted number positive.
  const auto lifted = hn::Sub(hn::Add(bits, hn::Set(di, int64_t{2048} << 52)), hn::Set(di, 0x3fe6a09e667f3bcdLL));
  const hn::RebindToUnsigned<D> du;
  const auto e = hn::BitCast(di, hn::ShiftRight<52>(hn::BitCast(du, lifted)));
  n = hn::Sub(hn::BitCast(d, hn::Add(e, hn::BitCast(di, hn::Set(d, kWhole)))), hn::Set(d, kWhole + 2048));
  const auto shift = hn::ShiftLeft<52>(hn::Sub(e, hn::Set(di, 2048)));
  return hn::Sub(hn::BitCast(d, hn::Sub(bits, shift)), hn::Set(d, 1.0));
}
template <class D, class V>
HWY_INLINE V log_limits(D d, V x, V y) {
  const V zero = hn::Zero(d), infinity = hn::Set(d, __builtin_huge_val());
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, __builtin_nan("")), y);
  return hn::IfThenElse(hn::Lt(x, infinity), y, x);
}
template <class D, class V>
HWY_INLINE V log(D d, V x) {
  V n;
  const V f = mantissa(d, x, n);
  return log_limits(d, x, log_of_reduced(d, f, n));
}
template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  const V one = hn::Set(d, 1.0), u = hn::Add(x, one);
  V n;
  const V f = mantissa(d, u, n);
  // Where 1 + x is not scaled, x itself has the digits that the sum lost.
  const V y = log_of_reduced(d, hn::IfThenElse(hn::Eq(n, hn::Zero(d)), x, f), n);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, log_limits(d, u, y));
}

// --- circular functions --------------------------------------------------------------------------------------
inline constexpr double kReducible = 1e6;  // |n| < 2^20 leaves n times each part of pi/2 exact

template <class V, class I>
struct Turn {
  V sin, cos;  ///< of the rest, in [-pi/4, pi/4]
  I quarter;   ///< its last two bits count quarter turns
};
template <class D, class V>
HWY_INLINE Turn<V, hn::Vec<Bits<D>>> turn(D d, V x) {
  const Bits<D> di;
  const V lifted = hn::MulAdd(x, hn::Set(d, 0.63661977236758134), hn::Set(d, kWhole));
  const V n = hn::Sub(lifted, hn::Set(d, kWhole));
  V r = hn::NegMulAdd(n, hn::Set(d, 1.57079632673412561417e+00), x);
  r = hn::NegMulAdd(n, hn::Set(d, 6.07710050630396597660e-11), r);
  r = hn::NegMulAdd(n, hn::Set(d, 2.02226624879595063154e-21), r);
  const V z = hn::Mul(r, r);
  const V s = hn::MulAdd(hn::Mul(r, z),
                         poly(d, z, -0.16666666666663883, 0.0083333333310774224, -0.00019841266915235039,
                              2.7555990399839906e-6, -2.4805587179980645e-8),
                         r);
  const V c = hn::MulAdd(hn::Mul(z, z),
                         poly(d, z, 0.041666666666664677, -0.0013888888887276055, 2.4801585209738398e-5,
                              -2.7556369316750493e-7, 2.0700565397369932e-9),
                         hn::NegMulAdd(z, hn::Set(d, 0.5), hn::Set(d, 1.0)));
  return {s, c, hn::BitCast(di, lifted)};
}
template <class D, class I>
HWY_INLINE auto odd(D d, I quarter) {
  const Bits<D> di;
  return hn::RebindMask(d, hn::TestBit(quarter, hn::Set(di, 1)));
}
template <class D, class V, class I>
HWY_INLINE V flip(D d, V x, I quarter) {  // the sign of x turned where bit 1 is set
  const Bits<D> di;
  return hn::Xor(x, hn::BitCast(d, hn::ShiftLeft<62>(hn::And(quarter, hn::Set(di, 2)))));
}
template <class D, class V>
HWY_INLINE V sin(D d, V x) {
  const auto t = turn(d, x);
  const V y = flip(d, hn::IfThenElse(odd(d, t.quarter), t.cos, t.sin), t.quarter);
  const auto far = hn::Not(hn::Le(hn::Abs(x), hn::Set(d, kReducible)));
  return hn::AllFalse(d, far) ? hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y)
                              : lane_by_lane(
                                    d, x, y, far, +[](double v) { return std::sin(v); });
}
template <class D, class V>
HWY_INLINE V cos(D d, V x) {
  const auto t = turn(d, x);
  const V y = flip(d, hn::IfThenElse(odd(d, t.quarter), t.sin, t.cos), hn::Add(t.quarter, hn::Set(Bits<D>(), 1)));
  const auto far = hn::Not(hn::Le(hn::Abs(x), hn::Set(d, kReducible)));
  return hn::AllFalse(d, far) ? y
                              : lane_by_lane(
                                    d, x, y, far, +[](double v) { return std::cos(v); });
}
template <class D, class V>
HWY_INLINE V tan(D d, V x) {
  const auto t = turn(d, x);
  const auto swap = odd(d, t.quarter);
  const V y = hn::Div(hn::IfThenElse(swap, hn::Neg(t.cos), t.sin), hn::IfThenElse(swap, t.sin, t.cos));
  const auto far = hn::Not(hn::Le(hn::Abs(x), hn::Set(d, kReducible)));
  return hn::AllFalse(d, far) ? hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y)
                              : lane_by_lane(
                                    d, x, y, far, +[](double v) { return std::tan(v); });
}
/// The angle of (x, y) for y >= 0, x >= 0, in [0, pi/2].
template <class D, class V>
HWY_INLINE V first_quadrant(D d, V y, V x) {
  const auto steep = hn::Gt(y, x);
  V top = hn::IfThenElse(steep, x, y), bottom = hn::IfThenElse(steep, y, x);
  const auto near = hn::Gt(top, hn::Mul(bottom, hn::Set(d, 0.41421356237309505)));
  const V less = hn::Sub(top, bottom), sum = hn::Add(top, bottom);
  top = hn::IfThenElse(near, less, top);
  bottom = hn::IfThenElse(near, sum, bottom);
  const auto origin = hn::Eq(hn::Add(top, bottom), hn::Zero(d));  // both 0, and neither is NaN
  const V t = hn::IfThenZeroElse(origin, hn::Div(top, bottom)), z = hn::Mul(t, t);
  V a = hn::MulAdd(hn::Mul(t, z),
                   poly(d, z, -0.33333333333330924, 0.19999999997723209, -0.14285713930151891, 0.11111089637647514,
                        -0.090902556651390774, 0.076810413440297226, -0.065508787762982713, 0.051687256000396124,
                        -0.027231188880779693),
                   t);
  a = hn::IfThenElse(near, hn::Add(a, hn::Set(d, 0.78539816339744831)), a);
  return hn::IfThenElse(steep, hn::Sub(hn::Set(d, 1.5707963267948966), a), a);
}
template <class D, class V>
HWY_INLINE V atan(D d, V x) {
  return hn::CopySign(first_quadrant(d, hn::Abs(x), hn::Set(d, 1.0)), x);
}
template <class D, class V>
HWY_INLINE V atan2(D d, V y, V x) {
  V a = hn::Abs(y), b = hn::Abs(x);
  const V infinity = hn::Set(d, __builtin_huge_val()), one = hn::Set(d, 1.0);
  const auto both = hn::And(hn::Eq(a, infinity), hn::Eq(b, infinity));
  a = hn::IfThenElse(both, one, a);
  b = hn::IfThenElse(both, one, b);
  const V angle = first_quadrant(d, a, b);
  const V back = hn::Sub(hn::Set(d, 3.1415926535897932), angle);
  const auto left = hn::Lt(hn::CopySign(one, x), hn::Zero(d));  // -0 too
  return hn::CopySign(hn::IfThenElse(left, back, angle), y);
}
template <class D, class V>
HWY_INLINE V leg(D d, V x) {  // sqrt(1 - x^2)
  const V one = hn::Set(d, 1.0);
  return hn::Sqrt(hn::Mul(hn::Sub(one, x), hn::Add(one, x)));
}
template <class D, class V>
HWY_INLINE V asin(D d, V x) {
  return hn::CopySign(first_quadrant(d, hn::Abs(x), leg(d, x)), x);
}
template <class D, class V>
HWY_INLINE V acos(D d, V x) {
  const V angle = first_quadrant(d, leg(d, x), hn::Abs(x));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 3.1415926535897932), angle), angle);
}

// --- hyperbolic functions ------------------------------------------------------------------------------------
template <class D, class V>
HWY_INLINE V sinh(D d, V x) {
  const V one = hn::Set(d, 1.0), e = expm1(d, hn::Abs(x));
  return hn::CopySign(hn::Mul(hn::Set(d, 0.5), hn::Add(e, hn::Div(e, hn::Add(e, one)))), x);
}
template <class D, class V>
HWY_INLINE V cosh(D d, V x) {
  const V e = exp(d, hn::Abs(x));
  return hn::Mul(hn::Set(d, 0.5), hn::Add(e, hn::Div(hn::Set(d, 1.0), e)));
}
template <class D, class V>
HWY_INLINE V asinh(D d, V x) {
  const V a = hn::Abs(x), z = hn::Mul(a, a), one = hn::Set(d, 1.0);
  const V y = log1p(d, hn::Add(a, hn::Div(z, hn::Add(one, hn::Sqrt(hn::Add(z, one))))));
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, __builtin_huge_val())), hn::CopySign(y, x), x);
}
template <class D, class V>
HWY_INLINE V acosh(D d, V x) {
  const V one = hn::Set(d, 1.0), above = hn::Sub(x, one);
  const V y = log1p(d, hn::Add(above, hn::Sqrt(hn::Mul(above, hn::Add(x, one)))));
  return hn::IfThenElse(hn::Lt(x, one), hn::Set(d, __builtin_nan("")), y);
}
template <class D, class V>
HWY_INLINE V atanh(D d, V x) {
  const V a = hn::Abs(x), half = hn::Set(d, 0.5);
  return hn::CopySign(hn::Mul(half, log1p(d, hn::Div(hn::Add(a, a), hn::Sub(hn::Set(d, 1.0), a)))), x);
}

// --- error functions -----------------------------------------------------------------------------------------
/// erfc(t) for t >= 0.9 up to 11, where a float has vanished.
template <class D, class V>
HWY_INLINE V erfc_tail(D d, V t) {
  const V two = hn::Set(d, 2.0);
  t = hn::Min(hn::Set(d, 11.0), t);
  const V u = hn::Div(hn::Sub(t, two), hn::Add(t, two));
  const V p = poly(d, u, 1.2769783815525287, -0.092763826585697923, -0.16603039761542492, 0.16405128002556611,
                   -0.054220000963633948, -0.0080340147228114412, 0.0087226523052588329, 0.0012713326325804115,
                   -0.0014567777104196049, -0.00045430595350071873, 0.00020597125089756187, 0.00015125209489741717,
                   4.4400628930991966e-7, -3.9460787905556796e-5, -1.6156590258318736e-5, 1.2826334701860202e-5);
  return hn::Div(hn::Mul(p, exp(d, hn::Neg(hn::Mul(t, t)))), hn::MulAdd(two, t, hn::Set(d, 1.0)));
}
template <class D, class V>
HWY_INLINE V erf_small(D d, V x) {  // |x| <= 1
  return hn::Mul(x, poly(d, hn::Mul(x, x), 1.1283791670955122, -0.376126389031744, 0.11283791670580422,
                         -0.026866170586496872, 0.0052239771541053047, -0.00085483048717827406, 0.00012054681918310599,
                         -1.4913300906316396e-5, 1.6310356513871741e-6, -1.5188281247335167e-7, 9.4285969568341643e-9));
}
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0);
  const V far = hn::CopySign(hn::Sub(one, erfc_tail(d, a)), x);
  return hn::IfThenElse(hn::Gt(a, one), far, erf_small(d, x));
}
template <class D, class V>
HWY_INLINE V erfc(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0), tail = erfc_tail(d, a);
  const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0), tail), tail);
  return hn::IfThenElse(hn::Gt(a, one), far, hn::Sub(one, erf_small(d, x)));
}

}  // namespace wide
#endif

/// f(dd, x...) on the lanes of float vectors, in double, rounded once.
template <class D, class V, class F, class... Vs>
HWY_INLINE V in_double(D d, const F& f, V x, Vs... y) {
  const hn::ScalableTag<double> dd;
#if HWY_TARGET == HWY_SCALAR
  return hn::DemoteTo(d, f(dd, hn::PromoteTo(dd, x), hn::PromoteTo(dd, y)...));
#else
  const hn::Half<D> dh;
  const auto low = f(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, x)), hn::PromoteTo(dd, hn::LowerHalf(dh, y))...);
  const auto high = f(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, x)), hn::PromoteTo(dd, hn::UpperHalf(dh, y))...);
  return hn::Combine(d, hn::DemoteTo(dh, high), hn::DemoteTo(dh, low));
#endif
}

/// Registers op::name for the floats: float32 and the 16-bit floats as `vector_expression` of x, a vector of doubles (d its
/// tag), float64 as `double_expression` of the number x. `grain`: elements worth a second thread. Needs loops.h.
#undef TENON_DOUBLE_MATH_UNARY
#define TENON_DOUBLE_MATH_UNARY(name, vector_expression, double_expression, grain) \
  struct name##_wide {                                                             \
    template <class D, class V>                                                    \
    HWY_INLINE V operator()(D d, V x) const {                                      \
      return vector_expression;                                                    \
    }                                                                              \
  };                                                                               \
  struct name##_body {                                                             \
    template <class D, class V>                                                    \
    HWY_INLINE V operator()(D d, V x) const {                                      \
      return in_double(d, name##_wide(), x);                                       \
    }                                                                              \
  };                                                                               \
  template <class T>                                                               \
  void name##_cpu(const LoopPlan& plan) {                                          \
    if constexpr (std::is_same_v<T, double>)                                       \
      elementwise(                                                                 \
          plan, [](double x) { return double_expression; }, grain);                \
    else                                                                           \
      elementwise<float>(plan, name##_body(), grain);                              \
  }                                                                                \
  TENON_REGISTER_SIMD_KERNEL(op::name, FloatsAndHalves, name##_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

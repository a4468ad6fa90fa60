// SPDX-License-Identifier: Apache-2.0
// Special functions in double, for both devices: gamma and its derivatives, error functions and their inverses, modified
// Bessel functions. float32 and the 16-bit floats compute through these and round once. Limits and poles as in PyTorch.
//
// Sources: digamma and the Hurwitz zeta function by recurrence and Euler-Maclaurin (Abramowitz and Stegun 6.3.18,
// 23.2); the normal quantile by Wichura's AS 241 (1988) and a Newton step; Bessel functions by Chebyshev series on [0, 8]
// and in 1/x beyond, interpolated from 40-digit values.
#pragma once

#include <tenon/kernels/math.h>

namespace tenon::math {

inline constexpr double kPi = 3.14159265358979324, kSqrtHalf = 0.70710678118654752;

TENON_HOST_DEVICE inline double lgamma(double x) {
#if defined(__CUDA_ARCH__)
  return ::lgamma(x);
#else
  int sign;  // the plain function writes a global variable
  return ::lgamma_r(x, &sign);
#endif
}

TENON_HOST_DEVICE inline double nearest(double x) {
#if defined(__CUDA_ARCH__)
  return ::rint(x);
#else
  return ::nearbyint(x);
#endif
}

/// The derivative of lgamma; -infinity at +0, infinity at -0, NaN at the negative whole numbers.
TENON_HOST_DEVICE inline double digamma(double x) {
  double result = 0;
  if (x == 0) return copysign(infinity<double>(), -x);
  if (x < 0) {
    const double rest = x - nearest(x);
    if (rest == 0) return infinity<double>() - infinity<double>();
    result = -kPi / tan(kPi * rest);  // reflection
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  const double z = 1 / (x * x);
  const double series =
      z *
      (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return result + log(x) - 0.5 / x - (x < 1e17 ? series : 0);
}

/// x^-s; small whole s, which polygamma has, by multiplication.
TENON_HOST_DEVICE inline double inverse_power(double x, double s) {
  if (s > 16 || s != floor(s)) return pow(x, -s);
  double power = x;
  for (int i = 1; i < static_cast<int>(s); ++i) power *= x;
  return 1 / power;
}
/// sum over k >= 0 of (k + q)^-s, s > 1; infinity at whole q <= 0, NaN for other q <= 0 unless s is whole.
TENON_HOST_DEVICE inline double zeta(double s, double q) {
  if (s == 1) return infinity<double>();
  if (!(s > 1)) return infinity<double>() - infinity<double>();
  if (q <= 0) {
    if (q == floor(q)) return infinity<double>();
    if (s != floor(s)) return infinity<double>() - infinity<double>();
  }
  if (q == infinity<double>()) return 0;
  double sum = inverse_power(q, s), a = q, term = 0;
  for (int i = 0; i < 9 || a <= 9; ++i) {
    a += 1;
    term = inverse_power(a, s);
    sum += term;
    if (fabs(term) < 1e-17 * fabs(sum) && a > 0) return sum;
  }
  sum += term * a / (s - 1) - term / 2;
  // B(2j) / (2j)! times s (s+1) ... (s+2j-2) a^(1-s-2j)
  constexpr double kBernoulli[] = {1.0 / 12,
                                   -1.0 / 720,
                                   1.0 / 30240,
                                   -1.0 / 1209600,
                                   1.0 / 47900160,
                                   -691.0 / 1307674368000.0,
                                   1.0 / 74724249600.0,
                                   -3617.0 / 10670622842880000.0};
  double factor = s, power = term / a;
  for (int j = 0; j < 8; ++j) {
    sum += kBernoulli[j] * factor * power;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2);
    power /= a * a;
  }
  return sum;
}

/// The n-th derivative of digamma.
TENON_HOST_DEVICE inline double polygamma(int64_t n, double x) {
  if (n == 0) return digamma(x);
  if (n == 1 && x == -infinity<double>()) return infinity<double>() + x;  // poles without end
  if (n > 1 && x == infinity<double>()) return x - x;                     // NaN, as PyTorch's
  const double order = static_cast<double>(n);
  const double value = exp(lgamma(order + 1)) * zeta(order + 1, x);
  return n % 2 == 0 ? -value : value;
}

// --- the normal distribution and the error function -----------------------------------------------------------
/// exp(x^2) erfc(x).
TENON_HOST_DEVICE inline double erfcx(double x) {
#if defined(__CUDA_ARCH__)
  return ::erfcx(x);
#else
  if (x < -26.7) return infinity<double>();
  if (x > 25) {
    const double h = 0.5 / (x * x);  // 1 - h + 3 h^2 - 15 h^3 + ...
    return 0.56418958354775629 / x * (1 - h * (1 - 3 * h * (1 - 5 * h * (1 - 7 * h * (1 - 9 * h * (1 - 11 * h))))));
  }
  // The square's rounding error is a relative error of its exponential.
  const double square = x * x, rest = ::fma(x, x, -square), e = exp(square);
  return (e + e * rest) * ::erfc(x);
#endif
}
/// P(X > x) for a normal X. In the tail the rounding of x / sqrt 2 counts 2 t times.
TENON_HOST_DEVICE inline double normal_tail(double x) {
  const double t = x * kSqrtHalf, e = 0.5 * ::erfc(t);
  if (!(t > 1 && t < 27)) return e;
  const double rest = ::fma(x, kSqrtHalf, -t) - x * 4.8336466567264567e-17;
  return e - e * (2 * t * rest);
}
TENON_HOST_DEVICE inline double ndtr(double x) { return normal_tail(-x); }
TENON_HOST_DEVICE inline double log_ndtr(double x) {
  return x < -1 ? log(erfcx(-x * kSqrtHalf) / 2) - x * x / 2 : log1p(-normal_tail(x));
}

/// x with P(X < x) = p for a normal X, given p - 1/2 and the smaller of p and 1 - p (both exact where p is not).
TENON_HOST_DEVICE inline double normal_quantile(double centred, double tail) {
  if (fabs(centred) <= 0.425) {
    const double r = 0.180625 - centred * centred;
    return centred *
           (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r +
                45921.953931549871457) *
                   r +
               13731.693765509461125) *
                  r +
              1971.5909503065514427) *
                 r +
             133.14166789178437745) *
                r +
            3.387132872796366608) /
           (((((((5226.495278852854561 * r + 28729.085735721942674) * r + 39307.89580009271061) * r +
                21213.794301586595867) *
                   r +
               5394.1960214247511077) *
                  r +
              687.1870074920579083) *
                 r +
             42.313330701600911252) *
                r +
            1);
  }
  if (!(tail > 0)) {
    if (tail == 0) return copysign(infinity<double>(), centred);
    return infinity<double>() - infinity<double>();
  }
  double r = sqrt(-log(tail)), x;
  if (r <= 5) {
    r -= 1.6;
    x = (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r +
             1.27045825245236838258) *
                r +
            3.64784832476320460504) *
               r +
           5.7694972214606914055) *
              r +
          4.6303378461565452959) *
             r +
         1.42343711074968357734) /
        (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r +
             0.14810397642748007459) *
                r +
            0.68976733498510000455) *
               r +
           1.6763848301838038494) *
              r +
          2.05319162663775882187) *
             r +
         1);
  } else {
    r -= 5;
    x = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r +
             0.026532189526576123093) *
                r +
            0.29656057182850489123) *
               r +
           1.7848265399172913358) *
              r +
          5.4637849111641143699) *
             r +
         6.6579046435011037772) /
        (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r +
             7.868691311456132591e-4) *
                r +
            0.0148753612908506148525) *
               r +
           0.13692988092273580531) *
              r +
          0.59983220655588793769) *
             r +
         1);
  }
  return copysign(x, centred);
}
TENON_HOST_DEVICE inline double ndtri(double p) { return normal_quantile(p - 0.5, p < 0.5 ? p : 1 - p); }
/// erf(y) = x. `polish`: with a Newton step for the last digits of a double.
TENON_HOST_DEVICE inline double erfinv(double x, bool polish = true) {
  const double a = fabs(x);
  if (!(a < 1)) return a == 1 ? copysign(infinity<double>(), x) : infinity<double>() - infinity<double>();
  const double y = normal_quantile(a / 2, (1 - a) / 2) * kSqrtHalf;
  if (!polish) return copysign(y, x);
  const double error = a < 0.5 ? ::erf(y) - a : (1 - a) - ::erfc(y);
  return copysign(y - error * 0.88622692545275801 * exp(y * y), x);
}

// --- modified Bessel functions --------------------------------------------------------------------------------
/// c0/1 + c1 T1(t) + c2 T2(t) + ... (Clenshaw's recurrence).
template <int N>
TENON_HOST_DEVICE inline double chebyshev(const double (&c)[N], double t) {
  double a = 0, b = 0;
  for (int j = N - 1; j > 0; --j) {
    const double next = 2 * t * a - b + c[j];
    b = a;
    a = next;
  }
  return t * a - b + c[0];
}
/// exp(-|x|) I0(x).
TENON_HOST_DEVICE inline double i0e(double x) {
  constexpr double kNear[] = {
      0.33839763720473804,    -0.3046826723431984,     0.17162090152220878,    -0.094901097048047644,
      0.049305284239670708,   -0.023737414805899469,   0.010546460394594998,   -0.0043243099950505759,
      0.0016394756169413358,  -0.00057637557453858237, 0.00018850288509584166, -5.7541950100821037e-5,
      1.6448448070728897e-5,  -4.4167383584587506e-6,  1.1173875391201037e-6,  -2.6707938539406117e-7,
      6.0469950225419189e-8,  -1.300025009986248e-8,   2.6598237246823867e-9,  -5.1897956016352629e-10,
      9.6758090353732369e-11, -1.7268262914415557e-11, 2.9550526631296398e-12, -4.8564467831119295e-13,
      7.6761854986049356e-14, -1.1685332877993452e-14, 1.715391285555133e-15,  -2.4312798465479547e-16,
      3.3307945188222381e-17};
  constexpr double kFar[] = {
      0.40224520550705442,     0.0033691164782556941,   6.889758346916824e-5,    2.8913705208347565e-6,
      2.0489185894690637e-7,   2.2666689904981781e-8,   3.3962320257083863e-9,   4.9406023882249696e-10,
      1.1889147107846438e-11,  -3.1499165279632414e-11, -1.3215811840447713e-11, -1.7941785315068061e-12,
      7.1801244513836662e-13,  3.8527783827421427e-13,  1.5400862175214098e-14,  -4.1505693472872221e-14,
      -9.5548466988283076e-15, 3.8116806693526224e-15,  1.7725601330565264e-15,  -3.4254856196772191e-16,
      -2.8276239805165835e-16, 3.4612228676974611e-17,  4.46562142029676e-17};
  x = fabs(x);
  return x <= 8 ? chebyshev(kNear, x / 4 - 1) : chebyshev(kFar, 16 / x - 1) / sqrt(x);
}
TENON_HOST_DEVICE inline double i0(double x) {
  if (fabs(x) == infinity<double>()) return x - x;        // NaN, as PyTorch's
  const double scaled = i0e(x), half = exp(fabs(x) / 2);  // in two steps: exp(x) overflows before the result
  return half == infinity<double>() ? half : half * scaled * half;
}
/// exp(-|x|) I1(x).
TENON_HOST_DEVICE inline double i1e(double x) {
  constexpr double kNear[] = {
      0.12629359322181683,    -0.17641651835783406,    0.1026436586898471,     -0.052945981208094991,
      0.024726449030626517,   -0.010564084894626198,   0.0041564229443128882,  -0.0015135724506312531,
      0.00051228595616857577, -0.00016176081582589675, 4.7815651075500542e-5,  -1.3273163656039436e-5,
      3.4702513081376785e-6,  -8.5687202646954547e-7,  2.0032947535521353e-7,  -4.4450591287963281e-8,
      9.3815373864957718e-9,  -1.8872497517228293e-9,  3.625590281552117e-10,  -6.6634897235020277e-11,
      1.1736186298890902e-11, -1.9839743977649437e-12, 3.2237933659455747e-13, -5.0421855047279117e-14,
      7.6006842947354069e-15, -1.1055969477353863e-15, 1.5536319577362005e-16, -2.1114212143581661e-17,
      2.7779141127610464e-18};
  constexpr double kFar[] = {
      0.38928811750914006,     -0.0097610974913614684,  -0.00011058893876262372, -3.8825648088776904e-6,
      -2.5122362378702089e-7,  -2.6314688468895195e-8,  -3.835380385964237e-9,   -5.5897434621965838e-10,
      -1.8974958123505412e-11, 3.2526035830154882e-11,  1.4125807436613781e-11,  2.0356285441470895e-12,
      -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14, 4.2724400167119514e-14,
      1.0420276984128803e-14,  -3.8144030724370078e-15, -1.8803547755107824e-15, 3.3082023109209283e-16,
      2.9626289976459501e-16,  -3.209525921993424e-17,  -4.6503053684893583e-17};
  const double a = fabs(x);
  const double y = a <= 8 ? chebyshev(kNear, a / 4 - 1) * a : chebyshev(kFar, 16 / a - 1) / sqrt(a);
  return x < 0 ? -y : y;
}
TENON_HOST_DEVICE inline double i1(double x) {
  if (fabs(x) == infinity<double>()) return x - x;
  const double scaled = i1e(x), half = exp(fabs(x) / 2);
  return half == infinity<double>() ? copysign(half, x) : half * scaled * half;
}

}  // namespace tenon::math

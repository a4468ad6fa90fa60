// SPDX-License-Identifier: Apache-2.0
// Rows of ops/special.h. References are long double sums and bisections, or the C++ library's own special functions.
#include <tenon/ops/special.h>

#include "tests/support/op_case.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Wide = long double;
const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();
const Dtypes kRealsAndBool = kReals + Dtypes{kBool};

void one_number(Inputs& in) { in.add({in.tensor({1 << 20}, 0.1, 0.9)}); }

// sum over k of (x + k)^-s for s > 1: many terms, the rest as an integral with its first corrections.
Wide hurwitz(int s, Wide x) {
  Wide sum = 0;
  for (int k = 0; k < 2000; ++k) sum += std::pow(x + k, static_cast<Wide>(-s));
  const Wide a = x + 2000;
  return sum + std::pow(a, Wide(1 - s)) / (s - 1) + std::pow(a, Wide(-s)) / 2 + s * std::pow(a, Wide(-s - 1)) / 12;
}
double polygamma_of(int64_t n, double x) {
  if (std::isnan(x)) return x;
  if (x <= 0 && x == std::floor(x)) return n % 2 == 0 ? -kInfinity : kInfinity;
  if (std::isinf(x)) return x > 0 ? 0 : kNaN;
  if (x > 1e8 || x < -1000) return kNaN;
  const Wide value = std::tgamma(static_cast<Wide>(n) + 1) * hurwitz(static_cast<int>(n) + 1, x);
  return static_cast<double>(n % 2 == 0 ? -value : value);
}
double digamma_of(double d) {
  if (d == 0) return std::copysign(kInfinity, -d);
  if (std::isinf(d)) return d > 0 ? d : kNaN;
  Wide x = d, sum = 0;
  if (x < 0) {
    if (x == std::floor(x)) return kNaN;
    const Wide pi = 3.14159265358979323846264338L;
    sum = -pi / std::tan(pi * (x - std::nearbyint(x)));
    x = 1 - x;
  }
  for (; x < 200; x += 1) sum -= 1 / x;
  return static_cast<double>(sum + std::log(x) - 1 / (2 * x) - 1 / (12 * x * x) + 1 / (120 * x * x * x * x));
}

double erfcx_of(double x) {
  if (std::isnan(x)) return x;
  if (x > 50) {
    const Wide h = 1 / (2 * Wide(x) * x);
    return static_cast<double>(1 / (Wide(x) * 1.77245385090551602729817L) *
                               (1 - h + 3 * h * h - 15 * h * h * h + 105 * h * h * h * h));
  }
  if (x < -100) return kInfinity;
  return static_cast<double>(std::exp(Wide(x) * x) * std::erfc(Wide(x)));
}
double ndtr_of(double x) { return static_cast<double>(std::erfc(-Wide(x) / std::sqrt(2.0L)) / 2); }
double log_ndtr_of(double x) {
  if (x < -100) {
    const Wide z = Wide(x) * x;  // the first terms of the asymptotic series
    return static_cast<double>(-z / 2 - std::log(-Wide(x)) - 0.918938533204672741780329736L +
                               std::log1p(-1 / z + 3 / (z * z)));
  }
  if (x > 0) return static_cast<double>(std::log1p(-std::erfc(Wide(x) / std::sqrt(2.0L)) / 2));
  return static_cast<double>(std::log(std::erfc(-Wide(x) / std::sqrt(2.0L)) / 2));
}
// The root of an increasing f, by bisection.
template <class F>
double invert(F f, Wide low, Wide high) {
  for (int i = 0; i < 200; ++i) {
    const Wide middle = (low + high) / 2;
    (f(middle) < 0 ? low : high) = middle;
  }
  return static_cast<double>((low + high) / 2);
}
double ndtri_of(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0 || p == 1) return p == 0 ? -kInfinity : kInfinity;
  if (p == 0.5) return 0;
  const Wide root = std::sqrt(2.0L);
  if (p > 0.2 && p < 0.8) return invert([&](Wide x) { return std::erf(x / root) / 2 - (Wide(p) - 0.5L); }, -2, 2);
  return invert([&](Wide x) { return std::erfc(-x / root) / 2 - Wide(p); }, -150, 50);
}
double erfinv_of(double y) {
  if (!(y >= -1 && y <= 1)) return kNaN;
  if (y == 1 || y == -1) return y * kInfinity;
  if (std::fabs(y) < 1e-12) return y * 0.88622692545275801365;
  const double a = std::fabs(y);
  if (a < 0.5) return std::copysign(invert([&](Wide x) { return std::erf(x) - Wide(a); }, 0, 1), y);
  return std::copysign(invert([&](Wide x) { return (1 - Wide(a)) - std::erfc(x); }, 0, 10), y);
}

double bessel(double nu, double x, bool scaled) {
  if (std::isnan(x)) return x;
  const double a = std::fabs(x), sign = nu == 1 && x < 0 ? -1 : 1;
  if (std::isinf(x)) return scaled ? sign * 0.0 : std::nan("");  // PyTorch's choice
  if (a > 700) {                                                 // asymptotic series
    const Wide m = 4 * nu * nu, z = 8 * Wide(a);
    const Wide series =
        1 - (m - 1) / z + (m - 1) * (m - 9) / (2 * z * z) - (m - 1) * (m - 9) * (m - 25) / (6 * z * z * z);
    const Wide root = std::sqrt(6.28318530717958647693L * Wide(a));
    return sign * static_cast<double>((scaled ? Wide(1) : std::exp(Wide(a))) * series / root);
  }
  const Wide y = std::cyl_bessel_i(Wide(nu), Wide(a));
  return sign * static_cast<double>(scaled ? y * std::exp(-Wide(a)) : y);
}

// `scale`: of what nearly cancels at a root.
void special(OpCase& row, double low, double high, double (*f)(double), double scale = 0) {
  const Reference exact = unary(f, nullptr);
  row.dtypes(kRealsAndBool)
      .ulp(16)
      .samples(unary_samples(low, high))
      .reference([=](const Args& args) {
        std::vector<Array> out = exact(args);
        if (scale > 0) out[0].scale = {scale};
        return out;
      })
      .gradient()
      .benchmark(one_number)
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kComplex64);
}

}  // namespace

TENON_OP_CASES(special) {
  special(op_case(op::lgamma), 0.2, 20, [](double x) { return std::lgamma(x); });
  special(op_case(op::digamma), 0.2, 20, digamma_of, 1);
  op_case(op::digamma, "below zero")
      .dtypes({kFloat64})
      .ulp(64)
      .reference(unary(digamma_of, nullptr))
      .samples([](Inputs& in) {
        in.add({in.values({-0.5, -1.25, -7.75, -20.3, 0.0, -0.0, -3})});
      });
  op_case(op::polygamma)
      .dtypes(kRealsAndBool)
      .gradient()
      .ulp(8)
      .samples([](Inputs& in) {
        for (int64_t n : {1, 2, 3, 5})
          for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {67}}) in.add({n, in.tensor(s, 1, 9)});
        in.add({int64_t{1}, in.values({0.0, 0.5, 100, 1e6})}).no_gradient();
      })
      .reference([](const Args& args) {
        const Array x = args.array(1);
        const DType t = floating(x.dtype);
        const int64_t n = args.integer(0);
        return std::vector<Array>{
            pointwise({x}, t, t, [&](const Number* v) -> Number { return polygamma_of(n, v->re()); })};
      })
      .benchmark([](Inputs& in) {
        in.add({int64_t{1}, in.tensor({1 << 18}, 0.1, 9)});
      })
      .error<ValueError>("n", [](Inputs& in) {
        in.add({int64_t{-1}, in.tensor({2})});
      });

  special(op_case(op::erf), -4, 4, [](double x) { return std::erf(x); });
  special(op_case(op::erfc), -4, 9, [](double x) { return std::erfc(x); });
  special(op_case(op::erfinv), -0.99, 0.99, erfinv_of);
  special(op_case(op::special_erfcx), -4, 30, erfcx_of);
  special(op_case(op::special_ndtr), -9, 9, ndtr_of);
  special(op_case(op::special_log_ndtr), -30, 5, log_ndtr_of);
  special(op_case(op::special_ndtri), 0.01, 0.99, ndtri_of);
  special(op_case(op::i0), -20, 20, [](double x) { return bessel(0, x, false); });
  special(op_case(op::special_i0e), -40, 40, [](double x) { return bessel(0, x, true); });
  special(op_case(op::special_i1), -20, 20, [](double x) { return bessel(1, x, false); });
  special(op_case(op::special_i1e), -40, 40, [](double x) { return bessel(1, x, true); });
}

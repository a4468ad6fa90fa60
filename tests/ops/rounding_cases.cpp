// SPDX-License-Identifier: Apache-2.0
// Rows of ops/rounding.h.
#include <tenon/ops/rounding.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

void one_number(Inputs& in) { in.add({in.tensor({1 << 20}, -9, 9)}); }
void two_numbers(Inputs& in) { in.add({in.tensor({1 << 20}, 1, 9), in.tensor({1 << 20}, 1, 9)}); }
void halves(Inputs& in) {
  in.add({in.values({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609, -3})}).no_gradient();
}

OpCase& rounding(OpCase& row, double (*f)(double)) {
  return row.dtypes(kReals)
      .samples(unary_samples(-9, 9))
      .samples(halves)
      .reference(unary(f, nullptr, [](int64_t x) { return x; }))
      .gradient()
      .benchmark(one_number)
      .error<DtypeError>("real", [](Inputs& in) {
        in.add({in.boolean({2})});
        in.add({in.tensor({2}, 0, 1, kComplex64)});
      });
}

int64_t fmod_of(int64_t a, int64_t b) { return b == -1 || b == 0 ? 0 : a % b; }
int64_t remainder_of(int64_t a, int64_t b) {
  const int64_t r = fmod_of(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double remainder_of(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Reference rest(double (*f)(double, double), int64_t (*g)(int64_t, int64_t)) {
  return [=](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    const DType t = promoted({a, b});
    return std::vector<Array>{pointwise({a, b}, t, t, [&](const Number* v) -> Number {
      if (is_integral(t)) return g(v[0].i, v[1].i);
      // Floats compute in their own precision: a quotient that rounds to a whole number is one.
      if (t == kFloat64) return f(v[0].re(), v[1].re());
      return static_cast<double>(static_cast<float>(f(static_cast<float>(v[0].re()), static_cast<float>(v[1].re()))));
    })};
  };
}

void divisors(Inputs& in) {
  const bool whole = !in.is_floating();
  binary_samples(-20, 20, whole ? 1 : 0.5, 7)(in);
  if (!whole || in.dtype() != kUInt8) in.add({in.tensor({40}, -20, 20), in.values({-3})}).no_gradient();
  in.add({in.tensor({40}, -20, 20), Value(Scalar(3))});
  in.add({Value(Scalar(17)), in.tensor({40}, 1, 7)});
  if (!whole) in.add({in.special(3), in.values({1.5})}).no_gradient();
}

}  // namespace

TENON_OP_CASES(rounding) {
  rounding(op_case(op::ceil), [](double x) { return std::ceil(x); });
  rounding(op_case(op::floor), [](double x) { return std::floor(x); });
  rounding(op_case(op::trunc), [](double x) { return std::trunc(x); });
  rounding(op_case(op::round), [](double x) { return std::nearbyint(x); });
  op_case(op::frac)
      .dtypes(kFloats)
      .samples(unary_samples(-9, 9))
      .reference(unary([](double x) { return x - std::trunc(x); }, nullptr))
      .gradient()
      .benchmark(one_number)
      .error<DtypeError>(
          "floating", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  op_case(op::round_decimals)
      .dtypes({kFloat64, kFloat32})
      .samples([](Inputs& in) {
        for (int64_t decimals : {0, 1, 3, -1, -2})
          for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {67}})
            in.add({in.tensor(s, -400, 400)}, {{"decimals", decimals}}).no_gradient();
        in.add({in.values({15, 25, -35})}, {{"decimals", int64_t{-1}}}).no_gradient();
        in.add({in.tensor({5}, -4, 4)}, {{"decimals", int64_t{0}}});
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const auto scaled = [&](auto v, int64_t decimals) {
          using T = decltype(v);
          const T scale = static_cast<T>(std::pow(10.0, static_cast<double>(std::abs(decimals))));
          return static_cast<double>(decimals < 0 ? std::nearbyint(v / scale) * scale
                                                  : std::nearbyint(v * scale) / scale);
        };
        return std::vector<Array>{pointwise({x}, x.dtype, x.dtype, [&](const Number* v) -> Number {
          return x.dtype == kFloat64 ? scaled(v->re(), args.integer(1))
                                     : scaled(static_cast<float>(v->re()), args.integer(1));
        })};
      })
      .gradient()
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20})}, {{"decimals", int64_t{2}}});
      })
      .error<DtypeError>(
          "decimals",
          [](Inputs& in) {
            in.add({in.tensor({2})}, {{"decimals", int64_t{1}}});
          },
          kInt32);

  op_case(op::fmod)
      .dtypes(kReals)
      .samples(divisors)
      .reference(rest([](double a, double b) { return std::fmod(a, b); }, fmod_of))
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>(
          "real",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);
  op_case(op::remainder)
      .dtypes(kReals)
      .samples(divisors)
      .reference(rest(remainder_of, remainder_of))
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>(
          "real",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);
  op_case(op::floor_divide)
      .dtypes(kIntegers + Dtypes{kFloat64, kFloat32})
      .samples(divisors)
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        const DType t = promoted({a, b});
        return std::vector<Array>{pointwise({a, b}, t, t, [&](const Number* v) -> Number {
          if (is_integral(t)) return v[1].i == 0 ? int64_t{0} : (v[0].i - remainder_of(v[0].i, v[1].i)) / v[1].i;
          const double r = remainder_of(v[0].re(), v[1].re());
          return std::isfinite(v[0].re()) ? std::nearbyint((v[0].re() - r) / v[1].re()) : std::nan("");
        })};
      })
      .gradient()
      .benchmark(two_numbers)
      .errors_name("div")
      .error<DtypeError>(
          "complex",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);
}

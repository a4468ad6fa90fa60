// SPDX-License-Identifier: Apache-2.0
// Rows of ops/exponential.h.
#include <tenon/ops/exponential.h>

#include "tests/support/op_case.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kLn2 = std::log(2.0);
const Dtypes kRealsAndBool = kReals + Dtypes{kBool};

void one_number(Inputs& in) { in.add({in.tensor({1 << 20}, 0.1, 0.9)}); }
void two_numbers(Inputs& in) { in.add({in.tensor({1 << 20}, 0.5, 2), in.tensor({1 << 20}, 0.5, 2)}); }

// exp(z) - 1 and log(1 + z) in long double, where the plain forms lose digits.
using Wide = std::complex<long double>;
Complex narrow(Wide z) { return {static_cast<double>(z.real()), static_cast<double>(z.imag())}; }
Complex expm1_of(Complex z) { return std::abs(z) < 1e-20 ? z : narrow(std::exp(Wide(z)) - Wide(1)); }
Complex log1p_of(Complex z) { return std::abs(z) < 1e-20 ? z : narrow(std::log(Wide(1) + Wide(z))); }

Reference of_two(double (*f)(double, double), double scale = 0) {
  return [=](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    const DType t = floating(promoted({a, b}));
    Array out = pointwise({a, b}, t, t, [&](const Number* v) -> Number { return f(v[0].re(), v[1].re()); });
    if (scale > 0) out.scale = {scale};
    return std::vector<Array>{out};
  };
}

double logaddexp_of(double a, double b, double scale) {
  if (a == b && std::isinf(a)) return a;
  return std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b) * scale)) / scale;
}
Number logaddexp_number(const Number* v, bool complex) {
  if (!complex) {
    const double a = v[0].re(), b = v[1].re();
    return a != a || b != b ? std::nan("") : logaddexp_of(a, b, 1);
  }
  return narrow(std::log(std::exp(Wide(v[0].z)) + std::exp(Wide(v[1].z))));
}

std::vector<Array> logit_reference(const Args& args) {
  const Array x = args.array(0);
  const DType t = floating(x.dtype);
  Array out = pointwise({x}, t, t, [&](const Number* v) -> Number {
    double p = v->re();
    if (!args.is_none(1)) p = p < args.real(1) ? args.real(1) : p > 1 - args.real(1) ? 1 - args.real(1) : p;
    const long double wide = p;  // near 1/2 the logarithm is small, and so must its error be
    return static_cast<double>(wide > 0.25L && wide < 0.75L ? std::log1p((2 * wide - 1) / (1 - wide))
                                                            : std::log(wide / (1 - wide)));
  });
  return {out};
}

void exponential(OpCase& row, double low, double high, double (*real)(double), Complex (*complex)(Complex)) {
  row.dtypes(kAll)
      .samples(unary_samples(low, high, true, 3))
      .reference(unary(real, complex))
      .gradient()
      .benchmark(one_number);
}

void mixed_numbers(Inputs& in) {
  in.add({in.tensor({3, 4}, 0.5, 4), Value(Scalar(2.5))}).no_gradient();
  in.add({Value(Scalar(1.5)), in.tensor({3, 4}, 0.5, 4)}).no_gradient();
  in.add({in.special(), in.special()}).no_gradient();
}

}  // namespace

TENON_OP_CASES(exponential) {
  exponential(
      op_case(op::exp2), -8, 8, [](double x) { return std::exp2(x); },
      [](Complex z) { return narrow(std::exp(Wide(z) * std::log(2.0L))); });
  exponential(
      op_case(op::expm1), -8, 8, [](double x) { return std::expm1(x); }, expm1_of);
  exponential(
      op_case(op::log2), 0.01, 50, [](double x) { return std::log2(x); }, [](Complex z) { return std::log(z) / kLn2; });
  exponential(
      op_case(op::log10), 0.01, 50, [](double x) { return std::log10(x); },
      [](Complex z) { return std::log(z) / std::log(10.0); });
  exponential(
      op_case(op::log1p), -0.9, 20, [](double x) { return std::log1p(x); }, log1p_of);
  op_case(op::special_entr)
      .dtypes(kRealsAndBool)
      .samples(unary_samples(0.1, 5))
      .gradient()
      .benchmark(one_number)
      .reference(
          unary([](double x) { return x > 0    ? -x * std::log(x)
                                      : x == 0 ? 0
                                      : x < 0  ? -kInfinity
                                               : x; }, nullptr))
      .error<DtypeError>(
          "real", [](Inputs& in) { in.add({in.tensor({2})}); }, kComplex64);
  op_case(op::logit)
      .dtypes(kRealsAndBool)
      .ulp(8)
      .samples(unary_samples(0.05, 0.95))
      .gradient()
      .benchmark(one_number)
      .reference(logit_reference)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 40}, 0.15, 0.85)}, {{"eps", 0.1}});
        in.add({in.tensor({3, 40}, -1, 2)}, {{"eps", 0.1}}).no_gradient();
        in.add({in.tensor({3, 40}, -1, 2)}, {{"eps", 0.75}}).no_gradient();  // the bounds cross: eps wins below
        in.add({in.tensor({9}, -1, 2)}).no_gradient();
      })
      .error<DtypeError>(
          "real", [](Inputs& in) { in.add({in.tensor({2})}); }, kComplex64);

  op_case(op::logaddexp)
      .dtypes(kFloats + kComplexes)
      .samples([](Inputs& in) {
        const double low = is_complex(in.dtype()) ? -1.2 : -9, high = -low;
        binary_samples(low, high, low, high)(in);
        if (!is_complex(in.dtype())) in.add({in.special(), in.special()}).no_gradient();
        if (!is_complex(in.dtype())) in.add({in.special(), in.values({kInfinity}, {1})}).no_gradient();
      })
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        const DType t = promoted({a, b});
        Array out = pointwise({a, b}, t, t, [&](const Number* v) { return logaddexp_number(v, is_complex(t)); });
        out.scale = {9};  // the sum of the larger one and a logarithm may cancel
        return std::vector<Array>{out};
      })
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>(
          "floating",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kInt64);
  op_case(op::logaddexp2)
      .dtypes(kFloats)
      .samples(binary_samples(-9, 9, -9, 9))
      .samples([](Inputs& in) {
        in.add({in.special(), in.special()}).no_gradient();
      })
      .reference(
          of_two([](double a, double b) { return a != a || b != b ? std::nan("") : logaddexp_of(a, b, kLn2); }, 9))
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>(
          "floating",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kInt64);
  op_case(op::xlogy)
      .dtypes(kRealsAndBool)
      .samples(binary_samples(0.5, 4, 0.5, 4))
      .samples(mixed_numbers)
      .reference(of_two([](double x, double y) { return y != y   ? y
                                                        : x == 0 ? 0
                                                                 : x * std::log(y); }))
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>(
          "real",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);
  op_case(op::special_xlog1py)
      .dtypes(kRealsAndBool)
      .samples(binary_samples(0.5, 4, -0.5, 4))
      .samples(mixed_numbers)
      .reference(of_two([](double x, double y) { return y != y   ? y
                                                        : x == 0 ? 0
                                                                 : x * std::log1p(y); }))
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>(
          "real",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);

  op_case(op::ldexp)
      .dtypes(kFloats)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {70}})
          in.add({in.tensor(s), in.integers(std::vector<int64_t>(static_cast<std::size_t>(count(s)), 3), s, kInt32)});
        in.add({in.tensor({3, 1}), in.tensor({4}, -2, 2)});
      })
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        const DType exponent = floating(b.dtype), t = promoted({a, cast(b, exponent)});
        return std::vector<Array>{pointwise(
            {a, b}, kFloat64, t, [&](const Number* v) -> Number { return v[0].re() * std::exp2(v[1].re()); })};
      })
      .gradient_of(1)
      .gradient()
      .benchmark(two_numbers);
  op_case(op::float_power)
      .dtypes(kAll)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {70}})
          in.add({in.tensor(s, 0.5, 3), in.tensor(s, 0.5, 3)});
        in.add({in.tensor({3, 4}, 0.5, 3), Value(Scalar(2))});
        in.add({Value(Scalar(2)), in.tensor({3, 4}, 0.5, 3)});
      })
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        const DType t = is_complex(a.dtype) || is_complex(b.dtype) ? kComplex128 : kFloat64;
        return std::vector<Array>{pointwise({a, b}, t, t, [&](const Number* v) -> Number {
          return is_complex(t) ? Number(std::pow(v[0].z, v[1].z)) : Number(std::pow(v[0].re(), v[1].re()));
        })};
      })
      .gradient()
      .no_inplace()
      .ulp(64)  // of complex powers, by logarithm
      .benchmark(two_numbers);
}

// SPDX-License-Identifier: Apache-2.0
// Rows of ops/trigonometric.h.
#include <tenon/ops/trigonometric.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

constexpr double kPi = 3.14159265358979323846;

void one_number(Inputs& in) { in.add({in.tensor({1 << 20}, -0.9, 0.9)}); }
void two_numbers(Inputs& in) { in.add({in.tensor({1 << 20}, -0.9, 0.9), in.tensor({1 << 20}, -0.9, 0.9)}); }

double sinc_of(double x) {
  if (x == 0) return 1;
  const long double whole = std::nearbyint(x), s = std::sin(3.14159265358979323846264L * (x - whole));
  return static_cast<double>((std::fmod(whole, 2) != 0 ? -s : s) / (3.14159265358979323846264L * x));
}
Complex sinc_of(Complex z) { return z == Complex(0) ? Complex(1) : std::sin(kPi * z) / (kPi * z); }

// A float function of every dtype, with arguments in [low, high].
void circular(OpCase& row, double low, double high, double (*real)(double), Complex (*complex)(Complex)) {
  row.dtypes(kAll)
      .samples(unary_samples(low, high, true, 2))
      .ulp(16)  // complex ones; math_test.cpp has the bounds of real ones
      .reference(unary(real, complex))
      .gradient()
      .benchmark(one_number);
}
#define CIRCULAR(name, low, high) \
  circular(                       \
      op_case(op::name), low, high, [](double x) { return std::name(x); }, [](Complex z) { return std::name(z); })

// Result: the default float for integers.
Reference of_two(double (*f)(double, double)) {
  return [=](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    const DType t = floating(promoted({a, b}));
    return std::vector<Array>{
        pointwise({a, b}, t, t, [&](const Number* v) -> Number { return f(v[0].re(), v[1].re()); })};
  };
}

Reference scaled(double factor) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    const DType t = floating(x.dtype);
    return std::vector<Array>{pointwise({x}, t, t, [&](const Number* v) -> Number { return v->re() * factor; })};
  };
}

}  // namespace

TENON_OP_CASES(trigonometric) {
  CIRCULAR(sin, -20, 20);
  CIRCULAR(cos, -20, 20);
  CIRCULAR(tan, -1.4, 1.4);
  CIRCULAR(asin, -0.95, 0.95);
  CIRCULAR(acos, -0.95, 0.95);
  CIRCULAR(atan, -9, 9);
  CIRCULAR(sinh, -9, 9);
  CIRCULAR(cosh, -9, 9);
  CIRCULAR(asinh, -9, 9);
  CIRCULAR(acosh, 1.1, 9);
  CIRCULAR(atanh, -0.95, 0.95);
  circular(op_case(op::sinc), -5, 5, sinc_of, sinc_of);
  op_case(op::sinc, "at zero").dtypes({kFloat64}).reference(unary(sinc_of, nullptr)).gradient().samples([](Inputs& in) {
    in.add({in.values({0, 1e-12, -0.5})});
  });

  op_case(op::atan2)
      .dtypes(kReals + Dtypes{kBool})
      .samples(binary_samples(-4, 4, 0.5, 4))
      .reference(of_two([](double y, double x) { return std::atan2(y, x); }))
      .gradient()
      .benchmark(two_numbers)
      .samples([](Inputs& in) {
        in.add({in.special(), in.special()}).no_gradient();
        in.add({in.special(3), in.tensor({1}, -2, -1)}).no_gradient();
      })
      .error<DtypeError>(
          "complex",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);
  op_case(op::hypot)
      .dtypes(kFloats)
      .samples(binary_samples(0.5, 4, -4, 4))
      .reference(of_two([](double y, double x) { return std::hypot(y, x); }))
      .gradient()
      .benchmark(two_numbers)
      .samples([](Inputs& in) {
        in.add({in.special(), in.special()}).no_gradient();
      })
      .error<DtypeError>(
          "floating",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kInt32);

  op_case(op::deg2rad)
      .dtypes(kReals)
      .samples(unary_samples(-200, 200))
      .reference(scaled(kPi / 180))
      .gradient()
      .benchmark(one_number)
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kComplex64);
  op_case(op::rad2deg)
      .dtypes(kReals)
      .samples(unary_samples(-9, 9))
      .reference(scaled(180 / kPi))
      .gradient()
      .benchmark(one_number)
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kComplex64);
}

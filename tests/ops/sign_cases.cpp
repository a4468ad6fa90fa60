// SPDX-License-Identifier: Apache-2.0
// Rows of ops/sign.h.
#include <tenon/ops/sign.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

const Dtypes kRealsAndBool = kReals + Dtypes{kBool};

void one_number(Inputs& in) { in.add({in.tensor({1 << 20}, -9, 9)}); }
void two_numbers(Inputs& in) { in.add({in.tensor({1 << 20}, -9, 9), in.tensor({1 << 20}, -9, 9)}); }
void complex_input(Inputs& in) { in.add({in.tensor({2})}); }

}  // namespace

TENON_OP_CASES(sign) {
  op_case(op::sign)
      .dtypes(kRealsAndBool)
      .samples(unary_samples(-5, 5))
      .reference(unary([](double x) { return double((x > 0) - (x < 0)); }, nullptr,
                       [](int64_t x) { return int64_t((x > 0) - (x < 0)); }))
      .gradient()
      .benchmark(one_number)
      .error<DtypeError>("sgn", complex_input, kComplex64);
  op_case(op::signbit)
      .dtypes(kRealsAndBool)
      .samples(unary_samples(-5, 5))
      .reference([](const Args& args) {
        const Array x = args.array(0);
        return std::vector<Array>{pointwise({x}, x.dtype, kBool, [&](const Number* v) -> Number {
          return is_floating_point(x.dtype) ? std::signbit(v->re()) : v->i < 0;
        })};
      })
      .benchmark(one_number)
      .error<DtypeError>("real", complex_input, kComplex64);
  op_case(op::positive)
      .dtypes(kNumbers)
      .samples(unary_samples(-5, 5))
      .reference([](const Args& args) { return std::vector<Array>{args.array(0)}; })
      .gradient()
      .benchmark(one_number)
      .error<DtypeError>("bool", [](Inputs& in) { in.add({in.boolean({2})}); });
  op_case(op::copysign)
      .dtypes(kRealsAndBool)
      .samples(binary_samples(0.5, 4, -4, 4))
      .samples([](Inputs& in) {
        in.add({in.special(), in.special()}).no_gradient();
        in.add({in.special(3), in.values({-0.0})}).no_gradient();
        in.add({in.tensor({3, 4}), Value(Scalar(-2.0))});
      })
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        const DType t = floating(promoted({a, b}));
        return std::vector<Array>{
            pointwise({a, b}, t, t, [&](const Number* v) -> Number { return std::copysign(v[0].re(), v[1].re()); })};
      })
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>(
          "real",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);
  op_case(op::heaviside)
      .dtypes(kRealsAndBool)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {67}})
          in.add({in.tensor(s, -2, 2), in.tensor(s, -2, 2)});
        in.add({in.values({-1, 0, 1, 0}), in.values({0.5, 3, 2, 1})});
        in.add({in.tensor({3, 1}, -2, 2), in.tensor({4}, -2, 2)});
        in.add({in.special(), in.special()});
      })
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        return std::vector<Array>{pointwise({a, b}, a.dtype, a.dtype, [&](const Number* v) -> Number {
          if (v[0].z == Complex(0)) return v[1];
          return is_integral(a.dtype, true) ? Number(int64_t{v[0].i > 0}) : Number(double(v[0].re() > 0));
        })};
      })
      .benchmark(two_numbers)
      .error<DtypeError>("values", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2}, 0, 1, kFloat64)});
      });
}

// SPDX-License-Identifier: Apache-2.0
// Rows of ops/finite.h.
#include <tenon/ops/finite.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

const Dtypes kRealsAndBool = kReals + Dtypes{kBool};

void one_number(Inputs& in) { in.add({in.tensor({1 << 20}, -9, 9)}); }
void two_numbers(Inputs& in) { in.add({in.tensor({1 << 20}, -9, 9), in.tensor({1 << 20}, -9, 9)}); }
void complex_input(Inputs& in) { in.add({in.tensor({2})}); }
void complex_inputs(Inputs& in) { in.add({in.tensor({2}), in.tensor({2})}); }

Reference test_of(bool (*f)(Complex)) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    return std::vector<Array>{pointwise({x}, x.dtype, kBool, [&](const Number* v) { return Number(f(v->z)); })};
  };
}
OpCase& test(OpCase& row, bool (*f)(Complex), const Dtypes& types = kAll) {
  return row.dtypes(types).samples(unary_samples(-9, 9)).benchmark(one_number).reference(test_of(f));
}

// Every value of a 16-bit float, in order.
const std::vector<double>& all_halves(DType t) {
  static const auto make = [](int exponent_bits, int mantissa_bits) {
    std::vector<double> all;
    for (uint32_t code = 0; code < 65536; ++code) {
      const double v = decode_small_float(code, exponent_bits, mantissa_bits, false);
      if (!std::isnan(v) && code != 0x8000) all.push_back(v);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  static const std::vector<double> halves = make(5, 10), brains = make(8, 7);
  return t == kFloat16 ? halves : brains;
}
double next_of(const std::vector<double>& all, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (a == b) return b;
  return b > a ? *std::upper_bound(all.begin(), all.end(), a) : *(std::lower_bound(all.begin(), all.end(), a) - 1);
}

Reference number_first(bool larger) {
  return [=](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    const DType t = promoted({a, b});
    return std::vector<Array>{pointwise({a, b}, t, t, [&](const Number* v) -> Number {
      if (is_integral(t, true)) return larger ? std::max(v[0].i, v[1].i) : std::min(v[0].i, v[1].i);
      return larger ? std::fmax(v[0].re(), v[1].re()) : std::fmin(v[0].re(), v[1].re());
    })};
  };
}

}  // namespace

TENON_OP_CASES(finite) {
  test(op_case(op::isfinite), [](Complex z) { return std::isfinite(z.real()) && std::isfinite(z.imag()); });
  test(op_case(op::isinf), [](Complex z) { return std::isinf(z.real()) || std::isinf(z.imag()); });
  test(op_case(op::isreal), [](Complex z) { return z.imag() == 0; });
  test(
      op_case(op::isposinf), [](Complex z) { return std::isinf(z.real()) && z.real() > 0; }, kRealsAndBool)
      .error<DtypeError>("real", complex_input, kComplex64);
  test(
      op_case(op::isneginf), [](Complex z) { return std::isinf(z.real()) && z.real() < 0; }, kRealsAndBool)
      .error<DtypeError>("real", complex_input, kComplex64);

  op_case(op::nan_to_num)
      .dtypes(kAll)
      .samples(unary_samples(-9, 9))
      .samples([](Inputs& in) {
        if (in.is_floating()) in.add({in.special(3)}, {{"nan", 2.5}, {"posinf", 7.0}, {"neginf", -8.0}}).no_gradient();
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const double most = is_integral(x.dtype, true) ? 0 : largest(real_part(x.dtype));
        const auto given = [&](int i, double otherwise) { return args.is_none(i) ? otherwise : args.real(i); };
        const auto part = [&](double v) {
          return std::isnan(v) ? given(1, 0) : std::isinf(v) ? (v > 0 ? given(2, most) : given(3, -most)) : v;
        };
        return std::vector<Array>{pointwise({x}, x.dtype, x.dtype, [&](const Number* v) -> Number {
          if (is_integral(x.dtype, true)) return *v;
          return is_complex(x.dtype) ? Number(Complex(part(v->z.real()), part(v->z.imag()))) : Number(part(v->re()));
        })};
      })
      .gradient()
      .benchmark(one_number);
  op_case(op::fmax)
      .dtypes(kRealsAndBool)
      .samples(binary_samples(-9, 9, -9, 9))
      .samples([](Inputs& in) {
        in.add({in.special(), in.tensor({1}, -1, 1)}).no_gradient();
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({1}, -1, 1), in.special()}).no_gradient();
      })
      .reference(number_first(true))
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>("real", complex_inputs, kComplex64);
  op_case(op::fmin)
      .dtypes(kRealsAndBool)
      .samples(binary_samples(-9, 9, -9, 9))
      .samples([](Inputs& in) {
        in.add({in.special(), in.tensor({1}, -1, 1)}).no_gradient();
      })
      .reference(number_first(false))
      .gradient()
      .benchmark(two_numbers)
      .error<DtypeError>("real", complex_inputs, kComplex64);
  op_case(op::nextafter)
      .dtypes(kFloats)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {67}}) in.add({in.tensor(s), in.tensor(s)});
        in.add({in.special(), in.tensor({1})});
        in.add({in.tensor({3, 1}), in.tensor({4})});
      })
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        return std::vector<Array>{pointwise({a, b}, a.dtype, a.dtype, [&](const Number* v) -> Number {
          if (a.dtype == kFloat64) return std::nextafter(v[0].re(), v[1].re());
          if (a.dtype != kFloat32) return next_of(all_halves(a.dtype), v[0].re(), v[1].re());
          return static_cast<double>(std::nextafter(static_cast<float>(v[0].re()), static_cast<float>(v[1].re())));
        })};
      })
      .ulp(0)
      .benchmark(two_numbers)
      .error<DtypeError>(
          "floating",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kInt32);
  op_case(op::frexp)
      .dtypes(kFloats)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {67}, {33000}})
          in.add({in.tensor(s, -99, 99)}).gradient = s.size() != 1 || s[0] < 99;
        in.add({in.special(2)}).no_gradient();
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        int exponent = 0;
        return std::vector<Array>{
            pointwise({x}, x.dtype, x.dtype, [&](const Number* v) -> Number { return std::frexp(v->re(), &exponent); }),
            pointwise({x}, x.dtype, kInt32, [&](const Number* v) -> Number {
              std::frexp(v->re(), &exponent);
              return int64_t{std::isfinite(v->re()) ? exponent : 0};
            })};
      })
      .gradient()
      .gradient_of(1, 1)
      .benchmark(one_number)
      .error<DtypeError>(
          "floating", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
}

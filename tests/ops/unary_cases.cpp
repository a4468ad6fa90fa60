// SPDX-License-Identifier: Apache-2.0
// Rows of ops/unary.h.
#include <tenon/ops/unary.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

constexpr double kPi = 3.14159265358979323846;

int64_t negate(int64_t x) { return static_cast<int64_t>(-static_cast<uint64_t>(x)); }

// Magnitude of complex inputs in, real dtype out.
std::vector<Array> abs_reference(const Args& args) {
  const Array x = args.array(0);
  return {pointwise({x}, x.dtype, real_part(x.dtype), [&](const Number* v) -> Number {
    if (is_complex(x.dtype)) return std::abs(v->z);
    if (is_floating_point(x.dtype)) return std::fabs(v->re());
    return v->i < 0 ? negate(v->i) : v->i;
  })};
}

Reference test_of(bool (*f)(Complex)) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    return std::vector<Array>{pointwise({x}, x.dtype, kBool, [&](const Number* v) { return Number(f(v->z)); })};
  };
}

double gelu_of(double x, bool tanh_form) {
  if (!tanh_form) return std::isinf(x) ? (x > 0 ? x : std::nan("")) : x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x, bool tanh_form) {
  if (!tanh_form) return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi);
  const double k = std::sqrt(2 / kPi), t = std::tanh(k * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

Reference with_form(double (*f)(double, bool), int text) {
  return [=](const Args& args) {
    const Array x = args.array(text - 1);
    const bool tanh_form = args.text(text) == "tanh";
    std::vector<Array> inputs = {x};
    if (text == 2) inputs.push_back(args.array(0));
    Array out = pointwise(inputs, x.dtype, x.dtype, [&](const Number* v) -> Number {
      return f(v[0].re(), tanh_form) * (text == 2 ? v[1].re() : 1);
    });
    // 1 + tanh and the two terms of the slope cancel.
    out.scale = {2};
    return std::vector<Array>{out};
  };
}

void one_number(Inputs& in) { in.add({in.tensor({1 << 20}, 0.5, 2)}); }

void float_op(OpCase& row, double low, double high, Reference reference, double complex_bound = 1e9) {
  row.dtypes(kAll)
      .samples(unary_samples(low, high, true, complex_bound))
      .reference(std::move(reference))
      .gradient()
      .benchmark(one_number);
}

}  // namespace

TENON_OP_CASES(unary) {
  op_case(op::neg)
      .dtypes(kNumbers)
      .samples(unary_samples(-50, 50))
      .gradient()
      .benchmark(one_number)
      .reference(unary([](double x) { return -x; }, [](Complex z) { return -z; }, negate))
      .error<DtypeError>("self: bool", [](Inputs& in) { in.add({in.boolean({2})}); });
  op_case(op::abs)
      .dtypes(kNumbers)
      .samples(unary_samples(-50, 50))
      .reference(abs_reference)
      .gradient()
      .benchmark(one_number)
      .no_inplace();
  op_case(op::abs, "real").dtypes(kReals).samples(unary_samples(-50, 50)).reference(abs_reference);
  op_case(op::sgn)
      .dtypes(kAll)
      .samples(unary_samples(-5, 5))
      .benchmark(one_number)
      .gradient()
      .reference(unary([](double x) { return double((x > 0) - (x < 0)); },
                       [](Complex z) { return z == Complex(0) ? z : z / std::abs(z); },
                       [](int64_t x) { return int64_t((x > 0) - (x < 0)); }));
  op_case(op::square)
      .dtypes(kNumbers)
      .samples(unary_samples(-9, 9))
      .gradient()
      .benchmark(one_number)
      .reference(
          unary([](double x) { return x * x; }, [](Complex z) { return z * z; },
                [](int64_t x) { return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x)); }));
  op_case(op::square, "of bool").dtypes({kBool}).samples(unary_samples(0, 1)).reference([](const Args& args) {
    return std::vector<Array>{cast(args.array(0), kInt64)};
  });
  op_case(op::relu)
      .dtypes(kReals)
      .samples(unary_samples(-9, 9))
      .gradient()
      .benchmark(one_number)
      .reference(
          unary([](double x) { return x < 0 ? 0 : x; }, nullptr, [](int64_t x) { return x < 0 ? int64_t{0} : x; }))
      .error<DtypeError>("self", [](Inputs& in) {
        in.add({in.boolean({2})});
        in.add({in.tensor({2}, 0, 1, kComplex64)});
      });
  op_case(op::conj)
      .dtypes(kAll)
      .samples(unary_samples(-9, 9))
      .gradient()
      .benchmark(one_number)
      .reference(
          unary([](double x) { return x; }, [](Complex z) { return std::conj(z); }, [](int64_t x) { return x; }));

  float_op(op_case(op::exp), -8, 8, unary([](double x) { return std::exp(x); }, [](Complex z) { return std::exp(z); }));
  float_op(op_case(op::log), 0.01, 50,
           unary([](double x) { return std::log(x); }, [](Complex z) { return std::log(z); }));
  float_op(op_case(op::sqrt), 0, 90,
           unary([](double x) { return std::sqrt(x); }, [](Complex z) { return std::sqrt(z); }));
  float_op(op_case(op::rsqrt), 0.1, 90,
           unary([](double x) { return 1 / std::sqrt(x); }, [](Complex z) { return 1.0 / std::sqrt(z); }));
  float_op(op_case(op::reciprocal), 0.1, 90, unary([](double x) { return 1 / x; }, [](Complex z) { return 1.0 / z; }));
  float_op(op_case(op::tanh), -5, 5,
           unary([](double x) { return std::tanh(x); }, [](Complex z) { return std::tanh(z); }), 1.2);
  float_op(op_case(op::sigmoid), -9, 9,
           unary([](double x) { return 1 / (1 + std::exp(-x)); }, [](Complex z) { return 1.0 / (1.0 + std::exp(-z)); }),
           2.4);

  op_case(op::gelu)
      .dtypes(kFloats)
      .gradient()
      .benchmark(one_number)
      .reference(with_form(gelu_of, 1))
      .samples(unary_samples(-6, 6))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 50}, -6, 6)}, {{"approximate", "tanh"}});
        in.add({in.tensor({0})}, {{"approximate", "tanh"}});
      })
      .error<ValueError>("approximate",
                         [](Inputs& in) {
                           in.add({in.tensor({2})}, {{"approximate", "cubic"}});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  op_case(op::gelu_backward)
      .dtypes(kFloats)
      .gradient()
      .ulp(32)
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}), in.tensor({1 << 20})});
      })
      .reference(with_form(gelu_slope, 2))
      .samples([](Inputs& in) {
        for (const char* form : {"none", "tanh"})
          for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0, 2}, {3, 4}, {95}})
            in.add({in.tensor(s, -2, 2), in.tensor(s, -4, 4)}, {{"approximate", form}});
      });

  op_case(op::isnan).dtypes(kAll).samples(unary_samples(-9, 9)).benchmark(one_number).reference(test_of([](Complex z) {
    return std::isnan(z.real()) || std::isnan(z.imag());
  }));
  op_case(op::logical_not)
      .dtypes(kAll)
      .samples(unary_samples(-1, 1))
      .benchmark(one_number)
      .reference(test_of([](Complex z) { return z == Complex(0); }));
}

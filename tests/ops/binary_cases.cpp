// SPDX-License-Identifier: Apache-2.0
// Rows of ops/binary.h.
#include <tenon/ops/binary.h>

#include "tests/support/op_case.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

using U = uint64_t;
int64_t wrap(U v) { return static_cast<int64_t>(v); }

// self + sign * alpha * other, both promoted; bool adds as logical or.
Reference sum_of(int sign, bool swapped = false) {
  return [=](const Args& args) {
    const Array a = args.array(swapped ? 1 : 0), b = args.array(swapped ? 0 : 1);
    const Number alpha = args.number(2);
    const DType t = promoted({a, b});
    Array out = pointwise({a, b}, t, t, [&](const Number* v) -> Number {
      if (t == kBool) return v[0].i != 0 || (v[1].i != 0 && alpha.i != 0);
      if (is_integral(t)) return wrap(U(v[0].i) + U(sign * alpha.i) * U(v[1].i));
      return v[0].z + double(sign) * alpha.z * v[1].z;
    });
    out.scale = {9};  // |self| + |alpha other| may cancel
    return std::vector<Array>{out};
  };
}

int64_t quotient(int64_t a, int64_t b, bool floor) {
  if (b == -1) return wrap(0 - U(a));  // the most negative integer stays itself
  const int64_t q = a / b;
  return floor && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

std::vector<Array> quotient_reference(const Args& args) {
  const Array a = args.array(0), b = args.array(1);
  const std::string mode = args.text(2);
  const DType p = promoted({a, b}), t = mode.empty() ? floating(p) : p;
  return {pointwise({a, b}, t, t, [&](const Number* v) -> Number {
    if (is_complex(t)) return v[0].z / v[1].z;
    if (is_integral(t)) return quotient(v[0].i, v[1].i, mode == "floor");
    const double x = v[0].re(), y = v[1].re(), q = x / y;
    if (mode.empty()) return q;
    if (mode == "trunc") return std::trunc(q);
    // Floor of the exact quotient: through the remainder, which is exact.
    if (y == 0 || !std::isfinite(x) || !std::isfinite(y)) return std::floor(q);
    double r = std::fmod(x, y);
    double whole = (x - r) / y;
    if (r != 0 && (y < 0) != (r < 0)) whole -= 1;
    return std::nearbyint(whole);
  })};
}

int64_t integer_power(int64_t x, int64_t n) {
  if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0;
  U r = 1;
  for (int64_t i = 0; i < n; ++i) r *= U(x);
  return wrap(r);
}

double nan_max(double x, double y) { return std::isnan(x) ? x : std::isnan(y) ? y : x > y ? x : y; }
double nan_min(double x, double y) { return std::isnan(x) ? x : std::isnan(y) ? y : x < y ? x : y; }

void two_blocks(Inputs& in) { in.add({in.tensor({1 << 20}, 0.5, 2), in.tensor({1 << 20}, 0.5, 2)}); }

// Numbers on either side, of every kind, and promotions that went wrong somewhere once (a float number beside integers,
// 0-dim beside dimensioned, int8 beside an int16 0-dim tensor).
void with_numbers(Inputs& in) {
  for (const Inputs::Sizes& s : {Inputs::Sizes{}, {5}, {3, 40}}) {
    in.add({in.tensor(s, 1, 9), 2}).no_layouts();
    in.add({3, in.tensor(s, 1, 3)}).no_layouts();
    if (!is_integral(in.dtype(), true))
      in.add({in.tensor(s, 1, 9), 0.5}).no_layouts();
    else
      in.add({in.tensor(s, 1, 9), 0.5}).no_layouts().no_gradient();
  }
}
void special_pairs(Inputs& in) {
  const Tensor x = in.special();
  const int64_t n = x.numel();
  std::vector<int64_t> column = {n, 1};
  in.add({x.view(column), in.special()}).no_gradient().no_layouts();
}

Reference slope(Number (*f)(const Number* v)) {
  return [=](const Args& args) {
    const Array g = args.array(0), y = args.array(1);
    return std::vector<Array>{pointwise({g, y}, y.dtype, y.dtype, f)};
  };
}
Maker slope_samples(double low, double high) {
  return [=](Inputs& in) {
    for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0, 2}, {3, 4}, {95}, {21000}})
      in.add({in.tensor(s, -2, 2), in.tensor(s, low, high)});
  };
}

}  // namespace

TENON_OP_CASES(binary) {
  const Maker shapes = [](Inputs& in) {
    in.add({in.tensor({2, 3}), in.tensor({2, 4})});
    in.add({in.tensor({3, 1, 4}), in.tensor({2, 3})});
  };
  op_case(op::add)
      .dtypes(kAll)
      .gradient()
      .benchmark(two_blocks)
      .reference(sum_of(1))
      .samples(binary_samples(-4, 4, -4, 4))
      .samples(with_numbers)
      .samples(special_pairs)
      .samples([](Inputs& in) {
        if (in.dtype() == kBool) return;
        in.add({in.tensor({2, 5}), in.tensor({5})}, {{"alpha", 2}});
        in.add({in.tensor({300}), in.tensor({300})}, {{"alpha", -1}}).no_gradient();
        if (!is_integral(in.dtype())) in.add({in.tensor({7}), in.tensor({7})}, {{"alpha", 0.5}});
        if (is_complex(in.dtype()))
          in.add({in.tensor({7}), in.tensor({7})}, {{"alpha", Scalar(complex<double>(0.5, -1))}});
      })
      .error<ShapeError>("add", shapes)
      .error<DtypeError>(
          "alpha",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})}, {{"alpha", 0.5}});
            in.add({in.tensor({2}), in.tensor({2})}, {{"alpha", true}});
          },
          kInt32)
      .error<DtypeError>("alpha", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2})}, {{"alpha", Scalar(complex<double>(0, 1))}});
      });
  op_case(op::sub)
      .dtypes(kNumbers)
      .gradient()
      .benchmark(two_blocks)
      .reference(sum_of(-1))
      .samples(binary_samples(-4, 4, -4, 4))
      .samples(with_numbers)
      .samples(special_pairs)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 5}), in.tensor({5})}, {{"alpha", 2}});
        if (!is_integral(in.dtype())) in.add({in.tensor({7}), in.tensor({7})}, {{"alpha", 0.5}});
      })
      .error<ShapeError>("sub", shapes)
      .error<DtypeError>("bool", [](Inputs& in) {
        in.add({in.boolean({2}), in.boolean({2})});
        in.add({in.boolean({2}), in.tensor({2})});
      });
  op_case(op::rsub)
      .dtypes(kNumbers)
      .gradient()
      .reference(sum_of(-1, true))
      .samples(binary_samples(-4, 4, -4, 4))
      .samples(with_numbers)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 5}), in.tensor({5}), 2});
      });
  op_case(op::mul)
      .dtypes(kAll)
      .gradient()
      .benchmark(two_blocks)
      .samples(binary_samples(-4, 4, -4, 4))
      .samples(with_numbers)
      .samples(special_pairs)
      .reference(binary([](double x, double y) { return x * y; }, [](Complex x, Complex y) { return x * y; },
                        [](int64_t x, int64_t y) { return wrap(U(x) * U(y)); }))
      .error<ShapeError>("mul", shapes);
  op_case(op::div)
      .dtypes(kAll)
      .gradient()
      .benchmark(two_blocks)
      .reference(quotient_reference)
      .samples(binary_samples(-9, 9, 0.5, 4))
      .samples(with_numbers)
      .samples([](Inputs& in) {
        // Integers divide as floats: by zero they give infinities and NaN.
        in.add({in.values({3, -3, 0, 5}), in.values({0, 0, 0, 2})}).no_gradient();
      })
      .error<ShapeError>("div", shapes)
      .error<ValueError>("rounding_mode",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.tensor({2})}, {{"rounding_mode", "up"}});
                         })
      .error<DtypeError>(
          "rounding_mode",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})}, {{"rounding_mode", "floor"}});
          },
          kComplex64)
      .error<DtypeError>(
          "rounding_mode",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})}, {{"rounding_mode", "trunc"}});
          },
          kBool);
  op_case(op::div, "rounded").dtypes(kReals).reference(quotient_reference).samples([](Inputs& in) {
    for (const char* mode : {"trunc", "floor"}) {
      for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 7}, {130}})
        in.add({in.tensor(s, -90, 90), in.tensor(s, 1, 9)}, {{"rounding_mode", mode}}).no_gradient();
      if (in.dtype() == kUInt8) continue;
      in.add({in.tensor({40}, -90, 90), in.tensor({40}, -9, -1)}, {{"rounding_mode", mode}}).no_gradient();
      in.add({in.tensor({40}, -90, 90), -7}, {{"rounding_mode", mode}}).no_gradient().no_layouts();
      if (is_integral(in.dtype()))  // the most negative by -1, in every lane
        for (const int repeat : {1, 9}) in.add({in.special(repeat), -1}, {{"rounding_mode", mode}}).no_gradient();
    }
  });
  op_case(op::pow)
      .dtypes(kNumbers)
      .gradient()
      .ulp(16)
      .benchmark(two_blocks)
      .reference(binary([](double x, double y) { return std::pow(x, y); },
                        [](Complex x, Complex y) { return std::pow(x, y); }, integer_power))
      .samples([](Inputs& in) {
        const std::pair<Inputs::Sizes, Inputs::Sizes> shapes[] = {{{}, {}},         {{3}, {3}}, {{3, 1}, {1, 5}},
                                                                  {{0, 3}, {1, 3}}, {{70}, {}}, {{300}, {300}}};
        const double low = is_integral(in.dtype()) ? 0 : 0.3;
        for (const auto& [a, b] : shapes)
          in.add({in.tensor(a, low, 4), in.tensor(b, is_integral(in.dtype()) ? 0 : -2, 3)});
        for (const int e : {0, 1, 2, 3}) in.add({in.tensor({37}, 0.5, 4), e});
        if (!is_integral(in.dtype())) {
          for (const double e : {-1.0, 0.5, -0.5, -2.0, 2.5}) in.add({in.tensor({37}, 0.5, 4), e});
          in.add({2, in.tensor({37}, -3, 3)});
        } else {
          in.add({in.tensor({37}, 0, 5), 0.5});
          in.add({2, in.tensor({37}, 0, 6)});
        }
      })
      .samples([](Inputs& in) {
        if (!is_floating_point(in.dtype())) return;
        const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
        // IEEE 754's table: 1 to anything and anything to 0 are 1, NaN or not.
        in.add({in.values({0, -0.0, 1, -1, inf, -inf, nan, 2, -2, 0.5}, {10, 1}),
                in.values({0, 1, -1, inf, -inf, nan, 3, 2, 0.5, -3})})
            .no_gradient()
            .no_layouts();
      })
      .error<ShapeError>("pow", shapes)
      .error<ValueError>(
          "exponent",
          [](Inputs& in) {
            in.add({in.tensor({2}), -1});
          },
          kInt64)
      .error<DtypeError>("bool", [](Inputs& in) {
        in.add({in.boolean({2}), in.boolean({2})});
      });
  op_case(op::maximum)
      .dtypes(kReals + Dtypes{kBool})
      .gradient()
      .benchmark(two_blocks)
      .samples(binary_samples(-9, 9, -9, 9))
      .samples(special_pairs)
      .reference(binary(nan_max, nullptr, [](int64_t x, int64_t y) { return x > y ? x : y; }))
      .error<ShapeError>("maximum", shapes)
      .error<DtypeError>(
          "complex",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);
  op_case(op::minimum)
      .dtypes(kReals + Dtypes{kBool})
      .gradient()
      .benchmark(two_blocks)
      .samples(binary_samples(-9, 9, -9, 9))
      .samples(special_pairs)
      .reference(binary(nan_min, nullptr, [](int64_t x, int64_t y) { return x < y ? x : y; }))
      .error<ShapeError>("minimum", shapes)
      .error<DtypeError>(
          "complex",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kComplex64);

  op_case(op::tanh_backward)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .samples(slope_samples(-0.9, 0.9))
      .reference(slope([](const Number* v) { return Number(v[0].z * std::conj(1.0 - v[1].z * v[1].z)); }));
  op_case(op::sigmoid_backward)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .samples(slope_samples(0.1, 0.9))
      .reference(slope([](const Number* v) { return Number(v[0].z * std::conj(v[1].z * (1.0 - v[1].z))); }));
  op_case(op::threshold_backward)
      .dtypes(kReals)
      .gradient()
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0, 2}, {3, 4}, {95}})
          in.add({in.tensor(s, 0, 9), in.tensor(s, -4, 4), 0});
        in.add({in.tensor({50}, 0, 9), in.tensor({50}, -4, 4), 1});
      })
      .reference([](const Args& args) {
        const Array g = args.array(0), x = args.array(1);
        const Number threshold = args.number(2);
        return std::vector<Array>{pointwise({g, x}, x.dtype, x.dtype, [&](const Number* v) -> Number {
          const bool on = v[1].re() > threshold.re();
          return is_integral(x.dtype) ? Number(on ? v[0].i : 0) : Number(on ? v[0].z : Complex(0));
        })};
      });
}

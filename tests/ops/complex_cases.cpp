// SPDX-License-Identifier: Apache-2.0
// Rows of ops/complex.h. What views share with their bases is in complex_test.cpp.
#include <tenon/ops/complex.h>

#include "tests/support/op_case.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

const Dtypes kParts = {kFloat64, kFloat32};
constexpr double kPi = 3.14159265358979324;

DType complex_dtype(DType t) { return t == kFloat64 ? kComplex128 : kComplex64; }
// Of two real operands.
Reference from_parts(Complex (*f)(double, double)) {
  return [f](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    return std::vector<Array>{pointwise({a, b}, a.dtype, complex_dtype(a.dtype),
                                        [&](const Number* v) -> Number { return f(v[0].re(), v[1].re()); })};
  };
}
Reference part(double (*f)(Complex)) {
  return [f](const Args& args) {
    Array x = args.array(0);
    if (!is_complex(x.dtype)) return std::vector<Array>{x};
    x.dtype = real_part(x.dtype);
    for (Number& v : x.data) v = f(v.z);
    return std::vector<Array>{x};
  };
}
void two_parts(Inputs& in) {
  for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {67}, {2, 1000}}) in.add({in.tensor(s), in.tensor(s)});
  in.add({in.tensor({3, 1}), in.tensor({4})});
  in.add({in.tensor({0, 1, 3}), in.tensor({0, 5, 3})});
  in.add({in.tensor({}), in.tensor({2, 3})});
}
void two_dtypes(Inputs& in) {
  in.add({in.tensor({2}), in.tensor({2}, 0, 1, kFloat64)});
  in.add({in.integers({1, 2}), in.integers({1, 2})});
  in.add({in.tensor({2}, 0, 1, kFloat16), in.tensor({2}, 0, 1, kFloat16)});
}
void some_shapes(Inputs& in) {
  for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {1, 0, 3}, {3, 4}, {67}, {2, 3, 5}}) in.add({in.tensor(s)});
}
void benchmark_parts(Inputs& in) { in.add({in.tensor({1 << 20}), in.tensor({1 << 20})}); }

}  // namespace

TENON_OP_CASES(complex) {
  op_case(op::make_complex)
      .dtypes(kParts)
      .samples(two_parts)
      .samples([](Inputs& in) {
        in.add({in.special(), in.special()}).no_gradient();
      })
      .reference(from_parts([](double a, double b) { return Complex(a, b); }))
      .gradient()
      .benchmark(benchmark_parts)
      .error<DtypeError>("", two_dtypes);
  op_case(op::polar)
      .dtypes(kParts)
      .samples(two_parts)
      .reference(from_parts([](double a, double b) { return Complex(a * std::cos(b), a * std::sin(b)); }))
      .gradient()
      .benchmark(benchmark_parts)
      .error<DtypeError>("", two_dtypes);
  op_case(op::view_as_real)
      .dtypes(kComplexes)
      .samples(some_shapes)
      .reference([](const Args& args) {
        const Array x = args.array(0);
        Array pairs = make_array(real_part(x.dtype), x.sizes);
        pairs.sizes.push_back(2);
        pairs.data.clear();
        for (const Number& v : x.data) pairs.data.insert(pairs.data.end(), {v.z.real(), v.z.imag()});
        return std::vector<Array>{pairs};
      })
      .gradient()
      .error<DtypeError>("self", [](Inputs& in) { in.add({in.tensor({2})}); });
  op_case(op::view_as_complex)
      .dtypes(kParts)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{2}, {0, 2}, {3, 4, 2}, {67, 2}, {1, 2}})
          in.add({in.tensor(s)}).no_layouts();
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        Array z = make_array(complex_dtype(x.dtype), {x.sizes.begin(), x.sizes.end() - 1});
        for (std::size_t i = 0; i < z.data.size(); ++i) z.data[i] = Complex(x.data[2 * i].re(), x.data[2 * i + 1].re());
        return std::vector<Array>{z};
      })
      .gradient()
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({})});
                           in.add({in.tensor({4})});
                           in.add({in.tensor({2, 3})});
                         })
      .error<DtypeError>("float32", [](Inputs& in) {
        in.add({in.tensor({2}, 0, 1, kFloat16)});
        in.add({in.tensor({2}, 0, 1, kComplex64)});
        in.add({in.integers({1, 2})});
      });
  op_case(op::real).dtypes(kAll).samples(some_shapes).reference(part([](Complex z) { return z.real(); })).gradient();
  op_case(op::imag)
      .dtypes(kComplexes)
      .samples(some_shapes)
      .reference(part([](Complex z) { return z.imag(); }))
      .gradient()
      .error<DtypeError>("self", [](Inputs& in) { in.add({in.tensor({2})}); });
  op_case(op::angle)
      .dtypes(kAll)
      .samples(unary_samples(-5, 5))
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const DType t = floating(x.dtype);
        return std::vector<Array>{pointwise({x}, t, real_part(t), [&](const Number* v) -> Number {
          const double r = v->re();
          return is_complex(t) ? std::arg(v->z) : r < 0 ? kPi : r != r ? r : 0.0;
        })};
      })
      .gradient()
      .benchmark([](Inputs& in) { in.add({in.tensor({1 << 20}, -9, 9)}); });
  op_case(op::resolve_conj)
      .dtypes(kAll)
      .samples(some_shapes)
      .reference([](const Args& args) { return std::vector<Array>{args.array(0)}; })
      .gradient();
}

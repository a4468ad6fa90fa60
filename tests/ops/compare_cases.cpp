// SPDX-License-Identifier: Apache-2.0
// Rows of ops/compare.h.
#include <tenon/ops/compare.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

// Tensors compare in the promoted dtype, as in PyTorch; integer numbers as they are, whatever that dtype could hold.
Reference comparison(bool (*real)(double, double), bool (*integer)(int64_t, int64_t),
                     bool (*complex)(Complex, Complex) = nullptr) {
  return [=](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    const DType t = promoted({a, b});
    const bool whole = is_integral(t, true);
    const auto as_compared = [&](const Array& x) { return whole && !x.number ? cast(x, t) : x; };
    return std::vector<Array>{pointwise({as_compared(a), as_compared(b)}, whole ? DType::undefined : t, kBool,
                                        [&](const Number* v) -> Number {
                                          if (is_complex(t)) return complex(v[0].z, v[1].z);
                                          return whole ? integer(v[0].i, v[1].i) : real(v[0].re(), v[1].re());
                                        })};
  };
}

Reference logic(bool (*f)(bool, bool)) {
  return [=](const Args& args) {
    return std::vector<Array>{
        pointwise({args.array(0), args.array(1)}, DType::undefined, kBool,
                  [&](const Number* v) -> Number { return f(v[0].z != Complex(0), v[1].z != Complex(0)); })};
  };
}

void ties(Inputs& in) {
  const Tensor x = in.special();
  in.add({x.view({x.numel(), 1}), in.special()}).no_layouts();
  in.add({in.tensor({400}, 0, 3), in.tensor({400}, 0, 3)});
}
void numbers(Inputs& in) {
  in.add({in.tensor({67}, 0, 4), 2}).no_layouts();
  in.add({in.tensor({67}, 0, 4), 1.5}).no_layouts();
  in.add({in.tensor({}, 0, 4), true}).no_layouts();
  // Beyond what small integers hold: compared mathematically.
  if (is_integral(in.dtype()))
    for (const int64_t n : {300, -7, 40000, -40000}) in.add({in.tensor({37}, 0, 100), n}).no_layouts();
}
void pair_of_blocks(Inputs& in) { in.add({in.tensor({1 << 20}), in.tensor({1 << 20})}); }

template <class Op>
void comparison_row(const Op& op, Reference reference, bool ordered) {
  OpCase& row = op_case(op)
                    .dtypes(ordered ? kReals + Dtypes{kBool} : kAll)
                    .reference(std::move(reference))
                    .benchmark(pair_of_blocks)
                    .samples(binary_samples(-4, 4, -4, 4))
                    .samples(ties)
                    .samples(numbers)
                    .template error<ShapeError>("", [](Inputs& in) {
                      in.add({in.tensor({2, 3}), in.tensor({2, 4})});
                    });
  if (ordered)
    row.template error<DtypeError>(
        "complex",
        [](Inputs& in) {
          in.add({in.tensor({2}), in.tensor({2})});
        },
        kComplex64);
}
template <class Op>
void logic_row(const Op& op, bool (*f)(bool, bool)) {
  op_case(op)
      .dtypes(kAll)
      .reference(logic(f))
      .samples(binary_samples(-1, 1, -1, 1))
      .samples(ties)
      .benchmark(pair_of_blocks)
      .template error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({2, 4})});
      });
}

Reference closeness(bool all) {
  return [=](const Args& args) {
    const double rtol = args.real(2), atol = args.real(3);
    const bool equal_nan = args.integer(4) != 0;
    Array close = pointwise({args.array(0), args.array(1)}, DType::undefined, kBool, [&](const Number* v) -> Number {
      if (equal_nan && v[0].z != v[0].z && v[1].z != v[1].z) return true;
      const double distance = std::abs(v[0].z - v[1].z);
      const bool whole = is_integral(args.array(0).dtype, true);
      return (whole ? v[0].i == v[1].i : v[0].z == v[1].z) ||
             (std::isfinite(distance) && distance <= atol + rtol * std::abs(v[1].z));
    });
    if (!all) return std::vector<Array>{close};
    Array one = make_array(kBool, {});
    bool every = true;
    for (const Number& n : close.data) every = every && n.i;
    one.data = {Number(every)};
    return std::vector<Array>{one};
  };
}
template <class Op>
void closeness_row(const Op& op, bool all) {
  OpCase& row = op_case(op)
                    .dtypes(kAll)
                    .ulp(0)
                    .reference(closeness(all))
                    .benchmark(pair_of_blocks)
                    .samples([](Inputs& in) {
                      const Tensor x = in.special();
                      in.add({x.view({x.numel(), 1}), in.special()}).no_layouts();
                      in.add({x, x});
                      in.add({x, x, 1e-5, 1e-8, true});
                      in.add({in.tensor({37}, 0, 3), in.tensor({5, 37}, 0, 3), 0.5, 0.01});
                      in.add({in.values({100, 100, 101, 0}), in.values({100, 101, 100, 1}), 0.01, 0});
                      in.add({in.values({3, 4}), in.values({4, 3}), 0, 1});
                      in.add({in.tensor({0, 3}), in.tensor({3})});
                    })
                    .template error<ValueError>("rtol",
                                                [](Inputs& in) {
                                                  in.add({in.tensor({2}), in.tensor({2}), -0.1});
                                                })
                    .template error<DtypeError>("other", [](Inputs& in) {
                      in.add({in.tensor({2}), in.tensor({2}, 0, 1, kFloat64)});
                    });
  if (all) row.no_meta().no_out();
}

}  // namespace

TENON_OP_CASES(compare) {
  comparison_row(op::eq,
                 comparison([](double x, double y) { return x == y; }, [](int64_t x, int64_t y) { return x == y; },
                            [](Complex x, Complex y) { return x == y; }),
                 false);
  comparison_row(op::ne,
                 comparison([](double x, double y) { return x != y; }, [](int64_t x, int64_t y) { return x != y; },
                            [](Complex x, Complex y) { return x != y; }),
                 false);
  comparison_row(
      op::lt, comparison([](double x, double y) { return x < y; }, [](int64_t x, int64_t y) { return x < y; }), true);
  comparison_row(
      op::le, comparison([](double x, double y) { return x <= y; }, [](int64_t x, int64_t y) { return x <= y; }), true);
  comparison_row(
      op::gt, comparison([](double x, double y) { return x > y; }, [](int64_t x, int64_t y) { return x > y; }), true);
  comparison_row(
      op::ge, comparison([](double x, double y) { return x >= y; }, [](int64_t x, int64_t y) { return x >= y; }), true);
  logic_row(op::logical_and, [](bool x, bool y) { return x && y; });
  logic_row(op::logical_or, [](bool x, bool y) { return x || y; });
  logic_row(op::logical_xor, [](bool x, bool y) { return x != y; });
  closeness_row(op::isclose, false);
  closeness_row(op::allclose, true);
  op_case(op::equal)
      .dtypes(kAll)
      .ulp(0)
      .no_meta()
      .no_out()
      .benchmark(pair_of_blocks)
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        Array same = make_array(kBool, {});
        bool agree = a.sizes == b.sizes;
        for (std::size_t i = 0; agree && i < a.data.size(); ++i)
          agree = is_integral(a.dtype, true) ? a.data[i].i == b.data[i].i : a.data[i].z == b.data[i].z;
        same.data = {Number(agree)};
        return std::vector<Array>{same};
      })
      .samples([](Inputs& in) {
        const Tensor x = in.tensor({3, 70}), special = in.special();
        in.add({x, x.clone()});
        in.add({x, in.tensor({3, 70})});
        in.add({x, in.tensor({70})});
        in.add({special, special.clone()});
        in.add({in.tensor({0}), in.tensor({0})});
        in.add({in.tensor({0}), in.tensor({0, 2})});
      });
}

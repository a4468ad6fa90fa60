// SPDX-License-Identifier: Apache-2.0
// Rows of ops/compare.h.
#include <tenon/ops/compare.h>

#include "tests/support/op_case.h"

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
}

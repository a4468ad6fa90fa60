// SPDX-License-Identifier: Apache-2.0
// Rows of ops/ternary.h.
#include <tenon/ops/ternary.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

void three_numbers(Inputs& in) {
  in.add({in.tensor({1 << 20}, 0.5, 2), in.tensor({1 << 20}, 0.5, 2), in.tensor({1 << 20}, 0.5, 2)});
}

Maker triples(double low, double high, double value) {
  return [=](Inputs& in) {
    for (const auto& s : {std::array<Inputs::Sizes, 3>{Inputs::Sizes{}, {}, {}},
                          {{{3, 4}, {3, 4}, {3, 4}}},
                          {{{3, 4}, {4}, {3, 1}}},
                          {{{4}, {2, 3, 1}, {}}},
                          {{{0, 3}, {1, 3}, {3}}},
                          {{{70}, {70}, {70}}}}) {
      in.add({in.tensor(s[0]), in.tensor(s[1]), in.tensor(s[2], low, high)});
      in.add({in.tensor(s[0]), in.tensor(s[1]), in.tensor(s[2], low, high)},
             {{"value", in.is_floating() || is_complex(in.dtype()) ? Value(Scalar(value)) : Value(Scalar(3))}});
    }
    in.add({in.tensor({33000}), in.tensor({33000}), in.tensor({33000}, low, high)}).no_gradient();
    if (in.dtype() != kInt64)
      in.add({in.tensor({19}), in.tensor({19}, -4, 4, kInt64), in.tensor({19}, low, high)})
          .no_gradient()
          .no_destinations();
  };
}

Reference of_three(Number (*f)(const Number* v, const Number& value, bool integral)) {
  return [=](const Args& args) {
    const Array x = args.array(0), a = args.array(1), b = args.array(2);
    const DType t = promoted({x, a, b});
    const Number value = args.number(3);
    Array out = pointwise({x, a, b}, t, t, [&](const Number* v) { return f(v, value, is_integral(t)); });
    out.scale = {60};  // the sum may cancel
    return std::vector<Array>{out};
  };
}

void wrong_value(Inputs& in) { in.add({in.tensor({2}), in.tensor({2}), in.tensor({2})}, {{"value", 1.5}}); }

}  // namespace

TENON_OP_CASES(ternary) {
  op_case(op::addcmul)
      .dtypes(kNumbers)
      .samples(triples(-3, 3, -1.5))
      .reference(of_three([](const Number* v, const Number& value, bool integral) -> Number {
        if (!integral) return v[0].z + value.z * v[1].z * v[2].z;
        return static_cast<int64_t>(static_cast<uint64_t>(v[0].i) + static_cast<uint64_t>(value.i) *
                                                                        static_cast<uint64_t>(v[1].i) *
                                                                        static_cast<uint64_t>(v[2].i));
      }))
      .gradient()
      .benchmark(three_numbers)
      .error<DtypeError>("value", wrong_value, kInt32)
      .error<DtypeError>("bool", [](Inputs& in) {
        in.add({in.boolean({2}), in.boolean({2}), in.boolean({2})});
      });
  op_case(op::addcdiv)
      .dtypes(kFloats + kComplexes)
      .samples(triples(0.5, 3, -1.5))
      .reference(of_three(
          [](const Number* v, const Number& value, bool) -> Number { return v[0].z + value.z * v[1].z / v[2].z; }))
      .gradient()
      .benchmark(three_numbers)
      .error<DtypeError>(
          "floating",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2}), in.tensor({2}, 1, 2)});
          },
          kInt64);
  op_case(op::lerp)
      .dtypes(kFloats + kComplexes)
      .samples([](Inputs& in) {
        for (const auto& s : {std::array<Inputs::Sizes, 3>{Inputs::Sizes{}, {}, {}},
                              {{{3, 4}, {3, 4}, {3, 4}}},
                              {{{3, 4}, {4}, {3, 1}}},
                              {{{0, 3}, {1, 3}, {3}}},
                              {{{70}, {70}, {70}}}}) {
          in.add({in.tensor(s[0]), in.tensor(s[1]), in.tensor(s[2], -1, 2)});
          in.add({in.tensor(s[0]), in.tensor(s[1]), Value(Scalar(0.25))});
        }
        in.add({in.tensor({9}), in.tensor({9}), in.values({0, 1, 0.5, 0.25, 0.75, -1, 2, 1, 0})}).no_gradient();
      })
      .reference([](const Args& args) {
        const Array x = args.array(0), y = args.array(1), w = args.array(2);
        Array out = pointwise({x, y, w}, x.dtype, x.dtype,
                              [&](const Number* v) -> Number { return v[0].z + v[2].z * (v[1].z - v[0].z); });
        out.scale = {30};
        return std::vector<Array>{out};
      })
      .gradient()
      .benchmark(three_numbers)
      .error<DtypeError>("end", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2}, 0, 1, kFloat64), in.tensor({2})});
      });
}

// SPDX-License-Identifier: Apache-2.0
// Rows of ops/bitwise.h.
#include <tenon/ops/bitwise.h>

#include "tests/support/op_case.h"

#include <numeric>

using namespace tenon;
using namespace tenon::testing;

namespace {

const Dtypes kIntegersAndBool = kIntegers + Dtypes{kBool};

void two_numbers(Inputs& in) { in.add({in.tensor({1 << 20}, -99, 99), in.tensor({1 << 20}, -99, 99)}); }
void shifts(Inputs& in) { in.add({in.tensor({1 << 20}, -99, 99), in.tensor({1 << 20}, 0, 6)}); }

// One side is given as a number too, and numbers at the dtype's ends.
Maker pairs(double low2, double high2) {
  return [=](Inputs& in) {
    for (const auto& [a, b] : {std::pair<Inputs::Sizes, Inputs::Sizes>{{}, {}},
                               {{3}, {3}},
                               {{3, 1}, {1, 5}},
                               {{0}, {1}},
                               {{70}, {}},
                               {{5, 37}, {37}}})
      in.add({in.tensor(a, -99, 99), in.tensor(b, low2, high2)});
    in.add({in.tensor({33000}, -99, 99), in.tensor({33000}, low2, high2)});
    in.add({in.special(3), in.tensor({1}, low2, high2)});
    if (in.dtype() == kBool) return;
    in.add({in.tensor({3, 4}, -99, 99), Value(Scalar(3))});
    in.add({Value(Scalar(77)), in.tensor({3, 4}, low2, high2)});
  };
}
Maker with_other_types(Maker plain) {
  return [=](Inputs& in) {
    plain(in);
    for (const DType t : {kInt32, kInt64, kUInt8})
      if (t != in.dtype()) in.add({in.tensor({19}, -99, 99), in.tensor({19}, 0, 7, t)}).no_layouts();
  };
}

using Integer = int64_t (*)(int64_t, int64_t, int width, bool is_signed);
Reference integers(Integer f) {
  return [=](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    const DType t = promoted({a, b});
    const int width = static_cast<int>(8 * item_size(t));
    return std::vector<Array>{
        pointwise({a, b}, t, t, [&](const Number* v) -> Number { return f(v[0].i, v[1].i, width, t != kUInt8); })};
  };
}

OpCase& row(OpCase& r, const Dtypes& types, Integer f) {
  return r.dtypes(types).reference(integers(f)).error<DtypeError>("integer", [](Inputs& in) {
    in.add({in.tensor({2}), in.tensor({2})});
  });
}

}  // namespace

TENON_OP_CASES(bitwise) {
  row(op_case(op::bitwise_and), kIntegersAndBool, [](int64_t a, int64_t b, int, bool) { return a & b; })
      .samples(with_other_types(pairs(-99, 99)))
      .benchmark(two_numbers);
  row(op_case(op::bitwise_or), kIntegersAndBool, [](int64_t a, int64_t b, int, bool) { return a | b; })
      .samples(with_other_types(pairs(-99, 99)))
      .benchmark(two_numbers);
  row(op_case(op::bitwise_xor), kIntegersAndBool, [](int64_t a, int64_t b, int, bool) { return a ^ b; })
      .samples(with_other_types(pairs(-99, 99)))
      .benchmark(two_numbers);
  row(op_case(op::bitwise_left_shift), kIntegers,
      [](int64_t a, int64_t b, int width, bool) {
        return b < 0 || b >= width ? int64_t{0} : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
      })
      .samples(with_other_types(pairs(-2, 70)))
      .benchmark(shifts);
  row(op_case(op::bitwise_right_shift), kIntegers,
      [](int64_t a, int64_t b, int width, bool is_signed) {
        if (b >= 0 && b < width) return a >> b;
        return is_signed && a < 0 ? int64_t{-1} : int64_t{0};
      })
      .samples(with_other_types(pairs(-2, 70)))
      .benchmark(shifts);
  op_case(op::bitwise_not)
      .dtypes(kIntegersAndBool)
      .samples(unary_samples(-99, 99))
      .reference([](const Args& args) {
        const Array x = args.array(0);
        return std::vector<Array>{pointwise({x}, x.dtype, x.dtype, [&](const Number* v) -> Number {
          return x.dtype == kBool ? int64_t{v->i == 0} : ~v->i;
        })};
      })
      .benchmark([](Inputs& in) { in.add({in.tensor({1 << 20}, -99, 99)}); })
      .error<DtypeError>("integer", [](Inputs& in) { in.add({in.tensor({2})}); });
  const auto no_numbers = [](Inputs& in) {
    for (const auto& [a, b] :
         {std::pair<Inputs::Sizes, Inputs::Sizes>{{}, {}}, {{3}, {3}}, {{3, 1}, {1, 5}}, {{0}, {1}}, {{70}, {}}})
      in.add({in.tensor(a, -99, 99), in.tensor(b, -99, 99)});
    in.add({in.values({0, 0, 12, -12, 7}), in.values({0, 5, 18, 18, 0})});
    if (in.dtype() != kInt32) in.add({in.tensor({19}, -99, 99), in.tensor({19}, -99, 99, kInt32)});
  };
  // std::gcd negates its arguments, which the smallest int64 does not survive: Euclid on magnitudes, wrapped at the end.
  const auto gcd = [](int64_t a, int64_t b, int, bool) {
    const auto magnitude = [](int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); };
    return static_cast<int64_t>(std::gcd(magnitude(a), magnitude(b)));
  };
  row(op_case(op::gcd), kIntegers, gcd)
      .samples(no_numbers)
      .samples([](Inputs& in) {
        in.add({in.special(), in.special()});
      })
      .benchmark(two_numbers);
  row(op_case(op::lcm), {kInt16, kInt32, kInt64}, [](int64_t a, int64_t b, int, bool) { return std::lcm(a, b); })
      .samples(no_numbers)
      .benchmark(two_numbers);
}

// SPDX-License-Identifier: Apache-2.0
// Rows of ops/where.h.
#include <tenon/ops/where.h>

#include "tests/support/op_case.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kNan = std::nan("");

std::vector<Array> where_reference(const Args& args) {
  const Array a = args.array(1), b = args.array(2);
  const DType t = promoted({a, b});
  return {pointwise({args.array(0), cast(a, t), cast(b, t)}, DType::undefined, t,
                    [](const Number* v) { return v[0].i != 0 ? v[1] : v[2]; })};
}

std::vector<Array> fill_reference(const Args& args) {
  const Array x = args.array(0);
  return {pointwise({x, args.array(1), cast(args.array(2), x.dtype)}, DType::undefined, x.dtype,
                    [](const Number* v) { return v[1].i != 0 ? v[2] : v[0]; })};
}

// min(max(x, low), high), in the promoted dtype; NaN anywhere gives NaN. A bound that is none takes no part.
Reference clamp_reference(int low, int high) {
  return [=](const Args& args) {
    std::vector<Array> inputs = {args.array(0)};
    const bool has_low = low > 0 && !args.is_none(low), has_high = high > 0 && !args.is_none(high);
    if (has_low) inputs.push_back(args.array(low));
    if (has_high) inputs.push_back(args.array(high));
    const DType t = promoted(inputs);
    return std::vector<Array>{pointwise(inputs, t, t, [&](const Number* v) -> Number {
      const auto less = [&](const Number& a, const Number& b) {
        return is_integral(t, true) ? a.i < b.i : a.re() < b.re();
      };
      Number x = v[0];
      int k = 1;
      if (has_low) {
        if (std::isnan(x.re()) || std::isnan(v[k].re())) return kNan;
        x = less(x, v[k]) ? v[k] : x;
        ++k;
      }
      if (has_high) {
        if (std::isnan(x.re()) || std::isnan(v[k].re())) return kNan;
        x = less(v[k], x) ? v[k] : x;
      }
      return x;
    })};
  };
}

const Inputs::Sizes kShapes[] = {{}, {0, 3}, {1}, {3, 4}, {95}, {20000}};

}  // namespace

TENON_OP_CASES(where) {
  op_case(op::where)
      .dtypes(kAllWithFloat8)
      .reference(where_reference)
      .gradient()
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : kShapes) in.add({in.boolean(s), in.tensor(s), in.tensor(s)});
        in.add({in.boolean({3, 1}), in.tensor({4}), in.tensor({})});
        in.add({in.boolean({}), in.tensor({2, 3}), in.tensor({3})});
        in.add({in.integers({0, 1, 2, 255}, {4}, kUInt8), in.tensor({4}), in.tensor({4})}).no_gradient();
        if (is_float8(in.dtype())) return;
        in.add({in.boolean({5}), in.tensor({5}), 2}).no_gradient().no_layouts();
        in.add({in.boolean({5}), 0.5, in.tensor({5})}).no_gradient().no_layouts();
        in.add({in.boolean({5}), in.tensor({5}), in.tensor({5}, -4, 4, kFloat64)}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.boolean({1 << 20}), in.tensor({1 << 20}), in.tensor({1 << 20})});
      })
      .error<DtypeError>("condition",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.tensor({2}), in.tensor({2})});
                         })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.boolean({3}), in.tensor({2}), in.tensor({2})});
      });
  op_case(op::masked_fill)
      .dtypes(kAll)
      .reference(fill_reference)
      .gradient()
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : kShapes) in.add({in.tensor(s), in.boolean(s), 1});
        in.add({in.tensor({3, 4}), in.boolean({4}), in.tensor({})});
        in.add({in.tensor({4}), in.boolean({3, 1}), 1}).no_gradient();
        if (in.is_floating())
          in.add({in.tensor({9}), in.boolean({9}), -std::numeric_limits<double>::infinity()}).no_gradient();
      })
      .error<DtypeError>("mask",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.tensor({2}), 1});
                         })
      .error<ShapeError>("value",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.boolean({2}), in.tensor({2})});
                         })
      .error<DtypeError>(
          "value",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.boolean({2}), 0.5});
          },
          kInt32);

  const auto clamp_row = [](OpCase& row) -> OpCase& {
    return row.dtypes(kReals).gradient().error<DtypeError>("complex", [](Inputs& in) {
      in.add({in.tensor({2}, 0, 1, kComplex64), in.tensor({2}, 0, 1, kComplex64)});
    });
  };
  for (const bool low : {true, false}) {
    OpCase& row = low ? op_case(op::clamp_min) : op_case(op::clamp_max);
    clamp_row(row).reference(low ? clamp_reference(1, 0) : clamp_reference(0, 1)).samples([](Inputs& in) {
      for (const Inputs::Sizes& s : kShapes) in.add({in.tensor(s), 1}).no_layouts();
      in.add({in.tensor({3, 1}), in.tensor({4})});
      in.add({in.special(), 2}).no_gradient();
      in.add({in.special(9), 0.5}).no_gradient();
      if (in.is_floating()) in.add({in.values({1, kNan, 3}), in.values({kNan, 1, 2})}).no_gradient();
    });
  }
  op_case(op::clamp)
      .dtypes(kReals)
      .gradient()
      .reference(clamp_reference(1, 2))
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : kShapes) in.add({in.tensor(s), 1, 3});
        in.add({in.tensor({70}), Value(), 2});
        in.add({in.tensor({70}), 1, Value()});
        in.add({in.tensor({70}), 3, 1}).no_gradient();  // the upper bound wins
        in.add({in.tensor({70}), 0.5, 2.5});
        in.add({in.special(), 0, 1}).no_gradient();
        in.add({in.special(9), 0, 1}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}), -1, 1});
      })
      .error<ValueError>("min and max", [](Inputs& in) { in.add({in.tensor({2})}); })
      .error<DtypeError>(
          "complex",
          [](Inputs& in) {
            in.add({in.tensor({2}), 0, 1});
          },
          kComplex64);
  op_case(op::clamp_tensor)
      .dtypes(kReals)
      .gradient()
      .reference(clamp_reference(1, 2))
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : kShapes) in.add({in.tensor(s), in.tensor(s, 0, 1), in.tensor(s, 2, 3)});
        in.add({in.tensor({3, 1}), in.tensor({4}, 0, 1), in.tensor({}, 2, 3)});
        in.add({in.tensor({5}), Value(), in.tensor({5})});
        in.add({in.tensor({5}), in.tensor({5}), Value()});
        if (in.is_floating())
          in.add({in.values({0.5, 0.5, kNan}), in.values({kNan, 0, 0}), in.values({1, kNan, 1})}).no_gradient();
      })
      .error<ValueError>("min and max", [](Inputs& in) { in.add({in.tensor({2})}); })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({3}), in.tensor({2})});
      });
}

// SPDX-License-Identifier: Apache-2.0
// Rows of ops/search.h: the reference counts the elements that lie before.
#include <tenon/ops/search.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kNan = std::nan(""), kInf = std::numeric_limits<double>::infinity();

bool less(const Number& a, const Number& b, bool exact) {
  if (exact) return a.i < b.i;
  return a.re() < b.re() || (std::isnan(b.re()) && !std::isnan(a.re()));
}
// Ascending along the last dimension; the order too.
std::pair<Tensor, Tensor> sorted(const Tensor& t) {
  Array a = read(t), order = make_array(kInt64, a.sizes);
  const int64_t n = a.sizes.back();
  const bool exact = is_integral(a.dtype, true);
  for (int64_t line = 0; n > 0 && line < a.numel() / n; ++line) {
    const auto first = a.data.begin() + line * n;
    std::vector<int64_t> places(n);
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(),
                     [&](int64_t i, int64_t j) { return less(first[i], first[j], exact); });
    for (int64_t i = 0; i < n; ++i) order.data[line * n + i] = Number(places[i]);
    std::stable_sort(first, first + n, [&](const Number& x, const Number& y) { return less(x, y, exact); });
  }
  return {write(a), write(order)};
}

Array search(const Array& sequence, const Array& x, bool right, DType result, const Array& sorter = {}) {
  const DType t = promoted({sequence, x});
  const Array b = cast(sequence, t), v = cast(x, t);
  const bool exact = is_integral(t, true);
  const int64_t n = b.sizes.back(), per_line = b.dim() == 1 ? std::max<int64_t>(v.numel(), 1) : v.sizes.back();
  Array out = make_array(result, v.sizes);
  for (int64_t i = 0; i < v.numel(); ++i) {
    const int64_t line = i / per_line * n;
    int64_t count = 0;
    for (int64_t k = 0; k < n; ++k) {
      const Number& e = b.data[line + (sorter.defined() ? sorter.data[line + k].i : k)];
      count += right ? !less(v.data[i], e, exact) : less(e, v.data[i], exact);
    }
    out.data[i] = Number(count);
  }
  return out;
}

}  // namespace

TENON_OP_CASES(search) {
  const Dtypes ordered = kReals + Dtypes{kBool};
  op_case(op::searchsorted)
      .dtypes(ordered)
      .reference([](const Args& args) {
        const bool right = args.integer(3) || args.text(4) == "right";
        return std::vector<Array>{search(args.array(0), args.array(1), right, args.integer(2) ? kInt32 : kInt64,
                                         args.is_none(5) ? Array() : args.array(5))};
      })
      .samples([](Inputs& in) {
        for (const bool right : {false, true}) {
          in.add({sorted(in.tensor({10}, -9, 9)).first, in.tensor({4, 5}, -10, 10)}, {{"right", right}});
          in.add({sorted(in.tensor({3, 7}, -9, 9)).first, in.tensor({3, 5}, -10, 10)}, {{"right", right}});
          in.add({sorted(in.tensor({2, 3, 1}, -9, 9)).first, in.tensor({2, 3, 4}, -10, 10)}, {{"right", right}});
          in.add({sorted(in.tensor({10}, -2, 2)).first, in.tensor({}, -2, 2)}, {{"out_int32", true}, {"right", right}});
          in.add({sorted(in.tensor({3000}, -90, 90)).first, in.tensor({5000}, -95, 95)}, {{"right", right}});
          in.add({in.tensor({0}), in.tensor({3})}, {{"right", right}});
          in.add({sorted(in.tensor({5})).first, in.tensor({0, 2})}, {{"right", right}});
          in.add({sorted(in.tensor({6}, -5, 5)).first, 1}, {{"right", right}});
          in.add({sorted(in.special()).first, in.special()}, {{"right", right}});
          const Tensor loose = in.tensor({2, 9}, -5, 5);
          in.add({loose, in.tensor({2, 4}, -6, 6)}, {{"sorter", sorted(loose).second}, {"right", right}}).no_layouts();
          if (in.is_floating()) {
            in.add({in.values({2, 5, kInf}), in.values({kInf, kNan, 0, -kInf})}, {{"right", right}});
            in.add({in.values({-1, -0.0, 0.0, kNan, kNan}), in.values({0.0, -0.0, 3, kNan})}, {{"right", right}});
          }
        }
        in.add({sorted(in.tensor({10}, -2, 2)).first, in.tensor({7}, -2, 2)}, {{"side", "right"}});
        in.add({sorted(in.tensor({10}, -2, 2)).first, in.tensor({7}, -2, 2)}, {{"side", "left"}});
        in.add({sorted(in.tensor({10}, -2, 2)).first, in.tensor({7}, -2, 2, kFloat32)});
      })
      .benchmark([](Inputs& in) {
        in.add({sorted(in.tensor({1 << 16}, -1e6, 1e6)).first, in.tensor({1 << 20}, -1e6, 1e6)});
      })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.tensor({3, 3})});
                           in.add({in.tensor({2, 3}), in.tensor({})});
                         })
      .error<ShapeError>("sorted_sequence",
                         [](Inputs& in) {
                           in.add({in.tensor({}), in.tensor({3})});
                         })
      .error<ValueError>("side",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.tensor({3})}, {{"side", "middle"}});
                           in.add({in.tensor({3}), in.tensor({3})}, {{"side", "left"}, {"right", true}});
                         })
      .error<ShapeError>("sorter",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.tensor({3})}, {{"sorter", in.integers({0, 1})}});
                         })
      .error<DtypeError>("sorter",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.tensor({3})}, {{"sorter", in.tensor({3})}});
                         })
      .error<DtypeError>(
          "complex64",
          [](Inputs& in) {
            in.add({in.tensor({3}), in.tensor({3})});
          },
          kComplex64);
  op_case(op::bucketize)
      .dtypes(ordered)
      .reference([](const Args& args) {
        return std::vector<Array>{
            search(args.array(1), args.array(0), args.integer(3), args.integer(2) ? kInt32 : kInt64)};
      })
      .samples([](Inputs& in) {
        for (const bool right : {false, true}) {
          in.add({in.tensor({4, 5}, -10, 10), sorted(in.tensor({10}, -9, 9)).first}, {{"right", right}});
          in.add({in.tensor({}), sorted(in.tensor({10}, -9, 9)).first}, {{"out_int32", true}, {"right", right}});
          in.add({in.tensor({5, 0, 5}), sorted(in.tensor({5})).first}, {{"right", right}});
          in.add({3, sorted(in.tensor({10}, -9, 9)).first}, {{"right", right}});
          if (in.is_floating()) in.add({in.values({kNan, 1}), in.values({0, 1, kInf})}, {{"right", right}});
        }
      })
      .error<ShapeError>("boundaries",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.tensor({2, 2})});
                         })
      .error<DtypeError>(
          "complex64",
          [](Inputs& in) {
            in.add({in.tensor({3}), in.tensor({3})});
          },
          kComplex64);
  op_case(op::isin)
      .dtypes(ordered)
      .reference([](const Args& args) {
        const Array x = args.array(0), test = args.array(1);
        const DType t = promoted({x, test});
        const Array a = cast(x, t), b = cast(test, t);
        const bool exact = is_integral(t, true), invert = args.integer(3);
        Array out = make_array(kBool, a.sizes);
        for (int64_t i = 0; i < a.numel(); ++i) {
          const bool hit = std::any_of(b.data.begin(), b.data.end(), [&](const Number& e) {
            return exact ? e.i == a.data[i].i : e.re() == a.data[i].re();
          });
          out.data[i] = Number(hit != invert);
        }
        return std::vector<Array>{out};
      })
      .samples([](Inputs& in) {
        for (const bool invert : {false, true}) {
          in.add({in.values({1, 2, 3, 4, 5, 6}, {2, 3}), in.values({2, 4, 6, 0})}, {{"invert", invert}});
          in.add({in.values({1, 2, 3}), in.values({2, 2, 1, 0}, {2, 2})},
                 {{"assume_unique", true}, {"invert", invert}});
          in.add({in.values({1, 2, 3}), 2}, {{"invert", invert}});
          in.add({2, in.values({1, 2, 3})}, {{"invert", invert}}).no_destinations();
          in.add({in.tensor({}), in.tensor({4})}, {{"invert", invert}});
          in.add({in.tensor({0}), in.tensor({4})}, {{"invert", invert}});
          in.add({in.tensor({3}), in.tensor({0})}, {{"invert", invert}});
          if (in.is_floating())
            in.add({in.values({kNan, 0.0, kInf}), in.values({kNan, -0.0, 1})}, {{"invert", invert}});
        }
      })
      .error<DtypeError>(
          "complex64",
          [](Inputs& in) {
            in.add({in.tensor({3}), in.tensor({3})});
          },
          kComplex64);
}

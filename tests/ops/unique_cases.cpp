// SPDX-License-Identifier: Apache-2.0
// Rows of ops/unique.h: the reference compares rows of plain numbers one by one.
#include <tenon/ops/unique.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kNan = std::nan("");
using Row = std::vector<Number>;

bool less(const Number& a, const Number& b, bool exact) {
  if (exact) return a.i < b.i;
  return a.re() < b.re() || (std::isnan(b.re()) && !std::isnan(a.re()));
}
bool less(const Row& a, const Row& b, bool exact) {
  for (std::size_t j = 0; j < a.size(); ++j) {
    if (less(a[j], b[j], exact)) return true;
    if (less(b[j], a[j], exact)) return false;
  }
  return false;
}
bool equal(const Row& a, const Row& b, bool exact) {
  for (std::size_t j = 0; j < a.size(); ++j)
    if (exact ? a[j].i != b[j].i : !(a[j].re() == b[j].re())) return false;
  return true;
}

std::vector<Array> distinct(const Array& given, bool order, bool inverse, bool counts, bool has_dim, int64_t dim) {
  Array x = given;
  const bool exact = is_integral(x.dtype, true);
  if (!has_dim || x.dim() == 0) x.sizes = {x.numel()};
  const int64_t d = !has_dim || given.dim() == 0 ? 0 : dim < 0 ? dim + x.dim() : dim;
  std::vector<Row> rows(x.sizes[d]);
  std::size_t k = 0;
  each_index(x.sizes, [&](const std::vector<int64_t>& at) { rows[at[d]].push_back(x.data[k++]); });
  std::vector<int64_t> places(rows.size());
  std::iota(places.begin(), places.end(), 0);
  if (order)
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) { return less(rows[a], rows[b], exact); });
  std::vector<int64_t> chosen, number(rows.size()), how_many;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || !equal(rows[places[i]], rows[places[i - 1]], exact))
      chosen.push_back(places[i]), how_many.push_back(0);
    ++how_many.back();
    number[places[i]] = static_cast<int64_t>(chosen.size()) - 1;
  }
  std::vector<int64_t> sizes = x.sizes;
  sizes[d] = static_cast<int64_t>(chosen.size());
  std::vector<Array> results{pick(x, sizes, [&](const std::vector<int64_t>& at) {
    std::vector<int64_t> from = at;
    from[d] = chosen[at[d]];
    return from;
  })};
  const auto integers = [](const std::vector<int64_t>& v, const std::vector<int64_t>& s) {
    Array a = make_array(kInt64, s);
    for (std::size_t i = 0; i < v.size(); ++i) a.data[i] = Number(v[i]);
    return a;
  };
  if (inverse)
    results.push_back(
        integers(number, has_dim ? std::vector<int64_t>{static_cast<int64_t>(rows.size())} : given.sizes));
  if (counts) results.push_back(integers(how_many, {static_cast<int64_t>(how_many.size())}));
  return results;
}

void inputs(Inputs& in, const std::function<void(Tensor, Value dim)>& add) {
  add(in.values({1, 1, 0, 1, 0}), Value());
  add(in.tensor({}), Value());
  add(in.tensor({0}), Value());
  add(in.values({3, 1, 2, 3, 3, 1}, {2, 3}), Value());
  add(in.tensor({40, 5}, -3, 3), Value());
  add(in.tensor({5000}, -90, 90), Value());
  add(in.special(3), Value());
  add(in.values({1, 2, 1, 2, 0, 5, 1, 2}, {4, 2}), 0);
  add(in.values({1, 1, 0, 2, 2, 0}, {2, 3}), 1);
  add(in.values({1, 1, 0, 1, 0}), -1);
  add(in.values({1, 2, 3, 4, 1, 2, 1, 2, 3, 4, 1, 2}, {2, 3, 2}), 1);
  add(in.tensor({2, 2, 30}, -1, 1), 2);
  add(in.tensor({0, 3}), 0);
  if (in.is_floating()) {
    add(in.values({kNan, 1, kNan, 0.0, -0.0}), Value());
    add(in.values({kNan, 1, kNan, 1, 2, 1, 2, 1}, {4, 2}), 0);
  }
}

}  // namespace

TENON_OP_CASES(unique) {
  const Dtypes ordered = kReals + Dtypes{kBool};
  op_case(op::unique)
      .dtypes(ordered)
      .reference([](const Args& args) {
        return distinct(args.array(0), true, args.integer(2), args.integer(3), !args.is_none(4),
                        args.is_none(4) ? 0 : args.integer(4));
      })
      .samples([](Inputs& in) {
        for (const bool inverse : {false, true})
          for (const bool counts : {false, true})
            inputs(in, [&](Tensor x, Value dim) { in.add({x, counts, inverse, counts, dim}); });
      })
      .benchmark([](Inputs& in) { in.add({in.tensor({1 << 20}, -1e4, 1e4)}); })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), true, false, false, 2});
                         })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 0}), true, false, false, 0});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({3})}); }, kComplex64);
  op_case(op::unique_consecutive)
      .dtypes(ordered)
      .reference([](const Args& args) {
        return distinct(args.array(0), false, args.integer(1), args.integer(2), !args.is_none(3),
                        args.is_none(3) ? 0 : args.integer(3));
      })
      .samples([](Inputs& in) {
        for (const bool inverse : {false, true})
          for (const bool counts : {false, true})
            inputs(in, [&](Tensor x, Value dim) { in.add({x, inverse, counts, dim}); });
      })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), false, false, 2});
                         })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 0}), false, false, 0});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({3})}); }, kComplex64);
}

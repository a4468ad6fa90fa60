// SPDX-License-Identifier: Apache-2.0
// Rows of ops/sort.h. The reference is a stable comparison sort of plain numbers.
#include <tenon/ops/sort.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Elements = std::vector<Number>;
using Places = std::vector<int64_t>;
const double kNan = std::nan(""), kInf = std::numeric_limits<double>::infinity();

bool before(const Number& a, const Number& b, bool exact) {
  if (exact) return a.i < b.i;
  return a.re() < b.re() || (std::isnan(b.re()) && !std::isnan(a.re()));
}
Places sorted_places(const Elements& v, bool exact, bool descending) {
  Places p(v.size());
  std::iota(p.begin(), p.end(), 0);
  std::stable_sort(p.begin(), p.end(), [&](int64_t a, int64_t b) {
    return descending ? before(v[b], v[a], exact) : before(v[a], v[b], exact);
  });
  return p;
}

/// For every line of x along `dim` the elements at the places f gives, and the places. `reduced`: one, no dimension.
std::vector<Array> along(const Array& x, int64_t dim, bool reduced, int64_t count,
                         const std::function<Places(const Elements&)>& f) {
  const int64_t rank = x.dim(), d = dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
  std::vector<int64_t> sizes = x.sizes, to;
  if (rank > 0) sizes[d] = count;
  Array values = make_array(x.dtype, sizes), places = make_array(kInt64, sizes);
  std::vector<int64_t> outer = x.sizes;
  if (rank > 0) outer[d] = 1;
  const int64_t n = rank > 0 ? x.sizes[d] : 1;
  each_index(outer, [&](const std::vector<int64_t>& at) {
    Elements line;
    std::vector<int64_t> here = at;
    for (int64_t i = 0; i < n; ++i) {
      if (rank > 0) here[d] = i;
      line.push_back(x.data[flat_index(here, x.sizes)]);
    }
    const Places found = f(line);
    for (int64_t i = 0; i < count; ++i) {
      if (rank > 0) here[d] = i;
      const int64_t k = flat_index(here, sizes);
      values.data[k] = line[found[i]];
      places.data[k] = found[i];
    }
  });
  if (reduced && rank > 0) {
    values.sizes.erase(values.sizes.begin() + d);
    places.sizes = values.sizes;
  }
  return {values, places};
}
int64_t length(const Array& x, int64_t dim) { return x.dim() == 0 ? 1 : x.sizes[dim < 0 ? dim + x.dim() : dim]; }

std::vector<Array> sort_reference(const Args& args) {
  const Array x = args.array(0);
  const bool descending = args.integer(2), exact = is_integral(x.dtype, true);
  const int64_t dim = args.integer(1);
  return along(x, dim, false, length(x, dim), [=](const Elements& v) { return sorted_places(v, exact, descending); });
}
std::vector<Array> topk_reference(const Args& args) {
  const Array x = args.array(0);
  const bool largest = args.integer(3), exact = is_integral(x.dtype, true);
  return along(x, args.integer(2), false, args.integer(1),
               [=](const Elements& v) { return sorted_places(v, exact, largest); });
}

int64_t nans_of(const Elements& v) {
  return std::count_if(v.begin(), v.end(), [](const Number& e) { return std::isnan(e.re()); });
}
// statistic: k, or 0 for the median, -1 for the nanmedian.
Places statistic_place(const Elements& v, bool exact, int64_t statistic) {
  const Places p = sorted_places(v, exact, false);
  const auto n = static_cast<int64_t>(v.size()), nans = nans_of(v);
  if (statistic > 0) return {p[statistic - 1]};
  if (statistic == 0) return {p[nans > 0 ? n - nans : (n - 1) / 2]};
  return {p[nans < n ? (n - nans - 1) / 2 : 0]};
}
Reference median_reference(int64_t statistic) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    const bool exact = is_integral(x.dtype, true);
    return along(x, args.integer(1), !args.integer(2), 1,
                 [=](const Elements& v) { return statistic_place(v, exact, statistic); });
  };
}
Reference median_of_all(int64_t statistic) {
  return [=](const Args& args) {
    Array x = args.array(0);
    Array out = make_array(x.dtype, {});
    out.data[0] =
        x.data.empty() ? Number(kNan) : x.data[statistic_place(x.data, is_integral(x.dtype, true), statistic)[0]];
    return std::vector<Array>{out};
  };
}
Places mode_place(const Elements& v, bool exact) {
  const Places p = sorted_places(v, exact, false);
  int64_t best = p[0], most = 0;
  for (const int64_t candidate : p) {
    int64_t count = 0, last = candidate;
    for (std::size_t i = 0; i < v.size(); ++i)
      if (exact ? v[i].i == v[candidate].i : v[i].re() == v[candidate].re()) ++count, last = static_cast<int64_t>(i);
    count = std::max<int64_t>(count, 1);  // NaN equals nothing, itself included
    if (count > most) most = count, best = last;
  }
  return {best};
}

/// Shapes and dimensions: 0-dim, short and long lines, few and many, ties, and what sorts at the ends.
void along_dims(Inputs& in, const std::function<void(Tensor, int64_t, bool gradient)>& add, bool empty_lines) {
  add(in.tensor({}), 0, true);
  add(in.tensor({1}), -1, true);
  add(in.tensor({7}, -90, 90), 0, true);
  add(in.tensor({3, 4, 5}, -90, 90), 1, true);
  add(in.tensor({3, 4, 5}, -90, 90), 0, true);
  add(in.tensor({2, 3, 33}, -90, 90), -1, false);
  add(in.tensor({40, 3}, -2, 2), 0, false);  // many ties
  add(in.tensor({3, 700}, -90, 90), 1, false);
  add(in.tensor({5000}, -3, 3), 0, false);
  if (empty_lines) add(in.tensor({2, 0}), 1, false);
  add(in.tensor({0, 3}), 1, false);
  add(in.special(), 0, false);
  add(in.special(40), 0, false);
  if (in.is_floating()) {
    add(in.values({0.0, -0.0, 1, -0.0, 0.0, -1}), 0, false);
    add(in.values({1, kNan, 3, 4, 5, 6}, {2, 3}), 1, false);
    add(in.values({kNan, kNan, kInf, -kInf, -kNan, 2, kNan}), 0, false);
    add(in.values({kNan, kNan, kNan}), 0, false);
    add(in.values({kInf, kInf, kInf}), 0, false);
  }
  if (in.dtype() == kInt64)
    add(in.integers({(int64_t{1} << 53) + 1, int64_t{1} << 53, INT64_MIN, INT64_MAX, -1, 0}), 0, false);
}
Sample& plain(Sample& s, bool gradient) {
  if (!gradient) s.no_gradient();
  return s;
}
const auto complex_self = [](Inputs& in) { in.add({in.tensor({3})}); };
const auto bad_dim = [](Inputs& in) {
  in.add({in.tensor({2, 3}), 2});
  in.add({in.tensor({2, 3}), -3});
};

}  // namespace

TENON_OP_CASES(sort) {
  const Dtypes ordered = kReals + Dtypes{kBool};
  const Maker lines = [](Inputs& in) {
    for (const bool descending : {false, true})
      along_dims(
          in,
          [&](Tensor x, int64_t dim, bool g) {
            plain(in.add({x, dim, descending}), g);
          },
          true);
    in.add({in.tensor({2, 3})}, {{"stable", true}});
    in.add({in.values({3, 1, 3, 2, 1, 3}), 0, true}, {{"stable", true}}).no_gradient();
  };
  const Maker long_lines = [](Inputs& in) {
    if (in.dtype() != kFloat32 && in.dtype() != kInt64 && in.dtype() != kUInt8 && in.dtype() != kFloat16) return;
    in.add({in.tensor({300000}, -1e4, 1e4), 0}).no_gradient().no_layouts().no_destinations();
    in.add({in.tensor({2, 70000}, -100, 100), 1, true}).no_gradient().no_layouts().no_destinations();
    in.add({in.tensor({7, 9000}, -100, 100), 1}).no_gradient().no_layouts().no_destinations();
    in.add({in.tensor({300, 100}, -100, 100), 1, true}).no_gradient().no_layouts().no_destinations();
    in.add({in.tensor({3, 4096}, -100, 100), 1}).no_gradient().no_layouts().no_destinations();
    in.add({in.tensor({3, 4097}, -100, 100), 1}).no_gradient().no_layouts().no_destinations();
  };
  op_case(op::sort)
      .dtypes(ordered)
      .gradient()
      .reference(sort_reference)
      .samples(lines)
      .samples(long_lines)
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}, -1e6, 1e6)});
        in.add({in.tensor({1024, 1024}, -1e6, 1e6)});
      })
      .error<IndexError>("", bad_dim)
      .error<DtypeError>("self", complex_self, kComplex64);
  op_case(op::argsort)
      .dtypes(ordered)
      .reference([](const Args& args) { return std::vector<Array>{sort_reference(args)[1]}; })
      .samples(lines)
      .error<IndexError>("", bad_dim)
      .error<DtypeError>("self", complex_self, kComplex64);
  op_case(op::msort)
      .dtypes(ordered)
      .gradient()
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {5}, {4, 3}, {0, 3}, {3, 2, 2}})
          in.add({in.tensor(s, -90, 90)});
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const bool exact = is_integral(x.dtype, true);
        return std::vector<Array>{
            along(x, 0, false, length(x, 0), [=](const Elements& v) { return sorted_places(v, exact, false); })[0]};
      })
      .error<DtypeError>("self", complex_self, kComplex64);

  op_case(op::topk)
      .dtypes(ordered)
      .gradient()
      .reference(topk_reference)
      .samples([](Inputs& in) {
        for (const bool largest : {true, false})
          along_dims(
              in,
              [&](Tensor x, int64_t dim, bool g) {
                const int64_t n = x.dim() == 0 ? 1 : x.size(dim);
                plain(in.add({x, std::min<int64_t>(n, 2), dim, largest}), g);
                plain(in.add({x, n, dim, largest, false}), g);
              },
              true);
        in.add({in.tensor({4, 3}), 0});
        for (const int64_t k : {1, 2, 3, 4, 5}) in.add({in.values({2, 2, 2, 2, 2}), k}).no_gradient();
      })
      .samples([](Inputs& in) {
        if (in.dtype() != kFloat32 && in.dtype() != kInt64 && in.dtype() != kBFloat16) return;
        in.add({in.tensor({300000}, -1e4, 1e4), 64}).no_gradient().no_layouts().no_destinations();
        in.add({in.tensor({300000}, -100, 100), 64, 0, false}).no_gradient().no_layouts().no_destinations();
        in.add({in.tensor({3, 70000}, -1e4, 1e4), 5000}).no_gradient().no_layouts().no_destinations();
        in.add({in.tensor({100, 300}, -1e4, 1e4), 17}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}, -1e6, 1e6), 64});
      })
      .error<ValueError>("k: expected 0 to 2",
                         [](Inputs& in) {
                           in.add({in.values({1, 2}), 3});
                           in.add({in.values({1, 2}), -1});
                         })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), 1, 2});
                         })
      .error<DtypeError>(
          "self",
          [](Inputs& in) {
            in.add({in.tensor({3}), 1});
          },
          kComplex64);

  op_case(op::kthvalue)
      .dtypes(ordered)
      .gradient()
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const bool exact = is_integral(x.dtype, true);
        const int64_t k = args.integer(1);
        return along(x, args.integer(2), !args.integer(3), 1,
                     [=](const Elements& v) { return statistic_place(v, exact, k); });
      })
      .samples([](Inputs& in) {
        for (const bool keep : {false, true})
          along_dims(
              in,
              [&](Tensor x, int64_t dim, bool g) {
                const int64_t n = x.dim() == 0 ? 1 : x.size(dim);
                for (const int64_t k : {int64_t{1}, (n + 2) / 2, n})
                  if (k <= n) plain(in.add({x, k, dim, keep}), g);
              },
              false);
      })
      .samples([](Inputs& in) {
        if (in.dtype() != kFloat32 && in.dtype() != kInt64 && in.dtype() != kUInt8) return;
        in.add({in.tensor({9, 9000}, -100, 100), 9000}).no_gradient().no_layouts().no_destinations();
        in.add({in.tensor({300000}, -1e4, 1e4), 123456}).no_gradient().no_layouts().no_destinations();
        in.add({in.tensor({3, 70000}, -100, 100), 35000}).no_gradient().no_layouts().no_destinations();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}, -1e6, 1e6), 1 << 19});
      })
      .error<ValueError>("k: expected 1 to 2",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2}), 3});
                           in.add({in.tensor({2, 2}), 0});
                         })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), 1, 2});
                         })
      .error<DtypeError>(
          "self",
          [](Inputs& in) {
            in.add({in.tensor({3}), 1});
          },
          kComplex64);

  for (const bool skip : {false, true}) {
    const int64_t statistic = skip ? -1 : 0;
    op_case(skip ? op::nanmedian_dim : op::median_dim)
        .dtypes(ordered)
        .gradient()
        .reference(median_reference(statistic))
        .samples([](Inputs& in) {
          for (const bool keep : {false, true})
            along_dims(
                in,
                [&](Tensor x, int64_t dim, bool g) {
                  plain(in.add({x, dim, keep}), g);
                },
                false);
          if (in.is_floating()) {
            std::vector<double> v(74, 1);
            for (std::size_t i = 0; i < v.size(); i += 3) v[i] = kNan;
            in.add({in.values(v, {2, 37}), 1}).no_gradient();
          }
          if (in.dtype() == kFloat64 || in.dtype() == kBFloat16) {
            std::vector<double> v;
            for (int i = 0; i < 30000; ++i) v.push_back(i < 10000 && i % 7 == 3 ? kNan : (i * 7919 % 10007) / 16.0);
            in.add({in.values(v, {3, 10000}), 1}).no_gradient().no_layouts().no_destinations();
          }
        })
        .benchmark([](Inputs& in) {
          in.add({in.tensor({1024, 1024}, -1e6, 1e6), 1});
        })
        .error<IndexError>("", bad_dim)
        .error<IndexError>("",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 0}), 1});
                           })
        .error<DtypeError>(
            "self",
            [](Inputs& in) {
              in.add({in.tensor({3}), 0});
            },
            kComplex64);
    op_case(skip ? op::nanmedian : op::median)
        .dtypes(ordered)
        .gradient()
        .reference(median_of_all(statistic))
        .samples([](Inputs& in) {
          for (const Inputs::Sizes& s : {Inputs::Sizes{}, {1}, {2}, {3, 5}, {4, 3}}) in.add({in.tensor(s, -90, 90)});
          in.add({in.tensor({70000}, -90, 90)}).no_gradient();
          in.add({in.special()}).no_gradient();
          if (in.is_floating()) {
            in.add({in.tensor({0})}).no_gradient();
            in.add({in.values({kNan, 2, kNan, 1})}).no_gradient();
            in.add({in.values({kInf, kInf, kInf})}).no_gradient();
          }
        })
        .error<IndexError>(
            "self", [](Inputs& in) { in.add({in.tensor({0})}); }, kInt64)
        .error<DtypeError>("self", complex_self, kComplex64);
  }

  op_case(op::mode)
      .dtypes(ordered)
      .gradient()
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const bool exact = is_integral(x.dtype, true);
        return along(x, args.integer(1), !args.integer(2), 1, [=](const Elements& v) { return mode_place(v, exact); });
      })
      .samples([](Inputs& in) {
        for (const bool keep : {false, true}) {
          in.add({in.tensor({}), 0, keep});
          in.add({in.tensor({7}, -90, 90), 0, keep});
          in.add({in.tensor({3, 4, 5}, -90, 90), 1, keep});
          in.add({in.values({2, 1, 2, 1, 3}), 0, keep}).no_gradient();
          in.add({in.values({1, 1, 2, 2, 2, 1, 1, 3}, {2, 4}), 1, keep}).no_gradient();
          in.add({in.tensor({0, 3}), 1, keep}).no_gradient();
        }
        if (is_integral(in.dtype(), true)) in.add({in.tensor({3, 300}, -20, 20), 1}).no_gradient();
        if (in.dtype() == kInt32) in.add({in.tensor({2, 5000}, -9, 9), 1}).no_gradient().no_layouts();
        if (in.is_floating()) in.add({in.values({kNan, kNan, 1, 0.0, -0.0})}).no_gradient();
      })
      .error<IndexError>("", bad_dim)
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 0}), 1});
                         })
      .error<DtypeError>("self", complex_self, kComplex64);
}

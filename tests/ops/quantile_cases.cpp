// SPDX-License-Identifier: Apache-2.0
// Rows of ops/quantile.h.
#include <tenon/ops/quantile.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kNan = std::nan(""), kInf = std::numeric_limits<double>::infinity();

double quantile_of(std::vector<double> v, double q, const std::string& how, bool skip_nan, DType t) {
  std::sort(v.begin(), v.end(), [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); });
  const auto nans = std::count_if(v.begin(), v.end(), [](double x) { return std::isnan(x); });
  if (nans == static_cast<int64_t>(v.size()) || (nans > 0 && !skip_nan)) return kNan;
  const auto n = static_cast<double>(static_cast<int64_t>(v.size()) - nans);
  const double rank =
      t == kFloat32 ? static_cast<double>(static_cast<float>(q) * static_cast<float>(n - 1)) : q * (n - 1);
  const double low = v[static_cast<std::size_t>(std::floor(rank))], high = v[static_cast<std::size_t>(std::ceil(rank))];
  if (how == "lower") return low;
  if (how == "higher") return high;
  if (how == "nearest") return v[static_cast<std::size_t>(std::nearbyint(rank))];
  if (low == high) return low;
  return how == "midpoint" ? (low + high) / 2 : low + (rank - std::floor(rank)) * (high - low);
}

Reference reference(bool skip_nan) {
  return [=](const Args& args) {
    const Array x = args.array(0), q = cast(args.array(1), x.dtype);
    const bool all = args.is_none(2), keep = args.integer(3), listed = !q.sizes.empty();
    const int64_t rank = x.dim(), d = all ? -1 : args.integer(2) < 0 ? args.integer(2) + rank : args.integer(2);
    std::vector<int64_t> outer = x.sizes, sizes;
    for (int64_t k = 0; k < rank; ++k) {
      if (all || k == d) outer[k] = 1;
      if ((!all && k != d) || keep) sizes.push_back(outer[k]);
    }
    std::vector<std::vector<double>> lines(count(outer));
    std::size_t i = 0;
    double scale = 0;
    each_index(x.sizes, [&](const std::vector<int64_t>& at) {
      std::vector<int64_t> to = at;
      for (int64_t k = 0; k < rank; ++k)
        if (all || k == d) to[k] = 0;
      const double v = x.data[i++].re();
      if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
      lines[flat_index(to, outer)].push_back(v);
    });
    if (listed) sizes.insert(sizes.begin(), q.numel());
    Array out = make_array(x.dtype, sizes);
    std::size_t at = 0;
    for (const Number& each : q.data)
      for (const auto& line : lines) {
        out.data[at++] = Number(quantile_of(line, each.re(), args.text(4), skip_nan, x.dtype));
        out.scale.push_back(scale * 4);
      }
    return std::vector<Array>{out};
  };
}

}  // namespace

TENON_OP_CASES(quantile) {
  for (const bool skip : {false, true}) {
    op_case(skip ? op::nanquantile : op::quantile)
        .dtypes({kFloat32, kFloat64})
        .gradient()
        .reference(reference(skip))
        .samples([](Inputs& in) {
          for (const char* how : {"linear", "lower", "higher", "nearest", "midpoint"}) {
            for (const bool keep : {false, true}) {
              in.add({in.tensor({7, 3}, -9, 9), in.values({0.13, 0.4, 0.77}), 0, keep}, {{"interpolation", how}});
              in.add({in.tensor({2, 5, 3}, -9, 9), 0.3, 1, keep}, {{"interpolation", how}});
              in.add({in.tensor({3, 4}, -9, 9), in.values({0.31}), Value(), keep}, {{"interpolation", how}});
            }
            in.add({in.tensor({5}, -9, 9), in.values({0, 0.25, 0.5, 0.625, 0.875, 1})}, {{"interpolation", how}})
                .no_gradient();
            in.add({in.tensor({}), in.values({0.2, 0.4}), 0}, {{"interpolation", how}}).no_gradient();
            in.add({in.values({1, kNan, 3, 4, 5, 2}, {2, 3}), in.values({0.5, 0.2}), 1}, {{"interpolation", how}})
                .no_gradient();
            in.add({in.values({kNan, kNan}), 0.5}, {{"interpolation", how}}).no_gradient();
            in.add({in.values({kInf, 1, -kInf, 2}), in.values({0, 1})}, {{"interpolation", how}}).no_gradient();
          }
          in.add({in.tensor({3, 700}, -90, 90), in.values({0.1, 0.9}), 1}).no_gradient();
        })
        .error<ValueError>("q",
                           [](Inputs& in) {
                             in.add({in.tensor({3}), 1.5});
                             in.add({in.tensor({3}), -0.1});
                           })
        .error<ShapeError>("q",
                           [](Inputs& in) {
                             in.add({in.tensor({3}), in.tensor({2, 2}, 0, 1)});
                             in.add({in.tensor({3}), in.tensor({0})});
                           })
        .error<DtypeError>("q",
                           [](Inputs& in) {
                             in.add({in.tensor({3}), in.tensor({2}, 0, 1, kFloat64)});
                           })
        .error<ValueError>("interpolation",
                           [](Inputs& in) {
                             in.add({in.tensor({3}), 0.5}, {{"interpolation", "cubic"}});
                           })
        .error<ShapeError>("self",
                           [](Inputs& in) {
                             in.add({in.tensor({0}), 0.5});
                           })
        .error<IndexError>("",
                           [](Inputs& in) {
                             in.add({in.tensor({3}), 0.5, 1});
                           })
        .error<DtypeError>(
            "self",
            [](Inputs& in) {
              in.add({in.tensor({3}), 0.5});
            },
            kInt64);
  }
}

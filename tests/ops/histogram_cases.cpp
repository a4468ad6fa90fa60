// SPDX-License-Identifier: Apache-2.0
// Rows of ops/histogram.h: one element after the other is put into the first bin that holds it.
#include <tenon/ops/histogram.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kNan = std::nan(""), kInf = std::numeric_limits<double>::infinity();

std::vector<Array> bincount_reference(const Args& args) {
  const Array x = args.array(0), w = args.is_none(1) ? Array() : args.array(1);
  int64_t size = args.integer(2);
  for (const Number& v : x.data) size = std::max(size, v.i + 1);
  Array out = make_array(!w.defined() ? kInt64 : w.dtype == kFloat32 ? kFloat32 : kFloat64, {size});
  std::vector<double> sums(size), scale(size);
  std::vector<int64_t> counts(size);
  for (int64_t i = 0; i < x.numel(); ++i) {
    ++counts[x.data[i].i];
    if (w.defined()) sums[x.data[i].i] += w.data[i].re(), scale[x.data[i].i] += std::abs(w.data[i].re());
  }
  for (int64_t i = 0; i < size; ++i) out.data[i] = w.defined() ? Number(sums[i]) : Number(counts[i]);
  if (w.defined()) out.scale = scale;
  return {out};
}

std::pair<double, double> range_of(const Array& x, double low, double high, double slack) {
  if (low == high && x.numel() > 0) {
    low = kInf, high = -kInf;
    for (const Number& v : x.data) low = std::min(low, v.re()), high = std::max(high, v.re());
  }
  if (low == high) low -= slack, high += slack;
  return {low, high};
}
std::vector<Array> histc_reference(const Args& args) {
  const Array x = args.array(0);
  const int64_t bins = args.integer(1);
  const auto [low, high] = range_of(x, args.real(2), args.real(3), 1);
  std::vector<int64_t> counts(bins);
  for (const Number& v : x.data)
    if (v.re() >= low && v.re() <= high)
      ++counts[std::min(static_cast<int64_t>((v.re() - low) * static_cast<double>(bins) / (high - low)), bins - 1)];
  Array out = make_array(x.dtype, {bins});
  for (int64_t i = 0; i < bins; ++i)
    out.data[i] = is_integral(x.dtype) ? convert(Number(counts[i]), kInt64, x.dtype)
                                       : convert(Number(static_cast<double>(counts[i])), kFloat64, x.dtype);
  return {out};
}

std::vector<Array> histogram_of(const Array& x, const Array& edges, const Array& weight, bool density) {
  const int64_t bins = edges.numel() - 1;
  std::vector<double> sums(bins);
  double total = 0, magnitude = 0;
  for (int64_t i = 0; i < x.numel(); ++i)
    for (int64_t b = 0; b < bins; ++b) {
      const double v = x.data[i].re(), low = edges.data[b].re(), high = edges.data[b + 1].re();
      if (!(v >= low && (v < high || (b == bins - 1 && v <= high)))) continue;
      const double w = weight.defined() ? weight.data[i].re() : 1;
      sums[b] += w, total += w, magnitude += std::abs(w);
    }
  Array out = make_array(x.dtype, {bins});
  for (int64_t b = 0; b < bins; ++b) {
    const double width = edges.data[b + 1].re() - edges.data[b].re();
    out.data[b] = Number(density ? sums[b] / total / width : sums[b]);
    out.scale.push_back(density ? magnitude / std::abs(total) / width : magnitude);
  }
  return {out, edges};
}

}  // namespace

TENON_OP_CASES(histogram) {
  op_case(op::bincount)
      .dtypes(kIntegers)
      .ulp(64)  // float32 weights are added in any order on CUDA
      .reference(bincount_reference)
      .samples([](Inputs& in) {
        in.add({in.values({5, 1, 6, 5, 6, 4, 2, 5, 5, 9})});
        in.add({in.values({5, 1, 6, 5, 6, 4, 2, 5, 5, 9}), Value(), 20});
        in.add({in.values({5, 1, 6, 5}), in.tensor({4}, -3, 3, kFloat32), 2});
        in.add({in.values({5, 1, 6, 5}), in.tensor({4}, -3, 3, kFloat64)});
        in.add({in.values({5, 1, 6, 5}), in.tensor({4}, -3, 3, kFloat16)});
        in.add({in.values({5, 1, 6, 5}), in.tensor({4}, -3, 3, kInt64)});
        in.add({in.tensor({0}), Value(), 3});
        in.add({in.tensor({0})});
      })
      .samples([](Inputs& in) {
        if (in.dtype() != kInt64) return;
        in.add({in.index({300000}, 100)}).no_layouts().no_destinations();
        in.add({in.index({300000}, 100), in.tensor({300000}, 0, 1, kFloat32)}).no_layouts().no_destinations();
        in.add({in.index({5000}, 20000)}).no_layouts().no_destinations();
      })
      .benchmark([](Inputs& in) { in.add({in.index({1 << 20}, 1000)}); })
      .error<ValueError>(
          "self",
          [](Inputs& in) {
            in.add({in.values({1, -1})});
          },
          kInt64)
      .error<ShapeError>(
          "self",
          [](Inputs& in) {
            in.add({in.tensor({2, 2})});
          },
          kInt64)
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kFloat32)
      .error<ShapeError>(
          "weights",
          [](Inputs& in) {
            in.add({in.values({1, 2}), in.values({1})});
          },
          kInt64)
      .error<ValueError>(
          "minlength",
          [](Inputs& in) {
            in.add({in.values({1, 2}), Value(), -1});
          },
          kInt64);
  op_case(op::histc)
      .dtypes(kReals)
      .reference(histc_reference)
      .samples([](Inputs& in) {
        // Whole numbers in bins of width 1 or 2: no edge is rounded.
        std::vector<double> v;
        for (int i = 0; i < 300; ++i) v.push_back(static_cast<double>(in.integer(0, 16)));
        in.add({in.values(v), 16, 0, 16});
        in.add({in.values(v, {3, 100}), 8, 0, 16});
        in.add({in.values(v), 4, 4, 12});
        in.add({in.values({0, 16, 3, 3, 8}), 16});
        in.add({in.values({7, 7, 7}), 2});
        in.add({in.tensor({0}), 3});
        in.add({in.values({5}, {}), 10, 0, 10});
        in.add({in.values({5}), 5000, 0, 5000});
        if (in.is_floating()) in.add({in.values({kNan, 1, kInf, 3, -kInf}), 4, 0, 4});
      })
      .samples([](Inputs& in) {
        if (in.dtype() == kFloat32 || in.dtype() == kInt32)
          in.add({in.tensor({500000}, 0.25, 7.75), 1, 0, 8}).no_layouts();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}, 0, 100), 100, 0, 100});
      })
      .error<ValueError>("bins",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0});
                         })
      .error<ValueError>("max",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 3, 5, 1});
                         })
      .error<ValueError>("finite",
                         [](Inputs& in) {
                           in.add({in.values({1, kInf}), 3});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({3})}); }, kComplex64);

  const Dtypes floats = {kFloat32, kFloat64};
  op_case(op::histogram_bins)
      .dtypes(floats)
      .ulp(8)
      .reference([](const Args& args) {
        return histogram_of(args.array(0), args.array(1), args.is_none(2) ? Array() : args.array(2), args.integer(3));
      })
      .samples([](Inputs& in) {
        for (const bool density : {false, true}) {
          in.add({in.tensor({50}, -5, 5), in.values({-4, -1, 0, 0.5, 4})}, {{"density", density}});
          in.add({in.tensor({5, 6}, -5, 5), in.values({-4, 0, 4})},
                 {{"weight", in.tensor({5, 6}, 1, 2)}, {"density", density}});
          in.add({in.values({1, 2, 3, 3, 4, kNan, 9}), in.values({1, 2, 3})}, {{"density", density}});
          in.add({in.values({1, 2, 3}), in.values({1, 3})},
                 {{"weight", in.values({1, -3, 0.5})}, {"density", density}});
        }
        in.add({in.tensor({0}), in.values({0, 1, 2})});
        in.add({in.tensor({100000}, -5, 5), in.values({-4, -1, 0, 0.5, 4})}).no_layouts();
      })
      .error<ShapeError>("bins",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.tensor({2, 2})});
                         })
      .error<ShapeError>("weight",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.values({1, 2})}, {{"weight", in.tensor({2})}});
                         })
      .error<DtypeError>(
          "self",
          [](Inputs& in) {
            in.add({in.tensor({3}), in.tensor({3})});
          },
          kInt64);
  op_case(op::histogram)
      .dtypes(floats)
      .ulp(8)
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const int64_t bins = args.integer(1);
        double low = 0, high = 0;
        if (!args.is_none(2)) low = args.array(2).data[0].re(), high = args.array(2).data[1].re();
        if (args.is_none(2) && x.numel() == 0) high = 1;
        if (args.is_none(2)) std::tie(low, high) = range_of(x, low, high, 0.5);
        if (low == high) low -= 0.5, high += 0.5;
        Array edges = make_array(x.dtype, {bins + 1});
        for (int64_t i = 0; i <= bins; ++i)
          edges.data[i] = Number(low + (high - low) * static_cast<double>(i) / static_cast<double>(bins));
        return histogram_of(x, edges, args.is_none(3) ? Array() : args.array(3), args.integer(4));
      })
      .samples([](Inputs& in) {
        // Values and edges that are exact in float32.
        std::vector<double> v;
        for (int i = 0; i < 64; ++i) v.push_back(static_cast<double>(in.integer(0, 64)) / 8);
        v[0] = 0, v[1] = 8;
        for (const bool density : {false, true}) {
          in.add({in.values(v), 8}, {{"density", density}});
          in.add({in.values(v, {8, 8}), 4}, {{"range", in.values({2, 6})}, {"density", density}});
          in.add({in.values(v), 8}, {{"weight", in.tensor({64}, 1, 2)}, {"density", density}});
        }
        in.add({in.values({3}, {}), 2});
        in.add({in.tensor({0}), 4});
        in.add({in.values({1, 1, 1}), 2});
      })
      .error<ValueError>("bins",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0});
                         })
      .error<ValueError>("finite",
                         [](Inputs& in) {
                           in.add({in.values({1, kNan}), 3});
                         })
      .error<ValueError>("range",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 3}, {{"range", in.values({2, 1})}});
                         })
      .error<DtypeError>(
          "self",
          [](Inputs& in) {
            in.add({in.tensor({3}), 3});
          },
          kInt64);
}

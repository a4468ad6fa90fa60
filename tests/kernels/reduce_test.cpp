// SPDX-License-Identifier: Apache-2.0
// Reduction kernels on random shapes, strides and dims against loops over long double; positions, NaN, large sums,
// independence of the number of threads.
#include "tests/support/catch.h"

#include <tenon/kernels/cpu/parallel.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace tenon;

namespace {

using Dims = std::vector<int64_t>;

double at(const Tensor& t, const Dims& index) {
  int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * t.strides()[d];
  double v = 0;
  visit_dtype<Join<Numbers, Bools>>("at", t.dtype(), [&](auto tag) {
    v = static_cast<double>(static_cast<typename decltype(tag)::type*>(t.data_ptr())[offset]);
  });
  return v;
}

// Calls f(index) for every index of `sizes`, last dimension fastest.
template <class F>
void each_index(IntArrayRef sizes, F&& f) {
  Dims index(sizes.size(), 0);
  for (const int64_t s : sizes)
    if (s == 0) return;
  for (;;) {
    f(index);
    std::size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

// Random values in a tensor with permuted, sliced or expanded storage.
Tensor random_tensor(std::mt19937& rng, Dims sizes, DType t, bool nan) {
  std::vector<std::size_t> order(sizes.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (rng() % 2) std::shuffle(order.begin(), order.end(), rng);
  Dims stored, back(sizes.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    stored.push_back(sizes[order[k]]);
    back[order[k]] = static_cast<int64_t>(k);
  }
  const bool gap = !sizes.empty() && rng() % 3 == 0;
  if (gap) stored.back() *= 2;
  int64_t numel = 1;
  for (const int64_t s : stored) numel *= s;
  std::vector<float> values(static_cast<std::size_t>(numel));
  for (float& v : values) {
    v = is_floating_point(t) ? std::uniform_real_distribution<float>(-2, 2)(rng) : static_cast<float>(rng() % 5);
    if (t == kBool) v = rng() % 3 != 0;
    if (nan && rng() % 40 == 0) v = std::numeric_limits<float>::quiet_NaN();
  }
  Tensor x = from_span<float>(values, IntArrayRef(stored)).to(t);
  if (gap) x = x.slice(static_cast<int64_t>(sizes.size()) - 1, 0, stored.back(), 2);
  return x.permute(back);
}

struct Case {
  Dims sizes, dims;
};
const std::vector<Case> kCases = {{{}, {}},           {{5}, {0}},          {{7, 3}, {1}},
                                  {{7, 3}, {0}},      {{3, 40}, {0, 1}},   {{2000, 3}, {1}},
                                  {{2000, 3}, {0}},   {{4, 5, 6}, {0, 2}}, {{4, 5, 6}, {1}},
                                  {{70, 1100}, {1}},  {{70, 1100}, {0}},   {{3, 2, 5, 4}, {1, 3}},
                                  {{140000}, {0}},    {{2, 140000}, {1}},  {{140000, 2}, {0}},
                                  {{200, 1500}, {0}}, {{1, 9}, {0}},       {{33, 1, 65}, {1, 2}},
                                  {{3000, 70}, {0}},  {{0, 4}, {1}}};

}  // namespace

TEST_CASE("sums, means, variances and truth agree with a plain loop") {
  std::mt19937 rng(tenon::testing::seed());
  for (const Case& c : kCases)
    for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kBool}) {
      const Tensor x = random_tensor(rng, c.sizes, t, false);
      const IntArrayRef dims(c.dims);
      CAPTURE(c.sizes, c.dims, name(t));
      const Tensor total = sum(x, dims, true), truth = all(x, dims, true), some = any(x, dims, true);
      const bool floating = is_floating_point(t);
      const Tensor average = floating ? mean(x, dims, true) : Tensor(),
                   spread = floating ? var(x, dims, 0, true) : Tensor();
      CHECK(total.dtype() == (floating ? t : kInt64));
      const double eps = t == kFloat64 ? 1e-13 : t == kFloat32 ? 1e-6 : t == kFloat16 ? 1e-3 : 8e-3;
      int64_t wrong = 0;
      each_index(total.sizes(), [&](const Dims& kept) {
        long double s = 0, squares = 0, size = 0;
        bool every = true, one = false;
        int64_t n = 0;
        const auto elements = [&](auto&& f) {
          each_index(x.sizes(), [&](const Dims& i) {
            for (std::size_t d = 0; d < i.size(); ++d)
              if (total.sizes()[d] != 1 && i[d] != kept[d]) return;
            f(static_cast<long double>(at(x, i)));
          });
        };
        if (total.numel() > 300 && rng() % 50 != 0) return;  // the plain loop is slow
        elements(
            [&](long double v) { s += v, size += std::fabs(v), ++n, every = every && v != 0, one = one || v != 0; });
        wrong += !(std::fabs(at(total, kept) - s) <=
                   eps * (floating && t != kFloat32 && t != kFloat64 ? std::fabs(s) + 1e-2 : size + 1));
        wrong += at(truth, kept) != every || at(some, kept) != one;
        if (!floating) return;
        const long double m = s / n;
        elements([&](long double v) { squares += (v - m) * (v - m); });
        wrong += !(std::fabs(at(average, kept) - m) <= eps * (std::fabs(m) + 1));
        wrong += !(std::fabs(at(spread, kept) - squares / n) <= eps * (squares / n + 1e-2));
      });
      CHECK(wrong == 0);
    }
}

TEST_CASE("extremes and their positions: first of equals, NaN above all") {
  std::mt19937 rng(tenon::testing::seed());
  for (const Case& c : kCases)
    for (const DType t : {kFloat32, kFloat64, kBFloat16, kInt64, kUInt8}) {
      if (c.sizes.size() > 0 && c.sizes[0] == 0) continue;
      const Tensor x = random_tensor(rng, c.sizes, t, is_floating_point(t));
      const IntArrayRef dims(c.dims);
      CAPTURE(c.sizes, c.dims, name(t));
      const Tensor high = amax(x, dims, true), low = amin(x, dims, true);
      const bool single = c.dims.size() == 1, flat = c.dims.size() == c.sizes.size();
      Tensor where_high, where_low, value_high;
      if (single) {
        std::tie(value_high, where_high) = max(x, c.dims[0], true);
        where_low = argmin(x, c.dims[0], true);
      } else if (flat) {
        where_high = argmax(x, {}, true);
        where_low = argmin(x, {}, true);
      }
      int64_t wrong = 0;
      each_index(high.sizes(), [&](const Dims& kept) {
        if (high.numel() > 300 && rng() % 50 != 0) return;
        double best = 0, least = 0;
        int64_t n = 0, best_at = 0, least_at = 0;
        each_index(x.sizes(), [&](const Dims& i) {
          for (std::size_t d = 0; d < i.size(); ++d)
            if (high.sizes()[d] != 1 && i[d] != kept[d]) return;
          const double v = at(x, i);
          if (n == 0 || v > best || (std::isnan(v) && !std::isnan(best))) best = v, best_at = n;
          if (n == 0 || v < least || (std::isnan(v) && !std::isnan(least))) least = v, least_at = n;
          ++n;
        });
        const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
        wrong += !same(at(high, kept), best) + !same(at(low, kept), least);
        if (!single && !flat) return;
        wrong += (at(where_high, kept) != static_cast<double>(best_at)) +
                 (at(where_low, kept) != static_cast<double>(least_at));
        if (single) wrong += !same(at(value_high, kept), best);
      });
      CHECK(wrong == 0);
    }
}

TEST_CASE("extremes of nothing but the weakest value") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 5, 100, 5000}) {
    const Tensor x = full({n, 3}, -inf);
    CHECK(argmax(x, 0).sum().item<int64_t>() == 0);
    CHECK(amax(x).item<float>() == -inf);
    CHECK(argmax(x.t().contiguous(), 1).sum().item<int64_t>() == 0);
  }
}

TEST_CASE("large sums are right") {
  const Tensor one = ones({1});
  CHECK(sum(one.expand({100000000})).item<float>() == 1e8f);
  const Tensor many = ones({20000000});
  CHECK(sum(many).item<float>() == 2e7f);
  CHECK(sum(many.view({10000000, 2}), IntArrayRef(0)).select(0, 1).item<float>() == 1e7f);
  const Tensor tenth = full({10000000}, 0.1, kFloat64);
  CHECK(std::fabs(sum(tenth).item<double>() - 1e6) < 1e-8);
  // Far from zero: the sum of squares minus the squared mean would be all rounding error.
  const Tensor far = arange(0, 100000, 1, kFloat64) + 1e9;
  CHECK(std::fabs(var(far).item<double>() / (100000.0 * 100001.0 / 12) - 1) < 1e-12);
  const Tensor half_ones = ones({70000}, kFloat16);
  CHECK(mean(half_ones).item<float>() == 1.f);
}

TEST_CASE("reductions of no elements") {
  CHECK(sum(zeros({0})).item<float>() == 0.f);
  CHECK(std::isnan(mean(zeros({0})).item<float>()));
  CHECK(all(zeros({0})).item<bool>());
  CHECK_FALSE(any(zeros({0})).item<bool>());
  CHECK(std::isnan(var(zeros({1})).item<float>()));
  CHECK_THROWS_AS(amax(zeros({0})), IndexError);
  CHECK(sum(zeros({3, 0}), IntArrayRef(1)).sizes() == IntArrayRef({3}));
}

TEST_CASE("reductions do not depend on the number of threads") {
  std::mt19937 rng(tenon::testing::seed());
  const int before = num_threads();
  for (const Dims& sizes : {Dims{1000003}, Dims{7, 200000}, Dims{200000, 7}, Dims{900, 1100}})
    for (const int64_t dim : {0, 1}) {
      if (dim >= static_cast<int64_t>(sizes.size())) continue;
      const Tensor x = random_tensor(rng, sizes, kFloat32, false);
      set_num_threads(1);
      const Tensor a = sum(x, IntArrayRef(dim)), b = var(x, IntArrayRef(dim));
      set_num_threads(5);
      const Tensor c = sum(x, IntArrayRef(dim)), d = var(x, IntArrayRef(dim));
      set_num_threads(before);
      CHECK(all(a == c).item<bool>());
      CHECK(all(b == d).item<bool>());
    }
}

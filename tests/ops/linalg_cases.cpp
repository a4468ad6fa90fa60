// SPDX-License-Identifier: Apache-2.0
// Rows of ops/linalg.h but for those of einsum_cases.cpp. Expected values are sums over all indices, or scalar loops, in
// double.
#include <tenon/ops/linalg.h>

#include "tests/support/op_case.h"
#include "tests/support/summed_products.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;
using List = std::vector<Tensor>;
const Dtypes kWide = {kFloat64, kFloat32};  // 16-bit intermediate results would be rounded
const double kInfinity = std::numeric_limits<double>::infinity();

Maker pairs(std::vector<std::pair<Sizes, Sizes>> sizes) {
  return [sizes = std::move(sizes)](Inputs& in) {
    for (const auto& [a, b] : sizes) in.add({in.tensor(a), in.tensor(b)});
  };
}
/// Components a1 b2 - a2 b1, a2 b0 - a0 b2, a0 b1 - a1 b0.
Reference cross_of(bool named) {
  return [=](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    int64_t dim = named || !args.is_none(2) ? args.integer(2) : -9;
    for (int64_t d = 0; dim == -9 && d < a.dim(); ++d)
      if (a.sizes[static_cast<std::size_t>(d)] == 3) dim = d;
    if (dim < 0) dim += a.dim();
    const auto rotated = [&](const Array& x, int64_t by) {
      return pick(x, x.sizes, [&](Sizes at) {
        int64_t& i = at[static_cast<std::size_t>(dim)];
        i = (i + by) % 3;
        return at;
      });
    };
    Array out = pointwise({rotated(a, 1), rotated(b, 2), rotated(a, 2), rotated(b, 1)}, DType::undefined, a.dtype,
                          [&](const Number* v) -> Number {
                            if (is_integral(a.dtype))
                              return convert(Number(v[0].i * v[1].i - v[2].i * v[3].i), kInt64, a.dtype);
                            return v[0].z * v[1].z - v[2].z * v[3].z;
                          });
    out.scale = {32};
    return std::vector<Array>{out};
  };
}

std::vector<Array> kron_of(const Args& args) {
  Array a = args.array(0), b = args.array(1);
  while (a.dim() < b.dim()) a.sizes.insert(a.sizes.begin(), 1);
  while (b.dim() < a.dim()) b.sizes.insert(b.sizes.begin(), 1);
  Sizes sizes;
  for (std::size_t d = 0; d < a.sizes.size(); ++d) sizes.push_back(a.sizes[d] * b.sizes[d]);
  const auto part = [&](const Array& x, bool high) {
    return pick(x, sizes, [&](Sizes at) {
      for (std::size_t d = 0; d < at.size(); ++d) at[d] = high ? at[d] / b.sizes[d] : at[d] % b.sizes[d];
      return at;
    });
  };
  return {pointwise({part(a, true), part(b, false)}, DType::undefined, a.dtype, [&](const Number* v) -> Number {
    if (!is_integral(a.dtype)) return v[0].z * v[1].z;
    return static_cast<int64_t>(static_cast<uint64_t>(v[0].i) * static_cast<uint64_t>(v[1].i));
  })};
}

/// Covariances by their definition, with every observation weighted.
std::vector<std::vector<Complex>> covariances(const Array& x, int64_t correction, const Array& f, const Array& a) {
  const std::size_t rows = x.dim() < 2 ? 1 : static_cast<std::size_t>(x.sizes[0]);
  const auto n = static_cast<std::size_t>(x.dim() == 0 ? 1 : x.sizes.back());
  std::vector<double> w(n, 1);
  double total = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (f.defined()) w[i] *= f.data[i].re();
    if (a.defined()) w[i] *= a.data[i].re();
    total += w[i];
    squares += w[i] * (a.defined() ? a.data[i].re() : 1);
  }
  const double freedom = std::max(0.0, total - static_cast<double>(correction) * (a.defined() ? squares / total : 1));
  std::vector<std::vector<Complex>> out(rows, std::vector<Complex>(rows, 0));
  std::vector<Complex> mean(rows, 0);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < n; ++i) mean[r] += w[i] * x.data[r * n + i].z / total;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < rows; ++c) {
      for (std::size_t i = 0; i < n; ++i)
        out[r][c] += w[i] * (x.data[r * n + i].z - mean[r]) * std::conj(x.data[c * n + i].z - mean[c]);
      out[r][c] /= freedom;
    }
  return out;
}
Array square_of(const std::vector<std::vector<Complex>>& c, DType t, double scale) {
  const auto n = static_cast<int64_t>(c.size());
  Array out = make_array(t, n == 1 ? Sizes{} : Sizes{n, n});
  for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = c[i / c.size()][i % c.size()];
  out.scale = {scale};
  return out;
}

double distance(const std::vector<double>& d, double p) {
  double sum = 0, most = 0;
  for (const double v : d) {
    most = std::max(most, std::abs(v));
    sum += p == 0 ? (v != 0 ? 1 : 0) : std::pow(std::abs(v), p);
  }
  return std::isinf(p) ? most : p == 0 ? sum : std::pow(sum, 1 / p);
}
std::vector<Array> cdist_of(const Args& args) {
  const Array a = args.array(0), b = args.array(1);
  const int64_t n = a.sizes[a.sizes.size() - 2], m = b.sizes[b.sizes.size() - 2], k = a.sizes.back();
  const Sizes a_batch(a.sizes.begin(), a.sizes.end() - 2), b_batch(b.sizes.begin(), b.sizes.end() - 2);
  const Sizes batch = broadcast(a_batch, b_batch);
  Sizes sizes = batch;
  sizes.push_back(n), sizes.push_back(m);
  Array out = make_array(a.dtype, sizes);
  std::size_t next = 0;
  each_index(batch, [&](const Sizes& at) {
    const auto start = [&](const Sizes& own) {
      int64_t flat = 0;
      for (std::size_t d = 0; d < own.size(); ++d)
        flat = flat * own[d] + (own[d] == 1 ? 0 : at[at.size() - own.size() + d]);
      return flat;
    };
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) {
        std::vector<double> d;
        for (int64_t c = 0; c < k; ++c)
          d.push_back(a.data[static_cast<std::size_t>((start(a_batch) * n + i) * k + c)].re() -
                      b.data[static_cast<std::size_t>((start(b_batch) * m + j) * k + c)].re());
        out.data[next++] = distance(d, args.real(2));
      }
  });
  out.scale = {64};
  return {out};
}

Array matrix_product(const Array& a, const Array& b) { return summed_products("ij,jk", {a, b}, a.dtype); }

}  // namespace

TENON_OP_CASES(linalg) {
  op_case(op::vdot)
      .dtypes(kNumbers)
      .gradient()
      .samples(pairs({{{5}, {5}}, {{0}, {0}}}))
      .reference([](const Args& a) {
        Array x = a.array(0);
        if (is_complex(x.dtype))
          for (Number& v : x.data) v.z = std::conj(v.z);
        return std::vector<Array>{summed_products("i,i", {x, a.array(1)}, x.dtype)};
      })
      .error<ShapeError>("", pairs({{{3}, {4}}, {{3, 1}, {3}}}))
      .error<DtypeError>("", [](Inputs& in) {
        in.add({in.tensor({3}), in.tensor({3}, 0, 1, kFloat64)});
      });
  op_case(op::linalg_vecdot)
      .dtypes(kWide + kComplexes)
      .gradient()
      .samples(pairs({{{5}, {5}}, {{2, 3}, {2, 3}}, {{2, 1, 3}, {4, 3}}, {{2, 0}, {2, 0}}, {{0, 3}, {0, 3}}}))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 2}), in.tensor({3, 2})}, {{"dim", 0}});
      })
      .reference([](const Args& a) {
        Array x = a.array(0);
        if (is_complex(x.dtype))
          for (Number& v : x.data) v.z = std::conj(v.z);
        return std::vector<Array>{
            summed_products(a.integer(2) == 0 ? "i...,i...->..." : "...i,...i->...", {x, a.array(1)}, x.dtype)};
      })
      .error<DtypeError>("x", pairs({{{3}, {3}}}), kInt64);
  op_case(op::kron)
      .dtypes(kNumbers)
      .gradient()
      .samples(pairs({{{2, 3}, {3, 2}}, {{3}, {2, 2}}, {{2, 1, 2}, {3}}, {{}, {2, 2}}, {{2, 0}, {3, 2}}, {{}, {}}}))
      .benchmark([](Inputs& in) {
        in.add({in.tensor({30, 30}), in.tensor({20, 20})});
      })
      .reference(kron_of);
  op_case(op::linalg_cross)
      .dtypes(kWide + kComplexes + kIntegers)
      .gradient()
      .samples(pairs({{{3}, {3}}, {{2, 3}, {2, 3}}, {{1, 3}, {4, 3}}, {{0, 3}, {0, 3}}}))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), in.tensor({2, 3, 1})}, {{"dim", 1}});
      })
      .reference(cross_of(true))
      .error<ShapeError>("", pairs({{{2, 2, 3}, {2, 3}}}))
      .error<ShapeError>("dim", pairs({{{2, 3}, {2, 1}}, {{3, 4}, {3, 4}}}))
      .error<DtypeError>("self", [](Inputs& in) {
        in.add({in.boolean({3}), in.boolean({3})});
      });
  op_case(op::cross)
      .dtypes(kWide + kComplexes + kIntegers)
      .gradient()
      .samples(pairs({{{3, 4}, {3, 4}}, {{2, 3}, {2, 3}}}))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 3}), in.tensor({1, 3}), 1});
      })
      .reference(cross_of(false))
      .error<ShapeError>("self", pairs({{{2, 4}, {2, 4}}}));

  op_case(op::linalg_multi_dot)
      .dtypes(kWide + kComplexes + kIntegers)
      .gradient()
      .ulp(8)
      .samples([](Inputs& in) {
        const auto t = [&](Sizes s) { return in.tensor(s, -1, 1); };
        in.add({List{t({2, 3}), t({3, 4})}});
        in.add({List{t({2, 4}), t({4, 3}), t({3, 5}), t({5, 3}), t({3, 2})}});
        in.add({List{t({3}), t({3, 4}), t({4, 2})}});
        in.add({List{t({2, 3}), t({3, 4}), t({4})}});
        in.add({List{t({3}), t({3, 2}), t({2})}});
        in.add({List{t({3}), t({3})}});
        in.add({List{t({5, 4}), t({4, 0}), t({0, 2})}});
      })
      .reference([](const Args& a) {
        std::vector<Array> list = a.arrays(0);
        const bool row = list.front().dim() == 1, column = list.back().dim() == 1;
        if (row) list.front().sizes.insert(list.front().sizes.begin(), 1);
        if (column) list.back().sizes.push_back(1);
        Array out = list[0];
        for (std::size_t i = 1; i < list.size(); ++i) out = matrix_product(out, list[i]);
        out.scale = {std::pow(4, static_cast<double>(list.size()))};
        if (column) out.sizes.pop_back();
        if (row) out.sizes.erase(out.sizes.begin());
        return std::vector<Array>{out};
      })
      .error<ValueError>("tensors",
                         [](Inputs& in) {
                           in.add({List{in.tensor({2, 2})}});
                         })
      .error<ShapeError>("tensors",
                         [](Inputs& in) {
                           in.add({List{in.tensor({2, 2}), in.tensor({2}), in.tensor({2, 2})}});
                           in.add({List{in.tensor({2, 2}), in.tensor({3, 2})}});
                         })
      .error<DtypeError>("", [](Inputs& in) {
        in.add({List{in.tensor({2, 2}), in.tensor({2, 2}, 0, 1, kFloat64)}});
      });
  op_case(op::linalg_matrix_power)
      .dtypes(kWide + kComplexes + kIntegers)
      .gradient()
      .ulp(8)
      .samples([](Inputs& in) {
        for (const int n : {0, 1, 2, 3, 5, 8}) in.add({in.tensor({3, 3}, -1, 1), n});
        in.add({in.tensor({2, 2, 2}, -1, 1), 3});
        in.add({in.tensor({0, 2, 2}), 3});
        in.add({in.tensor({0, 0}), 2});
      })
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const int64_t n = x.sizes.back();
        Array out = pick(x, x.sizes, [](const Sizes& at) { return at; });
        for (std::size_t i = 0; i < out.data.size(); ++i) {
          const auto place = static_cast<int64_t>(i) % (n * n);
          out.data[i] = convert(Number(int64_t{place / n == place % n}), kInt64, x.dtype);
        }
        for (int64_t k = 0; k < a.integer(1); ++k) out = summed_products("...ij,...jk", {out, x}, x.dtype);
        out.scale = {std::pow(3, static_cast<double>(a.integer(1)))};
        return std::vector<Array>{out};
      })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({2, 3}), 2});
        in.add({in.tensor({2}), 2});
      });

  op_case(op::cov)
      .dtypes(kWide + kComplexes)
      .gradient()
      .gradient_of(1)
      .ulp(16)
      .samples([](Inputs& in) {
        const Tensor f = in.integers({1, 3, 0, 2}), a = in.values({0.5, 2, 1, 0.25}, {4}, kFloat64);
        for (const int correction : {0, 1, 2}) {
          in.add({in.tensor({3, 4})}, {{"correction", correction}});
          in.add({in.tensor({2, 4})}, {{"correction", correction}, {"fweights", f}});
          in.add({in.tensor({4})}, {{"correction", correction}});
        }
        if (in.dtype() != kFloat64 && in.dtype() != kComplex128) return;
        in.add({in.tensor({2, 4})}, {{"fweights", f}, {"aweights", a}});
        in.add({in.tensor({2, 4})}, {{"correction", 0}, {"aweights", a}});
      })
      .reference([](const Args& a) {
        const Array x = a.array(0);
        return std::vector<Array>{square_of(covariances(x, a.integer(1), a.array(2), a.array(3)), x.dtype, 32)};
      })
      .error<ShapeError>("weights",
                         [](Inputs& in) {
                           in.add({in.tensor({5})}, {{"aweights", in.tensor({5, 5}, 0, 1)}});
                           in.add({in.tensor({5})}, {{"aweights", in.tensor({1}, 0, 1)}});
                         })
      .error<DtypeError>("weights",
                         [](Inputs& in) {
                           in.add({in.tensor({5})}, {{"fweights", in.tensor({5}, 0, 1)}});
                           in.add({in.tensor({5})}, {{"aweights", in.integers({1, 1, 1, 1, 1})}});
                         })
      .error<ValueError>("weights",
                         [](Inputs& in) {
                           in.add({in.tensor({2})}, {{"fweights", in.integers({1, -1})}});
                           in.add({in.tensor({2})}, {{"fweights", in.integers({0, 0})}});
                         })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({2, 2, 2})});
      });
  op_case(op::corrcoef)
      .dtypes(kWide + kComplexes)
      .gradient()
      .ulp(32)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 6})});
        in.add({in.tensor({6})}).no_gradient().no_layouts();
      })
      .reference([](const Args& a) {
        std::vector<std::vector<Complex>> c = covariances(a.array(0), 1, {}, {});
        std::vector<double> deviation;
        for (std::size_t i = 0; i < c.size(); ++i) deviation.push_back(std::sqrt(c[i][i].real()));
        for (std::size_t i = 0; i < c.size(); ++i)
          for (std::size_t j = 0; j < c.size(); ++j) c[i][j] /= deviation[i] * deviation[j];
        return std::vector<Array>{square_of(c, a.array(0).dtype, 16)};
      })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({2, 2, 2})});
      });
  op_case(op::cdist)
      .dtypes(kWide)
      .gradient()
      .ulp(32)
      .samples([](Inputs& in) {
        for (const double p : {0.0, 1.0, 1.5, 2.0, 3.0, kInfinity}) {
          in.add({in.tensor({3, 4}, 1, 4), in.tensor({2, 4}, -4, 0), p});
          in.add({in.tensor({2, 1, 3, 2}, 1, 4), in.tensor({2, 2, 2}, -4, 0), p});
          in.add({in.tensor({1, 2, 3}), in.tensor({0, 4, 3}), p});
          in.add({in.tensor({2, 0}), in.tensor({3, 0}), p});
        }
        in.add({in.tensor({3, 4}, 1, 4), in.tensor({2, 4}, -4, 0), 2.0, "use_mm_for_euclid_dist"});
        in.add({in.tensor({40, 9}), in.tensor({30, 9}, -14, -8)}).no_gradient();
        in.add({in.tensor({40, 9}), in.tensor({30, 9}), 2.0, "donot_use_mm_for_euclid_dist"}).no_gradient();
      })
      .reference(cdist_of)
      .benchmark([](Inputs& in) {
        in.add({in.tensor({500, 64}), in.tensor({500, 64})});
      })
      .error<ValueError>("p",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2}), in.tensor({2, 2}), -1.0});
                         })
      .error<ValueError>("compute_mode",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2}), in.tensor({2, 2}), 2.0, "fast"});
                         })
      .error<DtypeError>(
          "",
          [](Inputs& in) {
            in.add({in.tensor({2, 2}), in.tensor({2, 2})});
          },
          kInt64)
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2, 2}), in.tensor({2, 3})});
        in.add({in.tensor({2}), in.tensor({2, 2})});
      });
}

// SPDX-License-Identifier: Apache-2.0
// Rows of ops/decomposition.h, and of the powers that invert.
#include <tenon/ops/binary.h>
#include <tenon/ops/decomposition.h>
#include <tenon/ops/linalg.h>

#include "tests/support/op_case.h"
#include "tests/support/summed_products.h"

#include <algorithm>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;
const Dtypes kWide = {kFloat64, kFloat32};

/// By cofactors: up to 3 x 3.
Array inverse_of(const Array& x) {
  const int64_t n = x.dim() == 0 ? 0 : x.sizes.back();
  Array out = make_array(x.dtype, x.sizes);
  const auto minor_of = [&](int64_t start, std::vector<int64_t> rows, std::vector<int64_t> columns, const auto& again) {
    if (rows.empty()) return Complex(1);
    Complex sum = 0;
    const int64_t r = rows.front();
    rows.erase(rows.begin());
    for (std::size_t j = 0; j < columns.size(); ++j) {
      std::vector<int64_t> rest = columns;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(j));
      sum += (j % 2 ? -1.0 : 1.0) * x.data[static_cast<std::size_t>(start + r * n + columns[j])].z *
             again(start, rows, rest, again);
    }
    return sum;
  };
  for (int64_t start = 0; start < x.numel(); start += n * n)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        std::vector<int64_t> all, rows, columns;
        for (int64_t k = 0; k < n; ++k) {
          all.push_back(k);
          if (k != j) rows.push_back(k);
          if (k != i) columns.push_back(k);
        }
        out.data[static_cast<std::size_t>(start + i * n + j)] =
            ((i + j) % 2 ? -1.0 : 1.0) * minor_of(start, rows, columns, minor_of) / minor_of(start, all, all, minor_of);
      }
  out.scale = {1};
  return out;
}

}  // namespace

TENON_OP_CASES(decomposition) {
  // Rows that are sure to be regular: one large entry each.
  const Maker regular = [](Inputs& in) {
    for (const Sizes& sizes : {Sizes{3, 3}, {1, 1}, {2, 2, 2}, {0, 0}, {0, 2, 2}}) {
      Tensor x = in.tensor(sizes, -1, 1);
      const int64_t n = sizes.back();
      for (int64_t i = 0; i < n; ++i) {
        Tensor entry = x.select(-2, i).select(-1, (i + 1) % n);
        entry.copy_(add(entry, 4));
      }
      in.add({x}).no_layouts();  // expanded ones are singular
    }
  };
  op_case(op::linalg_inv)
      .dtypes(kWide + kComplexes)
      .gradient()
      .ulp(16)
      .samples(regular)
      .reference([](const Args& a) { return std::vector<Array>{inverse_of(a.array(0))}; })
      .error<ShapeError>("A",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3})});
                           in.add({in.tensor({2})});
                         })
      .error<DtypeError>("A", [](Inputs& in) {
        in.add({in.tensor({2, 2}, 0, 1, kFloat16)});
      });
  op_case(op::linalg_matrix_power, "negative")
      .dtypes(kWide + kComplexes)
      .gradient()
      .ulp(32)
      .samples([=](Inputs& in) {
        Inputs matrices(in.dtype(), static_cast<uint32_t>(in.integer(0, 1000)));
        regular(matrices);
        for (const Sample& s : matrices.samples)
          for (const int n : {-1, -3}) in.add({s.args[0], n}).no_layouts();
      })
      .reference([](const Args& a) {
        const Array x = inverse_of(a.array(0));
        Array out = x;
        for (int64_t k = -1; k > a.integer(1); --k) out = summed_products("...ij,...jk", {out, x}, x.dtype);
        out.scale = {1};
        return std::vector<Array>{out};
      });
  const Reference shapes_of_svd = [](const Args& a) {
    const Array x = a.array(0);
    Sizes u = x.sizes, s(x.sizes.begin(), x.sizes.end() - 2), vh = x.sizes;
    const int64_t k = std::min(x.sizes[x.sizes.size() - 2], x.sizes.back());
    u.back() = k, vh[vh.size() - 2] = k;
    s.push_back(k);
    return std::vector<Array>{make_array(x.dtype, u), make_array(real_part(x.dtype), s), make_array(x.dtype, vh)};
  };
  const Maker shapes = [](Inputs& in) {
    for (const Sizes& sizes : {Sizes{3, 3}, {4, 2}, {2, 4}, {2, 3, 2}, {1, 1}}) in.add({in.tensor(sizes)});
    for (const Sizes& sizes : {Sizes{0, 0}, {3, 0}, {0, 2}, {0, 2, 2}}) in.add({in.tensor(sizes)}).no_gradient();
  };
  // Values are looked at in linalg_test.cpp and vector_norm_cases.cpp.
  op_case(op::_linalg_svd)
      .dtypes(kWide)
      .uninitialised()
      .gradient()
      .samples(shapes)
      .reference(shapes_of_svd)
      .error<ShapeError>("A", [](Inputs& in) { in.add({in.tensor({2})}); })
      .error<DtypeError>(
          "A",
          [](Inputs& in) {
            in.add({in.tensor({2, 2})});
          },
          kInt64);
  // The phases of complex vectors are arbitrary, so only what does not depend on them has a gradient.
  op_case(op::_linalg_svd, "complex").dtypes(kComplexes).uninitialised().samples(shapes).reference(shapes_of_svd);
}

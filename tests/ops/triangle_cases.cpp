// SPDX-License-Identifier: Apache-2.0
// Rows of ops/triangle.h.
#include <tenon/ops/triangle.h>

#include "tests/support/op_case.h"

#include <algorithm>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;
using Arrays = std::vector<Array>;
const Dtypes kSome = {kFloat64, kFloat32, kBFloat16, kInt64, kUInt8, kBool, kComplex64, kComplex128};

template <class F>
Reference one(F f) {
  return [=](const Args& args) { return Arrays{f(args)}; };
}

Array zeros_of(DType t, const Index& sizes) {
  Array out = make_array(t, sizes);
  std::fill(out.data.begin(), out.data.end(), is_integral(t, true) ? Number(int64_t{0}) : Number(0.0));
  return out;
}
// Element i of a vector in the last dimension of x to row i + max(-offset, 0), column i + max(offset, 0).
Array embedded(const Array& x, int64_t offset, int64_t d1, int64_t d2) {
  const int64_t rank = x.dim() + 1, n = x.sizes.back() + std::abs(offset);
  d1 = d1 < 0 ? d1 + rank : d1, d2 = d2 < 0 ? d2 + rank : d2;
  const auto place = [&](Index others, int64_t row, int64_t column) {
    others.insert(others.begin() + std::min(d1, d2), d1 < d2 ? row : column);
    others.insert(others.begin() + std::max(d1, d2), d1 < d2 ? column : row);
    return others;
  };
  Array out = zeros_of(x.dtype, place(Index(x.sizes.begin(), x.sizes.end() - 1), n, n));
  std::size_t k = 0;
  each_index(x.sizes, [&](Index at) {
    const int64_t i = at.back();
    at.pop_back();
    const Index to = place(at, i + std::max<int64_t>(-offset, 0), i + std::max<int64_t>(offset, 0));
    out.data[flat_index(to, out.sizes)] = x.data[k++];
  });
  return out;
}
Array diagonal_of(const Array& x, int64_t offset) {
  const int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  return pick(x, {std::max<int64_t>(std::min(x.sizes[0] - down, x.sizes[1] - right), 0)}, [&](const Index& at) {
    return Index{at[0] + down, at[0] + right};
  });
}

}  // namespace

TENON_OP_CASES(triangle) {
  const auto triangle_row = [](const auto& op, bool upper) {
    op_case(op)
        .dtypes(kAllWithFloat8)
        .gradient()
        .ulp(0)
        .reference(one([=](const Args& a) {
          const Array x = a.array(0), zeros = zeros_of(x.dtype, x.sizes);
          Array out = x;
          std::size_t n = 0;
          each_index(x.sizes, [&](const Index& at) {
            const int64_t right = at[at.size() - 1] - at[at.size() - 2];
            if (upper ? right < a.integer(1) : right > a.integer(1)) out.data[n] = zeros.data[n];
            ++n;
          });
          return out;
        }))
        .samples([](Inputs& in) {
          for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{9}, int64_t{-9}, INT64_MIN, INT64_MAX})
            in.add({in.tensor({4, 6}), k});
          in.add({in.tensor({2, 3, 5, 4}), -1});
          in.add({in.tensor({2, 5, 1}), 1});
          in.add({in.tensor({3, 1, 4})});
          in.add({in.tensor({2, 0})});
          in.add({in.tensor({90, 400}), 30}).no_gradient();
        })
        .template error<ShapeError>("self", [](Inputs& in) { in.add({in.tensor({4})}); })
        .benchmark([](Inputs& in) {
          in.add({in.tensor({4096, 4096})});
          in.add({in.tensor({4096, 64, 64})});
        });
  };
  triangle_row(op::tril, false);
  triangle_row(op::triu, true);
  const auto indices_row = [](const auto& op, bool upper) {
    op_case(op)
        .dtypes({kInt64, kInt32})
        .ulp(0)
        .reference(one([=](const Args& a) {
          Index rows, columns;
          for (int64_t i = 0; i < a.integer(0); ++i)
            for (int64_t j = 0; j < a.integer(1); ++j)
              if (upper ? j - i >= a.integer(2) : j - i <= a.integer(2)) rows.push_back(i), columns.push_back(j);
          Array out = make_array(a.dtype(3, kInt64), {2, static_cast<int64_t>(rows.size())});
          out.data.assign(rows.begin(), rows.end());
          out.data.insert(out.data.end(), columns.begin(), columns.end());
          return out;
        }))
        .samples([](Inputs& in) {
          for (const int64_t k : {int64_t{0}, int64_t{2}, int64_t{-2}, int64_t{7}, INT64_MIN, INT64_MAX})
            in.add({4, 3, k}, {{"dtype", in.dtype()}});
          in.add({0, 3}, {{"dtype", in.dtype()}});
          in.add({3, 0});
        })
        .template error<ValueError>("", [](Inputs& in) {
          in.add({-1, 3});
        });
  };
  indices_row(op::tril_indices, false);
  indices_row(op::triu_indices, true);

  op_case(op::diag)
      .dtypes(kSome)
      .gradient()
      .ulp(0)
      .reference(one([](const Args& a) {
        const Array x = a.array(0);
        return x.dim() == 1 ? embedded(x, a.integer(1), 0, 1) : diagonal_of(x, a.integer(1));
      }))
      .samples([](Inputs& in) {
        for (const int64_t k : {0, 2, -1}) {
          in.add({in.tensor({3}), k});
          in.add({in.tensor({3, 4}), k});
        }
        in.add({in.tensor({2, 3}), 9});
        in.add({in.tensor({0})});
      })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({})});
        in.add({in.tensor({2, 2, 2})});
      });
  op_case(op::diag_embed)
      .dtypes(kSome)
      .gradient()
      .ulp(0)
      .reference(one([](const Args& a) { return embedded(a.array(0), a.integer(1), a.integer(2), a.integer(3)); }))
      .samples([](Inputs& in) {
        for (const int64_t k : {0, 2, -1}) in.add({in.tensor({2, 3})}, {{"offset", k}});
        in.add({in.tensor({2, 3}), 1, 0, 2});
        in.add({in.tensor({2, 3}), 1, 2, 0});
        in.add({in.tensor({2, 0})});
      })
      .error<ShapeError>("self", [](Inputs& in) { in.add({in.tensor({})}); })
      .error<ShapeError>("dim1",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), 0, 1, -2});
                         })
      .error<ShapeError>("offset",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), INT64_MIN});
                         })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({2, 3}), 0, 3, 1});
      });
  op_case(op::diagflat)
      .dtypes(kSome)
      .gradient()
      .ulp(0)
      .reference(one([](const Args& a) {
        Array x = a.array(0);
        x.sizes = {x.numel()};
        return embedded(x, a.integer(1), 0, 1);
      }))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 2}), 1});
        in.add({in.tensor({})});
        in.add({in.tensor({3}), -2});
      });
  op_case(op::trace)
      .dtypes({kFloat64, kFloat32, kInt32, kUInt8, kComplex128})
      .gradient()
      .reference(one([](const Args& a) {
        const Array x = diagonal_of(a.array(0), 0);
        return reduced(x, {}, false, is_integral(x.dtype, true) ? kInt64 : x.dtype,
                       [&](const Elements& list, double& scale) {
                         Number sum = is_integral(x.dtype, true) ? Number(int64_t{0}) : Number(0.0);
                         for (const Number& n : list) {
                           sum = is_integral(x.dtype, true) ? Number(sum.i + n.i) : Number(sum.z + n.z);
                           scale += std::abs(n.z);
                         }
                         return sum;
                       });
      }))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5})});
        in.add({in.tensor({4, 4})});
        in.add({in.tensor({0, 2})});
      })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({3})});
        in.add({in.tensor({2, 2, 2})});
      });
}

// SPDX-License-Identifier: Apache-2.0
// Rows of ops/matmul.h and of addmv, addr and addbmm. Expected values are plain triple loops in double, complex<double> or wrapping integers.
#include <tenon/ops/linalg.h>
#include <tenon/ops/matmul.h>

#include "tests/support/op_case.h"
#include "tests/support/summed_products.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;

/// [..., m, k] x [..., k, n], broadcasting batches; alpha and beta with an added array if it is defined.
Array product(const Array& a, const Array& b, const Array& added = {}, Number beta = int64_t{0},
              Number alpha = int64_t{1}) {
  const DType t = a.dtype;
  const int64_t m = a.sizes[a.dim() - 2], k = a.sizes[a.dim() - 1], n = b.sizes[b.dim() - 1];
  Sizes batch = broadcast(Sizes(a.sizes.begin(), a.sizes.end() - 2), Sizes(b.sizes.begin(), b.sizes.end() - 2)),
        sizes = batch;
  sizes.push_back(m), sizes.push_back(n);
  Array out = make_array(t, sizes);
  const Array wide = added.defined() ? pointwise({make_array(added.dtype, sizes), added}, DType::undefined, added.dtype,
                                                 [](const Number* v) { return v[1]; })
                                     : Array();
  const auto start = [&](const Array& x, const Sizes& at) {
    int64_t place = 0;
    const int64_t rank = x.dim() - 2;
    for (int64_t d = 0; d < rank; ++d) place = place * x.sizes[d] + (x.sizes[d] == 1 ? 0 : at[batch.size() - rank + d]);
    return place * x.sizes[rank] * x.sizes[rank + 1];
  };
  std::size_t next = 0;
  each_index(batch, [&](const Sizes& at) {
    const Number *x = a.data.data() + start(a, at), *y = b.data.data() + start(b, at);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j, ++next) {
        Complex sum = 0;
        uint64_t whole = 0;
        double scale = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += x[i * k + p].z * y[p * n + j].z;
          whole += static_cast<uint64_t>(x[i * k + p].i) * static_cast<uint64_t>(y[p * n + j].i);
          scale += std::abs(x[i * k + p].z) * std::abs(y[p * n + j].z);
        }
        const bool add = wide.defined() && beta.z != Complex(0);
        if (is_integral(t)) {
          whole = whole * static_cast<uint64_t>(alpha.i) +
                  (add ? static_cast<uint64_t>(beta.i) * static_cast<uint64_t>(wide.data[next].i) : 0);
          out.data[next] = convert(static_cast<int64_t>(whole), kInt64, t);
        } else {
          out.data[next] = alpha.z * sum + (add ? beta.z * wide.data[next].z : Complex(0));
          scale = scale * std::abs(alpha.z) + (add ? std::abs(beta.z * wide.data[next].z) : 0);
        }
        // Sums of n terms may be wrong by a few units for each doubling, whatever the order of summation.
        out.scale.push_back(scale *
                            std::max({1.0, std::sqrt(static_cast<double>(k)) / 2, static_cast<double>(k) / 32}));
      }
  });
  return out;
}
Array with_sizes(Array a, Sizes sizes) {
  a.sizes = std::move(sizes);
  return a;
}
/// NumPy's matmul: vectors are rows on the left, columns on the right.
Array matmul_of(Array a, Array b) {
  const bool row = a.dim() == 1, column = b.dim() == 1;
  if (row) a.sizes.insert(a.sizes.begin(), 1);
  if (column) b.sizes.push_back(1);
  Array out = product(a, b);
  if (column) out.sizes.pop_back();
  if (row) out.sizes.erase(out.sizes.end() - (column ? 1 : 2));
  return out;
}

std::vector<Array> plain(const Args& a) { return {product(a.array(0), a.array(1))}; }
std::vector<Array> added(const Args& a) {
  return {product(a.array(1), a.array(2), a.array(0), a.number(3), a.number(4))};
}

const Dtypes kTypes = kNumbers;

void matrices(Inputs& in) {
  for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{2, 3, 4},
                                {1, 1, 1},
                                {3, 1, 2},
                                {1, 7, 1},
                                {0, 3, 2},
                                {2, 0, 3},
                                {2, 3, 0},
                                {5, 9, 1},
                                {1, 9, 5}})
    in.add({in.tensor({m, k}), in.tensor({k, n})});
  in.add({in.tensor({17, 33}), in.tensor({33, 19})}).no_gradient();
  in.add({in.tensor({70, 130}), in.tensor({130, 67})}).no_gradient();
  in.add({in.tensor({5, 700}, -1, 1), in.tensor({700, 6}, -1, 1)}).no_gradient();
}

template <class Op>
OpCase& matmul_row(const Op& op, Reference reference) {
  return op_case(op).dtypes(kTypes).gradient().ulp(8).reference(std::move(reference));
}

/// beta * self + alpha * product, rounded once.
Array plus_self(const Args& a, const Array& product) {
  const bool reads = a.number(3).z != Complex(0);
  const DType t = product.dtype;
  Array out = pointwise({product, a.array(0)}, DType::undefined, DType::undefined, [&](const Number* v) -> Number {
    const Number &beta = a.number(3), &alpha = a.number(4);
    if (!is_integral(t)) return alpha.z * v[0].z + (reads ? beta.z * v[1].z : Complex(0));
    const uint64_t w = static_cast<uint64_t>(alpha.i) * static_cast<uint64_t>(v[0].i) +
                       (reads ? static_cast<uint64_t>(beta.i) * static_cast<uint64_t>(v[1].i) : 0);
    return convert(Number(static_cast<int64_t>(w)), kInt64, t);
  });
  out.dtype = t;
  out.scale = product.scale;
  for (double& s : out.scale) s = s * std::abs(a.number(4).z) + std::abs(a.number(3).z) * 4;
  return out;
}
Reference added_to(std::string equation) {
  return [equation = std::move(equation)](const Args& a) {
    return std::vector<Array>{plus_self(a, summed_products(equation, {a.array(1), a.array(2)}, a.array(1).dtype))};
  };
}
Maker add_samples(Sizes self, Sizes a, Sizes b) {
  return [=](Inputs& in) {
    in.add({in.tensor(self), in.tensor(a), in.tensor(b)});
    in.add({in.tensor({}), in.tensor(a), in.tensor(b)}, {{"beta", 2}, {"alpha", 3}});
    in.add({in.tensor({1}), in.tensor(a), in.tensor(b)}, {{"beta", 0}});
    if (!in.is_floating()) return;
    in.add({in.values({std::nan("")}, {1}), in.tensor(a), in.tensor(b)}, {{"beta", 0}, {"alpha", 0.5}}).no_gradient();
  };
}

}  // namespace

TENON_OP_CASES(matmul) {
  matmul_row(op::mm, plain)
      .samples(matrices)
      .benchmark([](Inputs& in) {
        in.add({in.tensor({512, 512}), in.tensor({512, 512})});
      })
      .error<ShapeError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.tensor({4, 2})});
                           in.add({in.tensor({3}), in.tensor({3, 2})});
                           in.add({in.tensor({2, 3}), in.tensor({1, 3, 2})});
                         })
      .error<DtypeError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.tensor({3, 2}, 0, 1, kFloat64)});
                         })
      .error<DtypeError>("", [](Inputs& in) {
        in.add({in.boolean({2, 3}), in.boolean({3, 2})});
      });
  matmul_row(op::bmm, plain)
      .samples([](Inputs& in) {
        for (const int64_t b : {0, 1, 3}) in.add({in.tensor({b, 2, 3}), in.tensor({b, 3, 4})});
        in.add({in.tensor({2, 3, 0}), in.tensor({2, 0, 4})});
        in.add({in.tensor({5, 17, 20}), in.tensor({5, 20, 9})}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1000, 16, 16}), in.tensor({1000, 16, 16})});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2, 2, 3}), in.tensor({3, 3, 2})});
        in.add({in.tensor({2, 2, 3}), in.tensor({2, 4, 2})});
      });
  // beta = 0 does not read self, NaN or not.
  const auto nan = [](Inputs& in, const Sizes& sizes) {
    return in.values(std::vector<double>(static_cast<std::size_t>(count(sizes)), std::nan("")), sizes);
  };
  matmul_row(op::addmm, added)
      .samples([=](Inputs& in) {
        in.add({in.tensor({2, 4}), in.tensor({2, 3}), in.tensor({3, 4})});
        in.add({in.tensor({4}), in.tensor({2, 3}), in.tensor({3, 4})});
        in.add({in.tensor({2, 1}), in.tensor({2, 3}), in.tensor({3, 4})});
        in.add({in.tensor({}), in.tensor({2, 3}), in.tensor({3, 4})}, {{"beta", 2}, {"alpha", 3}});
        in.add({in.tensor({2, 4}), in.tensor({2, 0}), in.tensor({0, 4})}, {{"beta", 2}});
        in.add({in.tensor({0, 4}), in.tensor({0, 3}), in.tensor({3, 4})});
        in.add({in.tensor({9, 40}), in.tensor({9, 31}), in.tensor({31, 40})}, {{"alpha", 2}}).no_gradient();
        if (is_integral(in.dtype())) return;
        in.add({in.tensor({2, 4}), in.tensor({2, 3}), in.tensor({3, 4})}, {{"beta", 0.5}, {"alpha", -1.5}});
        if (is_complex(in.dtype())) return;
        in.add({nan(in, {2}), in.values({1, 2}, {1, 2}), in.values({1, 2, 3, 4}, {2, 2})}, {{"beta", 0}}).no_gradient();
        in.add({nan(in, {2, 4}), in.tensor({2, 0}), in.tensor({0, 4})}, {{"beta", 0}}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({512}), in.tensor({512, 512}), in.tensor({512, 512})});
      })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.tensor({2, 3}), in.tensor({3, 4})});
                         })
      .error<DtypeError>("self", [](Inputs& in) {
        in.add({in.tensor({4}, 0, 1, kFloat64), in.tensor({2, 3}), in.tensor({3, 4})});
      });
  matmul_row(op::baddbmm, added)
      .samples([=](Inputs& in) {
        in.add({in.tensor({2, 2, 4}), in.tensor({2, 2, 3}), in.tensor({2, 3, 4})});
        in.add({in.tensor({4}), in.tensor({2, 2, 3}), in.tensor({2, 3, 4})}, {{"beta", 2}, {"alpha", 3}});
        in.add({in.tensor({2, 2, 4}), in.tensor({2, 2, 0}), in.tensor({2, 0, 4})});
        if (in.is_floating())
          in.add({nan(in, {1, 1, 1}), in.tensor({2, 2, 3}), in.tensor({2, 3, 4})}, {{"beta", 0}}).no_gradient();
      })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({3}), in.tensor({2, 2, 3}), in.tensor({2, 3, 4})});
      });
  const Reference numpy = [](const Args& a) { return std::vector<Array>{matmul_of(a.array(0), a.array(1))}; };
  matmul_row(op::mv, numpy)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({4})});
        in.add({in.tensor({0, 4}), in.tensor({4})});
        in.add({in.tensor({3, 0}), in.tensor({0})});
        in.add({in.tensor({65, 130}), in.tensor({130})}).no_gradient();
        in.add({in.tensor({70, 9}), in.tensor({9})}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({2048, 2048}), in.tensor({2048})});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({3, 4})});
      });
  matmul_row(op::dot, numpy)
      .samples([](Inputs& in) {
        in.add({in.tensor({5}), in.tensor({5})});
        in.add({in.tensor({0}), in.tensor({0})});
        in.add({in.tensor({3000}, -1, 1), in.tensor({3000}, -1, 1)}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}), in.tensor({1 << 20})});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({5}), in.tensor({4})});
        in.add({in.tensor({5, 1}), in.tensor({5})});
      });
  matmul_row(op::matmul, numpy)
      .errors_name("")
      .samples([](Inputs& in) {
        const std::pair<Sizes, Sizes> shapes[] = {{{3}, {3}},
                                                  {{2, 3}, {3}},
                                                  {{3}, {3, 4}},
                                                  {{2, 3}, {3, 4}},
                                                  {{5, 2, 3}, {3, 4}},
                                                  {{2, 3}, {5, 3, 4}},
                                                  {{5, 2, 3}, {3}},
                                                  {{3}, {5, 3, 4}},
                                                  {{5, 1, 2, 3}, {2, 3, 4}},
                                                  {{2, 1, 2, 3}, {1, 3, 3, 2}},
                                                  {{0, 2, 3}, {3, 4}},
                                                  {{2, 2, 0}, {0, 4}}};
        for (const auto& [a, b] : shapes) in.add({in.tensor(a), in.tensor(b)});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({4})});
        in.add({in.tensor({}), in.tensor({4})});
        in.add({in.tensor({5, 2, 3}), in.tensor({4, 3, 2})});
      });
  op_case(op::linear)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .ulp(8)
      .reference([](const Args& a) {
        const Array x = a.array(0), bias = a.array(2);
        Array w = a.array(1);
        const bool vector = w.dim() == 1;
        if (vector) w.sizes.insert(w.sizes.begin(), 1);
        const Array wt = pick(w, {w.sizes[1], w.sizes[0]}, [](const Sizes& at) { return Sizes{at[1], at[0]}; });
        Sizes sizes(x.sizes.begin(), x.sizes.end() - 1);
        const Array flat =
            with_sizes(x, {x.sizes.back() == 0 ? count(sizes) : x.numel() / x.sizes.back(), x.sizes.back()});
        if (!vector) sizes.push_back(w.sizes[0]);
        return std::vector<Array>{with_sizes(product(flat, wt, bias, int64_t{1}), sizes)};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({4, 3}), in.tensor({5, 3}), in.tensor({5})});
        in.add({in.tensor({4, 3}), in.tensor({5, 3})});
        in.add({in.tensor({3}), in.tensor({5, 3}), in.tensor({5})});
        in.add({in.tensor({2, 4, 3}), in.tensor({5, 3}), in.tensor({5})});
        in.add({in.tensor({0, 3}), in.tensor({5, 3}), in.tensor({5})});
        in.add({in.tensor({33, 65}), in.tensor({40, 65}), in.tensor({40})}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({128, 784}), in.tensor({256, 784}), in.tensor({256})});
      })
      .error<ShapeError>("input",
                         [](Inputs& in) {
                           in.add({in.tensor({4, 2}), in.tensor({5, 3})});
                         })
      .error<ShapeError>("weight", [](Inputs& in) {
        in.add({in.tensor({4, 3}), in.tensor({5, 3, 1})});
      });

  op_case(op::addmv)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .samples(add_samples({4}, {4, 3}, {3}))
      .samples(add_samples({2}, {2, 0}, {0}))
      .reference(added_to("ij,j"))
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({3}), in.tensor({4, 3}), in.tensor({3})});
      });
  op_case(op::addr)
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes + kIntegers)
      .gradient()
      .ulp(8)
      .samples(add_samples({4, 3}, {4}, {3}))
      .samples(add_samples({3}, {2}, {3}))
      .reference(added_to("i,j"))
      .error<DtypeError>(
          "beta",
          [](Inputs& in) {
            in.add({in.tensor({2, 2}), in.tensor({2}), in.tensor({2})}, {{"beta", 0.5}});
          },
          kInt64)
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2, 2}), in.tensor({2, 1}), in.tensor({2})});
      });
  op_case(op::addr, "bool")
      .dtypes({kBool})
      .samples([](Inputs& in) {
        for (const int beta : {0, 3})
          for (const int alpha : {0, 2})
            in.add({in.boolean({3, 4}), in.boolean({3}), in.boolean({4})}, {{"beta", beta}, {"alpha", alpha}});
      })
      .reference([](const Args& a) {
        const Array x = a.array(1), y = a.array(2);
        const auto spread = [](const Array& v, std::size_t d) {
          return pick(v, {3, 4}, [d](const Sizes& at) { return Sizes{at[d]}; });
        };
        return std::vector<Array>{pointwise(
            {a.array(0), spread(x, 0), spread(y, 1)}, DType::undefined, kBool,
            [&](const Number* v) -> Number { return (a.integer(3) && v[0].i) || (a.integer(4) && v[1].i && v[2].i); })};
      });
  op_case(op::addbmm)
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes + kIntegers)
      .gradient()
      .ulp(8)
      .samples(add_samples({2, 4}, {3, 2, 5}, {3, 5, 4}))
      .samples(add_samples({2, 4}, {0, 2, 5}, {0, 5, 4}))
      .samples(add_samples({4}, {2, 2, 0}, {2, 0, 4}))
      .reference(added_to("bij,bjk->ik"))
      .errors_name("")
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2, 4}), in.tensor({3, 2, 5}), in.tensor({2, 5, 4})});
        in.add({in.tensor({3, 4}), in.tensor({3, 2, 5}), in.tensor({3, 5, 4})});
      });
}

// SPDX-License-Identifier: Apache-2.0
// Matrix products against sums in double (or in 64-bit integers), over shapes that reach every path: small, blocked in
// all three dimensions, vectors, transposed and strided operands, batches.
#include "tests/support/catch.h"

#include <tenon/kernels/cpu/parallel.h>
#include <tenon/tenon.h>

#include <cmath>

using namespace tenon;

namespace {

// Uniform on [-1, 1), or small integers, in the layout `kind`: 0 row-major, 1 column-major, 2 every second column.
Tensor operand(IntArrayRef sizes, DType t, int kind) {
  const Tensor values = is_integral(t) ? randint(t == kUInt8 ? 0 : -5, 6, sizes, t) : uniform_(rand(sizes, t), -1, 1);
  if (kind == 0) return values;
  if (kind == 1) return values.transpose(-1, -2).contiguous().transpose(-1, -2);
  DimVector wide(sizes);
  wide[wide.size() - 1] *= 2;
  Tensor spaced = rand(wide, is_integral(t) ? kFloat64 : t).to(t).slice(-1, 0, {}, 2);
  spaced.copy_(values);
  return spaced;
}

// Largest |c - a b| over entries, both as float64 or complex128, relative to the number of terms.
double error(const Tensor& a, const Tensor& b, const Tensor& c) {
  const DType t = a.is_complex() ? kComplex128 : kFloat64;
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  double worst = 0;
  const auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto av = a.to(t).to_vector<T>(), bv = b.to(t).to_vector<T>(), cv = c.to(t).to_vector<T>();
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        T sum(0);
        for (int64_t p = 0; p < k; ++p)
          sum += av[static_cast<std::size_t>(i * k + p)] * bv[static_cast<std::size_t>(p * n + j)];
        const T d = sum - cv[static_cast<std::size_t>(i * n + j)];
        if constexpr (is_complex_v<T>)
          worst = std::max({worst, std::abs(d.re), std::abs(d.im)});
        else
          worst = std::max(worst, std::abs(d));
      }
  };
  if (a.is_complex())
    run(TypeTag<complex<double>>{});
  else
    run(TypeTag<double>{});
  return worst / static_cast<double>(k + 1);
}

double bound(DType t) {
  switch (t) {
    case kFloat64:
    case kComplex128:
      return 1e-14;
    case kFloat32:
    case kComplex64:
      return 1e-6;
    case kFloat16:
      return 2e-3;
    case kBFloat16:
      return 2e-2;
    default:
      return 0;
  }
}

}  // namespace

TEST_CASE("mm equals the sum of products for every dtype, shape and layout", "[ops]") {
  manual_seed(tenon::testing::seed());
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 1},    {8, 8, 8},     {3, 5, 7},   {1, 40, 33},  {40, 1, 33},
                                                    {15, 33, 17}, {29, 70, 130}, {5, 300, 9}, {230, 20, 40}};
  for (const DType t :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kComplex64, kComplex128, kInt64, kInt32, kInt16, kInt8, kUInt8})
    for (const auto& s : shapes)
      for (int kind = 0; kind < 9; ++kind) {
        // Sums of 8-bit products must fit to be compared with unwrapped ones.
        if (item_size(t) == 1 && s[2] > 5) continue;
        const Tensor a = operand({s[0], s[2]}, t, kind / 3), b = operand({s[2], s[1]}, t, kind % 3);
        CAPTURE(name(t), s[0], s[1], s[2], kind);
        REQUIRE(error(a, b, mm(a, b)) <= bound(t));
      }
}

TEST_CASE("mm blocks along all dimensions and does not depend on the number of threads", "[ops]") {
  manual_seed(tenon::testing::seed());
  for (const DType t : {kFloat32, kFloat64}) {
    const Tensor a = operand({260, 1100}, t, 0), b = operand({1100, 1090}, t, 1);
    const int threads = num_threads();
    const Tensor c = mm(a, b);
    set_num_threads(1);
    const Tensor single = mm(a, b);
    set_num_threads(threads);
    CHECK(error(a.slice(0, 240, 245), b, c.slice(0, 240, 245)) <= bound(t));
    CHECK(error(a, b.slice(1, 1020, 1030), c.slice(1, 1020, 1030)) <= bound(t));
    CHECK(c.to_vector<double>() == single.to_vector<double>());
  }
}

TEST_CASE("integers wrap as in two's complement", "[ops]") {
  const Tensor a = from_vector(std::vector<int8_t>{100, 100}, {1, 2}),
               b = from_vector(std::vector<int8_t>{2, 1}, {2, 1});
  CHECK(mm(a, b).item<int64_t>() == static_cast<int8_t>(300));
  const int64_t big = int64_t(1) << 62;
  const Tensor c = from_vector(std::vector<int64_t>{big, 3}, {1, 2}),
               d = from_vector(std::vector<int64_t>{4, 5}, {2, 1});
  CHECK(mm(c, d).item<int64_t>() == 15);
}

TEST_CASE("addmm: broadcasts self, ignores it when beta is zero, may write to it", "[ops]") {
  manual_seed(tenon::testing::seed());
  for (const DType t : {kFloat32, kFloat64, kBFloat16, kInt64, kComplex64}) {
    CAPTURE(name(t));
    const Tensor a = operand({20, 30}, t, 1), b = operand({30, 40}, t, 0), row = operand({40}, t, 0),
                 column = operand({20, 1}, t, 0);
    const Tensor product = mm(a, b);
    const double tolerance = std::max(bound(t) * 60, 0.0);
    for (const Tensor& self : {row, column, product}) {
      const Tensor out = addmm(self, a, b, 2, 3);
      const Tensor expected = self.mul(2).add(product.mul(3));
      CHECK(out.sub(expected).abs().to(kFloat64).amax().item<double>() <= tolerance);
    }
    Tensor own = product.clone();
    op::addmm.inplace(own, own, a, b, 1, -1);
    CHECK(own.abs().to(kFloat64).amax().item<double>() <= tolerance);
  }
  Tensor nan = rand({2});
  nan.fill_(std::nan(""));
  const Tensor a = rand({1, 2}), b = rand({2, 2});
  CHECK(addmm(nan, a, b, 0).to_vector<float>() == mm(a, b).to_vector<float>());
  CHECK(addmm(nan.expand({2, 2}), rand({2, 0}), rand({0, 2}), 0).to_vector<float>() == std::vector<float>(4, 0.0f));
  CHECK(addmm(b, rand({2, 0}), rand({0, 2}), 2).to_vector<float>() == b.mul(2).to_vector<float>());
}

TEST_CASE("matmul covers all ranks as a loop over the batch does", "[ops]") {
  manual_seed(tenon::testing::seed());
  const std::vector<std::vector<std::vector<int64_t>>> pairs = {{{7}, {7}},
                                                                {{5, 7}, {7}},
                                                                {{7}, {7, 3}},
                                                                {{2, 5, 7}, {7}},
                                                                {{7}, {2, 7, 3}},
                                                                {{2, 5, 7}, {7, 3}},
                                                                {{5, 7}, {2, 7, 3}},
                                                                {{2, 5, 7}, {2, 7, 3}},
                                                                {{1, 5, 7}, {4, 7, 3}},
                                                                {{2, 1, 5, 7}, {3, 7, 3}},
                                                                {{0, 5, 7}, {7, 3}},
                                                                {{2, 5, 0}, {0, 3}}};
  for (const auto& p : pairs) {
    Tensor a = operand(p[0], kFloat64, 0), b = operand(p[1], kFloat64, 0);
    CAPTURE(p[0].size(), p[1].size());
    const Tensor c = matmul(a, b);
    // The same with every dimension spelled out.
    if (p[0].size() == 1) a = a.unsqueeze(0);
    if (p[1].size() == 1) b = b.unsqueeze(1);
    const Tensor products = a.unsqueeze(-1).mul(b.unsqueeze(-3)).sum(IntArrayRef{-2});
    REQUIRE(c.numel() == products.numel());
    if (c.numel() != 0) CHECK(c.reshape({-1}).sub(products.reshape({-1})).abs().amax().item<double>() < 1e-13);
  }
  const Tensor x = operand({3, 4, 6}, kFloat64, 1), w = operand({5, 6}, kFloat64, 0), bias = operand({5}, kFloat64, 0);
  const Tensor expected = matmul(x, w.t()).add(bias);
  CHECK(linear(x, w, bias).sub(expected).abs().amax().item<double>() < 1e-13);
}

TEST_CASE("matrix products name what does not fit", "[ops]") {
  using tenon::testing::contains;
  using tenon::testing::error_of;
  const Tensor a = rand({2, 3}), b = rand({4, 5});
  CHECK(contains(error_of<ShapeError>([&] { mm(a, b); }), "mm: sizes [2, 3] and [4, 5]"));
  CHECK(contains(error_of<DtypeError>([&] { mm(a, rand({3, 2}, kFloat64)); }), "float64"));
  CHECK(contains(error_of<ShapeError>([&] { bmm(a, b); }), "3 dimensions"));
  CHECK_THROWS_AS(linear(a, b), ShapeError);
  CHECK_THROWS_AS(dot(rand({3}), rand({4})), ShapeError);
  CHECK_THROWS_AS(addmm(rand({3}), a, rand({3, 2})), ShapeError);
  CHECK_THROWS_AS(mm(a.to(kBool), a.t().to(kBool)), Error);
  const Tensor meta = empty({2, 3}, kMeta);
  CHECK(mm(meta, empty({3, 4}, kMeta)).sizes() == IntArrayRef{2, 4});
}

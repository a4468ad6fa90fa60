// SPDX-License-Identifier: Apache-2.0
// Linear algebra beyond rows of values: the order of contraction, views, gradients at distance 0, settings.
#include "tests/support/catch.h"

#include <tenon/tenon.h>

#include <cmath>

using namespace tenon;
using tenon::testing::error_of;

namespace {

// Bytes that `f` had allocated at most, beside what was before.
template <class F>
int64_t peak_of(F&& f) {
  memory::reset_peak_memory_stats(kCPU);
  const int64_t before = memory::memory_stats(kCPU).allocated;
  f();
  return memory::memory_stats(kCPU).peak_allocated - before;
}

}  // namespace

TEST_CASE("einsum and multi_dot contract in the cheap order", "[ops]") {
  const Tensor x = rand({4000}), y = rand({4000});
  // From the left there would be a matrix of 64 MB in between.
  CHECK(peak_of([&] { einsum("i,j,i,j->", {x, y, x, y}); }) < 100000);
  CHECK(peak_of([&] { einsum("a,b,c,d,c,b,a,d->", {x, x, x, x, y, y, y, y}); }) < 100000);  // more than are searched
  const Tensor column = x.unsqueeze(1), row = y.unsqueeze(0);
  CHECK(peak_of([&] { multi_dot({column, row, column, row, x}); }) < 100000);
  const double expected = einsum("i,i", {x, x}).item<double>() * einsum("j,j", {y, y}).item<double>();
  const double got = einsum("i,j,i,j->", {x, y, x, y}).item<double>();
  CHECK(std::fabs(got - expected) <= 1e-4 * expected);
}

TEST_CASE("einsum of one operand is a view where nothing is summed", "[ops]") {
  const Tensor x = rand({2, 3, 3});
  CHECK(einsum("abc->cab", {x}).data_ptr() == x.data_ptr());
  CHECK(einsum("abb->ba", {x}).data_ptr() == x.data_ptr());
}

TEST_CASE("products read transposed and broadcast operands in place", "[ops]") {
  const Tensor a = rand({2, 40, 64, 64}), b = rand({64, 64}), batch = rand({2, 40, 64, 64});
  const int64_t result = 2 * 40 * 64 * 64 * 4, slack = 300000;
  CHECK(peak_of([&] { matmul(a.transpose(-1, -2), b); }) < result + slack);
  CHECK(peak_of([&] { matmul(b.t(), a); }) < result + slack);
  CHECK(peak_of([&] { matmul(a, batch.transpose(-1, -2)); }) < result + slack);
  CHECK(peak_of([&] { matmul(a[0], b.unsqueeze(0)); }) < result / 2 + slack);
  CHECK(peak_of([&] { einsum("bhqd,bhkd->bhqk", {a, batch}); }) < result + slack);
}

TEST_CASE("cdist: zero gradients of both orders at distance 0", "[ops]") {
  for (const char* mode : {"use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"})
    for (const double p : {0.0, 1.0, 1.5, 2.0, 3.0}) {
      Tensor x = ones({2, 3}, kFloat64);
      x.requires_grad_();
      const Tensor d = cdist(x, ones({2, 3}, kFloat64), p, mode);
      CAPTURE(mode, p);
      const Tensor inputs[] = {x}, sums[] = {d.sum()};
      const Tensor first = autograd::grad(sums, inputs, {}, true, true, true)[0];
      REQUIRE(first.defined());
      CHECK(first.detach().abs().amax().item<double>() == 0);
      const Tensor again[] = {first.sum()};
      const Tensor second = autograd::grad(again, inputs, {}, true, false, true)[0];
      if (second.defined()) CHECK(second.abs().amax().item<double>() == 0);
    }
}

TEST_CASE("cdist in pieces equals cdist at once", "[ops]") {
  const Tensor a = rand({300, 70}), b = rand({1700, 70});  // 36 million differences
  const Tensor d = cdist(a, b, 1);
  CHECK(d.sizes() == IntArrayRef{300, 1700});
  CHECK(cdist(a.slice(0, 290), b, 1).to_vector<float>() == d.slice(0, 290).to_vector<float>());
}

TEST_CASE("singular values and vectors make up the matrix, also without full rank", "[ops]") {
  manual_seed(tenon::testing::seed());
  for (const DType t : {kFloat64, kFloat32, kComplex128, kComplex64}) {
    const double bound = t == kFloat64 || t == kComplex128 ? 1e-13 : 1e-5;
    const Tensor thin = randn({9, 2}, t), twice = cat({thin, thin}, 1);
    for (const Tensor& a : {randn({7, 4}, t), randn({2, 4, 7}, t), randn({20, 20}, t), twice, twice.t(),
                            zeros({3, 3}, t), mul(randn({3, 2}, t), t == kFloat64 ? 1e200 : 1e20)}) {
      CAPTURE(name(t), a.dim(), a.size(-2), a.size(-1));
      const auto [u, s, vh] = op::_linalg_svd(a);
      const double size = a.abs().amax().to(kFloat64).item<double>() + (a.size(0) == 3 ? 1e-300 : 0);
      const auto distance = [](const Tensor& x, const Tensor& y) {
        return sub(x, y).abs().amax().to(kFloat64).item<double>();
      };
      CHECK(distance(matmul(mul(u, s.unsqueeze(-2)), vh), a) <= 10 * bound * size);
      const Tensor unit = eye(s.size(-1), TensorOptions(t)).expand(matmul(vh, conj(vh).transpose(-1, -2)).sizes());
      CHECK(distance(matmul(conj(u).transpose(-1, -2), u), unit) <= 10 * bound);
      CHECK(distance(matmul(vh, conj(vh).transpose(-1, -2)), unit) <= 10 * bound);
      CHECK(s.slice(-1, 1).le(s.slice(-1, 0, -1)).all().item<bool>());
    }
  }
  CHECK(op::linalg_norm_str(zeros({3, 2}), "nuc", {}, false, {}).item<double>() == 0);
  Tensor broken = ones({2, 2});
  broken[0].fill_(std::nan(""));
  CHECK_THROWS_AS(op::linalg_matrix_norm(broken, 2, IntArrayRef{0, 1}, false, {}), ValueError);
}

TEST_CASE("a singular matrix has no inverse", "[ops]") {
  CHECK(tenon::testing::contains(error_of<ValueError>([] { inverse(ones({2, 2, 2})); }), "matrix 0 of 2 is singular"));
  CHECK_THROWS_AS(matrix_power(zeros({2, 2}), -2), ValueError);
  CHECK(matrix_power(full({1, 1}, 2.0), -3).item<double>() == 0.125);
  // Regular, though squares of its entries vanish, or overflow.
  CHECK(inverse(full({1, 1}, 0x1p-600, kFloat64)).item<double>() == 0x1p600);
  CHECK(inverse(full({1, 1}, 0x1p600, kFloat64)).item<double>() == 0x1p-600);
}

TEST_CASE("products of bool are refused, elementwise ones are not", "[ops]") {
  const Tensor b = ones({2, 2}, kBool);
  CHECK_THROWS_AS(matmul(b, b), DtypeError);
  CHECK_THROWS_AS(einsum("ij,jk", {b, b}), DtypeError);
  CHECK_THROWS_AS(inner(b, b), DtypeError);
  CHECK_THROWS_AS(einsum("ij,jk", {ones({2, 2}), ones({2, 2}, kFloat64)}), DtypeError);
  CHECK(einsum("i,j", {b[0], b[1]}).dtype() == kBool);
  CHECK(outer(b[0], b[1]).dtype() == kBool);
  CHECK(kron(b, b).sizes() == IntArrayRef{4, 4});
}

TEST_CASE("the precision of float32 products is set by name", "[ops]") {
  CHECK(float32_matmul_precision() == "highest");
  CHECK(!allow_tf32());
  set_float32_matmul_precision("medium");
  CHECK(allow_tf32());
  CHECK(float32_matmul_precision() == "medium");
  set_allow_tf32(false);
  CHECK(float32_matmul_precision() == "highest");
  set_allow_tf32(true);
  CHECK(float32_matmul_precision() == "high");
  CHECK(tenon::testing::contains(error_of<ValueError>([] { set_float32_matmul_precision("low"); }), "got low"));
  set_float32_matmul_precision("highest");
}

// SPDX-License-Identifier: Apache-2.0
// Reading and writing by index against loops over elements, brackets against their slices, and errors.
#include "tests/support/catch.h"

#include <tenon/tenon.h>

using namespace tenon;

namespace {
using Values = std::vector<int64_t>;
Tensor ints(Values v, IntArrayRef sizes) { return from_vector(static_cast<Values&&>(v), sizes); }
Tensor counted(IntArrayRef sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return arange(n).reshape(sizes);
}
Values values(const Tensor& t) { return t.to_vector<int64_t>(); }
}  // namespace

TEST_CASE("index_select, index_copy and index_add move slices of any layout", "[ops]") {
  for (const bool transposed : {false, true})
    for (int64_t dim = 0; dim < 3; ++dim) {
      Tensor x = counted({4, 5, 6});
      if (transposed) x = counted({6, 5, 4}).permute({2, 1, 0});
      const Tensor index = ints({2, 0, 2}, {3});
      const Tensor picked = index_select(x, dim, index);
      for (int64_t i = 0; i < 3; ++i)
        CHECK(values(picked.select(dim, i)) == values(x.select(dim, index[i].item<int64_t>())));
      const Tensor added = index_add(x, dim, index, picked, 10);
      CHECK(values(added.select(dim, 0)) == values(x.select(dim, 0).mul(11)));
      CHECK(values(added.select(dim, 1)) == values(x.select(dim, 1)));
      CHECK(values(added.select(dim, 2)) == values(x.select(dim, 2).mul(21)));
      const Tensor copied = index_copy(x, dim, ints({1, 3}, {2}), picked.narrow(dim, 0, 2));
      CHECK(values(copied.select(dim, 1)) == values(x.select(dim, 2)));
      CHECK(values(copied.select(dim, 3)) == values(x.select(dim, 0)));
      CHECK(values(copied.select(dim, 0)) == values(x.select(dim, 0)));
    }
}

TEST_CASE("gather and scatter_add along every dimension", "[ops]") {
  manual_seed(tenon::testing::seed());
  for (int64_t dim = 0; dim < 3; ++dim) {
    const Tensor x = counted({6, 5, 4}).permute({2, 1, 0}), index = randint(4, {4, 3, 4});
    const Tensor y = gather(x, dim, index);
    Tensor expected = zeros({4, 5, 6}, kInt64);
    bool same = true;
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 3; ++j)
        for (int64_t k = 0; k < 4; ++k) {
          const int64_t at = index[i][j][k].item<int64_t>();
          const Tensor from = dim == 0 ? x[at][j][k] : dim == 1 ? x[i][at][k] : x[i][j][at];
          same = same && y[i][j][k].item<int64_t>() == from.item<int64_t>();
          Tensor to = dim == 0 ? expected[at][j][k] : dim == 1 ? expected[i][at][k] : expected[i][j][at];
          to.add_(y[i][j][k]);
        }
    CHECK(same);
    CHECK(values(scatter_add(zeros({4, 5, 6}, kInt64), dim, index, y)) == values(expected));
  }
  CHECK(gather(rand({5}), 0, empty({2, 0}, kUInt8)).sizes() == IntArrayRef{2, 0});
}

TEST_CASE("brackets", "[ops]") {
  const Tensor x = counted({3, 4, 5});
  CHECK(values(x.index({Slice(0, 2), 1})) == values(x.slice(0, 0, 2).select(1, 1)));
  CHECK(x.index({None, Ellipsis, Slice(None, None, 2)}).sizes() == IntArrayRef{1, 3, 4, 3});
  CHECK(x.index({Ellipsis, 0}).storage() == x.storage());
  CHECK(values(x.index({ints({0, 2}, {2})})) == values(index_select(x, 0, ints({0, 2}, {2}))));
  CHECK(values(x.index({ints({-1, 0}, {2})})) == values(index_select(x, 0, ints({2, 0}, {2}))));
  CHECK(values(x.index({ints({0, 2}, {2}), ints({1, 3}, {2})})) == [&] {
    Values v = values(x[0][1]), w = values(x[2][3]);
    v.insert(v.end(), w.begin(), w.end());
    return v;
  }());
  // Tensors apart put their dimension first; together they stay in place.
  CHECK(x.index({ints({0, 2}, {2}), Slice(), ints({1, 3}, {2})}).sizes() == IntArrayRef{2, 4});
  CHECK(x.index({Slice(), ints({0, 2}, {2, 1}), ints({1, 3}, {2})}).sizes() == IntArrayRef{3, 2, 2});
  const Tensor mask = x.gt(50);
  CHECK(values(x.index({mask})) == Values{51, 52, 53, 54, 55, 56, 57, 58, 59});
  CHECK(
      x.index({Slice(), Slice(), from_span<bool>(std::array<bool, 5>{true, false, false, false, true}, {5})}).sizes() ==
      IntArrayRef{3, 4, 2});

  // Numbers in tensors select; 0-dim masks keep or drop a new dimension; every integer dtype but uint8, a mask, counts.
  CHECK(x.index({tensor(-1)}).storage() == x.storage());
  CHECK(values(x.index({tensor(-1), Slice(), tensor(2)})) == values(x[2].select(1, 2)));
  CHECK(x.index({tensor(true)}).sizes() == IntArrayRef{1, 3, 4, 5});
  CHECK(x.index({Slice(), false}).sizes() == IntArrayRef{3, 0, 4, 5});
  for (const DType t : {kInt8, kInt16, kInt32, kInt64})
    CHECK(values(x.index({ints({-1, 0}, {2}).to(t)})) == values(index_select(x, 0, ints({2, 0}, {2}))));
  CHECK(values(x.index({ints({0, 1, 0}, {3}).to(kUInt8)})) == values(x[1]));
  // A number between two tensors is gone when they are looked at: side by side, they stay in place.
  CHECK(x.unsqueeze(1).index({Slice(), ints({0, 0}, {2}), 1, ints({1, 3}, {2})}).sizes() == IntArrayRef{3, 2});
  // A mask of two dimensions beside an index: as many numbers as it holds.
  const Tensor two = x.select(2, 0).eq(5).logical_or(x.select(2, 0).eq(40));
  CHECK(values(x.index({two, ints({4, 1}, {2})})) == Values{9, 41});
  CHECK(x.index({two, None, Slice(1, None, 3)}).sizes() == IntArrayRef{2, 1, 2});
  CHECK(x.index({Ellipsis, zeros({5}, kBool)}).sizes() == IntArrayRef{3, 4, 0});
  CHECK(x.index({ints({}, {0})}).sizes() == IntArrayRef{0, 4, 5});
  CHECK_THROWS_AS(x.index({Slice(0, 2, -1)}), ValueError);

  Tensor y = zeros({3, 3}, kInt64);
  y.index_put_({1, Slice(1)}, 7);
  CHECK(values(y) == Values{0, 0, 0, 0, 7, 7, 0, 0, 0});
  y.index_put_({ints({0, 2}, {2})}, ints({1, 2, 3}, {3}));
  CHECK(values(y) == Values{1, 2, 3, 0, 7, 7, 1, 2, 3});
  y.index_put_({y.eq(7)}, 9);
  CHECK(values(y) == Values{1, 2, 3, 0, 9, 9, 1, 2, 3});
  CHECK(values(index_put(zeros({3}, kInt64), std::vector<Tensor>{ints({0, 0, 2}, {3})}, ints({5}, {1}), true)) ==
        Values{10, 0, 5});
}

TEST_CASE("writing by index changes what is picked, in every layout", "[ops]") {
  for (const bool transposed : {false, true}) {
    Tensor x = transposed ? zeros({4, 3}, kInt64).t() : zeros({3, 4}, kInt64);
    const void* place = x.data_ptr();
    index_put_(x, std::vector<Tensor>{ints({2, 0, 2}, {3}), ints({1, 3, 1}, {3})}, ints({1, 2, 4}, {3}), true);
    CHECK(values(x) == Values{0, 0, 0, 2, 0, 0, 0, 0, 0, 5, 0, 0});
    index_put_(x, std::vector<Tensor>{Tensor(), ints({-1}, {1})}, ints({7}, {1}));
    CHECK(values(x) == Values{0, 0, 0, 7, 0, 0, 0, 7, 0, 5, 0, 7});
    x.index_put_({x.eq(7)}, ints({1, 2, 3}, {3}));
    CHECK(values(x) == Values{0, 0, 0, 1, 0, 0, 0, 2, 0, 5, 0, 3});
    x.index_put_({Slice(1), ints({3, 0}, {2})}, x.index({Slice(0, 2), ints({3, 0}, {2})}));  // reads what it writes
    CHECK(values(x) == Values{0, 0, 0, 1, 0, 0, 0, 1, 0, 5, 0, 2});
    CHECK(x.data_ptr() == place);
    x.index_put_({Slice(0, 2), 0}, ints({8, 9}, {1, 1, 2}));  // leading ones of a value count for nothing
    x.index_put_({ints({0}, {1}), Slice(1, 3)}, ints({3, 4}, {1, 1, 2}));
    CHECK(values(x) == Values{8, 3, 4, 1, 9, 0, 0, 1, 0, 5, 0, 2});
  }
  Tensor wide = zeros({1}).expand({3});
  CHECK_THROWS_AS(index_put_(wide, std::vector<Tensor>{ints({1}, {1})}, ones({1})), AliasError);
}

TEST_CASE("writing by index under autograd", "[ops][autograd]") {
  const Tensor x = arange(6, kFloat64).reshape({3, 2}).requires_grad_();
  const Tensor v = tensor(2.0, kFloat64).requires_grad_(), w = tensor({3.0, 5.0}, kFloat64).requires_grad_();
  Tensor y = mul(x, 2);
  y[1] += v;
  y.index_put_({ints({0, 2}, {2}), 1}, y.index({ints({0, 2}, {2}), 1}).mul(w));
  index_put_(y, std::vector<Tensor>{ints({2, 2}, {2}), ints({0, 0}, {2})}, w, true);
  CHECK(y.to_vector<double>() == std::vector<double>{0, 6, 6, 8, 16, 50});
  sum(mul(y, y)).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 72, 24, 32, 64, 1000});
  CHECK(v.grad().item<double>() == 28.0);
  CHECK(w.grad().to_vector<double>() == std::vector<double>{2 * 6 * 2 + 2 * 16, 2 * 50 * 10 + 2 * 16});
  Tensor leaf = zeros({3}).requires_grad_();
  CHECK_THROWS_AS(leaf.index_put_({ints({0}, {1})}, 1), AutogradError);
}

TEST_CASE("gradients of reductions by index at ties and zeros", "[ops][autograd]") {
  using Numbers = std::vector<double>;
  const auto check = [](const char* reduce, bool include, const Numbers& own, const Numbers& from, const Numbers& d_own,
                        const Numbers& d_from) {
    INFO(reduce << (include ? ", with self" : ", without self"));
    for (const bool slices : {false, true}) {
      const Tensor self = from_vector(Numbers(own), {1}).requires_grad_();
      const Tensor src = from_vector(Numbers(from), {static_cast<int64_t>(from.size())}).requires_grad_();
      const Tensor index = zeros({static_cast<int64_t>(from.size())}, kInt64);
      const Tensor y = slices ? index_reduce(self, 0, index, src, reduce, include)
                              : scatter_reduce(self, 0, index, src, reduce, include);
      y.sum().backward();
      CHECK(self.grad().to_vector<double>() == d_own);
      CHECK(src.grad().to_vector<double>() == d_from);
    }
  };
  check("amax", true, {1}, {3, 3, 2}, {0}, {0.5, 0.5, 0});
  check("amax", true, {3}, {3, 1}, {0.5}, {0.5, 0});
  check("amin", true, {0}, {3, 1}, {1}, {0, 0});
  check("amin", false, {0}, {3, 1, 1}, {0}, {0, 0.5, 0.5});
  check("prod", true, {2}, {0, 3}, {0}, {6, 0});
  check("prod", true, {2}, {0, 0, 3}, {0}, {0, 0, 0});
  check("prod", true, {0}, {3, 4}, {12}, {0, 0});
  check("prod", false, {5}, {3, 4}, {0}, {4, 3});
  check("mean", true, {2}, {0, 4}, {1.0 / 3}, {1.0 / 3, 1.0 / 3});
  check("mean", false, {2}, {0, 4}, {0}, {0.5, 0.5});
}

TEST_CASE("indices out of range are named with position and range", "[ops]") {
  using tenon::testing::contains;
  using tenon::testing::error_of;
  const Tensor x = rand({3, 2});
  const std::string text = error_of<IndexError>([&] { index_select(x, 0, ints({0, 3}, {2})); });
  CHECK(contains(text, "3 at position 1"));
  CHECK(contains(text, "0 to 2"));
  CHECK(contains(text, "dimension 0 of size 3"));
  const auto bracket = error_of<IndexError>([&] { x.index({Slice(), ints({0, 2}, {2})}); });
  CHECK(contains(bracket, "2 at position 1"));
  CHECK(contains(bracket, "dimension 1 of size 2"));
  CHECK_THROWS_AS(index_select(x, 0, ints({-1}, {1})), IndexError);
  CHECK_THROWS_AS(gather(x, 1, ints({2}, {1, 1})), IndexError);
  CHECK_THROWS_AS(scatter_add(x, 0, ints({5}, {1, 1}), rand({1, 1})), IndexError);
  CHECK_THROWS_AS(embedding(ints({3}, {1}), x), IndexError);
  CHECK_THROWS_AS(x.index({ints({-4}, {1})}), IndexError);
  CHECK_THROWS_AS(x.index({0, 0, 0}), IndexError);
  CHECK_THROWS_AS(nll_loss(x, ints({0, 2, 1}, {3})), IndexError);
  CHECK_THROWS_AS(index_select(x, 0, rand({2})), DtypeError);
  CHECK_THROWS_AS(cat({rand({2, 3}), rand({3, 2})}), ShapeError);
}

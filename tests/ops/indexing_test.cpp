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

TEST_CASE("indices out of range are named with position and range", "[ops]") {
  using tenon::testing::contains;
  using tenon::testing::error_of;
  const Tensor x = rand({3, 2});
  const std::string text = error_of<IndexError>([&] { index_select(x, 0, ints({0, 3}, {2})); });
  CHECK(contains(text, "3 at position 1"));
  CHECK(contains(text, "0 to 2"));
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

// SPDX-License-Identifier: Apache-2.0
// What shape operators share with their input: views alias it, copies do not, and autograd follows writes through both
// kinds of views, one result and several.
#include "tests/support/catch.h"

#include <tenon/tenon.h>

using namespace tenon;

namespace {
using List = std::vector<Tensor>;
using Values = std::vector<double>;

Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor counted(IntArrayRef sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return arange(n, kFloat64).view(sizes);
}
bool shares(const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); }
// The gradient of sum(f(x) * (1, 2, 3, ...)).
template <class F>
Values gradient(const Tensor& x, F&& f) {
  const Tensor y = f(x);
  const Tensor weighted = y.reshape({-1}).mul(arange(1, y.numel() + 1, 1, kFloat64)).sum();
  return values(autograd::grad({&weighted, 1}, {&x, 1})[0]);
}
}  // namespace

TEST_CASE("shape operators alias where PyTorch's do", "[ops]") {
  const Tensor x = counted({2, 3, 4}), matrix = counted({4, 6}), vector = counted({6}), number = counted({});
  List views = {movedim(x, 0, 2),
                numpy_T(x),
                mT(x),
                mH(x),
                matrix_H(matrix),
                unflatten(x, 2, {2, 2}),
                ravel(x),
                diagonal(x, 1, 1, 2),
                op::linalg_diagonal(x, 0, 0, 2),
                unfold(x, 2, 2, 1),
                atleast_1d(number),
                atleast_2d(vector),
                atleast_3d(matrix),
                op::chunk(x, 2, 1)[1],
                tensor_split(x, 2)[1],
                tensor_split(x, {1}, 2)[1],
                hsplit(x, 3)[1],
                vsplit(x, {1})[1],
                dsplit(x, 2)[1],
                op::unsafe_split(x, 1, 0)[1],
                op::unsafe_chunk(x, 2, 2)[1],
                cartesian_prod({vector})};
  for (const Tensor& t : op::broadcast_tensors(List{vector, matrix})) views.push_back(t);
  for (const Tensor& t : meshgrid(List{vector, number}, "xy")) views.push_back(t);
  for (std::size_t i = 0; i < views.size(); ++i) {
    CAPTURE(i);
    CHECK((shares(views[i], x) || shares(views[i], matrix) || shares(views[i], vector) || shares(views[i], number)));
  }
  const List copies = {ravel(mT(matrix)),
                       flip(x, {}),
                       roll(x, 0, 0),
                       rot90(matrix, 0),
                       repeat(vector, 1),
                       tile(vector, {}),
                       repeat_interleave(vector, 1),
                       tril(matrix, 99),
                       diag(matrix),
                       op::select_scatter(matrix, vector, 0, 1),
                       hstack({vector}),
                       block_diag({matrix}),
                       combinations(vector, 1)};
  for (std::size_t i = 0; i < copies.size(); ++i) {
    CAPTURE(i);
    CHECK_FALSE((shares(copies[i], x) || shares(copies[i], matrix) || shares(copies[i], vector)));
  }
  CHECK(matrix_H(zeros({2, 2}, kComplex64)).sizes() == IntArrayRef{2, 2});
}

TEST_CASE("writes through shape views reach the base and its history", "[ops]") {
  const Tensor x = counted({3, 3}).requires_grad_();
  const auto written = [&](auto&& view) {
    return gradient(x, [&](const Tensor& leaf) {
      const Tensor base = leaf.mul(1);
      Tensor part = view(base);
      part.mul_(10);
      return base;
    });
  };
  CHECK(written([](const Tensor& t) { return diagonal(t); }) == Values{10, 2, 3, 4, 50, 6, 7, 8, 90});
  CHECK(written([](const Tensor& t) { return unfold(t, 0, 1, 2); }) == Values{10, 20, 30, 4, 5, 6, 70, 80, 90});
  CHECK(written([](const Tensor& t) { return diagonal(numpy_T(t), 1); }) == Values{1, 2, 3, 40, 5, 6, 7, 80, 9});
  CHECK(written([](const Tensor& t) { return tensor_split(t, 2, 1)[1]; }) == Values{1, 2, 30, 4, 5, 60, 7, 8, 90});
  CHECK(written([](const Tensor& t) { return hsplit(t, 3)[0]; }) == Values{10, 2, 3, 40, 5, 6, 70, 8, 9});
  // Pieces made by one operator cannot be written; those that count as tensors of their own can.
  CHECK_THROWS_AS(written([](const Tensor& t) { return op::split(t, 1, 0)[0]; }), AutogradError);
  CHECK_THROWS_AS(written([](const Tensor& t) { return op::chunk(t, 3, 0)[0]; }), AutogradError);
  CHECK(gradient(x, [](const Tensor& leaf) {
          List pieces = op::unsafe_chunk(leaf.mul(1), 3, 0);
          pieces[1].mul_(10);
          return cat(pieces);
        }) == Values{1, 2, 3, 40, 50, 60, 7, 8, 9});
  // Windows that overlap show some elements twice.
  CHECK_THROWS_AS(written([](const Tensor& t) { return unfold(t, 0, 2, 1); }), AliasError);
}

TEST_CASE("gradients of overlapping views count every time an element is shown", "[ops]") {
  const Tensor x = counted({7}).requires_grad_();
  CHECK(gradient(x, [](const Tensor& t) { return unfold(t, 0, 3, 2); }) == Values{1, 2, 3 + 4, 5, 6 + 7, 8, 9});
  CHECK(gradient(x, [](const Tensor& t) { return unfold(unfold(t, 0, 4, 1), 1, 3, 1); }) ==
        gradient(x, [](const Tensor& t) {
          return t.as_strided({4, 2, 3}, {1, 1, 1});
        }));
  CHECK(gradient(x, [](const Tensor& t) { return t.as_strided({2, 2}, {1, 1}, 3); }) == Values{0, 0, 0, 1, 5, 4, 0});
  CHECK(gradient(x, [](const Tensor& t) { return t.as_strided({2, 3}, {0, 2}); }) == Values{5, 0, 7, 0, 9, 0, 0});
  const Tensor wide = counted({3000}).requires_grad_();  // an addition for each of the 3, not of the 2,998
  const Values g = gradient(wide, [](const Tensor& t) { return unfold(t, 0, 3, 1); });
  CHECK(g[0] == 1);
  CHECK(g[1] == 2 + 4);
  CHECK(g[2999] == 3 * 2998);
}

TEST_CASE("triangles and diagonals refuse outputs that share memory with their input in part", "[ops]") {
  Tensor x = counted({4, 4}), copy = x.clone();
  const Tensor turned = mT(x);
  op::tril.out(turned, x, 0);  // computed aside, then written
  CHECK(values(x) == values(mT(tril(copy))));
  x.copy_(copy);
  op::triu.inplace(x, x, 1);
  CHECK(values(x) == values(triu(copy, 1)));
  const Tensor once = zeros({1, 4}).expand({4, 4});
  CHECK_THROWS_AS(op::tril.inplace(once, once, 0), AliasError);
  CHECK_THROWS_AS(op::flip.out(once, zeros({4, 4}), 0), AliasError);
}

TEST_CASE("how much repeat_interleave gives is checked where nothing has to be waited for", "[ops]") {
  CHECK_THROWS_AS(repeat_interleave(zeros({2}), tensor({1, 4}).to(kInt64), 0, 4), ValueError);
}

TEST_CASE("resize in place", "[ops]") {
  Tensor x = arange(6, kFloat64);
  const Tensor view = x.slice(0, 1);
  op::resize.inplace(x, x, {2, 5}, {});
  CHECK(x.sizes() == IntArrayRef{2, 5});
  CHECK(x.is_contiguous());
  CHECK(values(x.view(10).slice(0, 0, 6)) == Values{0, 1, 2, 3, 4, 5});
  CHECK(shares(x, view));
  CHECK(values(view) == Values{1, 2, 3, 4, 5});  // the memory they share has moved
  op::resize.inplace(x, x, {2}, {});
  CHECK(values(x) == Values{0, 1});
  op::resize_as.inplace(x, x, zeros({1, 2, 2, 2}), MemoryFormat::channels_last);
  CHECK(x.strides() == IntArrayRef{8, 1, 4, 2});
  const Tensor once = ones({5}).as_strided({5}, {0});
  op::resize.inplace(once, once, 1000, {});
  CHECK(once.storage()->bytes() >= 1000 * once.itemsize());
  Tensor learned = zeros({2}).requires_grad_(), followed = learned.mul(2);
  CHECK_THROWS_AS(op::resize.inplace(learned, learned, 3, {}), AutogradError);
  CHECK_THROWS_AS(op::resize.inplace(followed, followed, 3, {}), AutogradError);
  CHECK_THROWS_AS(op::resize.inplace(x, x, {-1}, {}), ShapeError);
  CHECK(dispatch::call("resize_", {x, std::vector<int64_t>{3}})[0].tensor().is_same(x));
}

TEST_CASE("names and lists as PyTorch spells them", "[ops]") {
  const Tensor x = counted({2, 3});
  const auto called = [](const char* name, std::vector<dispatch::Value> args) {
    return dispatch::call(name, std::move(args))[0];
  };
  CHECK(called("T", {x}).tensor().sizes() == IntArrayRef{3, 2});
  CHECK(called("H", {x}).tensor().sizes() == IntArrayRef{3, 2});
  CHECK(called("adjoint", {x}).tensor().sizes() == IntArrayRef{3, 2});
  CHECK(called("moveaxis", {x, 0, 1}).tensor().sizes() == IntArrayRef{3, 2});
  CHECK(called("row_stack", {List{x, x}}).tensor().sizes() == IntArrayRef{4, 3});
  CHECK(called("block_diag", {x, x, x}).tensor().sizes() == IntArrayRef{6, 9});
  CHECK(called("broadcast_tensors", {x, x[0]}).tensors().size() == 2);
  CHECK(tensor_split(x, 3, 1).size() == 3);
  CHECK(tensor_split(x, {2}, 1)[0].sizes() == IntArrayRef{2, 2});  // braces hold indices
  CHECK(hsplit(x, {1, 2}).size() == 3);
  CHECK(called("linalg.diagonal", {x}).tensor().sizes() == IntArrayRef{2});
}

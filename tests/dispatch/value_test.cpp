// SPDX-License-Identifier: Apache-2.0
// Arguments on their way: lists of integers that hold one number themselves, values that borrow.
#include <tenon/dispatch/value.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>

#include "tests/support/catch.h"

using namespace tenon;
using dispatch::Value;

namespace {
// What was on the stack is overwritten, so that an address of it would be noticed.
[[gnu::noinline]] std::optional<IntArrayRef> one_of(int value) { return value; }
[[gnu::noinline]] void scribble() {
  volatile int64_t waste[64];
  for (volatile int64_t& w : waste) w = -77;
}
}  // namespace

TEST_CASE("int lists: one integer is held by value, also in an optional") {
  const std::optional<IntArrayRef> dims = one_of(5);
  scribble();
  REQUIRE(dims->size() == 1);
  CHECK((*dims)[0] == 5);
  CHECK(dims->back() == 5);
  const IntArrayRef copy = *dims;
  CHECK(copy.data() != dims->data());
  CHECK(copy == IntArrayRef{5});
  CHECK(copy.slice(0, 1) == copy);
  CHECK(copy.slice(1, 0).empty());
  CHECK(copy.vec() == std::vector<int64_t>{5});
  int64_t sum = 0;
  for (const int64_t v : IntArrayRef(7)) sum += v;
  CHECK(sum == 7);
  const Tensor x = ones({2, 3});
  CHECK(op::sum(x, 1, false, {}).to_vector<float>() == std::vector<float>{3, 3});
  CHECK(op::sum(x, 0, true, {}).sizes() == IntArrayRef({1, 3}));
  CHECK(op::sum(x, IntArrayRef({0, 1}), false, {}).item<float>() == 6);
}

TEST_CASE("values: what is borrowed is kept by copies and moves only") {
  Tensor t = ones({2});
  {
    const Value borrowed = Value::borrow(t);
    CHECK(t.use_count() == 1);
    CHECK(borrowed.tensor().is_same(t));
    Value copy = borrowed;
    CHECK(t.use_count() == 2);
    Value again = Value::borrow(copy);
    CHECK(t.use_count() == 2);
    Value moved = static_cast<Value&&>(again);
    CHECK(t.use_count() == 3);
    copy = Value(1.0);
    CHECK(t.use_count() == 2);
    CHECK(moved.tensor().is_same(t));
  }
  CHECK(t.use_count() == 1);
  for (const std::size_t n : {0u, 1u, 3u, 4u, 20u}) {
    std::vector<int64_t> list;
    for (std::size_t i = 0; i < n; ++i) list.push_back(static_cast<int64_t>(i * i));
    Value v(list);
    list.assign(n, -1);
    Value copy = v, borrowed = Value::borrow(v), taken = static_cast<Value&&>(v);
    CHECK(copy.ints() == taken.ints());
    CHECK(copy.ints().size() == n);
    CHECK((n == 0 || copy.ints().back() == static_cast<int64_t>((n - 1) * (n - 1))));
    copy = Value("text");
    CHECK(copy.string() == "text");
    copy = static_cast<Value&&>(taken);
    CHECK(copy.ints().size() == n);
    CHECK(taken.is_none());
  }
}

// SPDX-License-Identifier: Apache-2.0
// Bad input that once crashed, hung or gave silently wrong answers: undefined tensors, sizes and strides beyond int64,
// destinations that overlap themselves, numbers a dtype cannot hold, and leaving the process while threads compute.
#include "tests/support/catch.h"

#include <tenon/dispatch/registry.h>
#include <tenon/tenon.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace tenon;  // NOLINT
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kHuge = int64_t{1} << 62;
}  // namespace

TEST_CASE("refusals: undefined tensors are named, in every operator") {
  const Tensor none, x = ones({2, 3});
  CHECK(contains(error_of<ValueError>([&] { none.view({1}); }), "view: argument self: expected a tensor"));
  CHECK(contains(error_of<ValueError>([&] { x.mm(none); }), "mm: argument mat2"));
  CHECK(contains(error_of<ValueError>([&] { where(none, x, x); }), "argument condition"));
  CHECK(contains(error_of<ValueError>([&] { Tensor().add_(1); }), "add: argument self"));
  CHECK_THROWS_AS(none.to(kInt64), ValueError);
  CHECK_THROWS_AS(none.contiguous(), ValueError);
  CHECK_THROWS_AS(none.item(), ValueError);
  CHECK_THROWS_AS(none.detach(), ValueError);
  CHECK_THROWS_AS(stack({Tensor(), Tensor()}), ValueError);
  CHECK_THROWS_AS(x.index({Tensor()}), ValueError);
  CHECK_THROWS_AS(none.index({0}), ValueError);
  CHECK_THROWS_AS(op::add.out(Tensor(), x, x, 1), ValueError);
  CHECK_THROWS_AS(op::add.out(std::span<const Tensor>(), x, x, 1), ValueError);
  CHECK_THROWS_AS(dispatch::call("add", {x, x}, {{"out", dispatch::Value(std::vector<Tensor>{})}}), ValueError);
  // Every operator whose first argument must be a tensor, by its handle: boxed calls refuse earlier.
  for (const dispatch::OpBase* op : dispatch::Registry::all()) {
    if (op->schema().count == 0 || op->schema().arguments[0].type != dispatch::ArgType::tensor) continue;
    INFO(op->name());
    CHECK_THROWS_AS(dispatch::call(op->name(), {Tensor()}), SchemaError);
  }
  CHECK(linear(x, ones({4, 3}), Tensor()).sizes() == IntArrayRef({2, 4}));  // optional ones stay optional
}

TEST_CASE("refusals: sizes, strides and steps beyond int64") {
  const Tensor x = arange(6).reshape({2, 3});
  CHECK_THROWS_AS(x.as_strided({1}, {0}, kMax), ShapeError);
  CHECK_THROWS_AS(x.as_strided({2}, {kMax}, 1), ShapeError);
  CHECK_THROWS_AS(x.as_strided({5}, {kHuge}, 0), ShapeError);
  CHECK_THROWS_AS(linspace(0, 1, kHuge), ShapeError);
  CHECK_THROWS_AS(linspace(0, 1, kMax), ShapeError);
  CHECK_THROWS_AS(randperm(int64_t{1} << 61), ShapeError);
  CHECK_THROWS_AS(empty_strided({2}, {kHuge}), ShapeError);
  CHECK_THROWS_AS(empty_strided({2}, {kMax}), ShapeError);
  CHECK_THROWS_AS(split_with_sizes(x, {kHuge, kHuge, kHuge, kHuge, 3}, 1), ShapeError);
  CHECK_THROWS_AS(chunk(empty({0}), kHuge), ValueError);
  CHECK(chunk(x, kMax, 1).size() == 3);
  CHECK(x.slice(1, 0, 3, kMax).to_vector<int64_t>() == std::vector<int64_t>{0, 3});
  float number = 0;
  CHECK_THROWS_AS(from_blob(&number, {2}, {kMax}, nullptr), ShapeError);
  // Broadcast and product of expanded tensors: 2^64 elements wrapped to none.
  const Tensor tall = ones({1, 1}).expand({int64_t{1} << 32, 1}), wide = ones({1, 1}).expand({1, int64_t{1} << 32});
  CHECK(contains(error_of<ShapeError>([&] { tall + wide; }), "add: too many elements"));
  CHECK(contains(error_of<ShapeError>([&] { tall.mm(wide); }), "mm: too many elements"));
  // 17 dimensions: the operator is named.
  const std::vector<int64_t> many(17, 1);
  CHECK(contains(error_of<ShapeError>([&] { ones({1}).view(many); }), "view"));
  CHECK(contains(error_of<ShapeError>([&] { ones({1}).expand(many); }), "expand"));
  CHECK(contains(error_of<ShapeError>([&] { ones(std::vector<int64_t>(16, 1)).unsqueeze(0); }), "unsqueeze"));
}

TEST_CASE("refusals: destinations that overlap themselves") {
  const auto expanded = [](IntArrayRef sizes) { return zeros(IntArrayRef()).expand(sizes); };
  CHECK_THROWS_AS(expanded({3}).copy_(ones({3})), AliasError);
  CHECK_THROWS_AS(expanded({3}).fill_(1), AliasError);
  CHECK_THROWS_AS(expanded({3}).zero_(), AliasError);
  CHECK_THROWS_AS(expanded({3}).index_put_({from_vector(std::vector<int64_t>{0, 1})}, 5), AliasError);
  CHECK_THROWS_AS(op::sum.out(expanded({3}), ones({3, 3}), IntArrayRef(0), false, {}), AliasError);
  CHECK_THROWS_AS(op::mm.out(expanded({3, 3}), ones({3, 3}), ones({3, 3})), AliasError);
  const Tensor parts[] = {ones({3}), zeros({3})};
  CHECK_THROWS_AS(op::cat.out(expanded({6}), TensorList(parts), 0), AliasError);
}

TEST_CASE("refusals: one tensor as two results, one parameter twice") {
  const Tensor x = from_vector(std::vector<float>{1, 3, 2, 4}, {2, 2});
  const Tensor values = zeros({2}), indices = zeros({2}, kInt64);
  const Tensor same[] = {values, values}, part[] = {values, values.view({2, 1}).select(1, 0)};
  CHECK(contains(error_of<AliasError>([&] { op::max_dim.out(same, x, 1, false); }), "tensors 0 and 1 share memory"));
  CHECK_THROWS_AS(op::max_dim.out(part, x, 1, false), AliasError);
  const Tensor apart[] = {values, indices};
  op::max_dim.out(apart, x, 1, false);
  CHECK(values.to_vector<float>() == std::vector<float>{3, 4});
  Tensor w = ones({2}).requires_grad_(), b = ones({2}).requires_grad_();
  const std::string text = error_of<ValueError>([&] { optim::SGD({w, b, w}, {}); });
  CHECK(contains(text, "parameters 0 and 2 are the same tensor"));
  CHECK_NOTHROW(optim::SGD({w, b}, {}));
}

TEST_CASE("a parameter that two modules share is listed, counted and updated once") {
  struct Tied : nn::Module {
    nn::Linear first{2, 2}, second{2, 2};
    Tied() { second.weight = first.weight; }
    Tensor forward(const Tensor& x) override { return second(first(x)); }
    void members(nn::Members& m) override { m("first", first)("second", second); }
  } model;
  CHECK(model.parameters().size() == 3);
  optim::SGD optimizer(model.parameters(), {.lr = 1});
  const std::vector<double> before = model.first.weight.detach().to_vector<double>();
  (model.first.weight.sum() + model.second.weight.sum() * 2).backward();
  optimizer.step();
  const std::vector<double> after = model.second.weight.detach().to_vector<double>();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(std::abs(after[i] - (before[i] - 3)) < 1e-6);
}

TEST_CASE("refusals: numbers an integer dtype cannot hold") {
  CHECK_THROWS_AS(full({2}, 300, kUInt8), ValueError);
  CHECK_THROWS_AS(full({2}, std::numeric_limits<double>::quiet_NaN(), kInt64), ValueError);
  CHECK_THROWS_AS(full({2}, std::numeric_limits<double>::infinity(), kInt32), ValueError);
  CHECK_THROWS_AS(full({2}, 0x1p63, kInt64), ValueError);
  CHECK(full({1}, -0x1p63, kInt64).item<int64_t>() == std::numeric_limits<int64_t>::min());
  CHECK(full({1}, -1, kUInt8).item<int64_t>() == 255);  // as in PyTorch
  CHECK(full({1}, 127.9, kInt8).item<int64_t>() == 127);
  CHECK_THROWS_AS(full({1}, 128.0, kInt8), ValueError);
  CHECK_THROWS_AS(zeros({2}, kInt8).masked_fill(ones({2}, kBool), 200), ValueError);
  const Tensor bytes = from_vector(std::vector<uint8_t>{0, 7, 200, 255});
  CHECK(bytes.clamp(-5, 300).to_vector<int64_t>() == std::vector<int64_t>{0, 7, 200, 255});
  CHECK(bytes.clamp({}, 300).to_vector<int64_t>() == std::vector<int64_t>{0, 7, 200, 255});
  CHECK(bytes.clamp(100, 1000).to_vector<int64_t>() == std::vector<int64_t>{100, 100, 200, 255});
  CHECK_THROWS_AS(bytes.clamp(300), ValueError);
  CHECK_THROWS_AS(bytes.clamp({}, -1), ValueError);
}

TEST_CASE("refusals: class probabilities without classes") {
  const Tensor loss = cross_entropy(zeros({3, 0}), zeros({3, 0}));
  CHECK(loss.dim() == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("leaving: the process exits while other threads compute") {
  for (int round = 0; round < 5; ++round) {
    std::cout.flush();  // or the child writes it again
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      std::thread([] {
        for (;;) {
          Tensor x = ones({100});
          x.requires_grad_();
          (x * 2).sum().backward();
        }
      }).detach();
      usleep(static_cast<useconds_t>(5000 + 3000 * round));
      std::exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}
#endif

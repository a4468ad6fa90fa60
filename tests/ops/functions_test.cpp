// SPDX-License-Identifier: Apache-2.0
// The free functions as programs write them: dimensions as plain numbers and braces, values in braces, and what
// <tenon/tenon.h> adds for streams. The operators below them have rows.
#include <tenon/tenon.h>
#include "tests/support/catch.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>

using namespace tenon;

namespace {
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}
}  // namespace

TEST_CASE("reductions take their dimensions as an int, an int64 and braces", "[functions]") {
  const Tensor x = arange(6).view({2, 3});
  const int64_t one = 1;
  const int last = -1;
  CHECK(sum(x, 1).to_vector<int64_t>() == Ints{3, 12});
  CHECK(sum(x, one).to_vector<int64_t>() == Ints{3, 12});
  CHECK(sum(x, last).to_vector<int64_t>() == Ints{3, 12});
  CHECK(sum(x, 0).to_vector<int64_t>() == Ints{3, 5, 7});
  CHECK(sum(x, {0, 1}).to_vector<int64_t>() == Ints{15});
  CHECK(sum(x, {}).to_vector<int64_t>() == Ints{15});
  CHECK(sum(x, 1, true).sizes() == IntArrayRef{2, 1});
  const Tensor f = x.to(kFloat64);
  CHECK(mean(f, 1).to_vector<double>() == Doubles{1, 4});
  CHECK(mean(f, {0}).to_vector<double>() == Doubles{1.5, 2.5, 3.5});
  CHECK(var(f, 1, 0).to_vector<double>() == Doubles{2.0 / 3, 2.0 / 3});
  CHECK(all(x, 1).to_vector<int64_t>() == Ints{0, 1});
  CHECK(any(x, 1).to_vector<int64_t>() == Ints{1, 1});
  CHECK(max(x, 5 - x).to_vector<int64_t>() == Ints{5, 4, 3, 3, 4, 5});
}

TEST_CASE("tensor() copies the values in braces", "[functions]") {
  const Tensor reals = tensor({1.5, 2.0});
  CHECK(reals.dtype() == kFloat32);
  CHECK(reals.to_vector<double>() == Doubles{1.5, 2});
  CHECK(tensor({1, 2}).dtype() == kInt64);
  CHECK(tensor({true, false}).dtype() == kBool);
  CHECK(tensor({1, 2}, kFloat64).dtype() == kFloat64);
  CHECK(tensor(2.5).dim() == 0);
  CHECK(tensor({complex<double>(1, 2)}).dtype() == kComplex128);
  const Tensor rows = tensor({{1, 2, 3}, {4, 5, 6}}, TensorOptions(kFloat32).requires_grad(true));
  CHECK(rows.sizes() == IntArrayRef{2, 3});
  CHECK(rows.requires_grad());
  CHECK(rows.to_vector<int64_t>() == Ints{1, 2, 3, 4, 5, 6});
  CHECK(tensor({{true, false}, {false, true}}).to_vector<int64_t>() == Ints{1, 0, 0, 1});
  std::vector<double> values{1, 2, 3};
  const Tensor copied = tensor(values);
  values[0] = 7;
  CHECK(copied.to_vector<double>() == Doubles{1, 2, 3});
  CHECK_THROWS_AS(tensor({{1, 2}, {3}}), ShapeError);
}

TEST_CASE("factories take options after their numbers", "[functions]") {
  CHECK(arange(1, 4, kFloat32).to_vector<double>() == Doubles{1, 2, 3});
  CHECK(normal(2, 0, {3}, kFloat64).to_vector<double>() == Doubles{2, 2, 2});
}

TEST_CASE("bool and integer tensors combine with the operators of bits, floats refuse", "[functions]") {
  const Tensor a = tensor({true, true, false, false}), b = tensor({true, false, true, false});
  CHECK((a & b).to_vector<int64_t>() == Ints{1, 0, 0, 0});
  CHECK((a | b).to_vector<int64_t>() == Ints{1, 1, 1, 0});
  CHECK((a ^ b).to_vector<int64_t>() == Ints{0, 1, 1, 0});
  CHECK((~a).to_vector<int64_t>() == Ints{0, 0, 1, 1});
  CHECK((arange(4) & 2).to_vector<int64_t>() == Ints{0, 0, 2, 2});
  CHECK((arange(4) << 2).to_vector<int64_t>() == Ints{0, 4, 8, 12});
  CHECK((~arange(3)).to_vector<int64_t>() == Ints{-1, -2, -3});
  CHECK_THROWS_AS(a & rand({4}), DtypeError);
  CHECK_THROWS_AS(~rand({4}), DtypeError);
}

TEST_CASE("equal and allclose", "[functions]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(equal(arange(3), tensor({0, 1, 2})));
  CHECK(!equal(arange(3), tensor({0, 1, 3})));
  CHECK(!equal(arange(3), arange(3).view({3, 1})));
  CHECK(!equal(tensor({nan}), tensor({nan})));
  CHECK(equal(zeros({0}), zeros({0})));
  CHECK(allclose(tensor({1.0, 2.0}), tensor({1.0 + 1e-6, 2.0})));
  CHECK(!allclose(tensor({1.0, 2.0}), tensor({1.0, 2.1})));
  CHECK(allclose(tensor({100.0}), tensor({101.0}), 0.01, 0));
  CHECK(!allclose(tensor({101.1}), tensor({100.0}), 0.01, 0));
  CHECK(allclose(tensor({inf, -inf}), tensor({inf, -inf})));
  CHECK(!allclose(tensor({1.0}), tensor({inf})));
  CHECK(!allclose(tensor({-inf}), tensor({inf})));
  CHECK(!allclose(tensor({nan}), tensor({nan})));
  CHECK(allclose(tensor({nan, 1.0}), tensor({nan, 1.0}), 1e-5, 1e-8, true));
  CHECK(!allclose(tensor({3}, kUInt8), tensor({4}, kUInt8)));
  CHECK(allclose(tensor({complex<double>(1, 1)}), tensor({complex<double>(1, 1 + 1e-9)})));
  CHECK_THROWS_AS(allclose(zeros({2}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(allclose(zeros({2}), arange(2)), DtypeError);
}

TEST_CASE("aminmax: out= takes tensors of self's dtype only, as in PyTorch") {
  const Tensor same[] = {empty({0}), empty({0})};
  const Tensor other[] = {empty({0}), empty({0}, kFloat64)};
  op::aminmax.out(same, tensor({3.0, 1.0, 2.0}), {}, false);
  CHECK(same[0].item<float>() == 1);
  CHECK(same[1].item<float>() == 3);
  CHECK_THROWS_AS(op::aminmax.out(other, tensor({3.0, 1.0}), {}, false), DtypeError);
}

TEST_CASE("errors of losses name the loss", "[functions]") {
  using testing::contains;
  using testing::error_of;
  const auto target = [] { cross_entropy(zeros({2, 3}), zeros({2})); };
  CHECK(contains(error_of<DtypeError>(target), "class probabilities"));
  CHECK(contains(error_of<DtypeError>(target), "nll_loss: target"));
  CHECK(contains(error_of<ShapeError>([] { mse_loss(zeros({2}), zeros({3})); }), "mse_loss"));
}

TEST_CASE("assigning to an element or a row writes to the tensor", "[functions]") {
  Tensor x = zeros({2, 2}, kInt64);
  x[0] = tensor({1, 2});
  x[1][1] = 5;
  x[1] = x[0] + x[1];
  CHECK(x.to_vector<int64_t>() == Ints{1, 2, 1, 7});
  const Tensor row = x[0];
  x = zeros({1});  // a name is bound anew
  CHECK(row.to_vector<int64_t>() == Ints{1, 2});
  Tensor y = arange(3);
  y.masked_fill_(y > 1, 9);
  CHECK(y.to_vector<int64_t>() == Ints{0, 1, 9});
  CHECK(y.to(kCPU).is_same(y));
}

TEST_CASE("gradients of lists in braces", "[functions]") {
  const Tensor x = tensor({1., 2.}).requires_grad_();
  CHECK(autograd::grad({(x * x).sum()}, {x})[0].to_vector<double>() == Doubles{2, 4});
  autograd::backward({(x * 3).sum()});
  CHECK(x.grad().to_vector<double>() == Doubles{3, 3});
}

TEST_CASE("sizes, dtypes, devices and numbers go to streams", "[functions]") {
  const Tensor x = full({2, 3}, 1.5);
  CHECK(printed(x.sizes()) == "[2, 3]");
  CHECK(printed(x.dtype()) == "float32");
  CHECK(printed(x.device()) == "cpu");
  CHECK(printed(x[0][0].item()) == "1.5");
}

TEST_CASE("a module's state goes through a safetensors file", "[functions]") {
  nn::Sequential model(nn::Linear(2, 3), nn::Tanh(), nn::Linear(3, 1)),
      other(nn::Linear(2, 3), nn::Tanh(), nn::Linear(3, 1));
  const std::string path = "functions_test.safetensors";
  data::save_safetensors(path, model.state());
  other.load_state(data::load_safetensors(path));
  std::remove(path.c_str());
  const Tensor x = ones({4, 2});
  CHECK(model(x).to_vector<float>() == other(x).to_vector<float>());
  CHECK(printed(model[0].describe()) == "Linear(in_features=2, out_features=3, bias=true)");
  CHECK_THROWS_AS(model[3], IndexError);
  CHECK(optim::SGD(model.parameters()).learning_rate() == 1e-3);
}

namespace {
bool near(double x, double y) { return std::fabs(x - y) <= 5e-3 * std::fabs(y); }
}  // namespace

TEST_CASE("float16 tensors combine with numbers that float16 cannot hold", "[functions]") {
  const TensorOptions half(kFloat16);
  CHECK(near(full({3}, 1.0, half).div(100000.0).to_vector<double>()[0], 1e-5));
  CHECK(near(full({1}, 60000.0, half).mul(1e-8).item<double>(), 6e-4));
  Tensor x = full({2}, 60000.0, half);
  x.mul_(1e-8);
  CHECK(x.dtype() == kFloat16);
  CHECK(near(x.to_vector<double>()[1], 6e-4));
  CHECK(std::isinf(full({1}, 2.0, half).mul(1e5).item<double>()));
  const Tensor many = full({100000}, 1.0, half).requires_grad_(true);
  many.mean().backward();
  CHECK(near(many.grad().to_vector<double>()[7], 1e-5));
}

// SPDX-License-Identifier: Apache-2.0
// Edges at which PyTorch's answer is a choice: what it refuses, wraps around or leaves without a value.
#include <tenon/tenon.h>
#include "tests/support/catch.h"

#include <cmath>
#include <limits>

using namespace tenon;

namespace {
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class F>
Doubles slope(const F& f, std::initializer_list<double> at) {
  const Tensor x = tensor(at, kFloat64).requires_grad_();
  f(x).sum().backward();
  return x.grad().to_vector<double>();
}
}  // namespace

TEST_CASE("out= of gather and complex is of the result's dtype", "[functions]") {
  const Tensor wide[] = {empty({2}, kFloat64)};
  CHECK_THROWS_AS(op::gather.out(wide, zeros({2}), 0, arange(2), false), DtypeError);
  const Tensor narrow[] = {empty({2}, kComplex64)};
  CHECK_THROWS_AS(op::make_complex.out(narrow, zeros({2}, kFloat64), zeros({2}, kFloat64)), DtypeError);
}

TEST_CASE("swapped operators need the tensor they belong to; a 0-dim tensor has no dimension to roll", "[functions]") {
  CHECK_THROWS_AS(dispatch::call("__radd__", {2, arange(3)}), SchemaError);
  CHECK(dispatch::call("__rsub__", {arange(3), 2})[0].tensor().to_vector<int64_t>() == Ints{2, 1, 0});
  CHECK(dispatch::call("__rand__", {arange(3), 2})[0].tensor().to_vector<int64_t>() == Ints{0, 0, 2});
  CHECK(dispatch::call("__rmod__", {tensor({3, 4}), 7})[0].tensor().to_vector<int64_t>() == Ints{1, 3});
  CHECK_THROWS_AS(roll(tensor(1.0), 1, 0), IndexError);
  CHECK(roll(tensor(1.0), 1).item<float>() == 1);
}

TEST_CASE("int64 ranges and areas of narrow integers count in integers", "[functions]") {
  CHECK(arange(0.0, -8.000001, -4.0, kInt64).to_vector<int64_t>() == Ints{0, -4});
  CHECK(arange(0.0, -8.000001, -4.0, kInt32).to_vector<int64_t>() == Ints{0, -4, -8});
  CHECK_THROWS_AS(arange(0.0, 2.0, 0.5, kInt64), ValueError);
  CHECK(sum_to_size(tensor(5, kInt32), {}).dtype() == kInt64);
  CHECK(linspace(4.3, 1, 4, kInt64).to_vector<int64_t>() == Ints{4, 3, 2, 1});
  // Widths 250 (3 - 9 in uint8) and 254, times 11 and 10: 190 and 236.
  const Tensor y = tensor({5, 6, 4}, kUInt8), x = tensor({9, 3, 1}, kUInt8);
  CHECK(cumulative_trapezoid(y, x).to_vector<double>() == Doubles{95, 213});
  CHECK(trapezoid(y, x).to_vector<double>() == Doubles{213});
}

TEST_CASE("gradients at infinity and outside the domain", "[functions]") {
  const auto flat = slope([](const Tensor& x) { return acosh(x); }, {kInfinity, -kInfinity, -2});
  CHECK(flat[0] == 0);
  CHECK(flat[1] == 0);
  CHECK(std::fabs(flat[2] - 1 / std::sqrt(3.0)) < 1e-12);
  const auto trigamma = slope([](const Tensor& x) { return digamma(x); }, {kInfinity, -kInfinity});
  CHECK(trigamma[0] == 0);
  CHECK(std::isnan(trigamma[1]));
  CHECK(polygamma(1, tensor(kInfinity, kFloat64)).item<double>() == 0);
  CHECK(std::isnan(polygamma(2, tensor(kInfinity, kFloat64)).item<double>()));
}

TEST_CASE("logcumsumexp's gradient of large complex numbers", "[functions]") {
  const Tensor z =
      tensor({complex<double>(1e4, 0), complex<double>(1e4, 1), complex<double>(-1e4, 0)}).requires_grad_();
  logcumsumexp(z, 0).backward(tensor({complex<double>(0), complex<double>(1), complex<double>(0)}));
  const auto slope = z.grad().to_vector<complex<double>>();  // 1 / (1 + e^i), e^i / (1 + e^i), conjugated
  CHECK(std::fabs(slope[0].re - 0.5) < 1e-12);
  CHECK(std::fabs(slope[0].im - 0.5 * std::tan(0.5)) < 1e-12);
  CHECK(std::fabs(slope[1].im + 0.5 * std::tan(0.5)) < 1e-12);
  CHECK((slope[2].re == 0 && slope[2].im == 0));
}

TEST_CASE("NaN and zeros beside them, over whole vectors", "[functions]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType t : {kFloat32, kFloat64, kBFloat16}) {
    const Tensor zero = zeros({20}, t), lost = full({20}, nan, t);
    for (const Tensor& y : {atan2(zero, lost), atan2(lost, zero), xlogy(zero, lost), special_xlog1py(zero, lost),
                            logaddexp(zero, lost), logaddexp(lost, zero), logaddexp2(lost, zero)})
      CHECK(all(isnan(y)).item<bool>());
    CHECK(all(eq(atan2(zero, zero), 0)).item<bool>());
  }
  const Tensor x = zeros({2}, kFloat64).requires_grad_();
  atan2(x, zeros({2}, kFloat64)).sum().backward();
  CHECK(x.grad().to_vector<double>() == Doubles{0, 0});
}

TEST_CASE("powers of complex zero", "[functions]") {
  const Tensor zero = zeros({3}, kComplex64);
  CHECK(all(eq(pow(zero, 0), 1)).item<bool>());
  CHECK(all(eq(pow(zero, zero), 1)).item<bool>());
  const Tensor e = tensor({complex<float>(2, 0), complex<float>(1, 1)}).requires_grad_();
  pow(0, e).backward(ones({2}, kComplex64));
  CHECK(std::fabs(e.grad()[0].item<complex<float>>().re) == 0);
}

TEST_CASE("the deviation of 16-bit floats is finite where their variance is not", "[functions]") {
  CHECK(std::fabs(op::std(tensor({1000.0, -1000.0}, kFloat16), {}, Scalar(0), false).item<float>() - 1000) < 1);
  CHECK(std::fabs(op::std_unbiased(tensor({1000.0, -1000.0}, kFloat16), false).item<float>() - 1000) < 1);
}

TEST_CASE("complex exponentials of infinities", "[functions]") {
  const Tensor z = tensor({complex<double>(kInfinity, kInfinity)});
  const auto power = exp2(z).item<complex<double>>(), less = expm1(z).item<complex<double>>();
  CHECK(std::fabs(power.re) == kInfinity);
  CHECK(std::isnan(power.im));
  CHECK(std::isnan(less.re));
  CHECK(std::isnan(less.im));
}

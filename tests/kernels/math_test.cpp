// SPDX-License-Identifier: Apache-2.0
// Accuracy of the float32 functions against long double over all of float's exponents, and their special values.
#include "tests/support/catch.h"

#include <tenon/ops/exponential.h>
#include <tenon/ops/special.h>
#include <tenon/ops/trigonometric.h>
#include <tenon/ops/unary.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace tenon;

namespace {

using Exact = long double (*)(long double);

// Distance in units of the last place of the exact result; subnormal results count in units of the smallest number.
double ulps(float got, long double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e9;
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || std::isinf(got)) {
    if (got == nearest) return 0;
    return std::isinf(got) && std::fabs(exact) > 3.4028e38L ? 1 : 1e9;
  }
  int exponent;
  std::frexp(nearest, &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent - 24, -149));
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / unit);
}

// Every `step`-th bit pattern, both signs, and the neighbourhood of where things change.
std::vector<float> sweep(uint32_t step) {
  std::vector<float> x;
  for (uint64_t bits = tenon::testing::seed() % step; bits < (1ull << 32); bits += step) {
    const auto b = static_cast<uint32_t>(bits);
    float f;
    std::memcpy(&f, &b, 4);
    x.push_back(f);
  }
  std::mt19937 rng(tenon::testing::seed());
  for (const float scale : {1.f, 10.f, 105.f})
    for (int i = 0; i < 100000; ++i) x.push_back(std::uniform_real_distribution<float>(-scale, scale)(rng));
  for (const float f : {0.f, -0.f, 1.f, -1.f, 88.72283f, 88.72284f, -87.33655f, -103.97208f, -103.98f, 89.f, 9.01f,
                        0.70710677f, 1.17549435e-38f, 1e-45f, 3.4028235e38f, -3.4028235e38f})
    for (const float g : {f, std::nextafter(f, 1e30f), std::nextafter(f, -1e30f)}) x.push_back(g);
  const float inf = std::numeric_limits<float>::infinity();
  for (const float f : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) x.push_back(f);
  return x;
}

template <class F>
void check_function(const char* name, F&& function, Exact exact, double bar) {
  std::vector<float> x = sweep(4099);
  const auto n = static_cast<int64_t>(x.size());
  const Tensor in = from_blob(x.data(), IntArrayRef(n), kFloat32);
  const Tensor out = function(in);
  const float* y = out.data_ptr<float>();
  double worst = 0;
  float at = 0, got = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[static_cast<std::size_t>(i)];
    const double e = ulps(y[i], exact(v));
    if (!(e <= worst)) worst = e, at = v, got = y[i];
  }
  INFO(name << ": " << worst << " ULP at " << at << " (got " << got << ", exact " << static_cast<double>(exact(at))
            << ")");
  CHECK(worst <= bar);
}

long double exact_sigmoid(long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("float32 functions are within 2 ULP") {
  check_function(
      "exp", [](const Tensor& t) { return exp(t); }, [](long double x) { return std::exp(x); }, 1.5);
  check_function(
      "log", [](const Tensor& t) { return log(t); }, [](long double x) { return std::log(x); }, 1.5);
  check_function(
      "tanh", [](const Tensor& t) { return tanh(t); }, [](long double x) { return std::tanh(x); }, 2);
  check_function(
      "sigmoid", [](const Tensor& t) { return sigmoid(t); }, exact_sigmoid, 2.5);
  check_function(
      "sqrt", [](const Tensor& t) { return sqrt(t); }, [](long double x) { return std::sqrt(x); }, 0.5001);
  check_function(
      "rsqrt", [](const Tensor& t) { return rsqrt(t); }, [](long double x) { return 1 / std::sqrt(x); }, 1.5);
  check_function(
      "reciprocal", [](const Tensor& t) { return reciprocal(t); }, [](long double x) { return 1 / x; }, 0.5001);
}

TEST_CASE("gelu keeps its relative accuracy in the lower tail") {
  std::vector<float> x;
  for (float v = -13; v < 20; v += 1.f / 1024) x.push_back(v);
  const auto n = static_cast<int64_t>(x.size());
  const Tensor in = from_blob(x.data(), IntArrayRef(n), kFloat32);
  const Tensor plain = gelu(in), tanh_form = gelu(in, "tanh");
  const std::vector<float> grads(x.size(), 1.f);
  const Tensor slope =
      op::gelu_backward(from_blob(const_cast<float*>(grads.data()), IntArrayRef(n), kFloat32), in, "none");
  const Tensor tanh_slope =
      op::gelu_backward(from_blob(const_cast<float*>(grads.data()), IntArrayRef(n), kFloat32), in, "tanh");
  double worst = 0, worst_tanh = 0, worst_slope = 0, worst_tanh_slope = 0;
  for (int64_t i = 0; i < n; ++i) {
    const long double v = x[static_cast<std::size_t>(i)];
    const long double phi = std::exp(-v * v / 2) * 0.39894228040143267794L,
                      cdf = std::erfc(-v * 0.70710678118654752440L) / 2;
    worst = std::max(worst, ulps(plain.data_ptr<float>()[i], v * cdf));
    const long double z = 1.5957691216057307117597842397375L * (v + 0.044715L * v * v * v), s = exact_sigmoid(z);
    const auto relative = [&](float got, long double want) {
      return static_cast<double>(std::fabs(got - want) / std::max(std::fabs(want), 1e-30L));
    };
    worst_tanh =
        std::max(worst_tanh, relative(tanh_form.data_ptr<float>()[i], v * s) / (1 + static_cast<double>(std::fabs(z))));
    worst_slope = std::max(worst_slope, static_cast<double>(std::fabs(slope.data_ptr<float>()[i] - (cdf + v * phi))));
    const long double inner = 1.5957691216057307117597842397375L * (1 + 3 * 0.044715L * v * v);
    worst_tanh_slope =
        std::max(worst_tanh_slope,
                 static_cast<double>(std::fabs(tanh_slope.data_ptr<float>()[i] - (s + v * s * (1 - s) * inner))));
  }
  CHECK(worst <= 5);
  CHECK(worst_tanh <= 3e-7);
  CHECK(worst_slope <= 3e-7);
  CHECK(worst_tanh_slope <= 4e-7);
}

// CPU results are rounded once from double; CUDA's functions have their own bounds.
TEST_CASE("float32 circular, exponential and error functions are within 1 ULP") {
#define CHECK_FUNCTION(name) \
  check_function(            \
      #name, [](const Tensor& t) { return name(t); }, [](long double x) { return std::name(x); }, 0.51)
  CHECK_FUNCTION(sin);
  CHECK_FUNCTION(cos);
  CHECK_FUNCTION(tan);
  CHECK_FUNCTION(asin);
  CHECK_FUNCTION(acos);
  CHECK_FUNCTION(atan);
  CHECK_FUNCTION(sinh);
  CHECK_FUNCTION(cosh);
  CHECK_FUNCTION(asinh);
  CHECK_FUNCTION(acosh);
  CHECK_FUNCTION(atanh);
  CHECK_FUNCTION(exp2);
  CHECK_FUNCTION(expm1);
  CHECK_FUNCTION(log2);
  CHECK_FUNCTION(log10);
  CHECK_FUNCTION(log1p);
  CHECK_FUNCTION(erf);
  CHECK_FUNCTION(erfc);
  CHECK_FUNCTION(lgamma);
#undef CHECK_FUNCTION
}

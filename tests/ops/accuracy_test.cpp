// SPDX-License-Identifier: Apache-2.0
// How far float32 functions are from the exact value, in units of the last place of the float32 nearest to it. What is
// exact enough to tell is the reference of each function's row: double or long double. `ops_tests "[table]"` prints the
// table of docs/accuracy.md, `ops_tests "[table-cuda]"` the GPU's. And what sums and variances must not lose.
#include <tenon/dispatch/registry.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>

#include "tests/support/catch.h"
#include "tests/support/op_case.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace tenon;
using namespace tenon::testing;

namespace {

const char* const kFunctions[] = {
    // ops/unary.h, exponential.h, trigonometric.h, binary.h
    "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sigmoid", "tanh",
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "sinc", "hypot",
    "logit", "logaddexp", "logaddexp2", "xlogy", "special_xlog1py", "special_entr",
    // ops/special.h
    "lgamma", "digamma", "polygamma", "erf", "erfc", "erfinv", "special_erfcx", "special_ndtr", "special_log_ndtr",
    "special_ndtri", "i0", "special_i0e", "special_i1", "special_i1e"};

// A third each: evenly over all bit patterns, over [-16, 16] and over [-1, 1]; `salt` tells arguments apart.
Tensor sweep(int64_t n, uint32_t salt) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) {
    uint32_t h = static_cast<uint32_t>(i) + salt * 0x9e3779b9u;
    for (const int shift : {16, 15, 16}) h = (h ^ (h >> shift)) * 0x7feb352du;
    const double u = static_cast<double>(h) * 0x1p-31 - 1;
    if (i % 3 == 0)
      std::memcpy(&v[i], &h, 4);
    else
      v[i] = static_cast<float>(i % 3 == 1 ? u : 16 * u);
    if (std::isnan(v[i])) v[i] = 1;
  }
  return from_vector(std::move(v));
}

struct Worst {
  double ulp = 0;
  float x = 0, got = 0;
  double want = 0;
};

const OpCase* row_of(std::string_view name) {
  for (const OpCase* row : all_cases())
    if (row->op->schema().name == name && row->expected) return row;
  return nullptr;
}

Worst worst_of(const OpCase& row, Device device, int64_t n) {
  std::vector<Value> args, moved, bound;
  for (const dispatch::Argument& a : row.op->schema().args()) {
    if (a.has_default) break;
    const bool number = a.type == dispatch::ArgType::integer;
    args.push_back(number ? Value(1) : Value(sweep(n, static_cast<uint32_t>(args.size()))));
    moved.push_back(number ? Value(1) : Value(args.back().tensor().to(device)));
  }
  REQUIRE(dispatch::bind_arguments(row.op->schema(), args, {}, bound, nullptr));
  const std::vector<Array> want = row.expected(Args(row.op->schema(), bound));
  const Tensor result = dispatch::call(row.op->name(), moved)[0].tensor().to(Device(kCPU));
  const float *got = result.data_ptr<float>(), *x = args.back().tensor().data_ptr<float>();
  Worst worst;
  for (std::size_t i = 0; i < want[0].data.size(); ++i) {
    const double y = want[0].data[i].re();
    // What is infinite or NaN is compared by the rows.
    if (!std::isfinite(y) || std::fabs(y) > FLT_MAX) continue;
    const double unit = std::ldexp(1.0, std::max(y == 0 ? -126 : std::ilogb(y), -126) - 23);
    const double error = std::fabs(static_cast<double>(got[i]) - y) / unit;
    if (!(error <= worst.ulp)) worst = {error, x[i], got[i], y};
  }
  return worst;
}

void print_table(Device device) {
  std::printf("| function | worst ULP | at |\n|---|---|---|\n");
  for (const char* function : kFunctions) {
    const Worst w = worst_of(*row_of(function), device, 3 << 19);
    std::printf("| `%s` | %.3f | %.9g |\n", function, w.ulp, static_cast<double>(w.x));
  }
}

}  // namespace

TEST_CASE("accuracy: float32 functions stay within 2 ULP on the CPU") {
  for (const char* function : kFunctions) {
    const OpCase* row = row_of(function);
    REQUIRE(row);
    const Worst w = worst_of(*row, kCPU, 6000);
    INFO(function << " of " << w.x << " is " << w.got << ", exactly " << w.want << ": " << w.ulp << " ULP");
    CHECK(w.ulp <= 2);
  }
}
TEST_CASE("accuracy: table of the CPU", "[.][table]") { print_table(kCPU); }
TEST_CASE("accuracy: table of the GPU", "[.][table-cuda]") {
  TENON_REQUIRE_CUDA();
  print_table(Device(kCUDA, 0));
}

TEST_CASE("accuracy: sums of many float32 ones are exact") {
  // One running float32 sum would stop at 2^24.
  const int64_t n = (int64_t{1} << 25) + 8;
  const Tensor x = ones({n});
  CHECK(sum(x).item<double>() == static_cast<double>(n));
  CHECK(mean(x).item<double>() == 1);
  CHECK(sum(ones({1}).expand({100'000'000})).item<double>() == 1e8);
}
TEST_CASE("accuracy: the mean of 16-bit floats neither overflows nor stalls") {
  for (const DType t : {kFloat16, kBFloat16}) {
    CHECK(mean(full({70000}, 49152, TensorOptions(t))).item<double>() == 49152);  // the sum is beyond float16
    CHECK(mean(full({70000}, 0.125, TensorOptions(t))).item<double>() == 0.125);
    CHECK(mean(full({3, 70000}, 0.125, TensorOptions(t)), {1})[2].item<double>() == 0.125);
    CHECK(mean(full({70000, 3}, 0.125, TensorOptions(t)), {0})[2].item<double>() == 0.125);
  }
}
TEST_CASE("accuracy: a variance far from zero keeps its digits") {
  // The mean of squares less the square of the mean is of no use here: both are 1e12 and agree in eight digits.
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {0}, {1}}) {
    const Tensor x = add(rand({301, 257}), 1e6);
    const Tensor exact = var(x.to(kFloat64), dims), got = var(x, dims).to(kFloat64);
    // Two passes over differences that are exact in double.
    const Tensor centred = sub(x.to(kFloat64), mean(x.to(kFloat64), dims, /*keepdim=*/true));
    const double n = static_cast<double>(x.numel()) / static_cast<double>(exact.numel());
    const Tensor reference = div(sum(mul(centred, centred), dims), n - 1);
    CHECK(sub(div(got, reference), 1).abs().max().item<double>() < 1e-6);
    CHECK(sub(div(exact, reference), 1).abs().max().item<double>() < 1e-9);
  }
}

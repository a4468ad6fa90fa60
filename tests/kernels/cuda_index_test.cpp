// SPDX-License-Identifier: Apache-2.0
// The host's part of the device loops: division by multiplication, and cutting large plans into 32-bit parts.
#include "tests/support/catch.h"

#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/split.h>

#include <random>

using namespace tenon;

TEST_CASE("Divider agrees with division below 2^31", "[kernels]") {
  constexpr uint32_t kTop = 0x7fffffffu;
  const auto check = [&](uint32_t divisor, uint32_t n) {
    const cuda::Divider d(divisor);
    if (d.quotient(n) != n / divisor) {
      CAPTURE(divisor, n);
      REQUIRE(d.quotient(n) == n / divisor);
    }
  };
  for (uint32_t divisor = 1; divisor <= 2000; ++divisor)
    for (const uint32_t n : {0u, 1u, divisor - 1, divisor, divisor + 1, 2 * divisor - 1, kTop / divisor * divisor,
                             kTop / divisor * divisor - 1, kTop - 1, kTop})
      check(divisor, n);
  for (int shift = 1; shift < 31; ++shift)
    for (const uint32_t divisor : {(1u << shift) - 1, 1u << shift, (1u << shift) + 1})
      for (const uint32_t n : {0u, divisor - 1, divisor, kTop / divisor * divisor - 1, kTop / divisor * divisor, kTop})
        check(divisor, n);
  std::mt19937 random(tenon::testing::seed());
  for (int i = 0; i < 200000; ++i) check(1 + random() % kTop, random() & kTop);
}

TEST_CASE("find_offset takes an index apart, innermost dimension first", "[kernels]") {
  const int64_t shape[] = {7, 1, 33, 5}, strides[] = {8, 1000, -64, int64_t(3) << 32};
  cuda::Divider sizes[4];
  for (int d = 0; d < 4; ++d) sizes[d] = cuda::Divider(static_cast<uint32_t>(shape[d]));
  uint32_t index = 0;
  for (int64_t d = 0; d < shape[3]; ++d)
    for (int64_t c = 0; c < shape[2]; ++c)
      for (int64_t a = 0; a < shape[0]; ++a, ++index)
        REQUIRE(cuda::find_offset(4, sizes, strides, index) == a * strides[0] + c * strides[2] + d * strides[3]);
  CHECK(cuda::find_offset(0, sizes, strides, 0) == 0);
}

namespace {

// A plan of one output and one input over `shape`, with strides in bytes.
void fill(LoopPlan& plan, const std::vector<int64_t>& shape, const std::vector<int64_t>& out,
          const std::vector<int64_t>& in) {
  static char origin[1];
  plan.ndim = static_cast<int>(shape.size());
  plan.operands = 2;
  plan.outputs = 1;
  plan.numbers = 0;
  plan.numel = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    plan.shape[d] = shape[d];
    plan.strides[0][d] = out[d];
    plan.strides[1][d] = in[d];
    plan.numel *= shape[d];
  }
  for (int i = 0; i < 2; ++i) {
    plan.data[i] = origin;
    plan.dtype[i] = kFloat32;
  }
}

}  // namespace

TEST_CASE("A plan that fits 32 bits stays whole, an empty one is not visited", "[kernels]") {
  LoopPlan plan;
  int parts = 0;
  fill(plan, {1 << 14, 1 << 14}, {4, 4 << 14}, {4, 0});
  cuda::for_each_32bit(plan, [&](const cuda::LoopRange& r) { parts += r.numel == plan.numel; });
  CHECK(parts == 1);
  fill(plan, {1 << 14, 0}, {4, 4 << 14}, {4, 0});
  cuda::for_each_32bit(plan, [&](const cuda::LoopRange&) { parts = -1; });
  CHECK(parts == 1);
}

TEST_CASE("Parts of a large plan fit, stay aligned, and cover every element once", "[kernels]") {
  const int64_t n = (int64_t(5) << 30) + 12345;
  struct Case {
    std::vector<int64_t> shape, out, in;
  };
  const Case cases[] = {
      {{n}, {4}, {4}},                                                 // contiguous, 20 GiB
      {{n}, {4}, {0}},                                                 // one value everywhere
      {{1000, 1000, 3000}, {4, 4000, 4000000}, {12000, 4, 12000000}},  // permuted, 12 GB
      {{7, 3}, {4, int64_t(3) << 30}, {4, 28}},                        // few elements far apart
      {{1000, 3000000}, {4, 4000}, {4, -4000}},                        // walked backwards
  };
  for (const Case& c : cases) {
    LoopPlan plan;
    fill(plan, c.shape, c.out, c.in);
    int64_t total = 0, previous_end = 0;
    cuda::for_each_32bit(plan, [&](const cuda::LoopRange& r) {
      REQUIRE(r.fits_32bit());
      int64_t count = 1;
      for (int d = 0; d < plan.ndim; ++d) count *= r.shape[d];
      REQUIRE(count == r.numel);
      total += count;
      if (plan.ndim == 1) {  // in order, without gaps, and starting on a vector boundary
        const int64_t at = (r.data[0] - plan.data[0]) / 4;
        REQUIRE(at == previous_end);
        REQUIRE(at % 1024 == 0);
        REQUIRE(r.data[1] - plan.data[1] == at * plan.strides[1][0]);
        previous_end = at + count;
      }
    });
    CHECK(total == plan.numel);
  }
}

// SPDX-License-Identifier: Apache-2.0
// Attention over several tiles, with dropout, and what it keeps.
#include <tenon/memory/allocator.h>
#include <tenon/tenon.h>

#include "tests/support/catch.h"

#include <cmath>

using namespace tenon;

namespace {
double apart(const Tensor& a, const Tensor& b) { return a.to(kFloat64).sub(b.to(kFloat64)).abs().max().item<double>(); }
}  // namespace

TEST_CASE("attention over many tiles equals softmax of all scores, gradients too", "[ops]") {
  manual_seed(tenon::testing::seed());
  for (const DType t : {kFloat64, kFloat32, kBFloat16})
    for (const bool causal : {false, true})
      for (const int64_t rows : {1, 140, 300}) {
        CAPTURE(name(t), causal, rows);
        const auto input = [&](int64_t n, int64_t width) {
          return randn({2, n, width}, TensorOptions(t)).requires_grad_();
        };
        const Tensor q = input(rows, 8), k = input(1100, 8), v = input(1100, 5),
                     g = randn({2, rows, 5}, TensorOptions(t));
        const Tensor mask = causal ? Tensor() : rand({rows, 1100}).gt(0.3);
        const Tensor y = scaled_dot_product_attention(q, k, v, {.attn_mask = mask, .is_causal = causal, .scale = 0.5});
        y.backward(g);
        std::vector<Tensor> wide;
        for (const Tensor& x : {q, k, v}) wide.push_back(x.detach().to(kFloat64).clone().requires_grad_());
        const Tensor z = attention_probabilities(wide[0], wide[1], mask, causal, 0.5).matmul(wide[2]);
        z.backward(g.to(kFloat64));
        const double bound = t == kFloat64 ? 1e-12 : t == kFloat32 ? 2e-5 : 5e-2;
        CHECK(apart(y, z) < bound);
        CHECK(apart(q.grad(), wide[0].grad()) < bound);
        CHECK(apart(k.grad(), wide[1].grad()) < bound * (1 + std::sqrt(static_cast<double>(rows))));
        CHECK(apart(v.grad(), wide[2].grad()) < bound * (1 + std::sqrt(static_cast<double>(rows))));
      }
}

TEST_CASE("attention keeps nothing of L x S elements", "[ops]") {
  const int64_t length = 2048;
  const auto input = [&] { return randn({1, length, 8}).requires_grad_(); };
  const Tensor q = input(), k = input(), v = input();
  memory::reset_peak_memory_stats(kCPU);
  const int64_t before = memory::memory_allocated(kCPU);
  scaled_dot_product_attention(q, k, v).sum().backward();
  const int64_t peak = memory::max_memory_allocated(kCPU) - before;
  CHECK(peak > 0);
  CHECK(peak < length * length);  // a quarter of the scores in float32
}

TEST_CASE("attention with dropout keeps the mean, and is attention where p is 0", "[ops]") {
  manual_seed(3);
  const Tensor q = randn({4, 6, 8}), k = randn({4, 7, 8}), v = ones({4, 7, 2});
  Tensor mean = zeros({4, 6, 2});
  for (int i = 0; i < 400; ++i) mean += scaled_dot_product_attention(q, k, v, {.dropout_p = 0.25});
  CHECK(apart(mean / 400, ones({4, 6, 2})) < 0.2);
  CHECK(apart(scaled_dot_product_attention(q, k, v, {.dropout_p = 1}), zeros({4, 6, 2})) == 0);
  const Tensor mask = zeros({6, 7}).requires_grad_();  // its gradient takes the other way
  const Tensor w = randn({4, 7, 2}), y = scaled_dot_product_attention(q, k, w, {.attn_mask = mask});
  CHECK(apart(y.detach(), scaled_dot_product_attention(q, k, w)) < 1e-5);
  y.sum().backward();
  CHECK(mask.grad().sizes() == IntArrayRef{6, 7});
}

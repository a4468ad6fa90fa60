// SPDX-License-Identifier: Apache-2.0
// Random numbers: Philox's published answers, the layout element by element, moments, ranges, generators.
#include "tests/support/catch.h"

#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/philox.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

using namespace tenon;

TEST_CASE("Philox-4x32-10 gives its published answer", "[ops]") {
  const philox::Block b = philox::generate(0, 0);
  CHECK(std::vector<uint32_t>(b.word, b.word + 4) ==
        std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}

TEST_CASE("elements get the numbers the layout says, whatever the number of threads", "[ops]") {
  const uint64_t seed = tenon::testing::seed();
  const int64_t n = 100003;
  const int threads = num_threads();
  for (const int count : {1, threads}) {
    set_num_threads(count);
    const Generator g = manual_seed(seed);
    const auto f = rand(n).to_vector<float>();
    CHECK(g.offset() == static_cast<uint64_t>((n + 3) / 4));
    const auto d = rand(n, kFloat64).to_vector<double>();
    const auto i = randint(10, n).to_vector<int64_t>();
    bool same = true;
    const uint64_t after_f = static_cast<uint64_t>((n + 3) / 4), after_d = after_f + static_cast<uint64_t>((n + 1) / 2);
    for (int64_t k = 0; k < n; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const auto block = [&](uint64_t from, int64_t per) {
        return philox::generate(seed, from + static_cast<uint64_t>(k / per));
      };
      same = same && f[at] == static_cast<float>(block(0, 4).word[k % 4] >> 8) * 0x1p-24f;
      same = same && d[at] == static_cast<double>(block(after_f, 2).wide(static_cast<int>(k % 2)) >> 11) * 0x1p-53;
      same = same && i[at] == static_cast<int64_t>((static_cast<uint64_t>(block(after_d, 4).word[k % 4]) * 10) >> 32);
    }
    CHECK(same);
  }
  set_num_threads(threads);
}

TEST_CASE("a strided tensor gets the numbers of a contiguous one", "[ops]") {
  Tensor columns = zeros({5, 7}).t();
  manual_seed(7);
  const auto expected = randn({7, 5}).to_vector<float>();
  manual_seed(7);
  normal_(columns);
  CHECK(columns.to_vector<float>() == expected);
}

TEST_CASE("moments and ranges", "[ops]") {
  manual_seed(tenon::testing::seed());
  const int64_t n = 1 << 20;
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    CAPTURE(name(t));
    const Tensor u = rand(n, t).to(kFloat64);
    CHECK(u.amin().item<double>() >= 0);
    CHECK(u.amax().item<double>() < 1);
    CHECK(std::abs(u.mean().item<double>() - 0.5) < 0.005);
    const Tensor z = randn(n, t).to(kFloat64);
    CHECK(std::abs(z.mean().item<double>()) < 0.01);
    CHECK(std::abs(z.mul(z).mean().item<double>() - 1) < 0.02);
    CHECK(std::abs(z.mul(z).mul(z).mul(z).mean().item<double>() - 3) < 0.15);
  }
  const Tensor scaled = normal_(empty({n}), 3, 0.5);
  CHECK(std::abs(scaled.to(kFloat64).mean().item<double>() - 3) < 0.01);
  const Tensor c = randn(n, kComplex128);
  CHECK(std::abs(c.abs().pow(2).mean().item<double>() - 1) < 0.02);
  const Tensor i = randint(-3, 4, n);
  CHECK(i.dtype() == kInt64);
  CHECK(i.amin().item<int64_t>() == -3);
  CHECK(i.amax().item<int64_t>() == 3);
  const int64_t low = -(int64_t(1) << 62), high = int64_t(1) << 62;
  const Tensor wide = randint(low, high, n);
  CHECK(wide.amin().item<int64_t>() >= low);
  CHECK(wide.amax().item<int64_t>() < high);
  CHECK(std::abs(wide.to(kFloat64).mean().item<double>()) < 1e17);
  const double p = bernoulli(full({n}, 0.3)).to(kFloat64).mean().item<double>();
  CHECK(std::abs(p - 0.3) < 0.005);
  CHECK(bernoulli_(empty({100}), 1).sum().item<double>() == 100);
  CHECK(bernoulli_(empty({100}), 0).sum().item<double>() == 0);
  auto order = randperm(1000).to_vector<int64_t>();
  CHECK(!std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  CHECK(order == all);
}

TEST_CASE("dropout keeps, scales and masks; the ends are exact", "[ops]") {
  manual_seed(tenon::testing::seed());
  const Tensor x = ones({1000, 100});
  const auto [y, mask] = op::native_dropout(x, 0.25, true);
  const double kept = mask.to(kFloat64).mean().item<double>();
  CHECK(std::abs(kept - 0.75) < 0.01);
  const auto values = y.to_vector<float>();
  const auto on = mask.to_vector<bool>();
  bool right = true;
  for (std::size_t i = 0; i < values.size(); ++i) right = right && values[i] == (on[i] ? 1.0f / 0.75f : 0.0f);
  CHECK(right);
  const Tensor infinite = full({3}, INFINITY);
  CHECK(dropout(infinite, 1.0).to_vector<float>() == std::vector<float>(3, 0.0f));
  CHECK(dropout(infinite, 0.0).is_same(infinite));
  CHECK(dropout(x, 0.5, false).is_same(x));
  CHECK_THROWS_AS(dropout(x, 1.5), ValueError);
  CHECK_THROWS_AS(dropout(x, -0.1), ValueError);
  CHECK_THROWS_AS(dropout(x, std::nan("")), ValueError);
}

TEST_CASE("generators: state, guards, threads", "[ops]") {
  Generator g;
  g.manual_seed(5);
  std::vector<float> first;
  {
    const GeneratorGuard guard(g);
    first = rand({6}).to_vector<float>();
  }
  const Tensor state = g.get_state();
  std::vector<float> second;
  {
    const GeneratorGuard guard(g);
    second = rand({6}).to_vector<float>();
    g.set_state(state);
    CHECK(rand({6}).to_vector<float>() == second);
    g.manual_seed(5);
    CHECK(rand({6}).to_vector<float>() == first);
  }
  CHECK(first != second);
  CHECK_THROWS_AS(g.set_state(zeros({16})), ValueError);
  g.set_offset(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&g] {
      for (int i = 0; i < 1000; ++i) g.advance(3);
    });
  for (std::thread& t : threads) t.join();
  CHECK(g.offset() == 12000);
}

TEST_CASE("random operators refuse what PyTorch refuses", "[ops]") {
  CHECK_THROWS_AS(randint(5, 5, {2}), ValueError);
  CHECK_THROWS_AS(randint(0, 300, {2}, kUInt8), ValueError);
  CHECK_THROWS_AS(normal_(empty({2}), 0, -1), ValueError);
  CHECK_THROWS_AS(uniform_(empty({2}), 1, 0), ValueError);
  CHECK_THROWS_AS(rand({2}, kInt64), DtypeError);
  CHECK_THROWS_AS(bernoulli(full({2}, 1.5)), ValueError);
  CHECK_THROWS_AS(bernoulli_(empty({2}), 2), ValueError);
  CHECK_THROWS_AS(randperm(-1), ValueError);
}

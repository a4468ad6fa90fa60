// SPDX-License-Identifier: Apache-2.0
// Distributions of random numbers, with fixed seeds: Kolmogorov and Smirnov's test where they are continuous, chi-square
// where they are discrete, moments; what must never come out; sampling from weights.
#include "tests/support/catch.h"

#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/philox.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

using namespace tenon;

namespace {

const DType kFloating[] = {kFloat64, kFloat32, kFloat16, kBFloat16};
constexpr double kPi = 3.14159265358979324;

double resolution(DType t) { return t == kBFloat16 ? 0x1p-8 : t == kFloat16 ? 0x1p-11 : 0; }

// The largest distance between the sample's distribution function and `cdf`, times sqrt(n): above 1.95 in one of 1,000
// samples. Rounding to a small dtype moves the steps.
double smirnov(const Tensor& sample, const std::function<double(double)>& cdf) {
  auto x = sample.to(kFloat64).to_vector<double>();
  std::sort(x.begin(), x.end());
  const double n = static_cast<double>(x.size()), width = resolution(sample.dtype());
  double distance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double f = cdf(x[i]);
    distance = std::max({distance, f - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - f});
  }
  return (distance - width) * std::sqrt(n);
}

// Chi-square over categories of the given probabilities, as a standard normal number (Wilson and Hilferty 1931).
double chi_square(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  double n = 0, sum = 0;
  int categories = 0;
  for (const double c : counts) n += c;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] == 0) {
      CHECK(counts[i] == 0);
      continue;
    }
    const double expected = n * probabilities[i];
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++categories;
  }
  const double freedom = categories - 1, variance = 2 / (9 * freedom);
  return (std::cbrt(sum / freedom) - (1 - variance)) / std::sqrt(variance);
}
// How often 0 ... categories - 1 occur; what is beyond counts as the last.
std::vector<double> counted(const Tensor& t, int64_t categories) {
  std::vector<double> counts(static_cast<std::size_t>(categories));
  for (const int64_t v : t.to(kInt64).to_vector<int64_t>())
    ++counts[static_cast<std::size_t>(std::clamp<int64_t>(v, 0, categories - 1))];
  return counts;
}
std::vector<double> shares(std::vector<double> weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  for (double& w : weights) w /= sum;
  return weights;
}
double average(const Tensor& t) { return t.to(kFloat64).mean().item<double>(); }

}  // namespace

TEST_CASE("continuous distributions pass the test of Kolmogorov and Smirnov", "[ops]") {
  manual_seed(20);
  const int64_t n = 100000;
  const auto phi = [](double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); };
  for (const DType t : kFloating) {
    CAPTURE(name(t));
    const Tensor x = empty({n}, t);
    CHECK(smirnov(rand({n}, t), [](double v) { return v; }) < 1.95);
    CHECK(smirnov(uniform_(x, -2, 6), [](double v) { return (v + 2) / 8; }) < 1.95);
    CHECK(smirnov(randn({n}, t), phi) < 1.95);
    CHECK(smirnov(normal_(x, 3, 0.5), [&](double v) { return phi((v - 3) / 0.5); }) < 1.95);
    CHECK(smirnov(exponential_(x, 1.5), [](double v) { return -std::expm1(-1.5 * v); }) < 1.95);
    CHECK(smirnov(cauchy_(x, 1, 2), [](double v) { return std::atan((v - 1) / 2) / kPi + 0.5; }) < 1.95);
    CHECK(smirnov(log_normal_(x, 0.5, 0.75), [&](double v) { return phi((std::log(v) - 0.5) / 0.75); }) < 1.95);
  }
  const Tensor z = randn({n}, kComplex128);
  CHECK(smirnov(imag(z), [&](double v) { return phi(v * std::sqrt(2.0)); }) < 1.95);
  CHECK(smirnov(angle(z), [](double v) { return v / (2 * kPi) + 0.5; }) < 1.95);
}

TEST_CASE("discrete distributions pass the chi-square test", "[ops]") {
  manual_seed(21);
  const int64_t n = 200000;
  for (const DType t : {kFloat64, kFloat32, kFloat16, kInt64, kInt32, kUInt8}) {
    CAPTURE(name(t));
    std::vector<double> trials = {0};
    for (int k = 1; k < 12; ++k) trials.push_back(0.3 * std::pow(0.7, k - 1));
    trials.push_back(std::pow(0.7, 11));
    CHECK(std::abs(chi_square(counted(geometric_(empty({n}, t), 0.3), 13), trials)) < 4);
    CHECK(std::abs(chi_square(counted(random_(empty({n}, t), 100), 100), std::vector<double>(100, 0.01))) < 4);
  }
  CHECK(std::abs(chi_square(counted(random_(empty({n}, kUInt8)), 256), std::vector<double>(256, 1.0 / 256))) < 4);
  CHECK(std::abs(chi_square(counted(random_(empty({n}, kBool)), 2), {0.5, 0.5})) < 4);
  CHECK(std::abs(chi_square(counted(bernoulli(full({n}, 0.3)), 2), {0.7, 0.3})) < 4);
  // Chances of any floating dtype, for numbers of any dtype.
  for (const DType t : kFloating) {
    const Tensor drawn = bernoulli_(empty({n / 4, 4}, kInt32), tensor({0.0, 0.25, 0.5, 1.0}, t));
    CHECK(drawn.sum(IntArrayRef(0)).to_vector<int64_t>()[0] == 0);
    CHECK(drawn.sum(IntArrayRef(0)).to_vector<int64_t>()[3] == n / 4);
    CHECK(std::abs(chi_square(counted(drawn.select(1, 1), 2), {0.75, 0.25})) < 4);
    CHECK(std::abs(chi_square(counted(drawn.select(1, 2), 2), {0.5, 0.5})) < 4);
  }
  // Every order of four, and every place of the first of seven.
  std::map<std::vector<int64_t>, double> orders;
  std::vector<double> places(7);
  for (int i = 0; i < 24000; ++i) {
    ++orders[randperm(4).to_vector<int64_t>()];
    ++places[static_cast<std::size_t>(randperm(7).argmin().item<int64_t>())];
  }
  std::vector<double> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  CHECK(counts.size() == 24);
  CHECK(std::abs(chi_square(counts, std::vector<double>(24, 1.0 / 24))) < 4);
  CHECK(std::abs(chi_square(places, std::vector<double>(7, 1.0 / 7))) < 4);
}

TEST_CASE("moments of distributions", "[ops]") {
  manual_seed(22);
  const int64_t n = 1 << 20;
  for (const DType t : {kFloat64, kFloat32}) {
    const Tensor x = empty({n}, t);
    CHECK(std::abs(average(exponential_(x, 0.5)) - 2) < 0.02);
    CHECK(std::abs(average(x.mul(x)) - 8) < 0.15);
    CHECK(std::abs(average(log_normal_(x, 0.25, 0.5)) - std::exp(0.375)) < 0.01);
    CHECK(std::abs(average(geometric_(x, 0.125)) - 8) < 0.08);
    CHECK(std::abs(average(cauchy_(x, 3, 2).gt(3)) - 0.5) < 0.003);
    CHECK(std::abs(average(cauchy_(x, 3, 2).gt(5)) - 0.25) < 0.003);
  }
  const Tensor means = tensor({-5.0, 0.0, 5.0}), spread = tensor({0.5, 1.0, 2.0});
  const Tensor z = normal(means.expand({n / 4, 3}), spread);
  for (int i = 0; i < 3; ++i) {
    const Tensor column = z.select(1, i), centred = sub(column, means.select(0, i));
    CHECK(std::abs(average(centred)) < 0.02);
    CHECK(std::abs(std::sqrt(average(mul(centred, centred))) / spread.select(0, i).item<double>() - 1) < 0.01);
  }
  // Neighbours do not go together.
  const Tensor a = randn({n}), b = randn({n});
  CHECK(std::abs(average(mul(a.slice(0, 1), a.slice(0, 0, n - 1)))) < 0.005);
  CHECK(std::abs(average(mul(a, b))) < 0.005);
}

TEST_CASE("the ends of uniform numbers lead to positive and finite numbers", "[ops]") {
  const auto ends = [](auto tag, double u) {
    using T = decltype(tag);
    for (const double rate : {1.0, 1e-300, 1e300}) {
      const T x = philox::rounded<T>(philox::Exponential<T>{rate, 0}(std::log(u)));
      const double v = static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(x));
      CHECK(v > 0);
      CHECK(std::isfinite(v));
    }
    CHECK(std::isfinite(philox::Cauchy<T>::of(u)));
    CHECK(philox::Geometric<T>{std::log1p(-0.5), 0}(std::log(u)) >= 1);
  };
  for (const uint64_t w : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 12, ~uint64_t{0} - 1, ~uint64_t{0}}) {
    const double u = philox::open_uniform(w);
    CHECK(u > 0);
    CHECK(u < 1);
    ends(double(), u);
    const double narrow = philox::open_uniform(static_cast<uint32_t>(w));
    CHECK(narrow > 0);
    CHECK(narrow < 1);
    ends(float(), narrow);
    ends(float16(), narrow);
    ends(bfloat16(), narrow);
  }
  manual_seed(23);
  for (const DType t : kFloating) {
    const Tensor x = exponential_(empty({1 << 20}, t));
    CHECK(x.amin().item<double>() > 0);
    CHECK(std::isfinite(x.amax().item<double>()));
    for (const auto& [from, to] : {std::pair(0.0, 1.0), {1.0, 2.0}, {-1.0, 0.0}, {1e-3, 1.0}}) {
      uniform_(x, from, to);
      CHECK(x.amax().item<double>() < to);
      CHECK(x.amin().item<double>() >= static_cast<double>(tensor({from}, t).item<float>()) - 1e-9);
    }
  }
  // What does not fit an integer is its largest.
  CHECK(geometric_(empty({100}, kInt8), 1e-9).amin().item<int64_t>() == 127);
  CHECK(geometric_(empty({100}, kUInt8), 1e-9).amin().item<int64_t>() == 255);
}

TEST_CASE("integers reach the ends of their dtypes", "[ops]") {
  manual_seed(24);
  const int64_t n = 1 << 16;
  const auto share = [](const Tensor& condition) { return average(condition); };
  const Tensor all = random_(empty({n}, kInt64), INT64_MIN, {});
  CHECK(std::abs(share(lt(all, 0)) - 0.5) < 0.02);
  CHECK(std::abs(share(lt(all, -(int64_t{1} << 62))) - 0.25) < 0.02);
  for (int bit = 0; bit < 64; ++bit)
    CHECK(std::abs(share(ne(bitwise_and(bitwise_right_shift(all, bit), 1), 0)) - 0.5) < 0.02);
  const Tensor positive = random_(empty({n}, kInt64));
  CHECK(positive.amin().item<int64_t>() >= 0);
  CHECK(std::abs(share(gt(positive, int64_t{1} << 62)) - 0.5) < 0.02);
  const Tensor top = randint(INT64_MAX - 3, INT64_MAX, {n});
  CHECK(top.amin().item<int64_t>() == INT64_MAX - 3);
  CHECK(top.amax().item<int64_t>() == INT64_MAX - 1);
  CHECK(randint(INT64_MIN, INT64_MIN + 2, {n}).amax().item<int64_t>() == INT64_MIN + 1);
  const Tensor half = randint(INT64_MIN, 0, {n});
  CHECK(half.amax().item<int64_t>() < 0);
  CHECK(std::abs(share(lt(half, -(int64_t{1} << 62))) - 0.5) < 0.02);
  CHECK(random_(empty({n}, kInt8)).amax().item<int64_t>() == 127);
  CHECK(random_(empty({n}, kInt8), -128, {}).amin().item<int64_t>() == -128);
  CHECK(random_(empty({n}, kBFloat16)).amax().item<double>() == 256);
  CHECK(random_(empty({n}, kFloat16)).amax().item<double>() <= 2048);
}

TEST_CASE("multinomial draws in proportion to weights", "[ops]") {
  manual_seed(25);
  const std::vector<double> weights = {1, 0, 3, 2, 0, 4};
  for (const DType t : kFloating) {
    CAPTURE(name(t));
    const Tensor w = tensor(weights, t),
                 rows = tensor({{1.0, 0.0, 3.0, 2.0, 0.0, 4.0}, {4.0, 0.0, 2.0, 3.0, 0.0, 1.0}}, t);
    const Tensor drawn = multinomial(rows, 60000, true);
    CHECK(drawn.dtype() == kInt64);
    CHECK(std::abs(chi_square(counted(drawn.select(0, 0), 6), shares(weights))) < 4);
    CHECK(std::abs(chi_square(counted(drawn.select(0, 1), 6), shares({4, 0, 2, 3, 0, 1}))) < 4);
    // Without replacement: the first as above, the second in proportion to the rest, no one twice.
    const Tensor pairs = multinomial(w.expand({60000, 6}), 2);
    CHECK(std::abs(chi_square(counted(pairs.select(1, 0), 6), shares(weights))) < 4);
    std::vector<double> expected(36), found(36);
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < 6; ++j)
        if (i != j) expected[6 * i + j] = weights[i] / 10 * weights[j] / (10 - weights[i]);
    const auto flat = pairs.to_vector<int64_t>();
    for (std::size_t i = 0; i < flat.size(); i += 2) ++found[static_cast<std::size_t>(6 * flat[i] + flat[i + 1])];
    CHECK(std::abs(chi_square(found, expected)) < 4);
  }
  auto order = multinomial(ones({500}), 500).to_vector<int64_t>();
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) REQUIRE(order[i] == static_cast<int64_t>(i));
}

TEST_CASE("multinomial never draws a category of weight 0", "[ops]") {
  manual_seed(26);
  for (int round = 0; round < 5; ++round) {
    const Tensor last = tensor({0.0, 1.0}).expand({100000, 2});
    CHECK(multinomial(last, 1, true).amin().item<int64_t>() == 1);
    CHECK(multinomial(last, 1).amin().item<int64_t>() == 1);
  }
  // Zeros at both ends and in runs, among weights of very different size.
  for (const DType t : kFloating) {
    CAPTURE(name(t));
    Tensor w = rand({10000}, t).add_(0.01).mul_(bernoulli_(empty({10000}, t), 0.5));
    w.slice(0, 0, 37).fill_(0);
    w.slice(0, 5000, 6000).fill_(0);
    w.slice(0, 9900).fill_(0);
    w.slice(0, 7000, 8000).mul_(1e-4);
    CHECK(w.index_select(0, multinomial(w, 1 << 20, true)).amin().item<double>() > 0);
    const int64_t positive = gt(w, 0).sum().item<int64_t>();
    CHECK(w.index_select(0, multinomial(w, positive)).amin().item<double>() > 0);
    CHECK_THROWS_AS(multinomial(w, positive + 1), ValueError);
  }
  const Tensor extreme = tensor({1e308, 0.0, 1e308, 5e-324}, kFloat64);
  CHECK(extreme.index_select(0, multinomial(extreme, 1000, true)).amin().item<double>() > 0);
  CHECK(extreme.index_select(0, multinomial(extreme, 3)).amin().item<double>() > 0);
}

TEST_CASE("random numbers do not depend on the number of threads, and have no gradient", "[ops]") {
  Tensor w = rand({40, 300});
  w.requires_grad_();
  std::vector<std::vector<double>> first;
  const int threads = num_threads();
  for (const int count : {1, 3, threads}) {
    set_num_threads(count);
    manual_seed(27);
    std::vector<std::vector<double>> now;
    for (const DType t : kFloating) {
      const Tensor x = empty({70001}, t);
      for (const Tensor& y :
           {uniform_(x, -1, 1).clone(), normal_(x).clone(), exponential_(x).clone(), cauchy_(x).clone(),
            geometric_(x, 0.01).clone(), log_normal_(x).clone(), random_(x).clone(), bernoulli_(x, 0.4).clone()})
        now.push_back(y.to(kFloat64).to_vector<double>());
    }
    for (const Tensor& y : {randperm(5000), multinomial(w, 500, true), multinomial(w, 200), randint(1 << 30, {70001})})
      now.push_back(y.to(kFloat64).to_vector<double>());
    if (first.empty()) first = now;
    CHECK(now == first);
  }
  set_num_threads(threads);
  CHECK_FALSE(normal(w, 1).requires_grad());
  CHECK_FALSE(normal(0, w).requires_grad());
  CHECK_FALSE(bernoulli(w).requires_grad());
}

TEST_CASE("a GPU draws the CPU's numbers: uniform ones and integers bit for bit, others to 4 ULP", "[ops][cuda]") {
  TENON_REQUIRE_CUDA();
  const int64_t n = 70001;
  const auto both = [&](DType t, double tolerance, const std::function<Tensor(const Tensor&)>& draw) {
    std::vector<double> drawn[2];
    for (const Device d : {Device(kCPU), Device(kCUDA)}) {
      manual_seed(29);
      const Tensor x = empty({n + 3}, TensorOptions(t).device(d)).slice(0, 3);
      draw(x);  // the second draw begins where the first has ended
      drawn[d.is_cuda()] = draw(x).to(Device(kCPU), kFloat64).to_vector<double>();
    }
    double apart = 0;
    for (std::size_t i = 0; i < drawn[0].size(); ++i)
      apart = std::max(apart, std::abs(drawn[0][i] - drawn[1][i]) / std::max(std::abs(drawn[0][i]), 1e-30));
    CAPTURE(name(t));
    CHECK(apart <= tolerance);
  };
  for (const DType t : kFloating) {
    const double ulps = t == kFloat64 ? 0x1p-50 : t == kFloat32 ? 0x1p-21 : resolution(t) * 2;
    both(t, 0, [](const Tensor& x) { return uniform_(x); });
    both(t, 0, [](const Tensor& x) { return uniform_(x, -3, 5); });
    both(t, 0, [](const Tensor& x) { return random_(x); });
    both(t, 0, [](const Tensor& x) { return bernoulli_(x, 0.3); });
    both(t, 0, [&](const Tensor& x) { return bernoulli_(x, full({1}, 0.6, TensorOptions(t).device(x.device()))); });
    both(t, ulps, [](const Tensor& x) { return normal_(x, 0, 2); });
    both(t, ulps, [](const Tensor& x) { return exponential_(x, 1.5); });
    both(t, ulps, [](const Tensor& x) { return cauchy_(x, 0, 2); });
    both(t, ulps, [](const Tensor& x) { return geometric_(x, 0.01); });
    both(t, 8 * ulps, [](const Tensor& x) { return log_normal_(x, 0.5, 1); });
  }
  both(kInt64, 0, [](const Tensor& x) { return random_(x, INT64_MIN, {}); });
  both(kInt64, 0, [](const Tensor& x) { return geometric_(x, 1e-4); });
  both(kUInt8, 0, [](const Tensor& x) { return geometric_(x, 0.1); });
  both(kInt64, 0, [&](const Tensor& x) { return randperm(n, TensorOptions(kInt64).device(x.device())); });
  const Tensor w = rand({40, 300}, kFloat64).mul_(bernoulli_(empty({40, 300}, kFloat64), 0.7));
  for (const bool replacement : {false, true})
    both(kInt64, 0, [&](const Tensor& x) { return multinomial(w.to(x.device()), 100, replacement); });
  CHECK_THROWS_AS(multinomial(tensor({1.0, -1.0}).to(Device(kCUDA)), 1), ValueError);
  CHECK(multinomial(tensor({0.0, 1.0}).to(Device(kCUDA)), 1).item<int64_t>() == 1);
}

TEST_CASE("fork_rng leaves the default generators as they were; reseed does not repeat itself", "[ops]") {
  manual_seed(28);
  rand({5});
  const auto state = default_generator().get_state().to_vector<uint8_t>();
  const uint64_t seed = initial_seed();
  {
    const ForkRngGuard guard;
    CHECK(default_generator().get_state().to_vector<uint8_t>() == state);
    manual_seed(3);
    const auto inside = rand({4}).to_vector<float>();
    {
      const ForkRngGuard inner;
      CHECK(reseed() != reseed());
    }
    manual_seed(3);
    CHECK(rand({4}).to_vector<float>() == inside);
  }
  CHECK(initial_seed() == seed);
  CHECK(default_generator().get_state().to_vector<uint8_t>() == state);
  CHECK(Generator(kCPU).seed() == seed);  // what is made later starts from the seed that was
}

// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/sampler.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/random.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::data {
namespace {

// Seeds of neighbouring epochs share nothing (Steele et al. 2014, the finaliser of SplitMix64).
uint64_t mixed(uint64_t seed, uint64_t epoch) {
  uint64_t x = seed + (epoch + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
template <class F>
std::vector<int64_t> drawn(uint64_t seed, uint64_t epoch, F&& draw) {
  const Generator generator(kCPU);
  generator.manual_seed(mixed(seed, epoch));
  const GeneratorGuard guard(generator);
  return draw().template to_vector<int64_t>();
}

}  // namespace

Sampler::~Sampler() = default;

std::vector<int64_t> SequentialSampler::indices(uint64_t, uint64_t) const {
  std::vector<int64_t> all(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

RandomSampler::RandomSampler(int64_t size, bool replacement, int64_t count)
    : size_(size), count_(count == 0 ? size : count), replacement_(replacement) {
  TENON_CHECK(size >= 0 && count >= 0, ValueError, "RandomSampler: size and count must not be negative");
  TENON_CHECK(replacement || count_ <= size, ValueError, "RandomSampler: count: expected at most ", size,
              " without replacement, got ", count_);
}
std::vector<int64_t> RandomSampler::indices(uint64_t seed, uint64_t epoch) const {
  std::vector<int64_t> all =
      drawn(seed, epoch, [&] { return replacement_ ? randint(0, size_, {count_}) : randperm(size_); });
  all.resize(static_cast<std::size_t>(count_));
  return all;
}

std::vector<int64_t> SubsetRandomSampler::indices(uint64_t seed, uint64_t epoch) const {
  std::vector<int64_t> order = drawn(seed, epoch, [&] { return randperm(size()); });
  for (int64_t& i : order) i = subset_[static_cast<std::size_t>(i)];
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t count, bool replacement)
    : weights_(static_cast<std::vector<double>&&>(weights)), count_(count), replacement_(replacement) {
  const auto positive = std::count_if(weights_.begin(), weights_.end(), [](double w) { return w > 0; });
  TENON_CHECK(std::all_of(weights_.begin(), weights_.end(), [](double w) { return w >= 0 && std::isfinite(w); }) &&
                  positive > 0,
              ValueError, "WeightedRandomSampler: weights: expected numbers >= 0, not all zero");
  TENON_CHECK(count > 0 && (replacement || count <= positive), ValueError,
              "WeightedRandomSampler: count: expected 1 to ", positive, " without replacement, got ", count);
}
std::vector<int64_t> WeightedRandomSampler::indices(uint64_t seed, uint64_t epoch) const {
  return drawn(seed, epoch,
               [&] { return multinomial(from_vector(std::vector<double>(weights_)), count_, replacement_); });
}

}  // namespace tenon::data

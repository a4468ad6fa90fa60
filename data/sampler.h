// SPDX-License-Identifier: Apache-2.0
// Samplers: in which order the samples of an epoch are visited, a function of seed and epoch alone.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon::data {

class TENON_API Sampler {
 public:
  virtual ~Sampler();
  /// Number of indices of an epoch.
  virtual int64_t size() const = 0;
  /// The indices of epoch 0, 1, … for this seed.
  virtual std::vector<int64_t> indices(uint64_t seed, uint64_t epoch) const = 0;
};

/// 0, 1, …, size - 1.
class TENON_API SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices(uint64_t seed, uint64_t epoch) const override;

 private:
  int64_t size_;
};

/// A new permutation each epoch, or with `replacement` independent draws. `count`: how many of them (0: size).
class TENON_API RandomSampler : public Sampler {
 public:
  explicit RandomSampler(int64_t size, bool replacement = false, int64_t count = 0);
  int64_t size() const override { return count_; }
  std::vector<int64_t> indices(uint64_t seed, uint64_t epoch) const override;

 private:
  int64_t size_, count_;
  bool replacement_;
};

/// The given indices in a new order each epoch: a training split.
class TENON_API SubsetRandomSampler : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<int64_t> subset) : subset_(static_cast<std::vector<int64_t>&&>(subset)) {}
  int64_t size() const override { return static_cast<int64_t>(subset_.size()); }
  std::vector<int64_t> indices(uint64_t seed, uint64_t epoch) const override;

 private:
  std::vector<int64_t> subset_;
};

/// `count` draws with probabilities proportional to `weights` (>= 0, not all zero), for classes of unequal size.
class TENON_API WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, int64_t count, bool replacement = true);
  int64_t size() const override { return count_; }
  std::vector<int64_t> indices(uint64_t seed, uint64_t epoch) const override;

 private:
  std::vector<double> weights_;
  int64_t count_;
  bool replacement_;
};

}  // namespace tenon::data

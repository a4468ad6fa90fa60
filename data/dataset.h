// SPDX-License-Identifier: Apache-2.0
// Dataset: samples by number. A sample, and a batch of them, is a list of tensors that belong together: an image and its
// label. Loaders (data/loader.h) call it from several threads at once.
#pragma once

#include <tenon/core/tensor.h>

#include <span>

namespace tenon::data {

/// The tensors of a sample or batch.
using Batch = std::vector<Tensor>;

class TENON_API Dataset {
 public:
  virtual ~Dataset();
  virtual int64_t size() const = 0;
  /// Sample `index`, 0 <= index < size().
  virtual Batch get(int64_t index) const = 0;
  /// The samples stacked; overriding it saves the copies where they lie together. Random numbers come from a generator of
  /// this batch's own (random operators use it), so that augmentation does not depend on the number of workers.
  virtual Batch get_batch(std::span<const int64_t> indices) const;
};

/// Row i of each tensor. The tensors are referred to, not copied.
class TENON_API TensorDataset : public Dataset {
 public:
  /// ValueError unless all have the same first size.
  explicit TensorDataset(std::vector<Tensor> tensors);
  int64_t size() const override;
  Batch get(int64_t index) const override;
  Batch get_batch(std::span<const int64_t> indices) const override;

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace tenon::data

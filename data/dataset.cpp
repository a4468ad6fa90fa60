// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/dataset.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>

namespace tenon::data {

Dataset::~Dataset() = default;

Batch Dataset::get_batch(std::span<const int64_t> indices) const {
  std::vector<Batch> samples;
  for (const int64_t i : indices) {
    samples.push_back(get(i));
    TENON_CHECK(samples.back().size() == samples[0].size(), ValueError, "Dataset: sample ", i, " has ",
                samples.back().size(), " tensors; expected ", samples[0].size(), " as in the one before");
  }
  Batch batch;
  for (std::size_t part = 0; !samples.empty() && part < samples[0].size(); ++part) {
    std::vector<Tensor> rows;
    for (const Batch& sample : samples) rows.push_back(sample[part]);
    batch.push_back(stack(rows));
  }
  return batch;
}

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(static_cast<std::vector<Tensor>&&>(tensors)) {
  TENON_CHECK(!tensors_.empty(), ValueError, "TensorDataset: tensors: expected at least one, got an empty list");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = tensors_[i];
    TENON_CHECK(t.defined() && t.dim() > 0, ValueError, "TensorDataset: tensors: element ", i,
                " is undefined or 0-dim; expected rows");
    TENON_CHECK(t.size(0) == tensors_[0].size(0), ValueError, "TensorDataset: tensors: expected ", tensors_[0].size(0),
                " rows as in the first one, got ", t.size(0), " in element ", i);
  }
}
int64_t TensorDataset::size() const { return tensors_[0].size(0); }
Batch TensorDataset::get(int64_t index) const {
  Batch sample;
  for (const Tensor& t : tensors_) sample.push_back(t.select(0, index));
  return sample;
}
Batch TensorDataset::get_batch(std::span<const int64_t> indices) const {
  Tensor rows = from_vector(std::vector<int64_t>(indices.begin(), indices.end()));
  Batch batch;
  for (const Tensor& t : tensors_) batch.push_back(t.index_select(0, rows.to(t.device())));
  return batch;
}

}  // namespace tenon::data

// SPDX-License-Identifier: Apache-2.0
// Tables of vectors looked up by integers.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

struct EmbeddingOptions {
  std::optional<int64_t> padding_idx = {};  ///< this row starts as zeros and gets no gradient; negative: from the end
  std::optional<double> max_norm = {};      ///< rows that are looked up are scaled down to this norm, in place
  double norm_type = 2;
  bool scale_grad_by_freq = false;  ///< gradients are divided by how often their row occurs in the batch
};
/// Rows of a table [num_embeddings, embedding_dim], standard normal at first.
class TENON_API Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const TensorOptions& options = {})
      : Embedding(num_embeddings, embedding_dim, EmbeddingOptions(), options) {}
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& embedding,
            const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight); }
  Tensor forward(const Tensor& indices) override;
  std::string describe() const override;

  Tensor weight;
  EmbeddingOptions options;
};

}  // namespace tenon::nn

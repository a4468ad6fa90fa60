// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/nn/describe.h>
#include <tenon/nn/embedding.h>
#include <tenon/nn/init.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/vector_norm.h>

namespace tenon::nn {

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& embedding,
                     const TensorOptions& tensor_options)
    : weight(parameter(empty({num_embeddings, embedding_dim}, tensor_options))), options(embedding) {
  init::normal_(weight);
  if (!options.padding_idx) return;
  int64_t& row = *options.padding_idx;
  TENON_CHECK(row >= -num_embeddings && row < num_embeddings, ValueError, "Embedding: padding_idx: expected a row of ",
              num_embeddings, ", got ", row);
  if (row < 0) row += num_embeddings;
  const NoGradGuard no_grad;
  weight[row].zero_();
}
Tensor Embedding::forward(const Tensor& indices) {
  if (options.max_norm && indices.numel() > 0) {
    const NoGradGuard no_grad;
    const Tensor rows = indices.flatten(), table = weight.detach();
    op::index_copy.inplace(table, table, 0, rows,
                           renorm(table.index_select(0, rows), options.norm_type, 0, *options.max_norm));
  }
  return embedding(indices, weight, options.padding_idx, options.scale_grad_by_freq);
}
std::string Embedding::describe() const {
  std::string text = tenon::detail::concat("Embedding(", weight.size(0), ", ", weight.size(1));
  if (options.padding_idx) text += ", padding_idx=" + std::to_string(*options.padding_idx);
  if (options.max_norm) text += ", max_norm=" + number_text(*options.max_norm);
  if (options.norm_type != 2) text += ", norm_type=" + number_text(options.norm_type);
  if (options.scale_grad_by_freq) text += ", scale_grad_by_freq=True";
  return text + ")";
}

}  // namespace tenon::nn

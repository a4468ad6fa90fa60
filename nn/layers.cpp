// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/init.h>
#include <tenon/nn/layers.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/norm.h>
#include <tenon/ops/random.h>
#include <tenon/ops/unary.h>

#include <cmath>

namespace tenon::nn {

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias, const TensorOptions& options)
    : weight(parameter(empty({out_features, in_features}, options))) {
  TENON_CHECK(in_features >= 0 && out_features >= 0, ValueError, "Linear: expected sizes that are not negative");
  if (weight.numel() > 0) init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!with_bias) return;
  bias = parameter(empty(IntArrayRef(out_features), options));
  const double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
  init::uniform_(bias, -bound, bound);
}
Tensor Linear::forward(const Tensor& input) { return linear(input, weight, bias); }
std::string Linear::describe() const {
  return tenon::detail::concat("Linear(in_features=", weight.size(1), ", out_features=", weight.size(0),
                               ", bias=", bias.defined(), ")");
}

Tensor ReLU::forward(const Tensor& input) { return relu(input); }
Tensor Tanh::forward(const Tensor& input) { return tanh(input); }
Tensor Sigmoid::forward(const Tensor& input) { return sigmoid(input); }
Tensor GELU::forward(const Tensor& input) { return gelu(input, approximate); }

Dropout::Dropout(double probability) : p(probability) {
  TENON_CHECK(p >= 0 && p <= 1, ValueError, "Dropout: p: expected a value in [0, 1], got ", p);
}
Tensor Dropout::forward(const Tensor& input) { return dropout(input, p, is_training()); }
std::string Dropout::describe() const { return tenon::detail::concat("Dropout(p=", p, ")"); }

LayerNorm::LayerNorm(IntArrayRef normalized_shape, double eps, const TensorOptions& options)
    : weight(parameter(ones(normalized_shape, options))),
      bias(parameter(zeros(normalized_shape, options))),
      shape_(normalized_shape),
      eps_(eps) {}
Tensor LayerNorm::forward(const Tensor& input) { return layer_norm(input, shape_, weight, bias, eps_); }
std::string LayerNorm::describe() const { return tenon::detail::concat("LayerNorm(", shape_, ", eps=", eps_, ")"); }

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const TensorOptions& options)
    : weight(parameter(empty({num_embeddings, embedding_dim}, options))) {
  init::normal_(weight);
}
Tensor Embedding::forward(const Tensor& indices) { return embedding(weight, indices); }
std::string Embedding::describe() const {
  return tenon::detail::concat("Embedding(", weight.size(0), ", ", weight.size(1), ")");
}

}  // namespace tenon::nn

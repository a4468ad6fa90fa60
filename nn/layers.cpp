// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/describe.h>
#include <tenon/nn/layers.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/norm.h>
#include <tenon/ops/random.h>
#include <tenon/ops/unary.h>

namespace tenon::nn {

Tensor ReLU::forward(const Tensor& input) { return relu(input); }
Tensor Tanh::forward(const Tensor& input) { return tanh(input); }
Tensor Sigmoid::forward(const Tensor& input) { return sigmoid(input); }
Tensor GELU::forward(const Tensor& input) { return gelu(input, approximate); }

Dropout::Dropout(double probability) : p(probability) {
  TENON_CHECK(p >= 0 && p <= 1, ValueError, "Dropout: p: expected a value in [0, 1], got ", p);
}
Tensor Dropout::forward(const Tensor& input) { return dropout(input, p, is_training()); }
std::string Dropout::describe() const {
  return tenon::detail::concat("Dropout(p=", number_text(p), ", inplace=False)");
}

LayerNorm::LayerNorm(IntArrayRef normalized_shape, double eps, const TensorOptions& options)
    : weight(parameter(ones(normalized_shape, options))),
      bias(parameter(zeros(normalized_shape, options))),
      shape_(normalized_shape),
      eps_(eps) {}
Tensor LayerNorm::forward(const Tensor& input) { return layer_norm(input, shape_, weight, bias, eps_); }
std::string LayerNorm::describe() const {
  return tenon::detail::concat("LayerNorm(", tuple_text(shape_), ", eps=", number_text(eps_),
                               ", elementwise_affine=True)");
}

}  // namespace tenon::nn

// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/describe.h>
#include <tenon/nn/init.h>
#include <tenon/nn/linear.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/shape.h>

#include <cmath>

namespace tenon::nn {
namespace {
double bound_of(int64_t in_features) { return in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0; }
}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias, const TensorOptions& options) {
  TENON_CHECK(in_features >= 0 && out_features >= 0, ValueError, "Linear: expected sizes that are not negative, got ",
              in_features, " and ", out_features);
  weight = parameter(empty({out_features, in_features}, options));
  if (with_bias) bias = parameter(empty(IntArrayRef(out_features), options));
  reset_parameters();
}
void Linear::reset_parameters() {
  if (weight.numel() > 0) init::kaiming_uniform_(weight, std::sqrt(5.0));
  const double bound = bound_of(weight.size(1));
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}
Tensor Linear::forward(const Tensor& input) { return linear(input, weight, bias); }
std::string Linear::describe() const {
  return tenon::detail::concat("Linear(in_features=", weight.size(1), ", out_features=", weight.size(0),
                               ", bias=", yes_no(bias.defined()), ")");
}

Bilinear::Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features, bool with_bias,
                   const TensorOptions& options) {
  TENON_CHECK(in1_features > 0 && in2_features > 0 && out_features > 0, ValueError,
              "Bilinear: expected positive sizes, got ", in1_features, ", ", in2_features, " and ", out_features);
  weight = parameter(empty({out_features, in1_features, in2_features}, options));
  const double bound = bound_of(in1_features);
  init::uniform_(weight, -bound, bound);
  if (!with_bias) return;
  bias = parameter(empty(IntArrayRef(out_features), options));
  init::uniform_(bias, -bound, bound);
}
Tensor Bilinear::forward(const Tensor& input1, const Tensor& input2) {
  const Tensor y = einsum("...i,oij,...j->...o", {input1, weight, input2});
  return bias.defined() ? y.add(bias) : y;
}
std::string Bilinear::describe() const {
  return tenon::detail::concat("Bilinear(in1_features=", weight.size(1), ", in2_features=", weight.size(2),
                               ", out_features=", weight.size(0), ", bias=", yes_no(bias.defined()), ")");
}

std::string Flatten::describe() const {
  return tenon::detail::concat("Flatten(start_dim=", start_dim, ", end_dim=", end_dim, ")");
}
Tensor Unflatten::forward(const Tensor& input) { return unflatten(input, dim, unflattened_size); }
std::string Unflatten::describe() const {
  return tenon::detail::concat("Unflatten(dim=", dim, ", unflattened_size=", tuple_text(unflattened_size), ")");
}

}  // namespace tenon::nn

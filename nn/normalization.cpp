// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/describe.h>
#include <tenon/nn/normalization.h>
#include <tenon/ops/batch_norm.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/norm.h>

#include <algorithm>

namespace tenon::nn {
using tenon::detail::concat;

RunningNorm::RunningNorm(const char* name, std::initializer_list<int64_t> dims, int64_t num_features,
                         const NormOptions& norm, const TensorOptions& tensors)
    : options(norm), name_(name), num_features_(num_features) {
  TENON_CHECK(num_features >= 0, ValueError, name, ": num_features: expected a number that is not negative, got ",
              num_features);
  for (const int64_t d : dims) dims_.push_back(d);
  const IntArrayRef sizes(num_features_);
  if (options.affine) weight = parameter(ones(sizes, tensors)), bias = parameter(zeros(sizes, tensors));
  if (!options.track_running_stats) return;
  running_mean = zeros(sizes, tensors);
  running_var = ones(sizes, tensors);
  num_batches_tracked = zeros(IntArrayRef(), TensorOptions(tensors).dtype(kInt64));
}
void RunningNorm::members(Members& m) {
  m("weight", weight)("bias", bias);
  m.buffer("running_mean", running_mean).buffer("running_var", running_var);
  m.buffer("num_batches_tracked", num_batches_tracked);
}
void RunningNorm::reset_running_stats() {
  if (!running_mean.defined()) return;
  running_mean.zero_(), running_var.fill_(1), num_batches_tracked.zero_();
}
std::string RunningNorm::describe() const {
  return concat(name_, "(", num_features_, ", eps=", number_text(options.eps),
                ", momentum=", options.momentum ? number_text(*options.momentum) : "None",
                ", affine=", yes_no(options.affine), ", track_running_stats=", yes_no(options.track_running_stats),
                ")");
}
void RunningNorm::check(const Tensor& input) const {
  const bool known = std::find(dims_.begin(), dims_.end(), input.dim()) != dims_.end();
  TENON_CHECK(known, ShapeError, name_, ": input: expected ", dims_[0], dims_.size() > 1 ? " or more" : "",
              " dimensions, got sizes ", input.sizes());
}

Tensor BatchNorm::forward(const Tensor& input) {
  check(input);
  const bool track = running_mean.defined(), by_batch = is_training() || !track;
  double momentum = options.momentum.value_or(0);
  if (is_training() && track) {
    num_batches_tracked.add_(1);
    if (!options.momentum) momentum = 1 / num_batches_tracked.item().real();
  }
  // In training untracked statistics are not given; in evaluation tracked ones are not written.
  return batch_norm(input, running_mean, running_var, weight, bias, by_batch, momentum, options.eps);
}

Tensor InstanceNorm::forward(const Tensor& input) {
  check(input);
  if (input.dim() == dims_[0] && dims_[0] < dims_.back()) return forward(input.unsqueeze(0)).squeeze(0);
  const bool track = running_mean.defined();
  if (is_training() && track) num_batches_tracked.add_(1);
  return instance_norm(input, running_mean, running_var, weight, bias, is_training() || !track,
                       options.momentum.value_or(0), options.eps);
}

GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, double eps, bool affine, const TensorOptions& options)
    : groups_(num_groups), channels_(num_channels), eps_(eps) {
  TENON_CHECK(num_groups > 0 && num_channels % num_groups == 0, ValueError,
              "GroupNorm: num_groups: expected a divisor of num_channels, ", num_channels, ", got ", num_groups);
  if (!affine) return;
  weight = parameter(ones(IntArrayRef(channels_), options));
  bias = parameter(zeros(IntArrayRef(channels_), options));
}
Tensor GroupNorm::forward(const Tensor& input) { return group_norm(input, groups_, weight, bias, eps_); }
std::string GroupNorm::describe() const {
  return concat("GroupNorm(", groups_, ", ", channels_, ", eps=", number_text(eps_),
                ", affine=", yes_no(weight.defined()), ")");
}

RMSNorm::RMSNorm(IntArrayRef normalized_shape, std::optional<double> eps, bool elementwise_affine,
                 const TensorOptions& options)
    : shape_(normalized_shape), eps_(eps) {
  if (elementwise_affine) weight = parameter(ones(normalized_shape, options));
}
Tensor RMSNorm::forward(const Tensor& input) { return rms_norm(input, shape_, weight, eps_); }
std::string RMSNorm::describe() const {
  return concat("RMSNorm(", tuple_text(shape_), ", eps=", eps_ ? number_text(*eps_) : "None",
                ", elementwise_affine=", yes_no(weight.defined()), ")");
}

}  // namespace tenon::nn

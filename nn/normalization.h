// SPDX-License-Identifier: Apache-2.0
// Batch, instance, group and root-mean-square normalisation as modules; LayerNorm is in nn/layers.h. What they compute:
// ops/batch_norm.h and ops/norm.h.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

struct NormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  ///< none: the running statistics are the mean of all batches
  bool affine = true;                    ///< learn weight and bias
  bool track_running_stats = true;       ///< else statistics are the batch's in evaluation too
};

/// What batch and instance norm share: parameters weight, bias [num_features]; buffers running_mean, running_var,
/// num_batches_tracked. `dims`: the dimensions inputs may have.
class TENON_API RunningNorm : public Module {
 public:
  void members(Members& m) override;
  std::string describe() const override;
  /// Statistics as they were at first: mean 0, variance 1, no batch.
  void reset_running_stats();

  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  NormOptions options;

 protected:
  RunningNorm(const char* name, std::initializer_list<int64_t> dims, int64_t num_features, const NormOptions& norm,
              const TensorOptions& tensors);
  void check(const Tensor& input) const;

  const char* name_;
  DimVector dims_;
  int64_t num_features_;
};

/// Normalises each channel of [n, channels, ...] by the batch in training, by running statistics in evaluation.
class TENON_API BatchNorm : public RunningNorm {
 public:
  Tensor forward(const Tensor& input) override;

 protected:
  using RunningNorm::RunningNorm;
};
/// Of [n, channels] or [n, channels, length].
struct TENON_API BatchNorm1d : BatchNorm {
  explicit BatchNorm1d(int64_t num_features, const NormOptions& norm = {}, const TensorOptions& tensors = {})
      : BatchNorm("BatchNorm1d", {2, 3}, num_features, norm, tensors) {}
};
struct TENON_API BatchNorm2d : BatchNorm {
  explicit BatchNorm2d(int64_t num_features, const NormOptions& norm = {}, const TensorOptions& tensors = {})
      : BatchNorm("BatchNorm2d", {4}, num_features, norm, tensors) {}
};
struct TENON_API BatchNorm3d : BatchNorm {
  explicit BatchNorm3d(int64_t num_features, const NormOptions& norm = {}, const TensorOptions& tensors = {})
      : BatchNorm("BatchNorm3d", {5}, num_features, norm, tensors) {}
};

/// Normalises each channel of each entry; by default without parameters and running statistics. Inputs may lack the batch.
class TENON_API InstanceNorm : public RunningNorm {
 public:
  Tensor forward(const Tensor& input) override;
  static NormOptions defaults() { return {1e-5, 0.1, false, false}; }

 protected:
  using RunningNorm::RunningNorm;
};
struct TENON_API InstanceNorm1d : InstanceNorm {
  explicit InstanceNorm1d(int64_t num_features, const NormOptions& norm = defaults(), const TensorOptions& tensors = {})
      : InstanceNorm("InstanceNorm1d", {2, 3}, num_features, norm, tensors) {}
};
struct TENON_API InstanceNorm2d : InstanceNorm {
  explicit InstanceNorm2d(int64_t num_features, const NormOptions& norm = defaults(), const TensorOptions& tensors = {})
      : InstanceNorm("InstanceNorm2d", {3, 4}, num_features, norm, tensors) {}
};
struct TENON_API InstanceNorm3d : InstanceNorm {
  explicit InstanceNorm3d(int64_t num_features, const NormOptions& norm = defaults(), const TensorOptions& tensors = {})
      : InstanceNorm("InstanceNorm3d", {4, 5}, num_features, norm, tensors) {}
};

/// Normalises groups of channels of each entry.
class TENON_API GroupNorm : public Module {
 public:
  GroupNorm(int64_t num_groups, int64_t num_channels, double eps = 1e-5, bool affine = true,
            const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight)("bias", bias); }
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;

  Tensor weight, bias;

 private:
  int64_t groups_, channels_;
  double eps_;
};
/// Divides by the root mean square over the last dimensions, then scales. eps: none is the dtype's precision.
class TENON_API RMSNorm : public Module {
 public:
  explicit RMSNorm(IntArrayRef normalized_shape, std::optional<double> eps = {}, bool elementwise_affine = true,
                   const TensorOptions& options = {});
  void members(Members& m) override { m("weight", weight); }
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;

  Tensor weight;

 private:
  DimVector shape_;
  std::optional<double> eps_;
};

}  // namespace tenon::nn

// SPDX-License-Identifier: Apache-2.0
// AccumulateGrad: the node behind a leaf; adds what arrives to the leaf's gradient, under a lock. It runs as soon as
// the last contribution is there, before any other node. Internal.
#pragma once

#include <tenon/autograd/hooks.h>

namespace tenon::autograd {

class AccumulateGrad final : public Node {
 public:
  AccumulateGrad(const TensorImpl& leaf, Ref<GradHolder> holder);
  std::string name() const override { return "accumulate_grad"; }
  void apply(std::span<Tensor> grads, std::span<Tensor> results) override;
  /// `leaf` is an alias of the data; it is kept while the node lives.
  HookHandle add_accumulated_hook(AccumulatedHook hook, Tensor leaf);

 private:
  DimVector sizes_, strides_;
  Ref<GradHolder> holder_;
};

}  // namespace tenon::autograd

// SPDX-License-Identifier: Apache-2.0
// Anomaly mode: while it lives, operators of this thread remember where they were called, and backward throws at the
// first node that turns finite gradients into NaN, or that fails, naming the operator and that place. Slow.
#pragma once

#include <tenon/autograd/node.h>

namespace tenon::autograd {

class TENON_API AnomalyMode {
 public:
  /// `check_nan` false: only adds the place to errors.
  explicit AnomalyMode(bool check_nan = true);
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  int previous_;
};

/// 0 off, 1 on, 2 on with the check for NaN.
extern TENON_API constinit thread_local int anomaly_level TENON_INITIAL_EXEC;
inline bool anomaly_enabled() { return anomaly_level != 0; }
/// apply() with the checks.
void apply_checked(Node& node, std::span<Tensor> grads, std::span<Tensor> results);
/// The present call stack as the node's place.
void remember_site(Node& node);

}  // namespace tenon::autograd

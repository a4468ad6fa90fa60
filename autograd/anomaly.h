// SPDX-License-Identifier: Apache-2.0
// Anomaly mode: while it lives, operators and Functions of this thread remember where they were called, and backward
// throws at the first node that turns gradients without NaN into NaN, naming the operator and that place. The place is
// also added to the errors of nodes and of hooks on them, whose types stay what they are. Slow.
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
/// Where the node that failed last in a backward of this thread, in anomaly mode, was recorded: for exceptions of types
/// whose text cannot be added to. Empty if none did.
TENON_API std::string anomaly_place();
/// apply() with the check for NaN.
void apply_checked(Node& node, std::span<Tensor> grads, std::span<Tensor> results);
/// In a handler: throws the present exception again, with the node's place in its text where its type is known.
[[noreturn]] void rethrow_with_place(const Node& node);
/// The present call stack as the node's place.
void remember_site(Node& node);

}  // namespace tenon::autograd

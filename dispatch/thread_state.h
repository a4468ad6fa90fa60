// SPDX-License-Identifier: Apache-2.0
// What a call looks at before it looks at anything else: the thread's layer mask. Grad mode, inference mode and
// the layers that are switched on live in one word, so that a typed call tests one value.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>

namespace tenon::dispatch {

/// Layers above the backend, in the order a call passes them.
enum Layer : uint32_t { kProfilerLayer = 1, kTracerLayer = 2, kAutocastLayer = 4, kAutogradLayer = 8 };

struct ThreadState {
  /// Layers every call of this thread passes, whatever its arguments.
  uint32_t always;
  /// Layers a call passes when an argument requires grad: kAutogradLayer in grad mode, else 0.
  uint32_t differentiable;
  bool inference;    ///< InferenceMode: new tensors take no part in autograd
  bool saved_hooks;  ///< what is saved for backward passes through hooks (autograd/saved_hooks.h)
};
/// Constant-initialised, so reading it needs no initialisation guard.
extern TENON_API constinit thread_local ThreadState thread_state TENON_INITIAL_EXEC;

inline bool grad_enabled() { return thread_state.differentiable != 0; }
inline void set_grad_enabled(bool on) { thread_state.differentiable = on ? kAutogradLayer : 0u; }

/// Switches grad mode for a scope and restores it.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool on) : previous_(thread_state.differentiable) { set_grad_enabled(on); }
  ~GradModeGuard() { thread_state.differentiable = previous_; }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  uint32_t previous_;
};

/// Below all layers: what runs inside goes straight to the backend and is not recorded.
class BelowLayersGuard {
 public:
  BelowLayersGuard() : always_(thread_state.always), differentiable_(thread_state.differentiable) {
    thread_state.always = 0;
    thread_state.differentiable = 0;
  }
  ~BelowLayersGuard() {
    thread_state.always = always_;
    thread_state.differentiable = differentiable_;
  }
  BelowLayersGuard(const BelowLayersGuard&) = delete;
  BelowLayersGuard& operator=(const BelowLayersGuard&) = delete;

 private:
  uint32_t always_, differentiable_;
};

}  // namespace tenon::dispatch

namespace tenon {
using dispatch::grad_enabled;
using dispatch::GradModeGuard;
using dispatch::set_grad_enabled;

/// No operator of this thread records a gradient while it lives.
struct NoGradGuard : dispatch::GradModeGuard {
  NoGradGuard() : GradModeGuard(false) {}
};
/// Records again inside a NoGradGuard's scope.
struct EnableGradGuard : dispatch::GradModeGuard {
  EnableGradGuard() : GradModeGuard(true) {}
};
/// Like NoGradGuard, and tensors made inside stay out of graphs: outside, an operator that would save one for backward, or
/// write to one while recording, is an AutogradError (clone() it there). They keep no view relations. Older tensors, and
/// views of them, stay what they are. InferenceMode(false) records again, also inside an InferenceMode or NoGradGuard.
class InferenceMode {
 public:
  explicit InferenceMode(bool on = true) : grad_(!on), previous_(dispatch::thread_state.inference) {
    dispatch::thread_state.inference = on;
  }
  static bool is_enabled() { return dispatch::thread_state.inference; }
  ~InferenceMode() { dispatch::thread_state.inference = previous_; }
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  dispatch::GradModeGuard grad_;
  bool previous_;
};
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Hooks of the layers above the backend. Each is one pointer, set by the part that implements the layer, so that
// dispatch knows none of them. Order of a call: profiler, tracer, autocast, autograd, backend.
#pragma once

#include <tenon/dispatch/op.h>

namespace tenon::dispatch {

/// A boxed call on its way down. Tensors among the arguments may be borrowed: a layer that keeps a Value copies it.
struct LayerCall {
  const OpBase& op;
  Form form;
  std::span<Value> args;
  std::span<const Tensor> destinations;
  Results& results;
};
/// Runs what is below the layer.
TENON_API void run_below(const LayerCall& call, Layer layer);

/// Called when an argument requires grad and grad mode is on. Kernel, view and dynamic operators only: composites
/// are looked through.
using LayerFunction = void (*)(const LayerCall& call);
TENON_API void set_layer(Layer layer, LayerFunction function);

/// RecordFunction: `start` runs before every operator of a thread that switched recording on, `end` after it, also
/// when it throws. `start`'s result is handed to `end`. Free for threads that did not switch it on.
struct RecordHook {
  void* (*start)(void* context, const OpBase& op, std::span<const Value> args);
  void (*end)(void* context, void* token, const OpBase& op);
  void* context;
};
/// One hook per scope. Scopes nest: the hooks of all of them start, the outermost first, and end in the other order.
class TENON_API RecordFunctionGuard {
 public:
  explicit RecordFunctionGuard(const RecordHook& hook);
  ~RecordFunctionGuard();
  RecordFunctionGuard(const RecordFunctionGuard&) = delete;
  RecordFunctionGuard& operator=(const RecordFunctionGuard&) = delete;

 private:
  friend struct Recorders;
  RecordHook hook_;
  const RecordFunctionGuard* previous_;
  uint32_t mask_;
};

}  // namespace tenon::dispatch

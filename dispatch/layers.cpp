// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/layers.h>

namespace tenon::dispatch {
namespace {

LayerFunction tracer_ = nullptr, autocast_ = nullptr, autograd_ = nullptr;
constinit thread_local const RecordFunctionGuard* recorder_ = nullptr;

LayerFunction load(const LayerFunction& f) { return __atomic_load_n(&f, __ATOMIC_ACQUIRE); }

bool differentiable(const LayerCall& c) {
  if (!thread_state.differentiable) return false;
  for (const Tensor& t : c.destinations)
    if (detail::requires_grad(t)) return true;
  for (const Value& v : c.args) {
    if (v.is_tensor() && detail::requires_grad(v.tensor())) return true;
    if (v.kind() == Value::Kind::tensor_list && detail::requires_grad(TensorList(v.tensors()))) return true;
  }
  return false;
}

void run_backend(const LayerCall& c) {
  if (c.op.kind() == Kind::composite) {
    c.op.run_boxed(c.form, c.args, c.destinations, c.results);
    return;
  }
  const BelowLayersGuard below;
  c.op.run_boxed(c.form, c.args, c.destinations, c.results);
}

// A layer that is not installed is passed.
void pass(const LayerCall& c, uint32_t from) {
  if (from <= kTracerLayer && (thread_state.always & kTracerLayer))
    if (LayerFunction f = load(tracer_)) return f(c);
  if (from <= kAutocastLayer && (thread_state.always & kAutocastLayer))
    if (LayerFunction f = load(autocast_)) return f(c);
  if (from <= kAutogradLayer && c.op.kind() != Kind::composite && differentiable(c))
    if (LayerFunction f = load(autograd_)) return f(c);
  run_backend(c);
}

}  // namespace

struct Recorders {
  /// Starts the guards from the outermost up to `innermost`, but only those inside `outside`, around the call.
  static void run(const LayerCall& call, const RecordFunctionGuard* innermost, const RecordFunctionGuard* outside) {
    if (innermost == outside) return pass(call, kTracerLayer);
    const RecordFunctionGuard* next = innermost;
    while (next->previous_ != outside) next = next->previous_;
    struct Scope {
      const RecordHook& hook;
      const OpBase& op;
      void* token;
      ~Scope() { hook.end(hook.context, token, op); }
    } scope{next->hook_, call.op, next->hook_.start(next->hook_.context, call.op, call.args)};
    run(call, innermost, next);
  }
};

void set_layer(Layer layer, LayerFunction function) {
  LayerFunction& slot = layer == kTracerLayer ? tracer_ : layer == kAutocastLayer ? autocast_ : autograd_;
  __atomic_store_n(&slot, function, __ATOMIC_RELEASE);
}

void run_below(const LayerCall& call, Layer layer) {
  if (layer == kAutogradLayer) return run_backend(call);
  pass(call, static_cast<uint32_t>(layer) * 2);
}

void run_layers(const OpBase& op, Form form, std::span<Value> args, std::span<const Tensor> destinations,
                Results& results) {
  const LayerCall call{op, form, args, destinations, results};
  if (!(thread_state.always & kProfilerLayer) || !recorder_)
    return pass(call, thread_state.always == 0 ? kAutogradLayer : kTracerLayer);
  Recorders::run(call, recorder_, nullptr);
}

RecordFunctionGuard::RecordFunctionGuard(const RecordHook& hook)
    : hook_(hook), previous_(recorder_), mask_(thread_state.always) {
  TENON_CHECK(hook.start && hook.end, ValueError, "RecordFunctionGuard: hook: expected both start and end, got a null");
  recorder_ = this;
  thread_state.always |= kProfilerLayer;
}

RecordFunctionGuard::~RecordFunctionGuard() {
  recorder_ = previous_;
  thread_state.always = mask_;
}

}  // namespace tenon::dispatch

// SPDX-License-Identifier: Apache-2.0
// Checkpointing: memory for time. What operators inside of `fn` would save for backward is dropped, and computed again by
// another call of `fn` when backward first needs any of it; what is kept are the inputs.
//
//   Tensor y = autograd::checkpoint([&](const Tensor& x) { return block(x); }, x);
//
// `fn` takes any arguments: tensors, optional tensors, and vectors, arrays, spans, pairs and tuples of them are the inputs;
// the rest is copied, with what an IntArrayRef, span, string_view or C string refers to. It returns what it likes. It is
// kept, with what it captured, until the graph is freed; parameters it refers to get their gradients, and inputs need not
// require grad. It must do the same both times (a mutable lambda's state goes on from call to call): AutogradError when the
// second call saves another number of tensors, other sizes or dtypes, or when an input, or a captured tensor that is saved,
// was written in between. The second call sees
// grad mode, the autocast layer and, with `preserve_rng`, the random numbers of the first (not under graph capture).
// backward, grad, create_graph, retain_graph (each run computes again) and nested checkpoints work as without. It is made
// of saved-tensor hooks, so hooks of your own inside of `fn` act instead of it, outside of it on its inputs.
#pragma once

#include <tenon/autograd/function.h>
#include <tenon/autograd/saved_hooks.h>

namespace tenon::autograd {

struct CheckpointOptions {
  bool preserve_rng = true;  ///< the second call draws the same random numbers
};

namespace internal {
/// The call to repeat.
struct TENON_API CheckpointCall {
  virtual ~CheckpointCall();
  virtual void run(TensorList inputs) = 0;
};
/// Takes over `call`.
TENON_API Ref<SavedTensorHooks> begin_checkpoint(const CheckpointOptions& options, TensorList inputs,
                                                 CheckpointCall* call);
/// After forward: what was saved is complete.
TENON_API void end_checkpoint(SavedTensorHooks& frame);

// Arguments are kept without their tensors, which the frame keeps as inputs, and own what they refer to.
template <class F, class... Args>
struct CheckpointCallOf final : CheckpointCall {
  template <class... Given>
  explicit CheckpointCallOf(F f, const Given&... given) : fn(static_cast<F&&>(f)), args(Owned<Args>(given)...) {
    each([](Tensor* t) {
      if (t) t->reset();
    });
  }
  void run(TensorList inputs) override {
    std::tuple<Owned<Args>...> full = args;
    const Tensor* next = inputs.data();
    const auto fill = [&](Tensor* t) {
      if (t) *t = *next;
      ++next;
    };
    std::apply(
        [&](auto&... owned) {
          (each_tensor(owned, fill), ...);
          fn(owned.given()...);
        },
        full);
  }
  template <class V>
  void each(const V& visit) {
    std::apply([&](auto&... owned) { (each_tensor(owned, visit), ...); }, args);
  }
  F fn;
  std::tuple<Owned<Args>...> args;
};
}  // namespace internal

template <class F, class... Args>
auto checkpoint(const CheckpointOptions& options, F fn, const Args&... args) {
  if (!grad_enabled()) return fn(args...);
  std::vector<Tensor> inputs;
  (internal::collect(inputs, args), ...);
  auto* call = new internal::CheckpointCallOf<F, std::decay_t<const Args&>...>(static_cast<F&&>(fn), args...);
  const Ref<SavedTensorHooks> frame = internal::begin_checkpoint(options, inputs, call);
  auto result = [&] {
    const SavedTensorHooksGuard guard(frame);
    return call->fn(args...);
  }();
  internal::end_checkpoint(*frame);
  return result;
}

template <class F, class... Args>
requires(!std::is_same_v<std::decay_t<F>, CheckpointOptions>) auto checkpoint(F fn, const Args&... args) {
  return checkpoint(CheckpointOptions{}, static_cast<F&&>(fn), args...);
}

/// Calls modules[0], modules[1], … one after the other on `x`, in `segments` pieces of about equal length of which all but
/// the last are checkpointed. `modules` has size() and operator[] (nn::Sequential, a vector of functions) and is
/// referred to: it must live until backward. ValueError unless 1 <= segments <= modules.size().
template <class Modules>
Tensor checkpoint_sequential(Modules& modules, int64_t segments, const Tensor& x,
                             const CheckpointOptions& options = {}) {
  const auto count = static_cast<int64_t>(modules.size());
  TENON_CHECK(segments >= 1 && segments <= count, ValueError, "checkpoint_sequential: segments: expected 1 to ", count,
              ", got ", segments);
  const auto piece = [&modules](int64_t from, int64_t to) {
    return [&modules, from, to](Tensor t) {
      for (int64_t i = from; i < to; ++i) t = modules[static_cast<std::size_t>(i)](t);
      return t;
    };
  };
  const int64_t length = count / segments;
  Tensor t = x;
  for (int64_t s = 0; s + 1 < segments; ++s) t = checkpoint(options, piece(s * length, (s + 1) * length), t);
  return piece((segments - 1) * length, count)(t);
}

}  // namespace tenon::autograd

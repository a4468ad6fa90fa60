// SPDX-License-Identifier: Apache-2.0
// Gradients for users: backward, grad and hooks. Tensor's methods (requires_grad_, grad, backward, detach, …) are
// defined here too; grad mode (NoGradGuard, EnableGradGuard, InferenceMode) is dispatch/thread_state.h.
// Thread safety: any number of threads may run backward at once, also over shared leaves (gradients add up), and over
// one graph if it is retained. Grad mode belongs to the thread.
#pragma once

#include <tenon/autograd/anomaly.h>
#include <tenon/autograd/node.h>
#include <tenon/autograd/tensor_args.h>
#include <tenon/dispatch/thread_state.h>

namespace tenon::autograd {

/// Accumulates the gradients of `tensors` into the leaves they were computed from. `grads[i]` (sizes of tensors[i]) may
/// be left out, or undefined, for one-element tensors of real dtype: then it is 1. The graph is freed unless
/// `retain_graph` (default: create_graph). `create_graph` records the computation of the gradients, to differentiate
/// them again. With `inputs` (leaves or results), only their grad() is accumulated, and only what leads to them runs.
/// Lists are one tensor, tensors in braces, or a list: `backward(loss)`, `backward({a, b}, {}, true)`.
/// AutogradError: no gradient required, a missing gradient, a freed graph, a saved tensor written since.
TENON_API void backward(const TensorArgs& tensors, const TensorArgs& grads = {}, std::optional<bool> retain_graph = {},
                        bool create_graph = false, const TensorArgs& inputs = {});

/// The gradients of sum(outputs × grad_outputs) with respect to `inputs`, without touching any leaf's grad():
/// `grad(loss, w)[0]`, `grad({loss}, {w, b})`, `grad(loss, model.parameters())`.
/// AutogradError when an input is not part of the graph, unless `allow_unused`: then its gradient is undefined, or
/// zeros with `materialize_grads` (which allows unused inputs by itself). Hooks on the tensors run as in backward(),
/// those after accumulation do not.
TENON_API std::vector<Tensor> grad(const TensorArgs& outputs, const TensorArgs& inputs,
                                   const TensorArgs& grad_outputs = {}, std::optional<bool> retain_graph = {},
                                   bool create_graph = false, bool allow_unused = false,
                                   bool materialize_grads = false);

/// The switches by name: `backward(loss, {.retain_graph = true})`, `grad(loss, w, {.create_graph = true})`.
struct BackwardOptions {
  std::optional<bool> retain_graph = {};
  bool create_graph = false;
};
struct GradOptions {
  std::optional<bool> retain_graph = {};
  bool create_graph = false;
  bool allow_unused = false;
  bool materialize_grads = false;
};
// Templates, so that `{}` means the first forms.
template <class Options = BackwardOptions>
requires(std::is_same_v<Options, BackwardOptions>) void backward(const TensorArgs& tensors, const Options& options) {
  backward(tensors, {}, options.retain_graph, options.create_graph);
}
template <class Options = GradOptions>
requires(std::is_same_v<Options, GradOptions>) std::vector<Tensor> grad(const TensorArgs& outputs,
                                                                        const TensorArgs& inputs,
                                                                        const Options& options) {
  return grad(outputs, inputs, {}, options.retain_graph, options.create_graph, options.allow_unused,
              options.materialize_grads);
}

/// Calls `hook` with the gradient of `t` whenever it is computed; what it returns, if defined, takes its place.
/// AutogradError when `t` does not require grad.
TENON_API HookHandle register_hook(const Tensor& t, TensorHook hook);
/// Calls `hook` with the leaf after its grad() was accumulated: a handle to the same data and gradient, which the hook may
/// write to (`p -= 0.1 * p.grad()`). AutogradError unless `leaf` is a leaf that requires grad.
TENON_API HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, tenon::Function<void(Tensor&)> hook);

/// The output of grad_fn() that the tensor is.
TENON_API uint32_t output_number(const Tensor& t);
/// Where the gradient of `t` goes: its node, or the node that accumulates into the leaf; nowhere if it needs none.
TENON_API Edge gradient_edge(const Tensor& t);

}  // namespace tenon::autograd

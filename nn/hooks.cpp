// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/function.h>
#include <tenon/nn/hooks.h>

#include <deque>

namespace tenon::nn {

struct ModuleHooks : Counted {
  template <class Hook>
  struct Entry {
    uint64_t id;  // 0: removed
    Hook hook;
  };
  template <class Hook>
  using List = std::deque<Entry<Hook>>;  // hooks may add hooks while they run: entries stay where they are
  List<ForwardPreHook> before;
  List<ForwardHook> after;
  List<BackwardHook> backward;
  uint64_t next_id = 1;

  static void destroy(ModuleHooks* h) noexcept { delete h; }
  template <class Hook>
  uint64_t add(List<Hook>& list, Hook hook) {
    list.push_back({next_id, static_cast<Hook&&>(hook)});
    return next_id++;
  }
  void remove(uint64_t id) {
    const auto from = [&](auto& list) {
      for (auto& e : list)
        if (e.id == id) e.id = 0;
    };
    from(before);
    from(after);
    from(backward);
  }
  template <class Hook, class F>
  static bool each(List<Hook>& list, F&& f) {
    bool any = false;
    for (std::size_t i = 0, n = list.size(); i < n; ++i) {
      if (list[i].id == 0) continue;
      f(list[i].hook);
      any = true;
    }
    return any;
  }
};

/// What the backward pass of one call knows: the gradients of the outputs, until those of the inputs come.
struct BackwardCall : Counted {
  using Places = std::vector<std::size_t>;
  Ref<ModuleHooks> hooks;
  Places inputs, outputs;  // that require grad
  std::size_t input_count = 0, output_count = 0;
  std::vector<Tensor> grad_outputs;
  static void destroy(BackwardCall* c) noexcept { delete c; }

  void set_outputs(std::span<const Tensor> grads) {
    grad_outputs.assign(output_count, {});
    for (std::size_t i = 0; i < outputs.size(); ++i) grad_outputs[outputs[i]] = grads[i];
  }
  std::vector<Tensor> run(std::span<const Tensor> grads) {
    std::vector<Tensor> all(input_count), results;
    for (std::size_t i = 0; i < inputs.size(); ++i) all[inputs[i]] = grads[i];
    ModuleHooks::each(hooks->backward, [&](BackwardHook& hook) { hook(all, grad_outputs); });
    grad_outputs.clear();
    for (const std::size_t i : inputs) results.push_back(all[i]);
    return results;
  }
};

namespace {
// Identities at the two ends of a module: gradients pass them on their way.
struct ModuleInputs : autograd::Function<ModuleInputs> {
  Ref<BackwardCall> call;
  std::vector<Tensor> forward(const Ref<BackwardCall>& c, const std::vector<Tensor>& tensors) {
    call = c;
    return tensors;
  }
  std::vector<Tensor> backward(std::span<const Tensor> grads) { return call->run(grads); }
};
struct ModuleOutputs : autograd::Function<ModuleOutputs> {
  Ref<BackwardCall> call;
  std::vector<Tensor> forward(const Ref<BackwardCall>& c, const std::vector<Tensor>& tensors) {
    call = c;
    return tensors;
  }
  std::vector<Tensor> backward(std::span<const Tensor> grads) {
    call->set_outputs(grads);
    if (call->inputs.empty()) call->run({});
    return {grads.begin(), grads.end()};
  }
};

/// Leads the tensors that require grad through the function, and notes which they are.
template <class F>
void pass_through(const Ref<BackwardCall>& call, std::vector<Tensor>& tensors, BackwardCall::Places& places) {
  std::vector<Tensor> through;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || !tensors[i].requires_grad()) continue;
    places.push_back(i);
    through.push_back(tensors[i]);
  }
  if (through.empty()) return;
  through = F::apply(call, through);
  for (std::size_t i = 0; i < places.size(); ++i) tensors[places[i]] = through[i];
}
}  // namespace

ModuleHookHandle::ModuleHookHandle() = default;
ModuleHookHandle::ModuleHookHandle(Ref<ModuleHooks> hooks, uint64_t id)
    : hooks_(static_cast<Ref<ModuleHooks>&&>(hooks)), id_(id) {}
ModuleHookHandle::ModuleHookHandle(const ModuleHookHandle&) = default;
ModuleHookHandle& ModuleHookHandle::operator=(ModuleHookHandle o) noexcept {
  std::swap(hooks_, o.hooks_);
  std::swap(id_, o.id_);
  return *this;
}
ModuleHookHandle::~ModuleHookHandle() = default;
void ModuleHookHandle::remove() {
  if (hooks_) hooks_->remove(id_);
  hooks_ = {};
}

HookList::HookList() = default;
HookList::HookList(const HookList&) = default;
HookList& HookList::operator=(const HookList&) = default;
HookList::~HookList() = default;
ModuleHooks& HookList::make() {
  if (!hooks_) hooks_ = Ref<ModuleHooks>::adopt(new ModuleHooks);
  return *hooks_;
}
ModuleHookHandle HookList::add(ForwardPreHook hook) {
  const uint64_t id = make().add(hooks_->before, static_cast<ForwardPreHook&&>(hook));
  return {hooks_, id};
}
ModuleHookHandle HookList::add(ForwardHook hook) {
  const uint64_t id = make().add(hooks_->after, static_cast<ForwardHook&&>(hook));
  return {hooks_, id};
}
ModuleHookHandle HookList::add(BackwardHook hook) {
  const uint64_t id = make().add(hooks_->backward, static_cast<BackwardHook&&>(hook));
  return {hooks_, id};
}

HookList::Pass::Pass(const HookList& hooks, ModuleBase& module) : hooks_(hooks.hooks_), module_(module) {}
HookList::Pass::~Pass() = default;
void HookList::Pass::inputs(std::vector<Tensor>& tensors) {
  ModuleHooks::each(hooks_->before, [&](ForwardPreHook& hook) { hook(module_, tensors); });
  if (grad_enabled() && ModuleHooks::each(hooks_->backward, [](BackwardHook&) {})) {
    backward_ = Ref<BackwardCall>::adopt(new BackwardCall);
    backward_->hooks = hooks_;
    backward_->input_count = tensors.size();
    pass_through<ModuleInputs>(backward_, tensors, backward_->inputs);
  }
  inputs_ = tensors;
}
void HookList::Pass::outputs(std::vector<Tensor>& tensors) {
  ModuleHooks::each(hooks_->after, [&](ForwardHook& hook) { hook(module_, inputs_, tensors); });
  if (!backward_) return;
  backward_->output_count = tensors.size();
  pass_through<ModuleOutputs>(backward_, tensors, backward_->outputs);
}

}  // namespace tenon::nn

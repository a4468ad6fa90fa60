// SPDX-License-Identifier: Apache-2.0
// Hooks of modules: functions called before and after forward, and after the gradients of a module's inputs are known.
// They see the tensors among arguments and results (also those in tuples, vectors and optionals), in order, and
// replace them by assigning: `net.register_forward_hook([](auto&, auto, std::span<Tensor> out) { out[0] = relu(out[0]); })`.
// Calling the module runs them, calling its forward() does not. Copies of a module made later share them; clones have none.
#pragma once

#include <tenon/core/function.h>
#include <tenon/core/intrusive.h>
#include <tenon/core/tensor.h>

namespace tenon::nn {

class ModuleBase;

using ForwardPreHook = Function<void(ModuleBase& module, std::span<Tensor> inputs)>;
using ForwardHook = Function<void(ModuleBase& module, std::span<const Tensor> inputs, std::span<Tensor> outputs)>;
/// Gradients of inputs that want none are undefined.
using BackwardHook = Function<void(std::span<Tensor> grad_inputs, std::span<const Tensor> grad_outputs)>;

struct ModuleHooks;
struct BackwardCall;
/// Removes a hook when asked; a handle that is dropped leaves the hook where it is.
class TENON_API ModuleHookHandle {
 public:
  ModuleHookHandle();
  ModuleHookHandle(Ref<ModuleHooks> hooks, uint64_t id);
  ModuleHookHandle(const ModuleHookHandle&);
  ModuleHookHandle& operator=(ModuleHookHandle) noexcept;
  ~ModuleHookHandle();
  void remove();

 private:
  Ref<ModuleHooks> hooks_;
  uint64_t id_ = 0;
};

/// A module's hooks; costs a pointer until there is one. Not to be changed while another thread calls the module.
class TENON_API HookList {
 public:
  HookList();
  HookList(const HookList&);
  HookList& operator=(const HookList&);
  ~HookList();
  explicit operator bool() const { return hooks_.get() != nullptr; }
  ModuleHookHandle add(ForwardPreHook hook);
  ModuleHookHandle add(ForwardHook hook);
  ModuleHookHandle add(BackwardHook hook);

  /// One call of a module with hooks: its inputs and its outputs pass here, and may be replaced.
  class TENON_API Pass {
   public:
    Pass(const HookList& hooks, ModuleBase& module);
    ~Pass();
    void inputs(std::vector<Tensor>& tensors);
    void outputs(std::vector<Tensor>& tensors);

   private:
    Ref<ModuleHooks> hooks_;
    ModuleBase& module_;
    std::vector<Tensor> inputs_;
    Ref<BackwardCall> backward_;
  };

 private:
  ModuleHooks& make();
  Ref<ModuleHooks> hooks_;
};

}  // namespace tenon::nn

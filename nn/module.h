// SPDX-License-Identifier: Apache-2.0
// Module: something with parameters and a forward function. Modules are values: members are members, and one function
// names them. Parameters, buffers, children, moving to a device, state and printing all walk that one list:
//
//   struct Mlp : nn::Module {
//     nn::Linear hidden{784, 512}, output{512, 10};
//     void members(nn::Members& m) override { m("hidden", hidden)("output", output); }
//     Tensor forward(const Tensor& x) override { return output(relu(hidden(x))); }
//   };
//
// A module whose forward takes something else derives from nn::ModuleOf<itself>:
//
//   struct Gate : nn::ModuleOf<Gate> {
//     Tensor forward(const Tensor& a, const Tensor& b) { return a * sigmoid(b); }
//   };
//
// Copying a module copies handles: both copies share parameters. nn::clone(m) is an independent one.
// Thread safety: forward in several threads is fine while nobody changes the module.
#pragma once

#include <tenon/autograd/arguments.h>
#include <tenon/nn/hooks.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon::nn {

class ModuleBase;

/// Visits the members of a module. What a walk does with them is up to the class that implements it.
class TENON_API Members {
 public:
  virtual ~Members();
  /// A parameter (trained; may be undefined, as a bias left out).
  Members& operator()(std::string_view name, Tensor& parameter) {
    return visit(name, parameter, Kind::parameter), *this;
  }
  /// A child.
  Members& operator()(std::string_view name, ModuleBase& child) { return visit(name, child), *this; }
  /// Parameters or children "name.0", "name.1", ...
  template <class T>
  Members& operator()(std::string_view name, std::vector<T>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) (*this)(std::string(name) + "." + std::to_string(i), list[i]);
    return *this;
  }
  /// A tensor that is not trained. Persistent ones belong to the state.
  Members& buffer(std::string_view name, Tensor& tensor, bool persistent = true) {
    visit(name, tensor, persistent ? Kind::buffer : Kind::transient_buffer);
    return *this;
  }

 protected:
  enum class Kind { parameter, buffer, transient_buffer };
  virtual void visit(std::string_view name, Tensor& tensor, Kind kind) = 0;
  virtual void visit(std::string_view name, ModuleBase& child) = 0;
};

struct NamedTensor {
  std::string name;  ///< "hidden.weight"
  Tensor tensor;
};
struct NamedModule {
  std::string name;  ///< "encoder.layers.0"; empty for the module that was asked
  ModuleBase* module;
};
struct StateMismatch {
  std::vector<std::string> missing_keys, unexpected_keys;
};

/// What all modules have; modules derive from Module or ModuleOf.
class TENON_API ModuleBase {
 public:
  ModuleBase() = default;
  ModuleBase(const ModuleBase&) = default;
  ModuleBase& operator=(const ModuleBase&) = default;
  virtual ~ModuleBase();

  /// Names the members; leave it out when there are none.
  virtual void members(Members& m);
  /// The class as printed: "Linear(in_features=784, out_features=512, bias=True)"; by default its name in C++.
  virtual std::string describe() const;

  /// Parameters of this module and, with `recurse`, its children, in the order of members(); undefined ones are left out,
  /// and one that several members share is given once.
  std::vector<Tensor> parameters(bool recurse = true);
  std::vector<NamedTensor> named_parameters(bool recurse = true);
  std::vector<Tensor> buffers(bool recurse = true);
  std::vector<NamedTensor> named_buffers(bool recurse = true);
  std::vector<NamedModule> named_children();
  /// This module and all below it.
  std::vector<NamedModule> named_modules();
  std::vector<ModuleBase*> children();
  std::vector<ModuleBase*> modules();
  /// Parameters and persistent buffers, detached, in the names PyTorch gives them: what load_state_dict takes.
  std::vector<NamedTensor> state_dict();
  std::vector<NamedTensor> state() { return state_dict(); }
  /// Copies values into parameters and buffers of the same name. ValueError, before anything is changed, listing tensors
  /// of other sizes and, if `strict`, names that are missing or unexpected; otherwise these are returned.
  StateMismatch load_state_dict(const std::vector<NamedTensor>& state, bool strict = true);
  /// The same from pairs of a name and a tensor: `model.load_state_dict(data::load_safetensors(path))`.
  template <class Pair, class = decltype(NamedTensor{std::declval<Pair>().first, std::declval<Pair>().second})>
  StateMismatch load_state_dict(const std::vector<Pair>& pairs, bool strict = true) {
    std::vector<NamedTensor> given;
    for (const Pair& p : pairs) given.push_back({p.first, p.second});
    return load_state_dict(given, strict);
  }
  template <class Named>
  void load_state(const std::vector<Named>& named) {
    load_state_dict(named);
  }

  /// Moves parameters, their gradients, and buffers in place: handles to them, an optimizer's too, see the new data.
  ModuleBase& to(Device device);
  /// Converts floating-point parameters, gradients and buffers.
  ModuleBase& to(DType dtype);
  ModuleBase& to(Device device, DType dtype);
  /// Calls `f` for every module below this one, children first, then for this one.
  ModuleBase& apply(const Function<void(ModuleBase&)>& f);
  ModuleBase& train(bool on = true);
  ModuleBase& eval() { return train(false); }
  bool is_training() const { return training_; }
  ModuleBase& requires_grad_(bool on = true);
  /// Drops every parameter's gradient, or fills it with zeros.
  void zero_grad(bool set_to_none = true);
  int64_t parameter_count();
  /// The module and its children as an indented tree.
  std::string str();
  /// This module as an M, or null: `if (auto* linear = m.as<nn::Linear>()) ...`.
  template <class M>
  M* as() {
    return dynamic_cast<M*>(this);
  }

  ModuleHookHandle register_forward_pre_hook(ForwardPreHook hook);
  ModuleHookHandle register_forward_hook(ForwardHook hook);
  /// Called with the gradients of inputs and outputs; outputs and inputs may then not be written in place.
  ModuleHookHandle register_full_backward_hook(BackwardHook hook);

 protected:
  /// Calls self.forward, and the hooks around it.
  template <class Self, class... Args>
  static auto call(Self& self, const Args&... args) {
    if (!self.hooks_) [[likely]]
      return self.forward(args...);
    std::tuple<std::decay_t<Args>...> held(args...);
    HookList::Pass pass(self.hooks_, self);
    replace(held, [&](std::vector<Tensor>& t) { pass.inputs(t); });
    auto result = std::apply([&](auto&... a) { return self.forward(a...); }, held);
    replace(result, [&](std::vector<Tensor>& t) { pass.outputs(t); });
    return result;
  }

 private:
  friend TENON_API void make_independent(ModuleBase& module);
  template <class T, class F>
  static void replace(T& value, F&& f) {
    std::vector<Tensor> tensors;
    autograd::internal::collect(tensors, value);
    f(tensors);
    std::size_t i = 0;
    autograd::internal::each_tensor(value, [&](auto* t) {
      if constexpr (!std::is_const_v<std::remove_pointer_t<decltype(t)>>)
        if (t) *t = tensors[i];
      ++i;
    });
  }
  bool training_ = true;
  HookList hooks_;
};

/// A module from one tensor to one tensor.
class TENON_API Module : public ModuleBase {
 public:
  virtual Tensor forward(const Tensor& input) = 0;
  Tensor operator()(const Tensor& input) { return call(*this, input); }
};

/// A module with any forward function, found by the name in Derived.
template <class Derived, class Base = ModuleBase>
class ModuleOf : public Base {
 public:
  using Base::Base;
  template <class... Args>
  auto operator()(const Args&... args) {
    return ModuleBase::call(static_cast<Derived&>(*this), args...);
  }
};

/// Gives a module memory of its own for parameters and buffers; what was shared inside it stays so. Hooks are dropped.
TENON_API void make_independent(ModuleBase& module);
/// A copy that shares nothing with `module`.
template <class M>
M clone(const M& module) {
  M copy(module);
  make_independent(copy);
  return copy;
}

/// std::cout << model: str().
template <class Stream, class = decltype(std::declval<Stream&>().flush())>
Stream& operator<<(Stream& stream, ModuleBase& module) {
  stream << module.str();
  return stream;
}

/// A leaf that requires grad, made from `value`.
TENON_API Tensor parameter(Tensor value);

}  // namespace tenon::nn

// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/nn/module.h>

#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

namespace tenon::nn {

Members::~Members() = default;
ModuleBase::~ModuleBase() = default;
void ModuleBase::members(Members&) {}
std::string ModuleBase::describe() const {
  char* const full = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, nullptr);
  std::string name = full ? full : "Module";
  std::free(full);
  int depth = 0;  // of brackets: "main()::Block<ns::A>" is "Block<ns::A>"
  for (std::size_t i = name.size(); i-- > 0;) {
    depth += (name[i] == '>' || name[i] == ')') - (name[i] == '<' || name[i] == '(');
    if (depth == 0 && name[i] == ':') return name.substr(i + 1);
  }
  return name;
}

namespace {

// Calls on_tensor(full name, tensor, kind) and on_child(full name, module) for the members of a module; the latter says
// whether to go on into that child.
template <class OnTensor, class OnChild>
class Walk : public Members {
 public:
  Walk(OnTensor on_tensor, OnChild on_child) : on_tensor_(on_tensor), on_child_(on_child) {}

 private:
  void visit(std::string_view name, Tensor& t, Kind kind) override {
    on_tensor_(prefix_ + std::string(name), t, kind == Kind::parameter, kind != Kind::transient_buffer);
  }
  void visit(std::string_view name, ModuleBase& child) override {
    std::string outer = prefix_ + std::string(name);
    if (!on_child_(outer, child)) return;
    outer += ".";
    prefix_.swap(outer);
    child.members(*this);
    prefix_.swap(outer);
  }
  OnTensor on_tensor_;
  OnChild on_child_;
  std::string prefix_;
};

/// on_tensor(name, tensor, is_parameter, is_persistent)
template <class OnTensor>
void each_tensor(ModuleBase& m, bool recurse, OnTensor on_tensor) {
  Walk w(on_tensor, [=](const std::string&, ModuleBase&) { return recurse; });
  m.members(w);
}
/// on_child(name, module) returns whether to go on below it.
template <class OnChild>
void each_child(ModuleBase& m, OnChild on_child) {
  Walk w([](const std::string&, Tensor&, bool, bool) {}, on_child);
  m.members(w);
}

std::vector<NamedTensor> once_each(ModuleBase& m, bool recurse, bool parameters) {
  std::vector<NamedTensor> out;
  std::unordered_set<const void*> known;
  each_tensor(m, recurse, [&](const std::string& name, Tensor& t, bool is_parameter, bool) {
    if (is_parameter == parameters && t.defined() && known.insert(t.impl()).second) out.push_back({name, t});
  });
  return out;
}
std::vector<Tensor> tensors(const std::vector<NamedTensor>& named) {
  std::vector<Tensor> out;
  for (const NamedTensor& n : named) out.push_back(n.tensor);
  return out;
}
std::vector<ModuleBase*> pointers(const std::vector<NamedModule>& named) {
  std::vector<ModuleBase*> out;
  for (const NamedModule& n : named) out.push_back(n.module);
  return out;
}

ModuleBase& convert(ModuleBase& m, std::optional<Device> device, std::optional<DType> dtype) {
  TENON_CHECK(!dtype || is_floating_point(*dtype), DtypeError, "Module::to: expected a floating dtype, got ", *dtype);
  const NoGradGuard no_grad;
  each_tensor(m, true, [&](const std::string&, Tensor& t, bool, bool) {
    if (!t.defined()) return;
    const auto wanted = TensorOptions().device(device).dtype(t.is_floating_point() ? dtype : std::nullopt);
    const Tensor moved = t.detach().to(wanted), grad = t.grad();
    t.set_grad({});
    t.impl()->take_data(*moved.impl());
    if (grad.defined()) t.set_grad(grad.to(wanted));
  });
  return m;
}

void indent(std::string& out, int depth) { out.append("\n").append(static_cast<std::size_t>(2 * depth), ' '); }

// "Name(arguments)", or with children a line each: "Name(\n  arguments\n  (child): ...\n)".
void print(ModuleBase& m, int depth, std::string& out) {
  std::string text = m.describe();
  if (text.empty() || text.back() != ')') text += "()";
  bool open = false;
  each_child(m, [&](const std::string& name, ModuleBase& child) {
    if (!open) {
      const std::size_t bracket = text.find('(');
      out.append(text, 0, bracket + 1);
      if (bracket + 2 < text.size()) {
        indent(out, depth + 1);
        out.append(text, bracket + 1, text.size() - bracket - 2);
      }
    }
    open = true;
    indent(out, depth + 1);
    out += "(" + name + "): ";
    print(child, depth + 1, out);
    return false;
  });
  if (!open) {
    out += text;
  } else {
    indent(out, depth);
    out += ")";
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

}  // namespace

std::vector<NamedTensor> ModuleBase::named_parameters(bool recurse) { return once_each(*this, recurse, true); }
std::vector<NamedTensor> ModuleBase::named_buffers(bool recurse) { return once_each(*this, recurse, false); }
std::vector<Tensor> ModuleBase::parameters(bool recurse) { return tensors(named_parameters(recurse)); }
std::vector<Tensor> ModuleBase::buffers(bool recurse) { return tensors(named_buffers(recurse)); }

std::vector<NamedModule> ModuleBase::named_children() {
  std::vector<NamedModule> out;
  each_child(*this, [&](const std::string& name, ModuleBase& child) { return out.push_back({name, &child}), false; });
  return out;
}
std::vector<NamedModule> ModuleBase::named_modules() {
  std::vector<NamedModule> out{{"", this}};
  each_child(*this, [&](const std::string& name, ModuleBase& child) { return out.push_back({name, &child}), true; });
  return out;
}
std::vector<ModuleBase*> ModuleBase::children() { return pointers(named_children()); }
std::vector<ModuleBase*> ModuleBase::modules() { return pointers(named_modules()); }

std::vector<NamedTensor> ModuleBase::state_dict() {
  std::vector<NamedTensor> out;
  each_tensor(*this, true, [&](const std::string& name, Tensor& t, bool, bool persistent) {
    if (t.defined() && persistent) out.push_back({name, t.detach()});
  });
  return out;
}

StateMismatch ModuleBase::load_state_dict(const std::vector<NamedTensor>& given, bool strict) {
  std::unordered_map<std::string_view, const Tensor*> sources;
  for (const NamedTensor& g : given) sources[g.name] = &g.tensor;
  StateMismatch mismatch;
  std::vector<std::string> sizes;
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const NamedTensor& own : state_dict()) {
    const auto found = sources.find(own.name);
    if (found == sources.end()) {
      mismatch.missing_keys.push_back(own.name);
      continue;
    }
    const Tensor& source = *found->second;
    sources.erase(found);
    if (source.defined() && source.sizes() == own.tensor.sizes())
      copies.emplace_back(own.tensor, source);
    else
      sizes.push_back(source.defined()
                          ? detail::concat(own.name, " has ", source.sizes(), ", expected ", own.tensor.sizes())
                          : own.name + " is undefined");
  }
  for (const NamedTensor& g : given)
    if (sources.count(g.name)) mismatch.unexpected_keys.push_back(g.name);
  std::string problems;
  const auto add = [&](const char* what, const std::vector<std::string>& list) {
    if (!list.empty()) problems += (problems.empty() ? "" : "; ") + (what + joined(list));
  };
  if (strict) {
    add("missing: ", mismatch.missing_keys);
    add("unexpected: ", mismatch.unexpected_keys);
  }
  add("wrong sizes: ", sizes);
  TENON_CHECK(problems.empty(), ValueError, "load_state_dict: ", describe().substr(0, describe().find('(')), ": ",
              problems);
  const NoGradGuard no_grad;
  for (auto& [own, source] : copies) own.copy_(source);
  return mismatch;
}

ModuleBase& ModuleBase::to(Device device) { return convert(*this, device, {}); }
ModuleBase& ModuleBase::to(DType dtype) { return convert(*this, {}, dtype); }
ModuleBase& ModuleBase::to(Device device, DType dtype) { return convert(*this, device, dtype); }

ModuleBase& ModuleBase::apply(const Function<void(ModuleBase&)>& f) {
  each_child(*this, [&](const std::string&, ModuleBase& child) { return child.apply(f), false; });
  f(*this);
  return *this;
}
ModuleBase& ModuleBase::train(bool on) {
  for (ModuleBase* m : modules()) m->training_ = on;
  return *this;
}
ModuleBase& ModuleBase::requires_grad_(bool on) {
  for (Tensor& p : parameters()) p.requires_grad_(on);
  return *this;
}
void ModuleBase::zero_grad(bool set_to_none) {
  for (const Tensor& p : parameters()) {
    if (Tensor g = p.grad(); !set_to_none && g.defined())
      p.set_grad(g.detach().zero_());
    else
      p.set_grad({});
  }
}
int64_t ModuleBase::parameter_count() {
  int64_t n = 0;
  for (const Tensor& p : parameters()) n += p.numel();
  return n;
}
std::string ModuleBase::str() {
  std::string out;
  print(*this, 0, out);
  return out;
}

ModuleHookHandle ModuleBase::register_forward_pre_hook(ForwardPreHook hook) {
  return hooks_.add(static_cast<ForwardPreHook&&>(hook));
}
ModuleHookHandle ModuleBase::register_forward_hook(ForwardHook hook) {
  return hooks_.add(static_cast<ForwardHook&&>(hook));
}
ModuleHookHandle ModuleBase::register_full_backward_hook(BackwardHook hook) {
  return hooks_.add(static_cast<BackwardHook&&>(hook));
}

void make_independent(ModuleBase& module) {
  const NoGradGuard no_grad;
  std::unordered_map<const void*, Tensor> copies;
  each_tensor(module, true, [&](const std::string&, Tensor& t, bool, bool) {
    if (!t.defined()) return;
    Tensor& copy = copies[t.impl()];
    if (!copy.defined()) copy = t.detach().clone().requires_grad_(t.requires_grad());
    t = copy;
  });
  for (ModuleBase* m : module.modules()) m->hooks_ = {};
}

Tensor parameter(Tensor value) {
  value.requires_grad_();
  return value;
}

}  // namespace tenon::nn

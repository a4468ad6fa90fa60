// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/nn/module.h>

namespace tenon::nn {

Members::~Members() = default;
Module::~Module() = default;
void Module::members(Members&) {}
std::string Module::describe() const { return "Module"; }

namespace {

// Calls a function for every tensor of a module tree with its full name.
template <class OnTensor>
class Walk : public Members {
 public:
  explicit Walk(OnTensor on_tensor) : on_tensor_(on_tensor) {}

 private:
  void visit_parameter(const char* name, Tensor& t) override { on_tensor_(prefix_ + name, t, true); }
  void visit_buffer(const char* name, Tensor& t) override { on_tensor_(prefix_ + name, t, false); }
  void visit_child(const char* name, Module& child) override {
    const std::string outer = prefix_;
    prefix_ += std::string(name) + ".";
    child.members(*this);
    prefix_ = outer;
  }
  OnTensor on_tensor_;
  std::string prefix_;
};

template <class OnTensor>
void walk(Module& m, OnTensor on_tensor) {
  Walk<OnTensor> w(on_tensor);
  m.members(w);
}

template <class OnChild>
class Children : public Members {
 public:
  explicit Children(OnChild on_child) : on_child_(on_child) {}

 private:
  void visit_parameter(const char*, Tensor&) override {}
  void visit_buffer(const char*, Tensor&) override {}
  void visit_child(const char* name, Module& child) override { on_child_(name, child); }
  OnChild on_child_;
};

void convert(Module& m, std::optional<Device> device, std::optional<DType> dtype) {
  const NoGradGuard no_grad;
  walk(m, [&](const std::string&, Tensor& t, bool) {
    if (!t.defined()) return;
    const std::optional<DType> wanted = t.is_floating_point() ? dtype : std::nullopt;
    const Tensor moved = t.detach().to(TensorOptions().device(device).dtype(wanted));
    t.set_grad({});
    t.impl()->take_data(*moved.impl());
  });
}

void print(const std::string& name, Module& m, int depth, std::string& out) {
  out.append(static_cast<std::size_t>(2 * depth), ' ');
  if (!name.empty()) out += "(" + name + "): ";
  out += m.describe();
  bool open = false;
  Children children([&](const char* child, Module& c) {
    out += open ? "\n" : " {\n";
    open = true;
    print(child, c, depth + 1, out);
  });
  m.members(children);
  if (open) out.append("\n").append(static_cast<std::size_t>(2 * depth), ' ').append("}");
}

}  // namespace

std::vector<NamedTensor> Module::named_parameters() {
  std::vector<NamedTensor> out;
  walk(*this, [&](const std::string& name, Tensor& t, bool is_parameter) {
    if (!is_parameter || !t.defined()) return;
    for (const NamedTensor& known : out)
      if (known.tensor.is_same(t)) return;  // shared: once, under its first name
    out.push_back({name, t});
  });
  return out;
}

std::vector<Tensor> Module::parameters() {
  std::vector<Tensor> out;
  for (NamedTensor& p : named_parameters()) out.push_back(p.tensor);
  return out;
}

std::vector<NamedTensor> Module::state() {
  std::vector<NamedTensor> out;
  walk(*this, [&](const std::string& name, Tensor& t, bool) {
    if (t.defined()) out.push_back({name, t.detach()});
  });
  return out;
}

void Module::load_state(const std::vector<NamedTensor>& given) {
  std::vector<NamedTensor> own = state();
  std::vector<bool> used(given.size(), false);
  std::vector<const Tensor*> source(own.size(), nullptr);
  Message problems;
  bool bad = false;
  for (std::size_t i = 0; i < own.size(); ++i) {
    for (std::size_t j = 0; j < given.size(); ++j) {
      if (given[j].name != own[i].name) continue;
      used[j] = true;
      source[i] = &given[j].tensor;
    }
    if (!source[i]) {
      problems << (bad ? "; " : "") << own[i].name << " is missing";
      bad = true;
    } else if (!(source[i]->sizes() == own[i].tensor.sizes())) {
      problems << (bad ? "; " : "") << own[i].name << " has sizes " << source[i]->sizes() << ", expected "
               << own[i].tensor.sizes();
      bad = true;
    }
  }
  for (std::size_t j = 0; j < given.size(); ++j) {
    if (used[j]) continue;
    problems << (bad ? "; " : "") << given[j].name << " is unexpected";
    bad = true;
  }
  TENON_CHECK(!bad, ValueError, "load_state: ", problems.take());
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < own.size(); ++i) own[i].tensor.copy_(*source[i]);
}

Module& Module::to(Device device) {
  convert(*this, device, {});
  return *this;
}
Module& Module::to(DType dtype) {
  TENON_CHECK(is_floating_point(dtype), DtypeError, "Module::to: expected a floating dtype, got ", dtype);
  convert(*this, {}, dtype);
  return *this;
}

Module& Module::train(bool on) {
  training_ = on;
  Children children([&](const char*, Module& c) { c.train(on); });
  members(children);
  return *this;
}

void Module::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({});
}

int64_t Module::parameter_count() {
  int64_t n = 0;
  for (const Tensor& p : parameters()) n += p.numel();
  return n;
}

std::string Module::str() {
  std::string out;
  print("", *this, 0, out);
  return out;
}

Tensor parameter(Tensor value) {
  value.requires_grad_();
  return value;
}

}  // namespace tenon::nn

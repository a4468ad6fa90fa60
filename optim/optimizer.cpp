// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/ops/complex.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/optimizer_step.h>
#include <tenon/optim/optimizer.h>
#include <tenon/streams/stream.h>

#include <algorithm>
#include <cmath>

namespace tenon::optim {

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;

void Optimizer::append(std::vector<Tensor> parameters, Group group) {
  TENON_CHECK(!parameters.empty(), ValueError,
              "optimizer: expected at least one parameter, got none (a module names its own in members())");
  const std::vector<Tensor> present = this->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    TENON_CHECK(p.defined() && p.is_leaf() && p.requires_grad(), AutogradError, "optimizer: parameter ", i,
                ": expected a leaf that requires grad, got ",
                !p.defined()        ? "an undefined tensor"
                : p.requires_grad() ? "a computed tensor"
                                    : "a tensor that does not require grad");
    for (std::size_t j = 0; j < i; ++j)
      TENON_CHECK(!p.is_same(parameters[j]), ValueError, "optimizer: parameters ", j, " and ", i,
                  " are the same tensor, which would be updated twice");
    for (const Tensor& other : present)
      TENON_CHECK(!p.is_same(other), ValueError, "optimizer: parameter ", i, " is in another group already");
    TENON_CHECK(!group.capturable || p.device() == parameters[0].device(), DeviceError,
                "optimizer: capturable: expected the parameters of a group on one device, got ", parameters[0].device(),
                " and ", p.device());
  }
  for (Tensor& p : parameters) group.entries.push_back({static_cast<Tensor&&>(p), {}, 0, 1});
  groups_.push_back(static_cast<Group&&>(group));
}

Optimizer::Group& Optimizer::at(std::size_t group) {
  TENON_CHECK(group < groups_.size(), IndexError, "optimizer: group: expected less than ", groups_.size(), ", got ",
              group);
  return groups_[group];
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Group& g : groups_)
    for (const Entry& e : g.entries) all.push_back(e.parameter);
  return all;
}

void Optimizer::set_learning_rate(double lr) {
  for (std::size_t g = 0; g < groups_.size(); ++g) set_learning_rate(g, lr);
}
void Optimizer::set_learning_rate(std::size_t group, double lr) {
  TENON_CHECK(lr >= 0, ValueError, "optimizer: lr: must not be negative, got ", lr);
  Group& g = at(group);
  g.lr = lr;
  const NoGradGuard no_grad;
  if (g.clock.defined()) g.clock.select(0, 0).fill_(lr);
}
double Optimizer::momentum(std::size_t group) const {
  const Group& g = at(group);
  TENON_CHECK(g.momentum, ValueError, "optimizer: momentum: this optimizer has none");
  return g.*g.momentum;
}
void Optimizer::set_momentum(std::size_t group, double momentum) {
  this->momentum(group);
  TENON_CHECK(momentum >= 0, ValueError, "optimizer: momentum: must not be negative, got ", momentum);
  Group& g = at(group);
  g.*g.momentum = momentum;
}

void Optimizer::zero_grad(bool set_to_none) {
  const NoGradGuard no_grad;
  for (const Group& group : groups_)
    for (const Entry& e : group.entries) {
      Tensor g = e.parameter.grad();
      if (!g.defined()) continue;
      if (set_to_none)
        e.parameter.set_grad({});
      else
        g.zero_();
    }
}

Tensor Optimizer::step(Function<Tensor()> closure) {
  Tensor loss;
  {
    const GradModeGuard recorded(true);
    loss = closure();
  }
  step();
  return loss;
}

namespace {
std::string state_name(std::size_t i, std::string_view what) {
  return "state." + std::to_string(i) + "." + std::string(what);
}
Tensor number(double value) { return full({}, value, TensorOptions(kFloat64)); }
}  // namespace

NamedTensors Optimizer::state_dict() const {
  const NoGradGuard no_grad;
  NamedTensors all;
  std::size_t i = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const std::string prefix = "groups." + std::to_string(g) + ".";
    all.emplace_back(prefix + "lr", number(group.lr));
    if (group.momentum) all.emplace_back(prefix + "momentum", number(group.*group.momentum));
    if (group.clock.defined()) all.emplace_back(prefix + "clock", group.clock);
    for (const Entry& e : group.entries) {
      if (e.step != 0) all.emplace_back(state_name(i, "step"), number(static_cast<double>(e.step)));
      if (e.product != 1) all.emplace_back(state_name(i, "mu_product"), number(e.product));
      for (int s = 0; s < 4; ++s)
        if (e.state[s].defined()) all.emplace_back(state_name(i, s == 0 ? "master" : group.names[s - 1]), e.state[s]);
      ++i;
    }
  }
  return all;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  const NoGradGuard no_grad;
  std::vector<bool> used(state.size(), false);
  const auto find = [&](const std::string& name) -> const Tensor* {
    for (std::size_t i = 0; i < state.size(); ++i)
      if (state[i].first == name) {
        TENON_CHECK(state[i].second.defined(), ValueError, "load_state_dict: ", name, " is undefined");
        used[i] = true;
        return &state[i].second;
      }
    return nullptr;
  };
  const auto read = [&](const std::string& name, double& to) {
    const Tensor* t = find(name);
    if (!t) return false;
    TENON_CHECK(t->numel() == 1, ShapeError, "load_state_dict: ", name, ": expected one number, got sizes ",
                t->sizes());
    to = t->to(kFloat64).item<double>();
    return true;
  };
  // Everything is built first: what does not fit must change nothing.
  std::vector<Group> loaded;
  std::size_t i = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group group = groups_[g];
    const std::string prefix = "groups." + std::to_string(g) + ".";
    TENON_CHECK(read(prefix + "lr", group.lr), ValueError, "load_state_dict: ", prefix, "lr is missing");
    if (group.momentum) read(prefix + "momentum", group.*group.momentum);
    group.clock = {};
    if (const Tensor* clock = find(prefix + "clock")) {
      TENON_CHECK(group.capturable && clock->numel() == 2, ValueError, "load_state_dict: ", prefix,
                  "clock: expected two numbers, and options with capturable");
      group.clock = clock->to(group.entries[0].parameter.device(), kFloat64).clone();
    }
    for (Entry& e : group.entries) {
      double step = 0;
      const bool stepped = read(state_name(i, "step"), step);
      e.step = static_cast<int64_t>(step), e.product = 1;
      read(state_name(i, "mu_product"), e.product);
      for (int s = 0; s < 4; ++s) {
        e.state[s] = {};
        const char* what = s == 0 ? "master" : group.names[s - 1];
        const bool kept = s == 0 ? group.master_weights && item_size(e.parameter.dtype()) < 4
                                 : (group.flags & (kFirstState << (s - 1))) != 0;
        const Tensor* given = kept ? find(state_name(i, what)) : nullptr;
        TENON_CHECK(given || !kept || !stepped, ValueError, "load_state_dict: ", state_name(i, what), " is missing");
        if (!given) continue;
        const Tensor like = is_complex(e.parameter.dtype()) ? view_as_real(e.parameter.detach()) : e.parameter.detach();
        const DType wide = item_size(like.dtype()) < 4 ? kFloat32 : like.dtype();
        TENON_CHECK(given->sizes() == like.sizes(), ShapeError, "load_state_dict: ", state_name(i, what),
                    ": expected sizes ", like.sizes(), ", got ", given->sizes());
        e.state[s] = empty_like(like, TensorOptions(wide)).copy_(*given);
      }
      ++i;
    }
    loaded.push_back(static_cast<Group&&>(group));
  }
  for (std::size_t k = 0; k < state.size(); ++k)
    TENON_CHECK(used[k], ValueError, "load_state_dict: ", state[k].first, " is unexpected");
  groups_ = static_cast<std::vector<Group>&&>(loaded);
}

void RuleOptimizer::step() {
  const NoGradGuard no_grad;
  std::vector<Entry*> batch;
  std::vector<bool> done;
  for (Group& group : groups_) {
    done.assign(group.entries.size(), false);
    // Usually one batch takes all; each round takes what is like the first one left.
    for (std::size_t begin = 0; begin < group.entries.size(); ++begin) {
      if (done[begin]) continue;
      const Entry& first = group.entries[begin];
      if (!first.parameter.grad().defined()) continue;
      batch.clear();
      for (std::size_t i = begin; i < group.entries.size(); ++i) {
        Entry& e = group.entries[i];
        if (done[i] || e.step != first.step || e.product != first.product ||
            e.parameter.dtype() != first.parameter.dtype() || e.parameter.device() != first.parameter.device() ||
            !e.parameter.grad().defined())
          continue;
        done[i] = true;
        batch.push_back(&e);
      }
      update(group, batch);
    }
  }
}

void RuleOptimizer::update(Group& group, std::span<Entry* const> entries) {
  const DType dtype = entries[0]->parameter.dtype();
  const Device device = entries[0]->parameter.device();
  const bool small = item_size(dtype) < 4, complex = is_complex(dtype);
  const auto rule = static_cast<OptimizerRule>(group.rule);
  const auto step = static_cast<double>(entries[0]->step + 1);
  TENON_CHECK(group.capturable || device.is_cpu() || !current_stream(device).is_capturing() ||
                  (rule == OptimizerRule::sgd && (step > 1 || !(group.flags & kFirstState))),
              CaptureError,
              "optimizer: step: the number of the step would be part of the graph; set capturable (Adam, AdamW)");
  const int64_t flags = group.flags | (small && group.master_weights ? kMasterWeights : 0);
  std::vector<Tensor> parameters, gradients, states, all;
  for (Entry* e : entries) {
    const Tensor &p = e->parameter, g = p.grad();
    parameters.push_back(complex ? view_as_real(p.detach()) : p.detach());
    gradients.push_back(complex ? view_as_real(g.detach()) : g);
  }
  for (int s = 0; s < 4; ++s) {
    if (!(flags & (s == 0 ? kMasterWeights : kFirstState << (s - 1)))) continue;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Tensor& state = entries[i]->state[s];
      const Tensor& p = parameters[i];
      if (!state.defined()) {
        const TensorOptions wide(small ? kFloat32 : p.dtype());
        if (s == 0)
          state = p.to(kFloat32);
        else
          state = s == 1 && group.initial != 0 ? full_like(p, group.initial, wide) : zeros_like(p, wide);
      }
      if (state.device() != device) state = state.to(device);  // the module was moved
      if (state.dtype() != (small ? kFloat32 : p.dtype())) state = state.to(p.dtype());
      states.push_back(state);
    }
  }
  double e = 0, f = 0;
  if (rule == OptimizerRule::nadam) {
    const auto momentum = [&](double t) { return group.a * (1 - 0.5 * std::pow(0.96, t * group.momentum_decay)); };
    const double product = entries[0]->product * momentum(step), next = momentum(step + 1);
    e = group.lr * (1 - momentum(step)) / (1 - product), f = group.lr * next / (1 - product * next);
    for (Entry* entry : entries) entry->product = product;
  }
  if (group.capturable) {
    if (!group.clock.defined()) {
      group.clock = full({2}, group.lr, TensorOptions(kFloat64).device(device));
      group.clock.select(0, 1).fill_(step - 1);
    }
    if (group.clock.device() != device) group.clock = group.clock.to(device);
    group.clock.select(0, 1).add_(1);
  }
  all = parameters;
  all.insert(all.end(), states.begin(), states.end());
  op::optimizer_step.out(all, parameters, gradients, states, group.clock, group.rule, flags, group.lr, step, group.a,
                         group.b, group.c, group.d, e, f);
  for (Entry* entry : entries) ++entry->step;
}

}  // namespace tenon::optim

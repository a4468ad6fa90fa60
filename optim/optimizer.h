// SPDX-License-Identifier: Apache-2.0
// Optimizers change parameters from their gradients. Steps are not recorded. Parameters without a gradient are left
// alone. State lies beside each parameter and follows it to another device.
//
//   optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optim::AdamW optimizer({{model.body.parameters(), {.lr = 1e-3}}, {model.head.parameters(), {.lr = 1e-2}}});
//
// All parameters of one group, dtype, device and number of steps are updated by one operator (ops/optimizer_step.h): on
// CUDA one launch. Parameters of 16 bits are updated in float32: a copy of them, the master weights, is part of the state
// unless the options say otherwise; their other state is float32 always.
// Thread safety: one thread at a time.
#pragma once

#include <tenon/core/function.h>
#include <tenon/core/tensor.h>

#include <string>
#include <utility>

namespace tenon::optim {

/// Names and tensors, as data/safetensors.h saves and loads them.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

class TENON_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) noexcept;

  /// One update of every parameter that has a gradient.
  virtual void step() = 0;
  /// Calls `closure` with gradients recorded, which clears the gradients, computes the loss, runs backward and returns the
  /// loss; then step(). Returns the loss. LBFGS calls it several times.
  virtual Tensor step(Function<Tensor()> closure);
  /// Drops the gradients (set_to_none) or fills them with zeros.
  void zero_grad(bool set_to_none = true);

  std::size_t group_count() const { return groups_.size(); }
  /// All parameters, group by group.
  std::vector<Tensor> parameters() const;
  double learning_rate(std::size_t group = 0) const { return at(group).lr; }
  /// Of all groups, or of one. ValueError when negative.
  void set_learning_rate(double lr);
  void set_learning_rate(std::size_t group, double lr);
  /// The momentum of SGD and RMSprop, beta1 of the Adam family; ValueError for those without.
  double momentum(std::size_t group = 0) const;
  void set_momentum(std::size_t group, double momentum);

  /// Learning rates ("groups.0.lr"), numbers of steps ("state.3.step") and tensors of state ("state.3.exp_avg"), numbered
  /// as parameters() are. The tensors are the state itself, not copies.
  virtual NamedTensors state_dict() const;
  /// Copies a state_dict() of an optimizer with the same parameters. ValueError naming what is missing, unexpected or of
  /// another shape, before anything is changed.
  virtual void load_state_dict(const NamedTensors& state);

 protected:
  /// A parameter and what an optimizer remembers of it. state[0] are the master weights.
  struct Entry {
    Tensor parameter;
    Tensor state[4];
    int64_t step = 0;
    double product = 1;  // of NAdam's momenta
  };
  /// How parameters are updated: rule, flags and numbers of ops/optimizer_step.h.
  struct Group {
    std::vector<Entry> entries;
    double lr = 0;
    int64_t rule = 0, flags = 0;
    double a = 0, b = 0, c = 0, d = 0;
    double momentum_decay = 0;
    double initial = 0;                   ///< value of the first state before the first step
    double Group::*momentum = nullptr;    ///< which number is the momentum
    const char* names[3] = {"", "", ""};  ///< of the states
    bool master_weights = true, capturable = false;
    Tensor clock;  ///< [lr, step] on the device, when capturable
  };
  Optimizer() = default;
  /// Adds parameters with the rest of `group`. ValueError or AutogradError for one that cannot be trained or is there already.
  void append(std::vector<Tensor> parameters, Group group);
  Group& at(std::size_t group);
  const Group& at(std::size_t group) const { return const_cast<Optimizer*>(this)->at(group); }

  std::vector<Group> groups_;
};

/// Parameters that share options.
template <class Options>
struct ParameterGroup {
  std::vector<Tensor> parameters;
  Options options = {};
};

/// An optimizer whose update is one of the rules of ops/optimizer_step.h.
class TENON_API RuleOptimizer : public Optimizer {
 public:
  using Optimizer::step;
  void step() override;

 private:
  struct Batch;  // the tensors of one call
  void update(Group& group, std::span<Entry* const> entries);
};

/// The optimizer of `Options`: SGD, Adam, …
template <class Options>
class OptimizerOf : public RuleOptimizer {
 public:
  using Parameters = ParameterGroup<Options>;
  explicit OptimizerOf(std::vector<Tensor> parameters, const Options& options = {}) {
    add_group({static_cast<std::vector<Tensor>&&>(parameters), options});
  }
  explicit OptimizerOf(std::vector<Parameters> groups) {
    for (Parameters& g : groups) add_group(static_cast<Parameters&&>(g));
  }
  void add_group(Parameters group) {
    Group rule;
    set_rule(group.options, rule);
    append(static_cast<std::vector<Tensor>&&>(group.parameters), static_cast<Group&&>(rule));
  }

 private:
  TENON_API static void set_rule(const Options& options, Group& group);
};

}  // namespace tenon::optim

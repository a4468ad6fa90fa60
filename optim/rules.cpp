// SPDX-License-Identifier: Apache-2.0
// From options to the numbers of ops/optimizer_step.h.
#include <tenon/ops/optimizer_step.h>
#include <tenon/optim/adadelta.h>
#include <tenon/optim/adagrad.h>
#include <tenon/optim/adam.h>
#include <tenon/optim/rmsprop.h>
#include <tenon/optim/sgd.h>

namespace tenon::optim {
namespace {

void check(const char* optimizer, const char* name, double value, bool fits, const char* expected) {
  TENON_CHECK(fits, ValueError, optimizer, ": ", name, ": expected ", expected, ", got ", value);
}
void check_not_negative(const char* optimizer, const char* name, double value) {
  check(optimizer, name, value, value >= 0, "a number >= 0");
}
void check_share(const char* optimizer, const char* name, double value) {
  check(optimizer, name, value, value >= 0 && value < 1, "a number in [0, 1)");
}

// What most options have.
template <class Group, class Options>
void set_common(const char* optimizer, const Options& o, Group& g, OptimizerRule rule) {
  check_not_negative(optimizer, "lr", o.lr);
  check_not_negative(optimizer, "weight_decay", o.weight_decay);
  g.rule = static_cast<int64_t>(rule);
  g.lr = o.lr, g.c = o.weight_decay, g.master_weights = o.master_weights;
  if (o.maximize) g.flags |= kMaximize;
  if constexpr (requires { o.eps; }) check_not_negative(optimizer, "eps", g.d = o.eps);
}
template <class Group, class Options>
void set_adam(const char* optimizer, const Options& o, Group& g, OptimizerRule rule) {
  set_common(optimizer, o, g, rule);
  check_share(optimizer, "beta1", g.a = o.beta1);
  check_share(optimizer, "beta2", g.b = o.beta2);
  g.flags |= kFirstState | kSecondState;
  g.names[0] = "exp_avg", g.names[1] = "exp_avg_sq", g.names[2] = "max_exp_avg_sq";
  g.momentum = &Group::a;
  if constexpr (requires { o.amsgrad; }) g.flags |= o.amsgrad ? kThirdState : 0;
  if constexpr (requires { o.capturable; }) g.capturable = o.capturable;
}

}  // namespace

template <>
TENON_API void OptimizerOf<SGDOptions>::set_rule(const SGDOptions& o, Group& g) {
  set_common("SGD", o, g, OptimizerRule::sgd);
  check_not_negative("SGD", "momentum", g.a = o.momentum);
  TENON_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), ValueError,
              "SGD: nesterov needs a momentum and no dampening");
  g.b = o.dampening, g.names[0] = "momentum_buffer", g.momentum = &Group::a;
  g.flags |= (o.momentum != 0 ? kFirstState : 0) | (o.nesterov ? kNesterov : 0);
}
template <>
TENON_API void OptimizerOf<AdamOptions>::set_rule(const AdamOptions& o, Group& g) {
  set_adam("Adam", o, g, OptimizerRule::adam);
}
template <>
TENON_API void OptimizerOf<AdamWOptions>::set_rule(const AdamWOptions& o, Group& g) {
  set_adam("AdamW", o, g, OptimizerRule::adam);
  g.flags |= kDecoupledDecay;
}
template <>
TENON_API void OptimizerOf<NAdamOptions>::set_rule(const NAdamOptions& o, Group& g) {
  set_adam("NAdam", o, g, OptimizerRule::nadam);
  check_not_negative("NAdam", "momentum_decay", g.momentum_decay = o.momentum_decay);
  g.flags |= o.decoupled_weight_decay ? kDecoupledDecay : 0;
}
template <>
TENON_API void OptimizerOf<RMSpropOptions>::set_rule(const RMSpropOptions& o, Group& g) {
  set_common("RMSprop", o, g, OptimizerRule::rmsprop);
  check_not_negative("RMSprop", "alpha", g.a = o.alpha);
  check_not_negative("RMSprop", "momentum", g.b = o.momentum);
  g.flags |= kFirstState | (o.momentum != 0 ? kSecondState : 0) | (o.centered ? kThirdState : 0);
  g.names[0] = "square_avg", g.names[1] = "momentum_buffer", g.names[2] = "grad_avg";
  g.momentum = &Group::b;
}
template <>
TENON_API void OptimizerOf<AdagradOptions>::set_rule(const AdagradOptions& o, Group& g) {
  set_common("Adagrad", o, g, OptimizerRule::adagrad);
  check_not_negative("Adagrad", "lr_decay", g.a = o.lr_decay);
  check_not_negative("Adagrad", "initial_accumulator_value", g.initial = o.initial_accumulator_value);
  g.flags |= kFirstState, g.names[0] = "sum";
}
template <>
TENON_API void OptimizerOf<AdadeltaOptions>::set_rule(const AdadeltaOptions& o, Group& g) {
  set_common("Adadelta", o, g, OptimizerRule::adadelta);
  check("Adadelta", "rho", g.a = o.rho, o.rho >= 0 && o.rho <= 1, "a number in [0, 1]");
  g.flags |= kFirstState | kSecondState, g.names[0] = "square_avg", g.names[1] = "acc_delta";
}

}  // namespace tenon::optim

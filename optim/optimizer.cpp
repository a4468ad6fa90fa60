// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/unary.h>
#include <tenon/optim/optimizer.h>

#include <cmath>

namespace tenon::optim {

Optimizer::Optimizer(std::vector<Tensor> parameters, double learning_rate) : parameters_(std::move(parameters)) {
  TENON_CHECK(!parameters_.empty(), ValueError,
              "optimizer: expected at least one parameter, got none (a module names its own in members())");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    TENON_CHECK(p.defined() && p.is_leaf() && p.requires_grad(), AutogradError, "optimizer: parameter ", i,
                ": expected a leaf that requires grad, got ",
                !p.defined()        ? "an undefined tensor"
                : p.requires_grad() ? "a computed tensor"
                                    : "a tensor that does not require grad");
    for (std::size_t j = 0; j < i; ++j)
      TENON_CHECK(!p.is_same(parameters_[j]), ValueError, "optimizer: parameters ", j, " and ", i,
                  " are the same tensor, which would be updated twice");
  }
  set_learning_rate(learning_rate);
}
Optimizer::~Optimizer() = default;

void Optimizer::set_learning_rate(double lr) {
  TENON_CHECK(lr >= 0, ValueError, "optimizer: lr: must not be negative, got ", lr);
  learning_rate_ = lr;
}

void Optimizer::step() {
  const NoGradGuard no_grad;
  begin_step();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor g = parameters_[i].grad();
    if (g.defined()) update(i, parameters_[i], g);
  }
}

void Optimizer::zero_grad(bool set_to_none) {
  const NoGradGuard no_grad;
  for (const Tensor& p : parameters_) {
    Tensor g = p.grad();
    if (!g.defined()) continue;
    if (set_to_none)
      p.set_grad({});
    else
      g.zero_();
  }
}

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options)
    : Optimizer(std::move(parameters), options.lr), options_(options), velocity_(this->parameters().size()) {
  TENON_CHECK(options.momentum >= 0 && options.weight_decay >= 0, ValueError,
              "SGD: momentum and weight_decay must not be negative");
  TENON_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0), ValueError,
              "SGD: nesterov needs a momentum and no dampening");
}

void SGD::update(std::size_t i, Tensor& parameter, const Tensor& gradient) {
  Tensor g = options_.weight_decay == 0 ? gradient : gradient.add(parameter, options_.weight_decay);
  if (options_.momentum != 0) {
    Tensor& v = velocity_[i];
    if (!v.defined())
      v = g.clone();
    else
      v.mul_(options_.momentum).add_(g, 1 - options_.dampening);
    g = options_.nesterov ? g.add(v, options_.momentum) : v;
  }
  parameter.sub_(g, learning_rate());
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters), options.lr),
      options_(options),
      mean_(this->parameters().size()),
      square_(mean_.size()) {
  TENON_CHECK(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, ValueError,
              "AdamW: beta1 and beta2: expected values in [0, 1), got ", options.beta1, " and ", options.beta2);
  TENON_CHECK(options.eps >= 0 && options.weight_decay >= 0, ValueError,
              "AdamW: eps and weight_decay must not be negative");
}

void AdamW::update(std::size_t i, Tensor& parameter, const Tensor& gradient) {
  Tensor &m = mean_[i], &v = square_[i];
  if (!m.defined()) {
    m = zeros_like(parameter);
    v = zeros_like(parameter);
  }
  const double lr = learning_rate();
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(step_));
  const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(step_));
  if (options_.weight_decay != 0) parameter.mul_(1 - lr * options_.weight_decay);
  m.mul_(options_.beta1).add_(gradient, 1 - options_.beta1);
  v.mul_(options_.beta2).add_(square(gradient), 1 - options_.beta2);
  Tensor denominator = v.sqrt().mul_(1 / std::sqrt(correction2)).add_(options_.eps);
  parameter.sub_(m / denominator, lr / correction1);
}

}  // namespace tenon::optim

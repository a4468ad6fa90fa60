// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/ternary.h>
#include <tenon/optim/moving_average.h>

#include <algorithm>

namespace tenon::optim {

ExponentialMovingAverage::ExponentialMovingAverage(std::vector<Tensor> parameters, double decay, bool warmup)
    : parameters_(static_cast<std::vector<Tensor>&&>(parameters)), decay_(decay), warmup_(warmup) {
  TENON_CHECK(decay >= 0 && decay <= 1, ValueError,
              "ExponentialMovingAverage: decay: expected a number in [0, 1], got ", decay);
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    TENON_CHECK(p.defined(), ValueError, "ExponentialMovingAverage: parameter ", i, " is undefined");
    averages_.push_back(item_size(p.dtype()) < 4 && is_floating_point(p.dtype()) ? p.detach().to(kFloat32)
                                                                                 : p.detach().clone());
  }
}

void ExponentialMovingAverage::update() {
  const NoGradGuard no_grad;
  const auto t = static_cast<double>(updates_++);
  const double decay = warmup_ ? std::min(decay_, (1 + t) / (10 + t)) : decay_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor p = parameters_[i].detach();
    Tensor& average = averages_[i];
    if (average.device() != p.device()) average = average.to(p.device());
    if (is_floating_point(p.dtype()) || is_complex(p.dtype()))
      average.copy_(lerp(average, p.to(average.dtype()), 1 - decay));
    else
      average.copy_(p);
  }
}

void ExponentialMovingAverage::copy_to() const {
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].detach().copy_(averages_[i]);
}
void ExponentialMovingAverage::swap() {
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor kept = parameters_[i].detach().to(averages_[i].dtype()).clone();
    parameters_[i].detach().copy_(averages_[i]);
    averages_[i].copy_(kept);
  }
}

NamedTensors ExponentialMovingAverage::state_dict() const {
  NamedTensors all{{"updates", full({}, static_cast<double>(updates_), TensorOptions(kFloat64))}};
  for (std::size_t i = 0; i < averages_.size(); ++i) all.emplace_back("average." + std::to_string(i), averages_[i]);
  return all;
}
void ExponentialMovingAverage::load_state_dict(const NamedTensors& state) {
  const NoGradGuard no_grad;
  TENON_CHECK(state.size() == averages_.size() + 1 && state[0].first == "updates", ValueError,
              "load_state_dict: expected updates and ", averages_.size(), " averages, got ", state.size(), " tensors");
  for (std::size_t i = 0; i < averages_.size(); ++i)
    TENON_CHECK(state[i + 1].second.sizes() == averages_[i].sizes(), ShapeError,
                "load_state_dict: ", state[i + 1].first, ": expected sizes ", averages_[i].sizes(), ", got ",
                state[i + 1].second.sizes());
  updates_ = static_cast<int64_t>(state[0].second.item<double>());
  for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].copy_(state[i + 1].second);
}

}  // namespace tenon::optim

// SPDX-License-Identifier: Apache-2.0
#include <tenon/ops/factory.h>
#include <tenon/optim/reduce_on_plateau.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.maximize ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity()) {
  TENON_CHECK(options.factor > 0 && options.factor < 1, ValueError,
              "ReduceLROnPlateau: factor: expected a number in (0, 1), got ", options.factor);
  TENON_CHECK(options.patience >= 0 && options.cooldown >= 0 && options.threshold >= 0, ValueError,
              "ReduceLROnPlateau: patience, cooldown and threshold must not be negative");
}

void ReduceLROnPlateau::step(double measure) {
  const double sign = options_.maximize ? -1 : 1;
  // The first measure is better than infinity by any margin.
  const double margin = !std::isfinite(best_) ? 0 : options_.relative ? options_.threshold * best_ : options_.threshold;
  if (sign * measure < sign * best_ - margin) {
    best_ = measure;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) --cooling_, bad_ = 0;
  if (bad_ <= options_.patience) return;
  for (std::size_t g = 0; g < optimizer_.group_count(); ++g) {
    const double lr = optimizer_.learning_rate(g), lower = std::max(lr * options_.factor, options_.min_lr);
    if (lr - lower > options_.eps) optimizer_.set_learning_rate(g, lower);
  }
  cooling_ = options_.cooldown;
  bad_ = 0;
}

NamedTensors ReduceLROnPlateau::state_dict() const {
  return {
      {"plateau", from_vector(std::vector<double>{best_, static_cast<double>(bad_), static_cast<double>(cooling_)})}};
}
void ReduceLROnPlateau::load_state_dict(const NamedTensors& state) {
  TENON_CHECK(state.size() == 1 && state[0].first == "plateau" && state[0].second.numel() == 3, ValueError,
              "load_state_dict: expected three numbers named plateau");
  const Tensor numbers = state[0].second.to(kFloat64);
  best_ = numbers[0].item<double>();
  bad_ = static_cast<int64_t>(numbers[1].item<double>()), cooling_ = static_cast<int64_t>(numbers[2].item<double>());
}

}  // namespace tenon::optim

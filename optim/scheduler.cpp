// SPDX-License-Identifier: Apache-2.0
#include <tenon/ops/factory.h>
#include <tenon/optim/scheduler.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tenon::optim {
namespace {

constexpr double kPi = std::numbers::pi;

void check_positive(const char* who, const char* name, int64_t value) {
  TENON_CHECK(value > 0, ValueError, who, ": ", name, ": expected a number above 0, got ", value);
}
double half_cosine(double from, double to, double share) { return to + (from - to) / 2 * (1 + std::cos(kPi * share)); }

}  // namespace

Schedule steps(int64_t step_size, double gamma) {
  check_positive("StepLR", "step_size", step_size);
  return [=](double lr, int64_t t) { return lr * std::pow(gamma, static_cast<double>(t / step_size)); };
}
Schedule multi_step(std::vector<int64_t> milestones, double gamma) {
  return [milestones = std::move(milestones), gamma](double lr, int64_t t) {
    const auto reached = std::count_if(milestones.begin(), milestones.end(), [&](int64_t m) { return m <= t; });
    return lr * std::pow(gamma, static_cast<double>(reached));
  };
}
Schedule exponential(double gamma) {
  return [=](double lr, int64_t t) { return lr * std::pow(gamma, static_cast<double>(t)); };
}
Schedule constant(double factor, int64_t total) {
  return [=](double lr, int64_t t) { return t < total ? lr * factor : lr; };
}
Schedule linear(double start, double end, int64_t total) {
  check_positive("LinearLR", "total_iters", total);
  TENON_CHECK(start > 0 && start <= 1 && end >= 0 && end <= 1, ValueError,
              "LinearLR: expected start_factor in (0, 1] and end_factor in [0, 1], got ", start, " and ", end);
  return [=](double lr, int64_t t) {
    return lr * (start + (end - start) * static_cast<double>(std::min(t, total)) / static_cast<double>(total));
  };
}
Schedule polynomial(int64_t total, double power) {
  check_positive("PolynomialLR", "total_iters", total);
  return [=](double lr, int64_t t) {
    return lr * std::pow(1 - static_cast<double>(std::min(t, total)) / static_cast<double>(total), power);
  };
}
Schedule cosine(int64_t half_period, double least) {
  check_positive("CosineAnnealingLR", "t_max", half_period);
  return [=](double lr, int64_t t) {
    return half_cosine(lr, least, static_cast<double>(t) / static_cast<double>(half_period));
  };
}
Schedule cosine_restarts(int64_t first, int64_t growth, double least) {
  check_positive("CosineAnnealingWarmRestarts", "t_0", first);
  check_positive("CosineAnnealingWarmRestarts", "t_mult", growth);
  return [=](double lr, int64_t t) {
    int64_t period = first;
    if (growth == 1)
      t %= first;
    else
      for (; t >= period; period *= growth) t -= period;
    return half_cosine(lr, least, static_cast<double>(t) / static_cast<double>(period));
  };
}
Schedule lambda(Function<double(int64_t)> factor) {
  return [factor = std::move(factor)](double lr, int64_t t) mutable { return lr * factor(t); };
}
Schedule sequential(std::vector<Schedule> parts, std::vector<int64_t> milestones) {
  TENON_CHECK(parts.size() == milestones.size() + 1, ValueError, "SequentialLR: expected one milestone fewer than the ",
              parts.size(), " schedules, got ", milestones.size());
  TENON_CHECK(std::is_sorted(milestones.begin(), milestones.end()), ValueError,
              "SequentialLR: milestones: expected increasing numbers");
  return [parts = std::move(parts), milestones = std::move(milestones)](double lr, int64_t t) mutable {
    const auto after = std::upper_bound(milestones.begin(), milestones.end(), t);
    const auto i = static_cast<std::size_t>(after - milestones.begin());
    return parts[i](lr, i == 0 ? t : t - milestones[i - 1]);
  };
}
Schedule chained(std::vector<Schedule> parts) {
  return [parts = std::move(parts)](double lr, int64_t t) mutable {
    for (Schedule& part : parts) lr = part(lr, t);
    return lr;
  };
}

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule)
    : optimizer_(optimizer), schedule_(static_cast<Schedule&&>(schedule)) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) initial_.push_back(optimizer.learning_rate(g));
  Scheduler::apply();
}
Scheduler::~Scheduler() = default;

void Scheduler::step() {
  ++step_;
  try {
    apply();
  } catch (...) {
    --step_;
    throw;
  }
}
void Scheduler::apply() {
  for (std::size_t g = 0; g < initial_.size(); ++g) optimizer_.set_learning_rate(g, schedule_(initial_[g], step_));
}
std::vector<double> Scheduler::last_lr() const {
  std::vector<double> all;
  for (std::size_t g = 0; g < optimizer_.group_count(); ++g) all.push_back(optimizer_.learning_rate(g));
  return all;
}

NamedTensors Scheduler::state_dict() const {
  const TensorOptions wide(kFloat64);
  NamedTensors all{{"step", full({}, static_cast<double>(step_), wide)}};
  for (std::size_t g = 0; g < initial_.size(); ++g)
    all.emplace_back("initial_lr." + std::to_string(g), full({}, initial_[g], wide));
  return all;
}
void Scheduler::load_state_dict(const NamedTensors& state) {
  TENON_CHECK(state.size() == initial_.size() + 1, ValueError, "load_state_dict: expected ", initial_.size() + 1,
              " numbers, got ", state.size());
  std::vector<double> numbers(state.size());
  std::size_t found = 0;
  for (const auto& [name, tensor] : state)
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (name == (i == 0 ? "step" : "initial_lr." + std::to_string(i - 1)))
        numbers[i] = tensor.to(kFloat64).item<double>(), ++found;
  TENON_CHECK(found == numbers.size(), ValueError, "load_state_dict: expected step and initial_lr.0 to initial_lr.",
              initial_.size() - 1);
  step_ = static_cast<int64_t>(numbers[0]);
  initial_.assign(numbers.begin() + 1, numbers.end());
  apply();
}

namespace {
// Where the policy is at step t: between which two of {first, top, last} and how far.
struct CyclePhase {
  int from, to;
  double share;
};
CyclePhase cycle_phase(const OneCycleOptions& o, int64_t t) {
  const auto total = static_cast<double>(o.total_steps), at = static_cast<double>(t);
  const double up = o.pct_start * total - 1, down = o.three_phase ? 2 * o.pct_start * total - 2 : total - 1;
  if (at <= up) return {0, 1, up == 0 ? 1 : at / up};
  if (!o.three_phase) return {1, 2, (at - up) / (down - up)};
  if (at <= down) return {1, 0, (at - up) / (down - up)};
  return {0, 2, (at - down) / (total - 1 - down)};
}
double between(const OneCycleOptions& o, double from, double to, double share) {
  return o.cosine ? half_cosine(from, to, share) : from + (to - from) * share;
}
Schedule one_cycle(const OneCycleOptions& o) {
  check_positive("OneCycleLR", "total_steps", o.total_steps);
  TENON_CHECK(o.max_lr > 0 && o.div_factor > 0 && o.final_div_factor > 0, ValueError,
              "OneCycleLR: max_lr, div_factor and final_div_factor must be above 0");
  TENON_CHECK(o.pct_start >= 0 && o.pct_start <= 1, ValueError,
              "OneCycleLR: pct_start: expected a number in [0, 1], got ", o.pct_start);
  return [o](double, int64_t t) {
    const double rates[] = {o.max_lr / o.div_factor, o.max_lr, o.max_lr / o.div_factor / o.final_div_factor};
    const CyclePhase p = cycle_phase(o, t);
    return between(o, rates[p.from], rates[p.to], p.share);
  };
}
}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleOptions& o)
    : Scheduler(optimizer, one_cycle(o)), options_(o) {
  if (o.cycle_momentum) optimizer.momentum();  // or an error
  OneCycleLR::apply();
}
void OneCycleLR::apply() {
  TENON_CHECK(step_count() < options_.total_steps, ValueError, "OneCycleLR: step: total_steps ", options_.total_steps,
              " are done");
  Scheduler::apply();
  if (!options_.cycle_momentum) return;
  const double momenta[] = {options_.max_momentum, options_.base_momentum, options_.max_momentum};
  const CyclePhase p = cycle_phase(options_, step_count());
  for (std::size_t g = 0; g < optimizer().group_count(); ++g)
    optimizer().set_momentum(g, between(options_, momenta[p.from], momenta[p.to], p.share));
}

}  // namespace tenon::optim

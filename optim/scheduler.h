// SPDX-License-Identifier: Apache-2.0
// Learning rates over time. A Schedule is a function of a group's first learning rate and the number of steps done; a
// Scheduler applies one to an optimizer, at once for step 0 and then at each step():
//
//   optim::CosineAnnealingLR scheduler(optimizer, epochs);
//   for (...) { ...; optimizer.step(); scheduler.step(); }
//
// Schedules compose: SequentialLR(optimizer, {500}, linear(0.01, 1, 500), cosine(9500)) warms up first.
// Thread safety: as the optimizer's.
#pragma once

#include <tenon/optim/optimizer.h>

namespace tenon::optim {

/// Learning rate from that at the beginning and the number of steps done.
using Schedule = Function<double(double lr, int64_t step)>;

/// lr gamma^floor(t / step_size).
TENON_API Schedule steps(int64_t step_size, double gamma = 0.1);
/// lr gamma^(milestones that t has reached).
TENON_API Schedule multi_step(std::vector<int64_t> milestones, double gamma = 0.1);
/// lr gamma^t.
TENON_API Schedule exponential(double gamma);
/// lr times factor until `total` steps are done, then lr.
TENON_API Schedule constant(double factor, int64_t total);
/// lr times a factor that goes from `start` to `end` in `total` steps: a warm-up.
TENON_API Schedule linear(double start = 1.0 / 3, double end = 1, int64_t total = 5);
/// lr (1 - t / total)^power, zero after that.
TENON_API Schedule polynomial(int64_t total, double power = 1);
/// From lr to `least` along half a cosine of `half_period` steps, and back, and so on (Loshchilov and Hutter 2017).
TENON_API Schedule cosine(int64_t half_period, double least = 0);
/// The same, beginning anew after `first` steps, then after `growth` times as many, and so on.
TENON_API Schedule cosine_restarts(int64_t first, int64_t growth = 1, double least = 0);
/// lr times factor(t).
TENON_API Schedule lambda(Function<double(int64_t step)> factor);
/// parts[i] between milestones[i - 1] and milestones[i], each counting from its own beginning.
TENON_API Schedule sequential(std::vector<Schedule> parts, std::vector<int64_t> milestones);
/// One after the other on the same step: factors multiply.
TENON_API Schedule chained(std::vector<Schedule> parts);

/// Refers to the optimizer, which must outlive it.
class TENON_API Scheduler {
 public:
  Scheduler(Optimizer& optimizer, Schedule schedule);
  virtual ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  /// Another step is done: sets the learning rate of every group.
  void step();
  /// Steps done.
  int64_t step_count() const { return step_; }
  /// What step() set last, per group.
  std::vector<double> last_lr() const;
  /// Steps done and the first learning rates; the schedule itself is not part of it.
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 protected:
  Optimizer& optimizer() { return optimizer_; }
  /// Called after each change.
  virtual void apply();

 private:
  Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> initial_;
  int64_t step_ = 0;
};

struct StepLR : Scheduler {
  StepLR(Optimizer& o, int64_t step_size, double gamma = 0.1) : Scheduler(o, steps(step_size, gamma)) {}
};
struct MultiStepLR : Scheduler {
  MultiStepLR(Optimizer& o, std::vector<int64_t> milestones, double gamma = 0.1)
      : Scheduler(o, multi_step(static_cast<std::vector<int64_t>&&>(milestones), gamma)) {}
};
struct ExponentialLR : Scheduler {
  ExponentialLR(Optimizer& o, double gamma) : Scheduler(o, exponential(gamma)) {}
};
struct ConstantLR : Scheduler {
  explicit ConstantLR(Optimizer& o, double factor = 1.0 / 3, int64_t total_iters = 5)
      : Scheduler(o, constant(factor, total_iters)) {}
};
struct LinearLR : Scheduler {
  explicit LinearLR(Optimizer& o, double start_factor = 1.0 / 3, double end_factor = 1, int64_t total_iters = 5)
      : Scheduler(o, linear(start_factor, end_factor, total_iters)) {}
};
struct PolynomialLR : Scheduler {
  explicit PolynomialLR(Optimizer& o, int64_t total_iters = 5, double power = 1)
      : Scheduler(o, polynomial(total_iters, power)) {}
};
struct CosineAnnealingLR : Scheduler {
  CosineAnnealingLR(Optimizer& o, int64_t t_max, double eta_min = 0) : Scheduler(o, cosine(t_max, eta_min)) {}
};
struct CosineAnnealingWarmRestarts : Scheduler {
  CosineAnnealingWarmRestarts(Optimizer& o, int64_t t_0, int64_t t_mult = 1, double eta_min = 0)
      : Scheduler(o, cosine_restarts(t_0, t_mult, eta_min)) {}
};
struct LambdaLR : Scheduler {
  LambdaLR(Optimizer& o, Function<double(int64_t step)> factor)
      : Scheduler(o, lambda(static_cast<Function<double(int64_t)>&&>(factor))) {}
};
/// SequentialLR(optimizer, {500}, linear(0.01, 1, 500), cosine(9500)): milestones, then the schedules between them.
struct SequentialLR : Scheduler {
  template <class... Parts>
  SequentialLR(Optimizer& o, std::vector<int64_t> milestones, Parts&&... parts)
      : Scheduler(o,
                  sequential(list(static_cast<Parts&&>(parts)...), static_cast<std::vector<int64_t>&&>(milestones))) {}

 private:
  template <class... Parts>
  static std::vector<Schedule> list(Parts&&... parts) {
    std::vector<Schedule> all;
    (all.push_back(static_cast<Parts&&>(parts)), ...);
    return all;
  }
};

struct OneCycleOptions {
  double max_lr = 0;
  int64_t total_steps = 0;
  double pct_start = 0.3;      ///< share of the steps in which the learning rate rises
  bool cosine = true;          ///< else linear
  bool cycle_momentum = true;  ///< momentum falls while the learning rate rises
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25, final_div_factor = 1e4;  ///< first rate max_lr / div_factor, last that / final_div_factor
  bool three_phase = false;                        ///< falls as long as it rose, then to the last
};
/// The 1cycle policy (Smith and Topin 2018): up to max_lr and down far below the beginning. ValueError after total_steps.
class TENON_API OneCycleLR : public Scheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleOptions& options);

 private:
  void apply() override;
  OneCycleOptions options_;
};

}  // namespace tenon::optim

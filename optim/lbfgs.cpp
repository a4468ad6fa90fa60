// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/optim/lbfgs.h>

#include <algorithm>
#include <cmath>

namespace tenon::optim {
namespace {

double inner_product(const Tensor& a, const Tensor& b) { return tenon::dot(a, b).to(kFloat64).item<double>(); }
double largest(const Tensor& t) { return t.abs().max().to(kFloat64).item<double>(); }

}  // namespace

struct LBFGS::Point {
  double at = 0, loss = 0, slope = 0;
  Tensor gradient;
};

// The minimum of the cubic through two points with their slopes, within [low, high] (Nocedal and Wright, 3.59).
static double cubic_minimum(double x1, double f1, double g1, double x2, double f2, double g2, double low, double high) {
  if (x1 > x2) std::swap(x1, x2), std::swap(f1, f2), std::swap(g1, g2);
  const double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2), square = d1 * d1 - g1 * g2;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double best = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2));
  return std::min(std::max(best, low), high);
}

struct LBFGS::Search {
  static constexpr double kDecrease = 1e-4, kCurvature = 0.9;
  static constexpr int kMost = 25;
  const Function<Point(double)>& evaluate;
  const Point start;
  double largest_direction, tolerance;
  int count = 0;

  bool falls_short(const Point& p) const { return p.loss > start.loss + kDecrease * p.at * start.slope; }
  bool flat_enough(const Point& p) const { return std::fabs(p.slope) <= -kCurvature * start.slope; }
  Point look(double at) {
    ++count;
    return const_cast<Function<Point(double)>&>(evaluate)(at);
  }

  // Steps further out until two points hold a minimum between them, then closes in.
  Point run(double first) {
    Point before = start, now = look(first);
    for (int i = 0; i < kMost; ++i) {
      if (falls_short(now) || (i > 1 && now.loss >= before.loss)) return close_in(before, now, i);
      if (flat_enough(now)) return now;
      if (now.slope >= 0) return close_in(before, now, i);
      const double next = cubic_minimum(before.at, before.loss, before.slope, now.at, now.loss, now.slope,
                                        now.at + 0.01 * (now.at - before.at), now.at * 10);
      before = now;
      now = look(next);
    }
    return start.loss <= now.loss ? start : now;
  }

  Point close_in(const Point& a, const Point& b, int i) {
    const bool first_lower = a.loss <= b.loss;
    Point low = first_lower ? a : b, high = first_lower ? b : a;
    bool slow = false;  // the last point was close to an end
    for (; i < kMost && std::fabs(high.at - low.at) * largest_direction >= tolerance; ++i) {
      const double left = std::min(low.at, high.at), right = std::max(low.at, high.at), margin = 0.1 * (right - left);
      double at = cubic_minimum(low.at, low.loss, low.slope, high.at, high.loss, high.slope, left, right);
      const bool near = std::min(right - at, at - left) < margin;
      const bool moved = near && (slow || at >= right || at <= left);
      if (moved) at = std::fabs(at - right) < std::fabs(at - left) ? right - margin : left + margin;
      slow = near && !moved;
      const Point p = look(at);
      if (falls_short(p) || p.loss >= low.loss) {
        high = p;
        if (high.loss < low.loss) std::swap(low, high);
        continue;
      }
      if (flat_enough(p)) return p;
      if (p.slope * (high.at - low.at) >= 0) high = low;
      low = p;
    }
    return low;
  }
};

LBFGS::LBFGS(std::vector<Tensor> parameters, const LBFGSOptions& options) : options_(options) {
  TENON_CHECK(options.max_iter > 0 && options.history_size > 0 && options.max_eval >= 0, ValueError,
              "LBFGS: max_iter and history_size must be above 0");
  if (options_.max_eval == 0) options_.max_eval = options.max_iter * 5 / 4;
  for (const Tensor& p : parameters)
    TENON_CHECK(!p.defined() || (p.dtype() == parameters[0].dtype() && p.device() == parameters[0].device() &&
                                 is_floating_point(p.dtype())),
                DtypeError, "LBFGS: expected real parameters of one dtype and device, got ", p.dtype(), " on ",
                p.device());
  Group group;
  group.lr = options.lr;
  append(static_cast<std::vector<Tensor>&&>(parameters), static_cast<Group&&>(group));
  set_learning_rate(options.lr);
}

void LBFGS::step() { TENON_CHECK(false, ValueError, "LBFGS: step: expected a closure that computes the loss"); }

Tensor LBFGS::gradient() const {
  std::vector<Tensor> flat;
  for (const Entry& e : groups_[0].entries) {
    const Tensor g = e.parameter.grad();
    flat.push_back(g.defined() ? g.detach().reshape({-1}) : zeros({e.parameter.numel()}, e.parameter.options()));
  }
  return cat(flat);
}

void LBFGS::move(double distance) {
  int64_t at = 0;
  for (Entry& e : groups_[0].entries) {
    const int64_t n = e.parameter.numel();
    e.parameter.detach().add_(direction_.slice(0, at, at + n).view(e.parameter.sizes()), distance);
    at += n;
  }
}

// Two loops over the remembered changes (algorithm 7.4).
void LBFGS::next_direction(const Tensor& gradient) {
  if (iterations_ == 1) {
    direction_ = gradient.neg();
    return;
  }
  const Tensor y = gradient - previous_gradient_, s = direction_ * distance_;
  const double product = inner_product(y, s);
  if (product > 1e-10) {
    if (changes_of_gradient_.size() == static_cast<std::size_t>(options_.history_size)) {
      changes_of_gradient_.erase(changes_of_gradient_.begin());
      changes_of_position_.erase(changes_of_position_.begin());
      inverse_products_.erase(inverse_products_.begin());
    }
    changes_of_gradient_.push_back(y), changes_of_position_.push_back(s);
    inverse_products_.push_back(1 / product);
    scale_ = product / inner_product(y, y);
  }
  const std::size_t n = inverse_products_.size();
  std::vector<double> alpha(n);
  Tensor q = gradient.neg();
  for (std::size_t i = n; i-- > 0;) {
    alpha[i] = inner_product(changes_of_position_[i], q) * inverse_products_[i];
    q.sub_(changes_of_gradient_[i], alpha[i]);
  }
  q.mul_(scale_);
  for (std::size_t i = 0; i < n; ++i)
    q.add_(changes_of_position_[i], alpha[i] - inner_product(changes_of_gradient_[i], q) * inverse_products_[i]);
  direction_ = q;
}

Tensor LBFGS::step(Function<Tensor()> closure) {
  const NoGradGuard no_grad;
  const auto loss_here = [&] {
    const GradModeGuard recorded(true);
    ++evaluations_;
    return closure();
  };
  const Tensor first = loss_here().detach();
  double loss = first.to(kFloat64).item<double>();
  Tensor g = gradient();
  const double lr = learning_rate();
  int64_t evaluations = 1;
  if (largest(g) <= options_.tolerance_grad) return first;

  for (int64_t i = 1; i <= options_.max_iter; ++i) {
    ++iterations_;
    next_direction(g);
    previous_gradient_ = g;
    previous_loss_ = loss;
    distance_ = iterations_ == 1 ? std::min(1.0, 1 / g.abs().sum().to(kFloat64).item<double>()) * lr : lr;
    const double slope = inner_product(g, direction_);
    if (slope > -options_.tolerance_change) break;  // no way down
    if (options_.strong_wolfe) {
      std::vector<Tensor> origin;
      for (const Entry& e : groups_[0].entries) origin.push_back(e.parameter.detach().clone());
      const auto back = [&] {
        for (std::size_t k = 0; k < origin.size(); ++k) groups_[0].entries[k].parameter.detach().copy_(origin[k]);
      };
      const Function<Point(double)> evaluate = [&](double at) {
        move(at);
        Point p{at, loss_here().to(kFloat64).template item<double>(), 0, gradient()};
        p.slope = inner_product(p.gradient, direction_);
        back();
        return p;
      };
      Search search{evaluate, {0, loss, slope, g}, largest(direction_), options_.tolerance_change};
      const Point found = search.run(distance_);
      evaluations += search.count;
      loss = found.loss, g = found.gradient, distance_ = found.at;
      move(distance_);
    } else {
      move(distance_);
      if (i == options_.max_iter) break;
      loss = loss_here().to(kFloat64).item<double>();
      g = gradient();
      ++evaluations;
    }
    if (evaluations >= options_.max_eval || largest(g) <= options_.tolerance_grad ||
        largest(direction_) * distance_ <= options_.tolerance_change ||
        std::fabs(loss - previous_loss_) < options_.tolerance_change)
      break;
  }
  return first;
}

NamedTensors LBFGS::state_dict() const {
  const NoGradGuard no_grad;
  NamedTensors all = Optimizer::state_dict();
  if (iterations_ == 0) return all;
  all.emplace_back("numbers",
                   from_vector(std::vector<double>{scale_, distance_, previous_loss_, static_cast<double>(iterations_),
                                                   static_cast<double>(evaluations_)}));
  all.emplace_back("direction", direction_);
  all.emplace_back("previous_gradient", previous_gradient_);
  if (inverse_products_.empty()) return all;
  all.emplace_back("changes_of_gradient", stack(changes_of_gradient_));
  all.emplace_back("changes_of_position", stack(changes_of_position_));
  return all;
}

void LBFGS::load_state_dict(const NamedTensors& state) {
  const NoGradGuard no_grad;
  NamedTensors rest;
  Tensor numbers, direction, gradient, y, s;
  for (const auto& [name, tensor] : state) {
    Tensor* const to = name == "numbers"               ? &numbers
                       : name == "direction"           ? &direction
                       : name == "previous_gradient"   ? &gradient
                       : name == "changes_of_gradient" ? &y
                       : name == "changes_of_position" ? &s
                                                       : nullptr;
    if (to)
      *to = tensor;
    else
      rest.emplace_back(name, tensor);
  }
  const Tensor here = this->gradient();
  TENON_CHECK(!numbers.defined() || (numbers.numel() == 5 && direction.defined() && gradient.defined() &&
                                     direction.sizes() == here.sizes() && gradient.sizes() == here.sizes() &&
                                     y.defined() == s.defined() && (!y.defined() || y.sizes() == s.sizes())),
              ValueError, "LBFGS: load_state_dict: expected numbers, direction and previous_gradient of ", here.numel(),
              " elements, and changes of gradient and position together");
  Optimizer::load_state_dict(rest);
  const auto number = [&](int64_t i) { return numbers.defined() ? numbers.to(kFloat64)[i].item<double>() : 0; };
  scale_ = numbers.defined() ? number(0) : 1, distance_ = number(1), previous_loss_ = number(2);
  iterations_ = static_cast<int64_t>(number(3)), evaluations_ = static_cast<int64_t>(number(4));
  const auto moved = [&](const Tensor& t) { return t.to(here.device(), here.dtype()).clone(); };
  direction_ = direction.defined() ? moved(direction) : Tensor();
  previous_gradient_ = gradient.defined() ? moved(gradient) : Tensor();
  changes_of_gradient_.clear(), changes_of_position_.clear(), inverse_products_.clear();
  for (int64_t i = 0; y.defined() && i < y.size(0); ++i) {
    changes_of_gradient_.push_back(moved(y[i])), changes_of_position_.push_back(moved(s[i]));
    inverse_products_.push_back(1 / inner_product(changes_of_gradient_.back(), changes_of_position_.back()));
  }
}

}  // namespace tenon::optim

// SPDX-License-Identifier: Apache-2.0
// Rows of ops/optimizer_step.h: each rule against its formulas, one number at a time in double.
#include <tenon/ops/optimizer_step.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

using List = std::vector<Tensor>;

struct StepNumbers {
  double lr = 0.125, step = 3, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
};
void add_step(Inputs& in, OptimizerRule rule, int64_t flags, const StepNumbers& n,
              const std::vector<Inputs::Sizes>& sizes = {{3, 5}, {}, {0, 2}, {1031}}, bool clock = false) {
  const DType wide = item_size(in.dtype()) < 4 ? kFloat32 : in.dtype();
  List parameters, gradients, states;
  for (const auto& s : sizes) parameters.push_back(in.tensor(s)), gradients.push_back(in.tensor(s, -2, 2));
  for (const int64_t flag : {kMasterWeights, kFirstState, kSecondState, kThirdState})
    if (flags & flag)
      for (const auto& s : sizes)
        states.push_back(flag == kMasterWeights
                             ? in.tensor(s, -4, 4, wide)
                             : in.tensor(s, flag == kFirstState && rule != OptimizerRule::sgd ? 0.5 : 0.25,
                                         flag == kThirdState ? 0.5 : 2, wide));
  Value now;
  if (clock) now = Value(in.values({n.lr, n.step}, {2}, kFloat64));
  in.add({parameters, gradients, states, now, static_cast<int64_t>(rule), flags, clock ? 0.0 : n.lr,
          clock ? 0.0 : n.step, n.a, n.b, n.c, n.d, n.e, n.f});
}

// One element: p and state s[0..2] after the step; returns the size of what was added up.
double update(OptimizerRule rule, int64_t flags, const StepNumbers& n, double& p, double g, double s[3]) {
  const double before = std::fabs(p);
  if (flags & kMaximize) g = -g;
  if (flags & kDecoupledDecay)
    p *= 1 - n.lr * n.c;
  else
    g += n.c * p;
  double change = 0;
  switch (rule) {
    case OptimizerRule::sgd:
      if (flags & kFirstState) {
        s[0] = n.a * s[0] + (n.step == 1 ? 1 : 1 - n.b) * g;
        g = flags & kNesterov ? g + n.a * s[0] : s[0];
      }
      change = n.lr * g;
      break;
    case OptimizerRule::adam:
    case OptimizerRule::nadam: {
      s[0] = n.a * s[0] + (1 - n.a) * g;
      s[1] = n.b * s[1] + (1 - n.b) * g * g;
      if (flags & kThirdState) s[2] = std::fmax(s[2], s[1]);
      const double root = std::sqrt((flags & kThirdState ? s[2] : s[1]) / (1 - std::pow(n.b, n.step))) + n.d;
      change = rule == OptimizerRule::adam ? n.lr / (1 - std::pow(n.a, n.step)) * s[0] / root
                                           : (n.e * g + n.f * s[0]) / root;
      break;
    }
    case OptimizerRule::rmsprop: {
      s[0] = n.a * s[0] + (1 - n.a) * g * g;
      double square = s[0];
      if (flags & kThirdState) {
        s[2] = n.a * s[2] + (1 - n.a) * g;
        square -= s[2] * s[2];
      }
      change = g / (std::sqrt(square) + n.d);
      if (flags & kSecondState) change = s[1] = n.b * s[1] + change;
      change *= n.lr;
      break;
    }
    case OptimizerRule::adagrad:
      s[0] += g * g;
      change = n.lr / (1 + (n.step - 1) * n.a) * g / (std::sqrt(s[0]) + n.d);
      break;
    case OptimizerRule::adadelta: {
      s[0] = n.a * s[0] + (1 - n.a) * g * g;
      const double u = std::sqrt(s[1] + n.d) / std::sqrt(s[0] + n.d) * g;
      s[1] = n.a * s[1] + (1 - n.a) * u * u;
      change = n.lr * u;
    }
  }
  p -= change;
  return before + std::fabs(change) + 4;
}

std::vector<Array> stepped(const Args& a) {
  std::vector<Array> p = a.arrays(0), g = a.arrays(1), s = a.arrays(2);
  const auto rule = static_cast<OptimizerRule>(a.integer(4));
  const int64_t flags = a.integer(5);
  StepNumbers n{a.real(6), a.real(7), a.real(8), a.real(9), a.real(10), a.real(11), a.real(12), a.real(13)};
  if (!a.is_none(3)) n.lr = a.array(3).data[0].re(), n.step = a.array(3).data[1].re();
  const std::size_t count = p.size();
  std::vector<Array> out = p;
  out.insert(out.end(), s.begin(), s.end());
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t kind = count + i;
    const auto next = [&](int64_t flag) { return flags & flag ? &out[(kind += count) - count] : nullptr; };
    Array* const master = next(kMasterWeights);
    Array* const state[3] = {next(kFirstState), next(kSecondState), next(kThirdState)};
    for (std::size_t k = 0; k < p[i].data.size(); ++k) {
      double w = (master ? *master : p[i]).data[k].re(), v[3] = {0, 0, 0};
      for (int j = 0; j < 3; ++j)
        if (state[j]) v[j] = state[j]->data[k].re();
      const double scale = update(rule, flags, n, w, g[i].data[k].re(), v);
      const auto put = [&](Array* to, double value) {
        if (!to) return;
        to->data[k] = Number(value);
        to->scale.push_back(scale);
      };
      put(&out[i], w), put(master, w);
      for (int j = 0; j < 3; ++j) put(state[j], v[j]);
    }
  }
  return out;
}

}  // namespace

TENON_OP_CASES(optimizer_step) {
  op_case(op::optimizer_step)
      .dtypes(kFloats)
      .ulp(32)
      .reference(stepped)
      .samples([](Inputs& in) {
        using R = OptimizerRule;
        const int64_t masters = item_size(in.dtype()) < 4 ? kMasterWeights : 0;
        add_step(in, R::sgd, 0, {});
        add_step(in, R::sgd, kMaximize | masters, {.c = 0.25});
        add_step(in, R::sgd, kFirstState, {.a = 0.75, .b = 0.5, .c = 0.125});
        add_step(in, R::sgd, kFirstState, {.step = 1, .a = 0.75, .b = 0.5});
        add_step(in, R::sgd, kFirstState | kNesterov | masters, {.a = 0.75});
        const StepNumbers adam{.a = 0.75, .b = 0.875, .c = 0.25, .d = 1e-3};
        add_step(in, R::adam, kFirstState | kSecondState | masters, adam);
        add_step(in, R::adam, kFirstState | kSecondState | kThirdState | kDecoupledDecay, adam);
        add_step(in, R::adam, kFirstState | kSecondState | kDecoupledDecay | masters, adam, {{3, 5}, {7}}, true);
        add_step(in, R::nadam, kFirstState | kSecondState, {.a = 0.75, .b = 0.875, .d = 1e-3, .e = 0.25, .f = 0.5});
        // The square is at least 0.25 and the mean at most 0.5 + 0.25 of what a gradient adds, so the root is real.
        add_step(in, R::rmsprop, kFirstState, {.a = 0.875, .c = 0.125, .d = 1e-3});
        add_step(in, R::rmsprop, kFirstState | kSecondState | masters, {.a = 0.875, .b = 0.5, .d = 1e-3});
        add_step(in, R::adagrad, kFirstState | masters, {.a = 0.25, .c = 0.125, .d = 1e-3});
        add_step(in, R::adadelta, kFirstState | kSecondState, {.a = 0.875, .d = 1e-3});
        add_step(in, R::adam, kFirstState | kSecondState, adam, std::vector<Inputs::Sizes>(450, Inputs::Sizes{3}));
      })
      .samples([](Inputs& in) {  // centered: square and mean are such that the variance is far from zero
        const DType wide = item_size(in.dtype()) < 4 ? kFloat32 : in.dtype();
        in.add({List{in.tensor({4, 9})}, List{in.tensor({4, 9})},
                List{in.tensor({4, 9}, 4, 8, wide), in.tensor({4, 9}, -1, 1, wide)}, Value(),
                static_cast<int64_t>(OptimizerRule::rmsprop), kFirstState | kThirdState, 0.125, 2.0, 0.875, 0.0, 0.0,
                1e-3, 0.0, 0.0});
      })
      .error<ValueError>(
          "gradients",
          [](Inputs& in) {
            in.add({List{in.tensor({2})}, List{}, List{}, Value(), 0, 0, 0.1, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0});
          })
      .error<ValueError>("states",
                         [](Inputs& in) {
                           in.add({List{in.tensor({2})}, List{in.tensor({2})}, List{}, Value(), 1, 24, 0.1, 1.0, 0.0,
                                   0.0, 0.0, 0.0, 0.0, 0.0});
                         })
      .error<ValueError>("rule",
                         [](Inputs& in) {
                           in.add({List{in.tensor({2})}, List{in.tensor({2})}, List{}, Value(), 6, 0, 0.1, 1.0, 0.0,
                                   0.0, 0.0, 0.0, 0.0, 0.0});
                         })
      .error<ShapeError>("sizes",
                         [](Inputs& in) {
                           in.add({List{in.tensor({2})}, List{in.tensor({3})}, List{}, Value(), 0, 0, 0.1, 1.0, 0.0,
                                   0.0, 0.0, 0.0, 0.0, 0.0});
                         })
      .error<DtypeError>("dtype", [](Inputs& in) {
        in.add({List{in.tensor({2})}, List{in.tensor({2}, 0, 1, kFloat64)}, List{}, Value(), 0, 0, 0.1, 1.0, 0.0, 0.0,
                0.0, 0.0, 0.0, 0.0});
      });
}

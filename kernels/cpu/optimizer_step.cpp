// SPDX-License-Identifier: Apache-2.0
// A step of an optimizer (ops/optimizer_step.h): one pass over parameter, gradient and state. 16-bit floats go through
// float32 in pieces that stay in the cache.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/optimizer_numbers.h>
#include <tenon/ops/optimizer_step.h>

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/optimizer_step.cpp"
#include <tenon/kernels/cpu/targets.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#undef TENON_RULE
#undef TENON_RULE_SQRT
#undef TENON_RULE_MAX
#define TENON_RULE HWY_INLINE
#define TENON_RULE_SQRT hn::Sqrt
#define TENON_RULE_MAX hn::Max
#include <tenon/kernels/optimizer_rules.h>

/// Arrays of one parameter; absent states are null.
template <class C>
struct StepArrays {
  C* parameter;
  const C* gradient;
  C* state[3];
};

template <OptimizerRule kRule, class C>
void step_arrays(int64_t flags, const OptimizerFactors& factors, const StepArrays<C>& x, int64_t n) {
  const hn::ScalableTag<C> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V zero = hn::Zero(d), decay = hn::Set(d, static_cast<C>(factors.decay)),
          shrink = hn::Set(d, static_cast<C>(factors.shrink));
  V k[7];
  for (int i = 0; i < 7; ++i) k[i] = hn::Set(d, static_cast<C>(factors.k[i]));
  const bool decays = factors.decay != 0;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V p = hn::LoadU(d, x.parameter + i), s[3] = {zero, zero, zero};
    for (int j = 0; j < 3; ++j)
      if (x.state[j]) s[j] = hn::LoadU(d, x.state[j] + i);
    optimizer_rule<kRule>(flags, decays, decay, shrink, k, zero, p, hn::LoadU(d, x.gradient + i), s[0], s[1], s[2]);
    hn::StoreU(p, d, x.parameter + i);
    for (int j = 0; j < 3; ++j)
      if (x.state[j]) hn::StoreU(s[j], d, x.state[j] + i);
  }
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
  V p = hn::MaskedLoad(rest, d, x.parameter + i), s[3] = {zero, zero, zero};
  for (int j = 0; j < 3; ++j)
    if (x.state[j]) s[j] = hn::MaskedLoad(rest, d, x.state[j] + i);
  optimizer_rule<kRule>(flags, decays, decay, shrink, k, zero, p, hn::MaskedLoad(rest, d, x.gradient + i), s[0], s[1],
                        s[2]);
  hn::BlendedStore(p, rest, d, x.parameter + i);
  for (int j = 0; j < 3; ++j)
    if (x.state[j]) hn::BlendedStore(s[j], rest, d, x.state[j] + i);
}

template <class T>
struct StepOf {
  using C = compute_t<T>;
  const OptimizerFactors& factors;
  int64_t flags;
  T* parameter;
  const T* gradient;
  C* master;
  C* state[3];

  template <OptimizerRule kRule>
  void run(int64_t begin, int64_t end) const {
    const auto at = [&](C* p, int64_t i) { return p ? p + i : nullptr; };
    if constexpr (sizeof(T) >= 4) {
      step_arrays<kRule, C>(flags, factors,
                            {master ? master + begin : parameter + begin,
                             gradient + begin,
                             {at(state[0], begin), at(state[1], begin), at(state[2], begin)}},
                            end - begin);
      if (master) std::copy(master + begin, master + end, parameter + begin);
    } else {
      constexpr int64_t kPiece = 1024;
      float p[kPiece], g[kPiece];
      for (int64_t i = begin; i < end; i += kPiece) {
        const int64_t n = std::min(kPiece, end - i);
        small_to_float(g, gradient + i, dtype_of<T>(), n);
        if (!master) small_to_float(p, parameter + i, dtype_of<T>(), n);
        float* const updated = master ? master + i : p;
        step_arrays<kRule, float>(flags, factors, {updated, g, {at(state[0], i), at(state[1], i), at(state[2], i)}}, n);
        float_to_small(parameter + i, dtype_of<T>(), updated, n);
      }
    }
  }
  void run(OptimizerRule rule, int64_t begin, int64_t end) const {
    switch (rule) {
      case OptimizerRule::sgd:
        return run<OptimizerRule::sgd>(begin, end);
      case OptimizerRule::adam:
        return run<OptimizerRule::adam>(begin, end);
      case OptimizerRule::nadam:
        return run<OptimizerRule::nadam>(begin, end);
      case OptimizerRule::rmsprop:
        return run<OptimizerRule::rmsprop>(begin, end);
      case OptimizerRule::adagrad:
        return run<OptimizerRule::adagrad>(begin, end);
      case OptimizerRule::adadelta:
        return run<OptimizerRule::adadelta>(begin, end);
    }
  }
};

template <class T>
void optimizer_step_cpu(TensorList parameters, TensorList gradients, TensorList states, const Tensor& clock,
                        int64_t rule, int64_t flags, double lr, double step, double a, double b, double c, double d,
                        double e, double f) {
  using C = compute_t<T>;
  if (clock.defined()) {
    const auto* const now = static_cast<const double*>(clock.data_ptr());
    lr = now[0], step = now[1];
  }
  const auto which = static_cast<OptimizerRule>(rule);
  const OptimizerFactors factors = optimizer_factors(which, flags, {lr, step, a, b, c, d, e, f});
  const std::size_t n = parameters.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t kind = 0;
    const auto next = [&](int64_t flag) {
      return flags & flag ? static_cast<C*>(states[kind++ * n + i].data_ptr()) : nullptr;
    };
    C* const master = next(kMasterWeights);
    const StepOf<T> one{factors,
                        flags,
                        static_cast<T*>(parameters[i].data_ptr()),
                        static_cast<const T*>(gradients[i].data_ptr()),
                        master,
                        {next(kFirstState), next(kSecondState), next(kThirdState)}};
    parallel_for(0, parameters[i].numel(), kGrain, [&](int64_t begin, int64_t end) { one.run(which, begin, end); });
  }
}
TENON_REGISTER_SIMD_KERNEL(op::optimizer_step, FloatsAndHalves, optimizer_step_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

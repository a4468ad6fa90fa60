// SPDX-License-Identifier: Apache-2.0
// Negative log likelihood and its gradient (ops/loss.h). Sums are taken in double, over parts of fixed size.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/loss.h>

#include <algorithm>

namespace tenon::cpu {
namespace {

struct Targets {
  const int64_t* values;
  int64_t classes, ignored;
  /// The class of a position, or -1 when it counts for nothing.
  int64_t operator()(int64_t i) const {
    const int64_t c = values[i];
    if (c == ignored) return -1;
    TENON_CHECK(c >= 0 && c < classes, IndexError, "nll_loss: target: ", c, " at position ", i,
                " is out of range; expected 0 to ", classes - 1);
    return c;
  }
};

template <class T>
void nll_loss_forward_cpu(const Tensor& output, const Tensor& total_weight, const Tensor& self, const Tensor& target,
                          const Tensor& weight, int64_t reduction, int64_t ignore_index) {
  const int64_t n = self.sizes()[0], classes = self.sizes()[1], inner = self.sizes()[2], count = n * inner;
  const T* const x = static_cast<const T*>(self.data_ptr());
  const T* const w = weight.defined() ? static_cast<const T*>(weight.data_ptr()) : nullptr;
  T* const out = static_cast<T*>(output.data_ptr());
  const Targets targets{static_cast<const int64_t*>(target.data_ptr()), classes, ignore_index};
  const auto value = [&](int64_t i, int64_t c) {
    return -static_cast<compute_t<T>>(x[(i / inner * classes + c) * inner + i % inner]);
  };
  const auto factor = [&](int64_t c) { return w ? static_cast<compute_t<T>>(w[c]) : compute_t<T>(1); };
  if (reduction == kReductionNone) {
    parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = targets(i);
        out[i] = c < 0 ? T(0) : static_cast<T>(value(i, c) * factor(c));
      }
    });
    return;
  }
  constexpr int64_t kPart = 16384;
  const int64_t parts = (count + kPart - 1) / kPart;
  std::vector<double> sums(static_cast<std::size_t>(2 * parts), 0.0);
  parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t i = p * kPart; i < std::min(count, (p + 1) * kPart); ++i) {
        const int64_t c = targets(i);
        if (c < 0) continue;
        sums[static_cast<std::size_t>(2 * p)] += static_cast<double>(value(i, c)) * static_cast<double>(factor(c));
        sums[static_cast<std::size_t>(2 * p + 1)] += static_cast<double>(factor(c));
      }
  });
  double sum = 0, total = 0;
  for (int64_t p = 0; p < parts; ++p)
    sum += sums[static_cast<std::size_t>(2 * p)], total += sums[static_cast<std::size_t>(2 * p + 1)];
  using C = compute_t<T>;
  out[0] = static_cast<T>(static_cast<C>(reduction == kReductionMean ? sum / total : sum));
  *static_cast<T*>(total_weight.data_ptr()) = static_cast<T>(static_cast<C>(total));
}

template <class T>
void nll_loss_backward_cpu(const Tensor& grad_input, const Tensor& grad_output, const Tensor& target,
                           const Tensor& weight, int64_t reduction, int64_t ignore_index, const Tensor& total_weight) {
  using C = compute_t<T>;
  const int64_t n = grad_input.sizes()[0], classes = grad_input.sizes()[1], inner = grad_input.sizes()[2];
  T* const dx = static_cast<T*>(grad_input.data_ptr());
  const T* const g = static_cast<const T*>(grad_output.data_ptr());
  const T* const w = weight.defined() ? static_cast<const T*>(weight.data_ptr()) : nullptr;
  const Targets targets{static_cast<const int64_t*>(target.data_ptr()), classes, ignore_index};
  const C divisor =
      reduction == kReductionMean ? static_cast<C>(*static_cast<const T*>(total_weight.data_ptr())) : C(1);
  parallel_for(0, n * inner, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = targets(i);
      if (c < 0) continue;
      const C up = static_cast<C>(g[reduction == kReductionNone ? i : 0]);
      dx[(i / inner * classes + c) * inner + i % inner] =
          static_cast<T>(-(w ? static_cast<C>(w[c]) : C(1)) * up / divisor);
    }
  });
}
TENON_REGISTER_KERNEL(op::nll_loss_forward, cpu, FloatsAndHalves, nll_loss_forward_cpu);
TENON_REGISTER_KERNEL(op::nll_loss_backward, cpu, FloatsAndHalves, nll_loss_backward_cpu);

}  // namespace
}  // namespace tenon::cpu

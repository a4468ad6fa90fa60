// SPDX-License-Identifier: Apache-2.0
// tril and triu (ops/triangle.h): along a line of the plan column - row grows, shrinks or stays, so what stays of the line
// is one run.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/triangle.h>

#include <algorithm>
#include <cstring>

namespace tenon::cpu {
namespace {

template <class W>
void triangle_cpu(const LoopPlan& plan, int64_t diagonal, bool upper) {
  const int64_t n = plan.shape[0], lines = plan.numel / n, step = plan.strides[2][0];
  const int64_t out_step = plan.strides[0][0], in_step = plan.strides[1][0];
  constexpr auto kSize = static_cast<int64_t>(sizeof(W));
  parallel_for(0, lines, std::max<int64_t>(kGrain / n, 1), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      char *out = plan.data[0], *in = plan.data[1];
      int64_t beyond = -diagonal;  // how far the first element lies to the right of the diagonal
      for (int64_t d = 1, rest = line; d < plan.ndim; rest /= plan.shape[d++]) {
        const int64_t i = rest % plan.shape[d];
        out += i * plan.strides[0][d];
        in += i * plan.strides[1][d];
        beyond += i * plan.strides[2][d];
      }
      // Elements [first, last) stay.
      int64_t first = 0, last = n;
      if (step == 0)
        last = (upper ? beyond >= 0 : beyond <= 0) ? n : 0;
      else if ((step > 0) != upper)
        last = std::clamp<int64_t>((upper ? beyond : -beyond) + 1, 0, n);
      else
        first = std::clamp<int64_t>(upper ? -beyond : beyond, 0, n);
      const auto clear = [&](int64_t from, int64_t to) {
        if (out_step == kSize)
          std::memset(out + from * kSize, 0, static_cast<std::size_t>((to - from) * kSize));
        else
          for (int64_t i = from; i < to; ++i) std::memset(out + i * out_step, 0, sizeof(W));
      };
      clear(0, first);
      clear(last, n);
      if (in == out) continue;
      if (out_step == kSize && in_step == kSize && last > first)
        std::memcpy(out + first * kSize, in + first * kSize, static_cast<std::size_t>((last - first) * kSize));
      else
        for (int64_t i = first; i < last; ++i) std::memcpy(out + i * out_step, in + i * in_step, sizeof(W));
    }
  });
}
TENON_REGISTER_KERNEL(op::tril, cpu, Widths, triangle_cpu);

}  // namespace
}  // namespace tenon::cpu

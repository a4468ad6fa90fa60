// SPDX-License-Identifier: Apache-2.0
// Device loops count in 32 bits, which halves their registers and integer work. A plan too large for that is cut
// here, on the host, into parts that fit: fewer than 2^31 elements, and every operand within 2 GiB of its first
// element. Host code only.
#pragma once

#include <tenon/dispatch/loop_plan.h>

namespace tenon::cuda {

/// A part of a plan: the plan's strides with a shape and addresses of its own.
struct LoopRange {
  const LoopPlan* plan;
  int64_t numel;
  int64_t shape[kMaxDims];
  char* data[LoopPlan::kMaxOperands];

  bool fits_32bit() const {
    constexpr int64_t kLimit = int64_t(1) << 31;
    if (numel >= kLimit) return false;
    for (int i = 0; i < plan->operands; ++i) {
      int64_t reach = item_size(plan->dtype[i]);
      for (int d = 0; d < plan->ndim; ++d) {
        const int64_t s = plan->strides[i][d];
        reach += (shape[d] - 1) * (s < 0 ? -s : s);
      }
      if (reach >= kLimit) return false;
    }
    return true;
  }
};

namespace detail {
template <class F>
void for_each_part(const LoopRange& range, F& f) {
  if (range.fits_32bit()) {
    f(range);
    return;
  }
  // Halve the dimension that spans most bytes; cut at a multiple of 1024 so that alignment survives.
  const LoopPlan& plan = *range.plan;
  int widest = 0;
  int64_t most = -1;
  for (int d = 0; d < plan.ndim; ++d) {
    if (range.shape[d] < 2) continue;
    int64_t span = range.shape[d];
    for (int i = 0; i < plan.operands; ++i) {
      const int64_t s = plan.strides[i][d];
      const int64_t bytes = (range.shape[d] - 1) * (s < 0 ? -s : s);
      if (bytes > span) span = bytes;
    }
    if (span > most) most = span, widest = d;
  }
  const int64_t size = range.shape[widest];
  int64_t half = (size + 1) / 2;
  if (half > 2048) half = (half + 1023) / 1024 * 1024;
  LoopRange part = range;
  part.numel = range.numel / size * half;
  part.shape[widest] = half;
  for_each_part(part, f);
  part.numel = range.numel - part.numel;
  part.shape[widest] = size - half;
  for (int i = 0; i < plan.operands; ++i) part.data[i] = range.data[i] + half * plan.strides[i][widest];
  for_each_part(part, f);
}
}  // namespace detail

/// Calls f(const LoopRange&) for parts that together are the plan; once in all but very large cases.
template <class F>
void for_each_32bit(const LoopPlan& plan, F&& f) {
  if (plan.numel == 0) return;
  LoopRange range;
  range.plan = &plan;
  range.numel = plan.numel;
  for (int d = 0; d < plan.ndim; ++d) range.shape[d] = plan.shape[d];
  for (int i = 0; i < plan.operands; ++i) range.data[i] = plan.data[i];
  detail::for_each_part(range, f);
}

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
// run_reduce: brings a ReducePlan to a body that knows only dense arrays of its own input type. Which dimension is
// walked inside, gathering, 16-bit floats computed in float32 and the split over threads are handled here, once. The split
// depends on the plan alone, so results do not depend on the number of threads. Bodies: kernels/cpu/reduce.h.
#pragma once

#include <tenon/dispatch/reduce_plan.h>
#include <tenon/kernels/cpu/parallel.h>

namespace tenon::cpu {

/// `acc` is room for n accumulators (n * accumulator_bytes, aligned to 64), laid out as the body likes for that n.
/// Positions count the reduced elements of one result in the plan's order; calls come in ascending order of position.
struct ReduceBody {
  const void* f;
  DType input;  ///< the plan's dtype, or float32 for 16-bit floats
  int64_t accumulator_bytes;
  bool folds;  ///< n accumulators are an array, order does not matter and accumulator_bytes <= 16
  void (*init)(const void* f, void* acc, int64_t n);
  /// One accumulator takes n dense elements, the first at `position`.
  void (*run)(const void* f, void* acc, const void* x, int64_t n, int64_t position);
  /// Each of `columns` accumulators takes `rows` elements, `row_stride` bytes apart, from `position` on.
  void (*columns)(const void* f, void* acc, const void* x, int64_t columns, int64_t rows, int64_t row_stride,
                  int64_t position);
  /// acc takes `later`, which saw later positions.
  void (*merge)(const void* f, void* acc, const void* later, int64_t n);
  /// Writes n results to out[k] + i * stride[k].
  void (*store)(const void* f, const void* acc, int64_t n, char* const* out, const int64_t* stride);
};

TENON_API void run_reduce(const ReducePlan& plan, const ReduceBody& body);

}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
// run_plan: brings a LoopPlan to a kernel body that knows only dense arrays of its own types. Broadcast, strided
// and number operands, 16-bit floats computed in float32 and the split over threads are all handled here, once,
// for every operator: a body is one small loop. Kernels call elementwise() in kernels/cpu/loops.h.
#pragma once

#include <tenon/dispatch/loop_plan.h>
#include <tenon/kernels/cpu/parallel.h>

namespace tenon::cpu {

/// Elements below which a cheap body is not worth a second thread.
inline constexpr int64_t kGrain = 32768;

/// float for the types that are stored in 16 or 8 bits and computed in float32; T itself otherwise.
template <class T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<float16> {
  using type = float;
};
template <>
struct ComputeType<bfloat16> {
  using type = float;
};
template <>
struct ComputeType<float8_e4m3fn> {
  using type = float;
};
template <>
struct ComputeType<float8_e5m2> {
  using type = float;
};
template <class T>
using compute_t = typename ComputeType<T>::type;

/// run(f, data, n): data[i] is a dense array of n elements of dtype[i], outputs first, as in the plan. An output may be
/// the same array as an input, never a shifted one. Called from several threads at once.
struct RunBody {
  void (*run)(const void* f, char* const* data, int64_t n);
  const void* f;
  DType dtype[LoopPlan::kMaxOperands];
  int64_t grain;
};

/// The plan's dtypes must equal the body's, or be 16- or 8-bit floats where the body's is float32 (else DtypeError).
TENON_API void run_plan(const LoopPlan& plan, const RunBody& body);

/// Whether the plan's arrays are already what the body wants, and few enough for one thread.
inline bool runs_directly(const LoopPlan& plan, const RunBody& body, int operands) {
  if (!plan.contiguous || plan.numel > body.grain) return false;
  for (int i = 0; i < operands; ++i)
    if (plan.dtype[i] != body.dtype[i] || (plan.strides[i][0] == 0 && plan.numel != 1)) return false;
  return true;
}
/// One plan through one body; `operands` is how many the body has.
inline void run_body(const LoopPlan& plan, const RunBody& body, int operands) {
  if (runs_directly(plan, body, operands)) [[likely]]
    body.run(body.f, plan.data, plan.numel);
  else
    run_plan(plan, body);
}

}  // namespace tenon::cpu

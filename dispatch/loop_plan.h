// SPDX-License-Identifier: Apache-2.0
// LoopPlan: what an elementwise kernel gets. Operands broadcast to one shape, dimensions that can be walked as
// one are merged, and the order puts the output's fastest dimension first. CPU loops and CUDA kernels read the
// same plan; see kernels/cpu/loops.h and kernels/cuda/loops.cuh, both called `elementwise(plan, f)`.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon {

struct LoopPlan {
  static constexpr int kMaxOperands = 8;

  int ndim;      ///< after merging; 0 only for one element
  int operands;  ///< outputs first, then inputs
  int outputs;
  bool contiguous;   ///< ndim <= 1 and every operand's step is its item size, or 0 for one value
  uint32_t numbers;  ///< bit i: operand i is a number; data[i] points at number[i], strides are 0
  int64_t numel;
  int64_t shape[kMaxDims];                  ///< shape[0] is the innermost dimension
  int64_t strides[kMaxOperands][kMaxDims];  ///< bytes
  char* data[kMaxOperands];                 ///< addresses on the device of the call (host for numbers)
  DType dtype[kMaxOperands];
  alignas(16) unsigned char number[kMaxOperands][16];  ///< values in the operand's dtype

  LoopPlan() {}                           // large and filled by its builder: not zeroed
  TENON_API LoopPlan(const LoopPlan& o);  // the copy's numbers are its own
  LoopPlan& operator=(const LoopPlan&) = delete;
  bool is_number(int i) const { return (numbers >> i) & 1u; }
};

/// Fills `plan` for tensors that all have, or broadcast to, `shape`. Operands: outputs first. `numbers[i]` non-null
/// gives operand i by value. At most LoopPlan::kMaxOperands operands.
struct PlanOperand {
  const Tensor* tensor;
  const Scalar* number;
  DType dtype;  ///< of a number
};
TENON_API void make_plan(LoopPlan& plan, IntArrayRef shape, std::span<const PlanOperand> operands, int outputs);

}  // namespace tenon

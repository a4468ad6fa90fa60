// SPDX-License-Identifier: Apache-2.0
// Moving data: copies, conversions of dtype and device, and reading a value.
#pragma once

#include <tenon/dispatch/loop_plan.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// src in self's shape, dtype and device; in place (`self.copy_(src)`) it writes self. src broadcasts. The kernel is keyed
/// on self's dtype and finds src's in the plan (operand 0 is the result, operand 1 src). Between devices:
/// non_blocking returns before the copy is done when the host memory is pinned.
TENON_OP(copy, "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Tensor&, bool), void(const LoopPlan&))
/// A new tensor with self's data. memory_format preserve keeps the strides of dense tensors.
TENON_OP(clone, "clone(Tensor self, *, memory_format? memory_format=None) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, std::optional<MemoryFormat>), void())
inline Tensor clone(const Tensor& self, MemoryFormat format = MemoryFormat::preserve) {
  return op::clone(self, format);
}
/// self if it has that format already, else a clone in it.
TENON_OP(contiguous, "contiguous(Tensor self, *, memory_format memory_format=contiguous) -> Tensor", composite,
         kNoInplace, Tensor(const Tensor&, MemoryFormat), void())

/// A converted copy, always new. Floats to integers truncate; anything nonzero is true.
TENON_OP(to_copy,
         "_to_copy(Tensor self, *, dtype? dtype=None, device? device=None, bool non_blocking=False, memory_format? "
         "memory_format=None) -> Tensor",
         kernel, kNoInplace,
         Tensor(const Tensor&, std::optional<DType>, std::optional<Device>, bool, std::optional<MemoryFormat>), void())
/// self when dtype and device fit already and copy is false, else a converted copy.
TENON_OP(to,
         "to(Tensor self, *, dtype? dtype=None, device? device=None, bool non_blocking=False, bool copy=False, "
         "memory_format? memory_format=None) -> Tensor",
         composite, kNoInplace,
         Tensor(const Tensor&, std::optional<DType>, std::optional<Device>, bool, bool, std::optional<MemoryFormat>),
         void())
TENON_OP(to_dtype,
         "to.dtype(Tensor self, dtype dtype, bool non_blocking=False, bool copy=False, memory_format? "
         "memory_format=None) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, DType, bool, bool, std::optional<MemoryFormat>), void())
TENON_OP(to_device,
         "to.device(Tensor self, device device, dtype dtype, bool non_blocking=False, bool copy=False, memory_format? "
         "memory_format=None) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, Device, DType, bool, bool, std::optional<MemoryFormat>), void())
/// self with other's dtype and device.
TENON_OP(to_other,
         "to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, memory_format? "
         "memory_format=None) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, const Tensor&, bool, bool, std::optional<MemoryFormat>), void())

/// The value of a one-element tensor; waits for the device.
TENON_OP(item, "item(Tensor self) -> Scalar", dynamic, kNoInplace | kNonDifferentiable | kNotCapturable,
         Scalar(const Tensor&), void())
TENON_ALIAS("_local_scalar_dense", "item")

}  // namespace tenon

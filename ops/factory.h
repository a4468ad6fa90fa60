// SPDX-License-Identifier: Apache-2.0
// New tensors and fills. Options (dtype, device, requires_grad, pinned memory) come as TensorOptions:
// `zeros({2, 3}, kFloat64)`, `ones({4}, device(kCUDA))`. Data is made on the device, nothing is copied there.
#pragma once

#include <tenon/dispatch/loop_plan.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

using OptionalDtype = std::optional<DType>;
using OptionalDevice = std::optional<Device>;

namespace detail {
/// Applies the options an operator does not know: requires_grad.
TENON_API Tensor with_options(Tensor t, const TensorOptions& options);
/// Values in the dtype of their kind unless `options` name another.
template <class T>
Tensor from_values(std::span<const T> values, IntArrayRef sizes, const TensorOptions& options) {
  constexpr DType own = dtype_of<T>();
  const DType kind = own == kFloat32 || own == kFloat64 ? default_dtype() : is_integral(own) ? kInt64 : own;
  return from_span(values, sizes, options.dtype(options.dtype().value_or(kind)));
}
}  // namespace detail

/// `value` in every element; in place (`x.fill_(v)`) it writes self. value: a number or a 0-dim tensor, converted to
/// self's dtype. The kernel is keyed on the element width: operand 1 of the plan is the number.
TENON_OP(fill, "fill(Tensor self, Tensor|Scalar value) -> Tensor", kernel, kPlain,
         Tensor(const Tensor&, const Operand&), void(const LoopPlan&))
/// Zeros; in place `x.zero_()`.
TENON_OP(zero, "zero(Tensor self) -> Tensor", composite, kPlain, Tensor(const Tensor&), void())

/// Uninitialised memory.
TENON_OP(empty, "empty(int[] size, *, dtype? dtype=None, device? device=None, bool pin_memory=False) -> Tensor", kernel,
         kNoInplace | kNonDifferentiable, Tensor(IntArrayRef, OptionalDtype, OptionalDevice, bool), void())
inline Tensor empty(IntArrayRef size, const TensorOptions& o = {}) {
  return detail::with_options(op::empty(size, o.dtype(), o.device(), o.pinned_memory()), o);
}
/// The same with strides in elements.
TENON_OP(empty_strided, "empty_strided(int[] size, int[] stride, *, dtype? dtype=None, device? device=None) -> Tensor",
         kernel, kNoInplace | kNonDifferentiable, Tensor(IntArrayRef, IntArrayRef, OptionalDtype, OptionalDevice),
         void())
inline Tensor empty_strided(IntArrayRef size, IntArrayRef stride, const TensorOptions& o = {}) {
  return detail::with_options(op::empty_strided(size, stride, o.dtype(), o.device()), o);
}
TENON_OP(zeros, "zeros(int[] size, *, dtype? dtype=None, device? device=None) -> Tensor", composite, kNoInplace,
         Tensor(IntArrayRef, OptionalDtype, OptionalDevice), void())
inline Tensor zeros(IntArrayRef size, const TensorOptions& o = {}) {
  return detail::with_options(op::zeros(size, o.dtype(), o.device()), o);
}
TENON_OP(ones, "ones(int[] size, *, dtype? dtype=None, device? device=None) -> Tensor", composite, kNoInplace,
         Tensor(IntArrayRef, OptionalDtype, OptionalDevice), void())
inline Tensor ones(IntArrayRef size, const TensorOptions& o = {}) {
  return detail::with_options(op::ones(size, o.dtype(), o.device()), o);
}
/// fill_value in every element; dtype defaults to the number's kind (bool, int64, default float, complex).
TENON_OP(full, "full(int[] size, Scalar fill_value, *, dtype? dtype=None, device? device=None) -> Tensor", composite,
         kNoInplace, Tensor(IntArrayRef, const Scalar&, OptionalDtype, OptionalDevice), void())
inline Tensor full(IntArrayRef size, const Scalar& value, const TensorOptions& o = {}) {
  return detail::with_options(op::full(size, value, o.dtype(), o.device()), o);
}
/// A 0-dim tensor of the dtype of the number's kind.
TENON_OP(scalar_tensor, "scalar_tensor(Scalar s, *, dtype? dtype=None, device? device=None) -> Tensor", composite,
         kNoInplace, Tensor(const Scalar&, OptionalDtype, OptionalDevice), void())
inline Tensor scalar_tensor(const Scalar& s, const TensorOptions& o = {}) {
  return detail::with_options(op::scalar_tensor(s, o.dtype(), o.device()), o);
}

/// A tensor of the values in braces, copied: `tensor({1.5, 2})`, `tensor({{1, 2}, {3, 4}})`, `tensor(3.0)` (0-dim). dtype
/// defaults to the values' kind: bool, int64, the default float, complex. ShapeError when rows differ in length.
inline Tensor tensor(const Scalar& value, const TensorOptions& o = {}) { return scalar_tensor(value, o); }
template <class T, class = decltype(dtype_of<T>())>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& o = {}) {
  return detail::from_values(std::span<const T>(values.begin(), values.size()),
                             IntArrayRef(static_cast<int64_t>(values.size())), o);
}
template <class T, class = decltype(dtype_of<T>())>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions& o = {}) {
  const std::size_t columns = rows.size() ? rows.begin()->size() : 0;
  std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>> values;
  for (const auto& row : rows) {
    TENON_CHECK(row.size() == columns, ShapeError, "tensor: values: expected rows of one length, got ", columns,
                " and ", row.size());
    values.insert(values.end(), row.begin(), row.end());
  }
  const int64_t sizes[] = {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)};
  const T* data = reinterpret_cast<const T*>(values.data());
  return detail::from_values(std::span<const T>(data, values.size()), IntArrayRef(sizes, 2), o);
}
/// The elements of a vector, copied (from_vector takes over the memory instead).
template <class T, class = std::enable_if_t<!std::is_same_v<T, bool>>>
Tensor tensor(const std::vector<T>& values, const TensorOptions& o = {}) {
  return detail::from_values(std::span<const T>(values), IntArrayRef(static_cast<int64_t>(values.size())), o);
}

#define TENON_LIKE_OP(like, fresh)                                                                                    \
  TENON_OP(like,                                                                                                      \
           #like                                                                                                      \
           "(Tensor self, *, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",   \
           composite, kNoInplace, Tensor(const Tensor&, OptionalDtype, OptionalDevice, std::optional<MemoryFormat>),  \
           void())                                                                                                    \
  inline Tensor like(const Tensor& self, const TensorOptions& o = {}) {                                               \
    return detail::with_options(op::like(self, o.dtype(), o.device(), o.memory_format()), o);                         \
  }                                                                                                                   \
  TENON_OP(fresh, #fresh "(Tensor self, int[] size, *, dtype? dtype=None, device? device=None) -> Tensor", composite, \
           kNoInplace, Tensor(const Tensor&, IntArrayRef, OptionalDtype, OptionalDevice), void())
// *_like: self's sizes; new_*: the given sizes. Both take dtype and device from self unless they are given.
TENON_LIKE_OP(empty_like, new_empty)  ///< Uninitialised, with dtype and device of self.
TENON_LIKE_OP(zeros_like, new_zeros)  ///< Zeros with dtype and device of self.
TENON_LIKE_OP(ones_like, new_ones)    ///< Ones with dtype and device of self.
#undef TENON_LIKE_OP
TENON_OP(full_like,  ///< fill_value in self's sizes, with its dtype and device.
         "full_like(Tensor self, Scalar fill_value, *, dtype? dtype=None, device? device=None, memory_format? "
         "memory_format=None) -> Tensor",
         composite, kNoInplace,
         Tensor(const Tensor&, const Scalar&, OptionalDtype, OptionalDevice, std::optional<MemoryFormat>), void())
inline Tensor full_like(const Tensor& self, const Scalar& value, const TensorOptions& o = {}) {
  return detail::with_options(op::full_like(self, value, o.dtype(), o.device(), o.memory_format()), o);
}
TENON_OP(new_full,  ///< fill_value in the given sizes, with dtype and device of self.
         "new_full(Tensor self, int[] size, Scalar fill_value, *, dtype? dtype=None, device? device=None) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, const Scalar&, OptionalDtype, OptionalDevice),
         void())

/// start, start + step, ... below end (above for negative steps): ceil((end - start) / step) values, computed as
/// start + i * step. dtype defaults to int64 when all numbers are integers. The kernel fills a contiguous tensor.
TENON_OP(
    arange_step,
    "arange.start_step(Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None, device? device=None) -> Tensor",
    kernel, kNoInplace | kNonDifferentiable,
    Tensor(const Scalar&, const Scalar&, const Scalar&, OptionalDtype, OptionalDevice),
    void(const Tensor& out, const Scalar& start, const Scalar& step))
TENON_OP(arange, "arange(Scalar end, *, dtype? dtype=None, device? device=None) -> Tensor", composite, kNoInplace,
         Tensor(const Scalar&, OptionalDtype, OptionalDevice), void())
inline Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step = 1, const TensorOptions& o = {}) {
  return detail::with_options(op::arange_step(start, end, step, o.dtype(), o.device()), o);
}
inline Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& o) {
  return arange(start, end, 1, o);
}
inline Tensor arange(const Scalar& end, const TensorOptions& o = {}) {
  return detail::with_options(op::arange(end, o.dtype(), o.device()), o);
}
/// `steps` values from start to end, both included; symmetric: the second half is computed back from end.
TENON_OP(linspace, "linspace(Scalar start, Scalar end, int steps, *, dtype? dtype=None, device? device=None) -> Tensor",
         kernel, kNoInplace | kNonDifferentiable,
         Tensor(const Scalar&, const Scalar&, int64_t, OptionalDtype, OptionalDevice),
         void(const Tensor& out, const Scalar& start, const Scalar& end))
inline Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, const TensorOptions& o = {}) {
  return detail::with_options(op::linspace(start, end, steps, o.dtype(), o.device()), o);
}
// clang-format off
/// base to the powers linspace(start, end, steps), computed in float64; integers in integer bounds.
TENON_OP(logspace, "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, dtype? dtype=None, device? device=None) -> Tensor", composite, kNoInplace | kNonDifferentiable, Tensor(const Scalar&, const Scalar&, int64_t, double, OptionalDtype, OptionalDevice), void())
/// Memory in which dimension physical_layout.back() has stride 1 and the ones before it follow.
TENON_OP(empty_permuted, "empty_permuted(int[] size, int[] physical_layout, *, dtype? dtype=None, device? device=None) -> Tensor", kernel, kNoInplace | kNonDifferentiable, Tensor(IntArrayRef, IntArrayRef, OptionalDtype, OptionalDevice), void())
TENON_OP(new_empty_strided, "new_empty_strided(Tensor self, int[] size, int[] stride, *, dtype? dtype=None, device? device=None) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, IntArrayRef, IntArrayRef, OptionalDtype, OptionalDevice), void())
// clang-format on
TENON_API Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double base = 10,
                          const TensorOptions& o = {});
/// n x m with ones on the diagonal.
TENON_OP(eye, "eye(int n, *, dtype? dtype=None, device? device=None) -> Tensor", composite, kNoInplace,
         Tensor(int64_t, OptionalDtype, OptionalDevice), void())
TENON_OP(eye_m, "eye.m(int n, int m, *, dtype? dtype=None, device? device=None) -> Tensor", composite, kNoInplace,
         Tensor(int64_t, int64_t, OptionalDtype, OptionalDevice), void())
inline Tensor eye(int64_t n, const TensorOptions& o = {}) {
  return detail::with_options(op::eye(n, o.dtype(), o.device()), o);
}
inline Tensor eye(int64_t n, int64_t m, const TensorOptions& o = {}) {
  return detail::with_options(op::eye_m(n, m, o.dtype(), o.device()), o);
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/factory.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/core/operand.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/rounding.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>
#include <tenon/streams/stream.h>

#include <algorithm>
#include <cmath>

namespace tenon {

namespace detail {
DimVector format_strides(const Tensor& like, MemoryFormat format, const char* who);  // ops/copy.cpp
bool holds(DType t, const Scalar& number);                                           // ops/compare.cpp

Tensor with_options(Tensor t, const TensorOptions& options) {
  if (options.requires_grad()) t.requires_grad_();
  return t;
}
}  // namespace detail

namespace {
using dispatch::make_tensor;

DType or_default(OptionalDtype t) { return t.value_or(default_dtype()); }
Device or_cpu(OptionalDevice d) { return resolve(d.value_or(Device(kCPU))); }
DType kind_of(const Scalar& s) {
  return s.is_floating_point() ? default_dtype() : s.is_complex() ? complex_of(default_dtype()) : s.dtype();
}

// Fresh tensors are filled below the layers: to the user they come into being with their values.
Tensor filled(const char* who, IntArrayRef size, const Scalar& value, DType t, Device device,
              IntArrayRef strides = {}) {
  checked_numel(size, who);
  Tensor out = make_tensor(size, t, device, strides);
  const dispatch::BelowLayersGuard below;
  out.fill_(value);
  return out;
}

}  // namespace

namespace impl {

Tensor fill(Call& call, const Tensor& self, const Operand& value) {
  if (value.is_tensor()) {
    TENON_CHECK(value.tensor().dim() == 0, ShapeError, "fill_: value: expected a number or a 0-dim tensor, got ",
                value.tensor().dim(), " dimensions");
  }
  // On the meta device there is neither a value nor anything to write it to.
  const bool unknown = value.is_tensor() && value.tensor().is_meta() && self.is_meta();
  const Scalar number = unknown ? Scalar(0) : value.is_tensor() ? value.tensor().item() : value.number();
  TENON_CHECK(!number.is_complex() || is_complex(self.dtype()) || number.imag() == 0, DtypeError,
              "fill_: value: ", number, " does not fit the ", self.dtype(), " of self");
  TENON_CHECK(value.is_tensor() || detail::holds(self.dtype(), number), ValueError, "fill_: value: expected a number ",
              self.dtype(), " can hold, got ", number);
  const Tensor out = call.output(0, self.sizes(), self.dtype(), self.device());
  const PlanOperand operands[] = {{&out, nullptr, out.dtype()}, {nullptr, &number, out.dtype()}};
  LoopPlan plan;
  make_plan(plan, out.sizes(), operands, 1);
  if (!out.is_meta() && plan.numel != 0)
    op::fill.kernel(out.backend(), dispatch::width_key(item_size(out.dtype())))(plan);
  return out;
}
Tensor zero(Call& call, const Tensor& self) {
  if (call.form != dispatch::Form::inplace) return filled("zero", self.sizes(), 0, self.dtype(), self.device());
  return op::fill.inplace(call.destinations[0], call.destinations[0], 0);
}

Tensor empty(Call&, IntArrayRef size, OptionalDtype dtype, OptionalDevice device, bool pin_memory) {
  checked_numel(size, "empty");
  TENON_CHECK(!pin_memory || or_cpu(device).is_cpu(), ValueError, "empty: pin_memory: only CPU tensors can be pinned");
  return make_tensor(size, or_default(dtype), or_cpu(device), {}, pin_memory);
}
Tensor empty_strided(Call&, IntArrayRef size, IntArrayRef stride, OptionalDtype dtype, OptionalDevice device) {
  checked_numel(size, "empty_strided");
  TENON_CHECK(size.size() == stride.size(), ShapeError, "empty_strided: expected as many strides as sizes, got ", size,
              " and ", stride);
  for (const int64_t s : stride)
    TENON_CHECK(s >= 0, ShapeError, "empty_strided: stride: entries must not be negative, got ", stride);
  return make_tensor(size, or_default(dtype), or_cpu(device), stride);
}
Tensor empty_permuted(Call& call, IntArrayRef size, IntArrayRef physical_layout, OptionalDtype dtype,
                      OptionalDevice device) {
  DimVector strides(size.size(), 0);
  int64_t step = 1;
  bool fits = size.size() == physical_layout.size();
  for (std::size_t k = physical_layout.size(); fits && k-- > 0;) {
    const auto d = static_cast<std::size_t>(physical_layout[k]);
    fits = d < size.size() && strides[d] == 0;
    if (!fits) break;
    strides[d] = step;
    fits = !__builtin_mul_overflow(step, std::max<int64_t>(size[d], 1), &step);
  }
  TENON_CHECK(fits, ShapeError, "empty_permuted: physical_layout: expected every dimension of size ", size,
              " once, got ", physical_layout);
  return empty_strided(call, size, strides, dtype, device);
}
Tensor zeros(Call&, IntArrayRef size, OptionalDtype dtype, OptionalDevice device) {
  return filled("zeros", size, 0, or_default(dtype), or_cpu(device));
}
Tensor ones(Call&, IntArrayRef size, OptionalDtype dtype, OptionalDevice device) {
  return filled("ones", size, 1, or_default(dtype), or_cpu(device));
}
Tensor full(Call&, IntArrayRef size, const Scalar& value, OptionalDtype dtype, OptionalDevice device) {
  return filled("full", size, value, dtype.value_or(kind_of(value)), or_cpu(device));
}
Tensor scalar_tensor(Call&, const Scalar& s, OptionalDtype dtype, OptionalDevice device) {
  return filled("scalar_tensor", {}, s, dtype.value_or(kind_of(s)), or_cpu(device));
}

Tensor empty_like(Call&, const Tensor& self, OptionalDtype dtype, OptionalDevice device,
                  std::optional<MemoryFormat> format) {
  return make_tensor(self.sizes(), dtype.value_or(self.dtype()), resolve(device.value_or(self.device())),
                     detail::format_strides(self, format.value_or(MemoryFormat::preserve), "empty_like"));
}
Tensor full_like(Call&, const Tensor& self, const Scalar& value, OptionalDtype dtype, OptionalDevice device,
                 std::optional<MemoryFormat> format) {
  return filled("full_like", self.sizes(), value, dtype.value_or(self.dtype()), resolve(device.value_or(self.device())),
                detail::format_strides(self, format.value_or(MemoryFormat::preserve), "empty_like"));
}
Tensor zeros_like(Call& call, const Tensor& self, OptionalDtype dtype, OptionalDevice device,
                  std::optional<MemoryFormat> format) {
  return full_like(call, self, 0, dtype, device, format);
}
Tensor ones_like(Call& call, const Tensor& self, OptionalDtype dtype, OptionalDevice device,
                 std::optional<MemoryFormat> format) {
  return full_like(call, self, 1, dtype, device, format);
}
Tensor new_empty(Call&, const Tensor& self, IntArrayRef size, OptionalDtype dtype, OptionalDevice device) {
  checked_numel(size, "new_empty");
  return make_tensor(size, dtype.value_or(self.dtype()), resolve(device.value_or(self.device())));
}
Tensor new_empty_strided(Call&, const Tensor& self, IntArrayRef size, IntArrayRef stride, OptionalDtype dtype,
                         OptionalDevice device) {
  return op::empty_strided(size, stride, dtype.value_or(self.dtype()), device.value_or(self.device()));
}
Tensor new_full(Call&, const Tensor& self, IntArrayRef size, const Scalar& value, OptionalDtype dtype,
                OptionalDevice device) {
  return filled("new_full", size, value, dtype.value_or(self.dtype()), resolve(device.value_or(self.device())));
}
Tensor new_zeros(Call& call, const Tensor& self, IntArrayRef size, OptionalDtype dtype, OptionalDevice device) {
  return new_full(call, self, size, 0, dtype, device);
}
Tensor new_ones(Call& call, const Tensor& self, IntArrayRef size, OptionalDtype dtype, OptionalDevice device) {
  return new_full(call, self, size, 1, dtype, device);
}

Tensor arange_step(Call& call, const Scalar& start, const Scalar& end, const Scalar& step, OptionalDtype dtype,
                   OptionalDevice device) {
  TENON_CHECK(!start.is_complex() && !end.is_complex() && !step.is_complex(), DtypeError,
              "arange: complex numbers have no order");
  const bool integral = !start.is_floating_point() && !end.is_floating_point() && !step.is_floating_point();
  const DType t = dtype.value_or(integral ? kInt64 : default_dtype());
  TENON_CHECK(std::isfinite(start.real()) && std::isfinite(end.real()), ValueError,
              "arange: expected finite bounds, got ", start, " and ", end);
  TENON_CHECK(step.real() != 0 && !std::isnan(step.real()), ValueError, "arange: step: must not be zero, got ", step);
  TENON_CHECK((end.real() - start.real()) * (step.real() > 0 ? 1 : -1) >= 0, ValueError, "arange: the step ", step,
              " does not lead from ", start, " to ", end);
  int64_t n;
  if (integral || t == kInt64) {
    TENON_CHECK(step.integer() != 0, ValueError, "arange: step: must not be zero as an int64, got ", step);
    // int64 drops fractions first. The distance may not fit although the count does: both are exact as unsigned numbers.
    const auto a = static_cast<uint64_t>(start.integer()), b = static_cast<uint64_t>(end.integer());
    const auto s = static_cast<uint64_t>(step.integer());
    const uint64_t distance = step.integer() > 0 ? b - a : a - b, stride = step.integer() > 0 ? s : 0 - s;
    n = static_cast<int64_t>(distance / stride + (distance % stride != 0));
    TENON_CHECK(n >= 0, ShapeError, "arange: too many elements between ", start, " and ", end);
  } else {
    const double count = std::ceil((end.real() - start.real()) / step.real());
    TENON_CHECK(count < 9e18, ShapeError, "arange: too many elements between ", start, " and ", end);
    n = static_cast<int64_t>(count);
  }
  checked_numel(IntArrayRef(n), "arange");
  const Device d = or_cpu(device);
  call.enter(d);
  const Tensor out = make_tensor(IntArrayRef(n), t, d);
  // Integers count in integers: the fractions of floating bounds are dropped before the first step, as in PyTorch.
  const bool whole = is_integral(t, true);
  const Scalar first = whole ? Scalar(start.integer()) : start, by = whole ? Scalar(step.integer()) : step;
  if (!d.is_meta() && n != 0) op::arange_step.kernel(out.backend(), dispatch::key_of(t))(out, first, by);
  return out;
}
Tensor arange(Call&, const Scalar& end, OptionalDtype dtype, OptionalDevice device) {
  return op::arange_step(end.is_floating_point() ? Scalar(0.0) : Scalar(0), end, 1, dtype, device);
}
Tensor linspace(Call& call, const Scalar& start, const Scalar& end, int64_t steps, OptionalDtype dtype,
                OptionalDevice device) {
  TENON_CHECK(steps >= 0, ValueError, "linspace: steps: must not be negative, got ", steps);
  const bool complex = start.is_complex() || end.is_complex();
  const DType t = dtype.value_or(complex ? complex_of(default_dtype()) : default_dtype());
  TENON_CHECK(!complex || is_complex(t), DtypeError, "linspace: complex bounds need a complex dtype, got ", t);
  const Device d = or_cpu(device);
  call.enter(d);
  const Tensor out = make_tensor(IntArrayRef(steps), t, d);
  const bool whole = is_integral(t, true);  // bounds without their fractions first, as in PyTorch
  const Scalar from = whole ? Scalar(start.integer()) : start, to = whole ? Scalar(end.integer()) : end;
  if (!d.is_meta() && steps != 0) op::linspace.kernel(out.backend(), dispatch::key_of(t))(out, from, to);
  return out;
}

Tensor logspace(Call&, const Scalar& start, const Scalar& end, int64_t steps, double base, OptionalDtype dtype,
                OptionalDevice device) {
  TENON_CHECK(steps >= 0, ValueError, "logspace: steps: must not be negative, got ", steps);
  const bool complex = start.is_complex() || end.is_complex();
  const DType t = dtype.value_or(complex ? complex_of(default_dtype()) : default_dtype());
  TENON_CHECK(!complex || is_complex(t), DtypeError, "logspace: complex bounds need a complex dtype, got ", t);
  const bool whole = is_integral(t, true);
  const Scalar from = whole ? Scalar(start.integer()) : start, to = whole ? Scalar(end.integer()) : end;
  const Tensor powers = op::pow(base, op::linspace(from, to, steps, is_complex(t) ? kComplex128 : kFloat64, device));
  if (!whole) return powers.to(t);
  // What is an integer but for the rounding of the power is not cut off below it.
  const Tensor near = op::round(powers), apart = op::abs(op::sub(powers, near, 1));
  return op::where(op::lt(apart, op::mul(op::abs(powers), 1e-15)), near, powers).to(t);
}
Tensor eye_m(Call&, int64_t n, int64_t m, OptionalDtype dtype, OptionalDevice device) {
  TENON_CHECK(n >= 0 && m >= 0, ValueError, "eye: expected sizes that are not negative, got ", n, " and ", m);
  const Tensor out = filled("eye", {n, m}, 0, or_default(dtype), or_cpu(device));
  const dispatch::BelowLayersGuard below;
  dispatch::make_view(out, {std::min(n, m)}, {m + 1}, 0).fill_(1);
  return out;
}
Tensor eye(Call& call, int64_t n, OptionalDtype dtype, OptionalDevice device) {
  return eye_m(call, n, n, dtype, device);
}

}  // namespace impl

Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double base, const TensorOptions& o) {
  return detail::with_options(op::logspace(start, end, steps, base, o.dtype(), o.device()), o);
}

}  // namespace tenon

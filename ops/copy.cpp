// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/copy.h>

#include <tenon/dispatch/make_tensor.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/raw_streams.h>

namespace tenon {
namespace detail {
DimVector format_strides(const Tensor& like, MemoryFormat format, const char* who);
}
// Strides of `like` in a memory format; empty for contiguous.
DimVector detail::format_strides(const Tensor& like, MemoryFormat format, const char* who) {
  if (format == MemoryFormat::contiguous) return {};
  if (format == MemoryFormat::preserve)
    return !like.is_contiguous() && dispatch::is_dense(like) ? DimVector(like.strides()) : DimVector();
  const std::size_t rank = format == MemoryFormat::channels_last ? 4 : 5;
  TENON_CHECK(static_cast<std::size_t>(like.dim()) == rank, ShapeError, who, ": memory_format: ", name(format),
              " needs ", rank, " dimensions, got ", like.dim());
  DimVector strides(rank);
  int64_t step = 1;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t d = k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;
    strides[d] = step;
    step *= like.sizes()[d];
  }
  return strides;
}

namespace {
using detail::format_strides;
using dispatch::make_tensor;

// Same device: one planned loop, dtype conversion inside.
void copy_on_device(const Tensor& to, const Tensor& from) {
  const DeviceGuard guard(to.device());
  const PlanOperand operands[] = {{&to, nullptr, to.dtype()}, {&from, nullptr, from.dtype()}};
  LoopPlan plan;
  make_plan(plan, to.sizes(), operands, 1);
  if (plan.numel != 0) op::copy.kernel(to.backend(), dispatch::key_of(to.dtype()))(plan);
}

// Contiguous bytes between devices. The stream of the device side orders the copy.
void copy_bytes(const Tensor& to, const Tensor& from, bool non_blocking) {
  const Device side = to.is_cpu() ? from.device() : to.device();
  const DeviceGuard guard(side);
  const Stream stream = current_stream(side);
  if (!to.is_cpu() && !from.is_cpu()) current_stream(to.device()).wait_stream(current_stream(from.device()));
  raw_streams(side.type()).copy(side.index(), stream.handle(), to.data_ptr(), from.data_ptr(), to.nbytes());
  if (!to.is_cpu() && !from.is_cpu()) {
    current_stream(from.device()).wait_stream(stream);  // the source may be freed or written by its own stream next
    return;
  }
  // Pageable memory is staged by the driver before the call returns; pinned memory is read or written later.
  const Tensor& host = to.is_cpu() ? to : from;
  if (!non_blocking && (to.is_cpu() || host.is_pinned())) stream.synchronize();
  if (non_blocking && to.is_cpu() && !host.is_pinned()) stream.synchronize();
  if (non_blocking && host.is_pinned()) host.record_stream(stream);
}

void copy_any(const Tensor& to, const Tensor& from, bool non_blocking) {
  if (to.is_meta() || from.is_meta()) {
    TENON_CHECK(to.is_meta(), DeviceError, "copy_: src: a meta tensor has no data to copy");
    return;
  }
  if (to.numel() == 0) return;
  if (to.device() == from.device()) return copy_on_device(to, from);
  // Convert on the source's side, move contiguous bytes, scatter on the destination's side.
  Tensor source = from;
  if (source.dtype() != to.dtype() || !source.is_contiguous() || !(source.sizes() == to.sizes())) {
    source = make_tensor(to.sizes(), to.dtype(), from.device());
    copy_on_device(source, from);
  }
  // Devices of two kinds do not know each other's memory.
  if (!to.is_cpu() && !from.is_cpu() && to.device().type() != from.device().type()) source = source.to(Device(kCPU));
  if (to.is_contiguous()) return copy_bytes(to, source, non_blocking && source.is_same(from));
  const Tensor landing = make_tensor(to.sizes(), to.dtype(), to.device());
  copy_bytes(landing, source, false);
  copy_on_device(to, landing);
}

}  // namespace

namespace impl {

Tensor copy(Call& call, const Tensor& self, const Tensor& src, bool non_blocking) {
  TENON_CHECK(dispatch::broadcast_sizes(self.sizes(), src.sizes(), "copy_") == IntArrayRef(self.sizes()), ShapeError,
              "copy_: src: sizes ", src.sizes(), " do not broadcast to self's ", self.sizes());
  const Tensor out = call.output(0, self.sizes(), self.dtype(), self.device());
  if (call.form != dispatch::Form::functional && out.is_same(call.destinations[0])) {
    if (dispatch::overlap(out, src) == dispatch::Overlap::full) return out;
    const Tensor* inputs[] = {&src};
    dispatch::check_writable("copy_", out, inputs);
  }
  copy_any(out, src, non_blocking);
  return out;
}

Tensor clone(Call&, const Tensor& self, std::optional<MemoryFormat> format) {
  const DimVector strides = format_strides(self, format.value_or(MemoryFormat::preserve), "clone");
  const Tensor out = make_tensor(self.sizes(), self.dtype(), self.device(), strides);
  copy_any(out, self, false);
  return out;
}

Tensor contiguous(Call&, const Tensor& self, MemoryFormat format) {
  return self.is_contiguous(format) ? self : op::clone(self, format);
}

Tensor to_copy(Call&, const Tensor& self, std::optional<DType> dtype, std::optional<Device> device, bool non_blocking,
               std::optional<MemoryFormat> format) {
  const Device target = resolve(device.value_or(self.device()));
  const DimVector strides = format_strides(self, format.value_or(MemoryFormat::preserve), "to");
  const bool pinned = target.is_cpu() && (self.is_cuda() || self.device().is_sim()) && non_blocking;
  const Tensor out = make_tensor(self.sizes(), dtype.value_or(self.dtype()), target, strides, pinned);
  copy_any(out, self, non_blocking);
  return out;
}

Tensor to(Call&, const Tensor& self, std::optional<DType> dtype, std::optional<Device> device, bool non_blocking,
          bool copy, std::optional<MemoryFormat> format) {
  const Device target = device ? resolve(*device) : self.device();
  const bool fits = dtype.value_or(self.dtype()) == self.dtype() && target == self.device() &&
                    (!format || *format == MemoryFormat::preserve || self.is_contiguous(*format));
  if (fits && !copy) return self;
  return op::to_copy(self, dtype, target, non_blocking, format);
}
Tensor to_dtype(Call&, const Tensor& self, DType dtype, bool non_blocking, bool copy,
                std::optional<MemoryFormat> format) {
  return op::to(self, dtype, {}, non_blocking, copy, format);
}
Tensor to_device(Call&, const Tensor& self, Device device, DType dtype, bool non_blocking, bool copy,
                 std::optional<MemoryFormat> format) {
  return op::to(self, dtype, device, non_blocking, copy, format);
}
Tensor to_other(Call&, const Tensor& self, const Tensor& other, bool non_blocking, bool copy,
                std::optional<MemoryFormat> format) {
  return op::to(self, other.dtype(), other.device(), non_blocking, copy, format);
}

Scalar item(Call&, const Tensor& self) {
  TENON_CHECK(self.numel() == 1, ShapeError, "item: self: expected one element, got sizes ", self.sizes());
  TENON_CHECK(!self.is_meta(), DeviceError, "item: self: a meta tensor has no value");
  Tensor host = self;
  if (!self.is_cpu()) {
    host = make_tensor({}, self.dtype(), Device(kCPU));
    const Tensor flat = dispatch::make_alias(self);
    flat.impl()->set_geometry({}, {}, self.storage_offset());
    copy_bytes(host, flat, false);
  }
  Scalar value;
  visit_dtype<Join<AllTypes, Float8s>>("item", self.dtype(), [&](auto tag) {
    value = Scalar(*static_cast<const typename decltype(tag)::type*>(host.data_ptr()));
  });
  return value;
}

}  // namespace impl
}  // namespace tenon

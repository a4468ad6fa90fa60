// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/copy.h>

#include <tenon/core/warning.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/memory/accesses.h>
#include <tenon/ops/staged_copy.h>
#include <tenon/streams/graph.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/safety.h>

#include <cstring>

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

void detail::copy_on_device(const Tensor& to, const Tensor& from) {
  const DeviceGuard guard(to.device());
  const PlanOperand operands[] = {{&to, nullptr, to.dtype()}, {&from, nullptr, from.dtype()}};
  LoopPlan plan;
  make_plan(plan, to.sizes(), operands, 1);
  if (plan.numel != 0) op::copy.kernel(to.backend(), dispatch::key_of(to.dtype()))(plan);
}

namespace {
using detail::format_strides;
using dispatch::make_tensor;

// The host memory of a copy, told to stream safety: the operator itself only sees the device's side there.
void touch_pinned(const Tensor& host, bool write, const Stream& stream) {
  StorageImpl* const storage = host.impl()->storage().get();
  if (stream_safety() == StreamSafety::off || !memory::is_tracked(storage)) return;
  const memory::Touch touch{storage,
                            stream,
                            host.storage_offset() * host.itemsize(),
                            host.storage_offset() * host.itemsize() + host.nbytes(),
                            write,
                            "host memory"};
  memory::touch({&touch, 1}, current_operator ? current_operator : "copy");
}

// Contiguous bytes between a device and host memory that is page-locked, or few.
void copy_host(const Tensor& to, const Tensor& from, const Stream& stream, bool non_blocking) {
  const Tensor& host = to.is_cpu() ? to : from;
  const bool pinned = host.is_pinned();
  if (pinned) touch_pinned(host, to.is_cpu(), stream);
  raw_streams(stream.device().type())
      .copy(stream.device().index(), stream.handle(), to.impl()->data(), from.impl()->data(), to.nbytes());
  // Pageable memory has been read when the call returns; page-locked memory is read or written later.
  if (pinned) host.record_stream(stream);
  if (pinned ? !non_blocking : to.is_cpu()) return stream.synchronize();
  if (pinned && to.is_cpu() && stream_safety() != StreamSafety::off) memory::note_landing(to.storage().get(), stream);
}

constexpr int64_t kDriverStages = int64_t{64} << 10;  // the driver's own staging serves as well

void warn_blocking(const char* why) {
  std::string site;
  if (detail::first_from_here(why, &site))
    warn(detail::concat(current_operator ? std::string_view(current_operator, std::strcspn(current_operator, "("))
                                         : std::string_view("copy"),
                        ": non_blocking has no effect: ", why, "\n  at ", site));
}

// Between a device and host memory, which may be pageable, strided, or (from) of another dtype.
void copy_between(const Tensor& to, const Tensor& from, bool non_blocking) {
  const Tensor& host = to.is_cpu() ? to : from;
  const Device side = to.is_cpu() ? from.device() : to.device();
  const DeviceGuard guard(side);
  const Stream stream = current_stream(side);
  const bool plain = host.is_contiguous() && to.dtype() == from.dtype();
  const bool staged = !plain || (!host.is_pinned() && to.nbytes() > kDriverStages);
  if (non_blocking && to.is_cpu() && !(plain && to.is_pinned()))
    warn_blocking(plain ? "the destination is pageable memory; make it with pinned_memory(true)"
                        : "the destination is not contiguous");
  if (non_blocking && staged && from.is_cpu() && to.nbytes() > 2 * detail::kStagingBytes)
    warn_blocking(plain ? "the source is pageable memory; use pin_memory()" : "the source must be gathered first");
  if (!staged) return copy_host(to, from, stream, non_blocking);
  try {
    if (!stream.is_capturing())
      return from.is_cpu() ? detail::copy_staged_to_device(to, from, stream)
                           : detail::copy_staged_to_host(to, from, stream);
  } catch (const OutOfMemoryError&) {  // no page-locked memory to be had: the driver has its own
  }
  if (plain) return copy_host(to, from, stream, non_blocking);
  const Tensor middle = make_tensor(to.sizes(), to.dtype(), Device(kCPU));
  if (from.is_cpu()) detail::copy_on_device(middle, from);
  copy_host(from.is_cpu() ? to : middle, from.is_cpu() ? middle : from, stream, false);
  if (to.is_cpu()) detail::copy_on_device(to, middle);
}

// Contiguous bytes between two devices of one kind. Either stream waits for the other.
void copy_devices(const Tensor& to, const Tensor& from) {
  const DeviceGuard guard(to.device());
  const Stream stream = current_stream(to.device()), other = current_stream(from.device());
  stream.wait_stream(other);
  raw_streams(to.device().type())
      .copy(to.device().index(), stream.handle(), to.impl()->data(), from.impl()->data(), to.nbytes());
  other.wait_stream(stream);  // the source may be freed or written by its own stream next
}

void copy_any(const Tensor& to, const Tensor& from, bool non_blocking) {
  if (to.is_meta() || from.is_meta()) {
    TENON_CHECK(to.is_meta(), DeviceError, "copy_: src: a meta tensor has no data to copy");
    return;
  }
  if (to.numel() == 0) return;
  if (to.device() == from.device()) return detail::copy_on_device(to, from);
  if (!to.is_contiguous() && !to.is_cpu()) {  // scattered, or spread, by the device
    const Tensor landing = make_tensor(from.sizes(), to.dtype(), to.device());
    copy_any(landing, from, non_blocking);
    return detail::copy_on_device(to, landing);
  }
  const bool same = from.dtype() == to.dtype(), whole = from.sizes() == to.sizes();
  if (from.is_cpu()) {  // conversion and gathering are the CPU's
    if (whole) return copy_between(to, from, non_blocking);
    const Tensor landing = make_tensor(from.sizes(), to.dtype(), to.device());
    copy_between(landing, from, non_blocking);
    return detail::copy_on_device(to, landing);
  }
  // Conversion and gathering are the device's.
  Tensor source = from;
  if (!same || !whole || !from.is_contiguous()) {
    source = make_tensor(to.sizes(), to.dtype(), from.device());
    detail::copy_on_device(source, from);
  }
  if (to.is_cpu()) return copy_between(to, source, non_blocking);
  // Devices of two kinds do not know each other's memory.
  if (to.device().type() != from.device().type()) return copy_any(to, source.to(Device(kCPU)), false);
  copy_devices(to, source);
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
    const Stream stream = current_stream(self.device());
    detail::check_wait("item", self.device(), &stream);  // for operators that call it
    host = make_tensor({}, self.dtype(), Device(kCPU));
    const Tensor flat = dispatch::make_alias(self);
    flat.impl()->set_geometry({}, {}, self.storage_offset());
    copy_between(host, flat, false);
  }
  Scalar value;
  visit_dtype<Join<AllTypes, Float8s>>("item", self.dtype(), [&](auto tag) {
    value = Scalar(*static_cast<const typename decltype(tag)::type*>(host.data_ptr()));
  });
  return value;
}

}  // namespace impl
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Memory formats (order of the strides of a dense tensor), layouts, and the options of a new tensor.
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/dtype.h>

#include <optional>

namespace tenon {

enum class MemoryFormat : uint8_t { contiguous, preserve, channels_last, channels_last_3d };
enum class Layout : uint8_t { strided, sparse_coo, sparse_csr };
TENON_API const char* name(MemoryFormat f);

/// What a new tensor is like. Unset fields mean: default dtype (or the kind of the given number), the
/// device of the surrounding DeviceGuard's default (CPU), no gradient.
///   auto x = zeros({2, 3}, TensorOptions().dtype(kFloat64).device(kCUDA).requires_grad(true));
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(DType t) : dtype_(t) {}                // NOLINT
  TensorOptions(Device d) : device_(d) {}              // NOLINT
  TensorOptions(DeviceType d) : device_(Device(d)) {}  // NOLINT
  TensorOptions dtype(std::optional<DType> t) const {
    auto o = *this;
    o.dtype_ = t;
    return o;
  }
  TensorOptions device(std::optional<Device> d) const {
    auto o = *this;
    o.device_ = d;
    return o;
  }
  TensorOptions device(DeviceType d) const { return device(Device(d)); }
  TensorOptions requires_grad(bool on) const {
    auto o = *this;
    o.requires_grad_ = on;
    return o;
  }
  TensorOptions pinned_memory(bool on) const {
    auto o = *this;
    o.pinned_ = on;
    return o;
  }
  TensorOptions memory_format(std::optional<MemoryFormat> f) const {
    auto o = *this;
    o.format_ = f;
    return o;
  }

  std::optional<DType> dtype() const { return dtype_; }
  std::optional<Device> device() const { return device_; }
  std::optional<MemoryFormat> memory_format() const { return format_; }
  bool requires_grad() const { return requires_grad_; }
  bool pinned_memory() const { return pinned_; }

 private:
  std::optional<DType> dtype_;
  std::optional<Device> device_;
  std::optional<MemoryFormat> format_;
  bool requires_grad_ = false;
  bool pinned_ = false;
};
inline TensorOptions dtype(DType t) { return TensorOptions(t); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

}  // namespace tenon

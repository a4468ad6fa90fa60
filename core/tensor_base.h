// SPDX-License-Identifier: Apache-2.0
// TensorBase: a counted handle to a strided array on some device, with everything that needs no operator.
// Tensor (core/tensor.h) adds gradients, operators and indexing. Copying a handle shares the array.
// Thread safety: distinct handles to one tensor may be used from any thread for reading; writes to the same
// data or metadata need the caller's own ordering.
#pragma once

#include <tenon/core/accessor.h>
#include <tenon/core/scalar.h>
#include <tenon/core/tensor_impl.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// `d` counted from the end when negative; IndexError naming `who` when outside [-rank, rank) (rank 0 counts as 1).
TENON_API int64_t wrap_dim(int64_t d, int64_t rank, const char* who);
/// Product of `sizes`; ShapeError naming `who` when one is negative or the count overflows.
TENON_API int64_t checked_numel(IntArrayRef sizes, const char* who);
namespace detail {
[[noreturn, gnu::cold]] TENON_API void undefined_tensor(const char* who);
}

class TENON_API TensorBase {
 public:
  constexpr TensorBase() = default;
  explicit TensorBase(Ref<TensorImpl> impl) : impl_(static_cast<Ref<TensorImpl>&&>(impl)) {}

  // --- metadata: never launches work; ValueError on an undefined tensor, never fails on a defined one ---
  bool defined() const { return impl_.get() != nullptr; }
  explicit operator bool() const = delete;  // ask defined() or item<bool>()
  int64_t dim() const { return known("dim").dim(); }
  int64_t numel() const { return known("numel").numel(); }
  IntArrayRef sizes() const { return known("sizes").sizes(); }
  IntArrayRef strides() const { return known("strides").strides(); }
  /// Size or stride (in elements) of one dimension; negative counts from the end. IndexError when out of range.
  int64_t size(int64_t d) const;
  int64_t stride(int64_t d) const;
  int64_t storage_offset() const { return known("storage_offset").offset(); }
  DType dtype() const { return known("dtype").dtype(); }
  int64_t itemsize() const { return item_size(dtype()); }
  int64_t nbytes() const { return numel() * itemsize(); }
  Device device() const { return known("device").device(); }
  Backend backend() const { return known("backend").backend(); }
  Layout layout() const { return Layout::strided; }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_meta() const { return device().is_meta(); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  bool is_floating_point() const { return tenon::is_floating_point(dtype()); }
  bool is_complex() const { return tenon::is_complex(dtype()); }
  bool is_pinned() const { return storage() && storage()->pinned(); }
  TensorOptions options() const;
  const Storage& storage() const { return known("storage").storage(); }
  /// Version of the storage: grows with every in-place write to any view of it.
  uint32_t version() const { return storage() ? storage()->version() : 0; }
  /// Made in inference mode: it can never enter a graph.
  bool is_inference() const { return known("is_inference").inference(); }
  bool is_same(const TensorBase& other) const { return impl_ == other.impl_; }
  uint32_t use_count() const { return impl_ ? impl_->use_count() : 0; }
  void reset() { impl_ = nullptr; }
  TensorImpl* impl() const { return impl_.get(); }

  // --- data -------------------------------------------------------------------------------------------
  /// Address of the first element (device memory for device tensors); null when there are no elements.
  void* data_ptr() const { return known("data_ptr").data(); }
  /// The same, typed; DtypeError when T is not the tensor's type.
  template <class T>
  T* data_ptr() const {
    TENON_CHECK(dtype() == dtype_of<T>(), DtypeError, "data_ptr: expected ", dtype_of<T>(), ", got ", dtype());
    return static_cast<T*>(impl_->data());
  }
  /// Strided view of host data with N dimensions for element loops; ShapeError, DtypeError or DeviceError.
  template <class T, int N>
  TensorAccessor<T, N> accessor() const& {
    TENON_CHECK(dim() == N, ShapeError, "accessor: expected ", N, " dimensions, got ", dim());
    TENON_CHECK(is_cpu(), DeviceError, "accessor: expected a CPU tensor, got one on ", device());
    return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
  }
  /// An accessor reads sizes and strides where the tensor keeps them: give the tensor a name first.
  template <class T, int N>
  TensorAccessor<T, N> accessor() const&& = delete;
  /// The contiguous host elements; ShapeError when not contiguous.
  template <class T>
  std::span<T> span() const {
    TENON_CHECK(is_contiguous(), ShapeError, "span: expected a contiguous tensor");
    TENON_CHECK(is_cpu(), DeviceError, "span: expected a CPU tensor, got one on ", device());
    return {data_ptr<T>(), static_cast<std::size_t>(numel())};
  }

 protected:
  const TensorImpl& known(const char* who) const {
    if (!impl_) [[unlikely]]
      detail::undefined_tensor(who);
    return *impl_;
  }
  Ref<TensorImpl> impl_;
};

}  // namespace tenon

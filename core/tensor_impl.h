// SPDX-License-Identifier: Apache-2.0
// TensorImpl: the metadata block behind a Tensor handle. Sizes and strides of up to kInlineDims dimensions
// are inline; larger ranks hang on one heap block. Blocks come from a per-thread pool.
// Thread safety: reading from many threads is fine; changing metadata (resize_, set requires_grad) needs
// exclusive access, like any C++ object.
#pragma once

#include <tenon/core/int_array.h>
#include <tenon/core/memory_format.h>
#include <tenon/core/storage.h>

namespace tenon {

/// What autograd hangs on a tensor (gradient, graph edge, view relation). core knows only how to delete it.
struct TENON_API AutogradSlot {
  virtual ~AutogradSlot();
};

/// How a view came to be: writing in place through any but a normal one is an error under autograd.
enum class ViewMode : uint8_t { normal, multi_output, no_grad, inference, custom_function };

class TENON_API TensorImpl : public Counted {
 public:
  /// `strides` empty: contiguous. Sizes are trusted (non-negative, product fits): make_tensor checks.
  static TensorImpl* create(Storage storage, DType dtype, Backend backend, Device device, IntArrayRef sizes,
                            IntArrayRef strides = {}, int64_t offset = 0);
  static void destroy(TensorImpl* t) noexcept;

  int dim() const { return dim_; }
  int64_t numel() const { return numel_; }
  IntArrayRef sizes() const { return {dims_, static_cast<std::size_t>(dim_)}; }
  IntArrayRef strides() const { return {dims_ + dim_, static_cast<std::size_t>(dim_)}; }
  int64_t offset() const { return offset_; }
  DType dtype() const { return dtype_; }
  Backend backend() const { return backend_; }
  Device device() const { return device_; }
  bool is_contiguous() const { return contiguous_; }
  const Storage& storage() const { return storage_; }
  void* data() const {
    return storage_ && storage_->data() ? static_cast<char*>(storage_->data()) + offset_ * item_size(dtype_) : nullptr;
  }
  /// New sizes, strides and offset over the same storage.
  void set_geometry(IntArrayRef sizes, IntArrayRef strides, int64_t offset);
  /// Takes over another tensor's data and geometry, keeping identity and autograd's part: handles to this tensor see it.
  void take_data(const TensorImpl& from);
  void set_storage(Storage s) { storage_ = static_cast<Storage&&>(s); }

  // --- autograd's part -------------------------------------------------------------------------------
  // Every view remembers its base: the relation must exist before anything requires grad, because an in-place
  // write through the view with a differentiable operand gives the base a history afterwards.
  /// A gradient may have to flow through this tensor: a leaf that asked for it, a result of one, or a view of such.
  /// Cheap, and true too often for views made without recording; autograd::takes_part decides.
  bool requires_grad() const { return requires_grad_ || (base_ && base_->requires_grad_); }
  bool own_requires_grad() const { return requires_grad_; }
  void set_requires_grad(bool on) { requires_grad_ = on; }
  /// The tensor this one is a differentiable view of (never itself a view); null for others.
  const Ref<TensorImpl>& base() const { return base_; }
  ViewMode view_mode() const { return view_mode_; }
  void set_base(Ref<TensorImpl> base, ViewMode mode) {
    base_ = static_cast<Ref<TensorImpl>&&>(base);
    view_mode_ = mode;
  }
  /// Made under InferenceMode: never part of a graph, no version counting.
  bool inference() const { return inference_; }
  void set_inference(bool on) { inference_ = on; }
  AutogradSlot* autograd = nullptr;  ///< owned

 private:
  TensorImpl() = default;
  ~TensorImpl() = default;
  void set_dims(IntArrayRef sizes, IntArrayRef strides);

  DType dtype_ = DType::undefined;
  Backend backend_ = Backend::cpu;
  Device device_;
  uint8_t dim_ = 0;
  bool contiguous_ = true;
  bool requires_grad_ = false;
  bool inference_ = false;
  ViewMode view_mode_ = ViewMode::normal;
  Storage storage_;
  Ref<TensorImpl> base_;
  int64_t offset_ = 0;
  int64_t numel_ = 0;
  int64_t* dims_ = inline_;
  int64_t inline_[2 * kInlineDims];
};

}  // namespace tenon

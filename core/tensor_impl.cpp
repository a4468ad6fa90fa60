// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/pool.h>
#include <tenon/core/tensor_impl.h>
#include <tenon/core/tensor_observer.h>

namespace tenon {
namespace {
constinit detail::TensorObserver* tensor_observer = nullptr;
detail::TensorObserver* observer() { return __atomic_load_n(&tensor_observer, __ATOMIC_ACQUIRE); }
}  // namespace

detail::TensorObserver::~TensorObserver() = default;
detail::TensorObserver* detail::exchange_tensor_observer(TensorObserver* observer) noexcept {
  return __atomic_exchange_n(&tensor_observer, observer, __ATOMIC_ACQ_REL);
}

AutogradSlot::~AutogradSlot() = default;

StorageImpl* StorageImpl::create(DataPtr memory, int64_t bytes, Device device) {
  return ::new (detail::Pool<StorageImpl>::take()) StorageImpl(memory, bytes, device);
}

void StorageImpl::destroy(StorageImpl* s) noexcept {
  if (s->memory_.deleter) s->memory_.deleter(s->memory_.context);
  s->~StorageImpl();
  detail::Pool<StorageImpl>::give(s);
}

void StorageImpl::replace(DataPtr memory, int64_t bytes) {
  const DataPtr old = memory_;
  memory_ = memory;
  bytes_ = bytes;
  if (old.deleter) old.deleter(old.context);
}

TensorImpl* TensorImpl::create(Storage storage, DType dtype, Backend backend, Device device, IntArrayRef sizes,
                               IntArrayRef strides, int64_t offset) {
  auto* t = ::new (detail::Pool<TensorImpl>::take()) TensorImpl();
  t->storage_ = static_cast<Storage&&>(storage);
  t->dtype_ = dtype;
  t->backend_ = backend;
  t->device_ = device;
  t->offset_ = offset;
  t->set_dims(sizes, strides);
  if (detail::TensorObserver* o = observer()) [[unlikely]]
    o->created(t);
  return t;
}

void TensorImpl::destroy(TensorImpl* t) noexcept {
  if (detail::TensorObserver* o = observer()) [[unlikely]]
    o->destroyed(t);
  delete t->autograd;
  if (t->dims_ != t->inline_) delete[] t->dims_;
  t->~TensorImpl();
  detail::Pool<TensorImpl>::give(t);
}

void TensorImpl::set_geometry(IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  offset_ = offset;
  // The arguments may point into this block.
  const DimVector own_sizes(sizes), own_strides(strides);
  if (dims_ != inline_) delete[] dims_;
  dims_ = inline_;
  set_dims(own_sizes, own_strides);
}

void TensorImpl::take_data(const TensorImpl& from) {
  storage_ = from.storage_;
  dtype_ = from.dtype_;
  backend_ = from.backend_;
  device_ = from.device_;
  set_geometry(from.sizes(), from.strides(), from.offset_);
}

void TensorImpl::set_dims(IntArrayRef sizes, IntArrayRef strides) {
  const std::size_t n = sizes.size();
  if (n > kInlineDims) {
    TENON_ASSERT(n <= kMaxDims);
    dims_ = new int64_t[2 * n];
  }
  dim_ = static_cast<uint8_t>(n);
  int64_t numel = 1;
  bool contiguous = true;
  if (strides.empty()) {
    int64_t stride = 1;
    for (std::size_t i = n; i-- > 0;) {
      const int64_t size = sizes[i];
      dims_[i] = size;
      dims_[n + i] = stride;
      stride *= size > 1 ? size : 1;
      numel *= size;
    }
  } else {
    int64_t expected = 1;
    for (std::size_t i = n; i-- > 0;) {
      const int64_t size = sizes[i];
      dims_[i] = size;
      dims_[n + i] = strides[i];
      numel *= size;
      if (size != 1) {
        contiguous = contiguous && strides[i] == expected;
        expected *= size;
      }
    }
    contiguous = contiguous || numel == 0;
  }
  numel_ = numel;
  contiguous_ = contiguous;
}

}  // namespace tenon

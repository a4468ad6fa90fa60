// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/tensor.h>

namespace tenon {

int64_t TensorBase::size(int64_t d) const { return sizes()[static_cast<std::size_t>(wrap_dim(d, dim(), "size"))]; }
int64_t TensorBase::stride(int64_t d) const {
  return strides()[static_cast<std::size_t>(wrap_dim(d, dim(), "stride"))];
}

bool TensorBase::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::contiguous || format == MemoryFormat::preserve)
    return known("is_contiguous").is_contiguous();
  const int rank = format == MemoryFormat::channels_last ? 4 : 5;
  if (dim() != rank) return false;
  if (numel() == 0) return true;
  // Channels innermost, then the spatial dimensions from the last one, then the batch.
  int64_t expected = 1;
  for (int step = 0; step < rank; ++step) {
    const auto d = static_cast<std::size_t>(step == 0 ? 1 : step == rank - 1 ? 0 : rank - step);
    if (sizes()[d] != 1 && strides()[d] != expected) return false;
    expected *= sizes()[d];
  }
  return true;
}

TensorOptions TensorBase::options() const { return TensorOptions(dtype()).device(device()); }

namespace detail {
void undefined_tensor(const char* who) {
  fail<ValueError>(who,
                   ": expected a tensor, got an undefined one (default-constructed, or a gradient that is absent)");
}
}  // namespace detail

int64_t wrap_dim(int64_t d, int64_t rank, const char* who) {
  const int64_t range = rank == 0 ? 1 : rank;
  TENON_CHECK(d >= -range && d < range, IndexError, who, ": dim: expected a value in [", -range, ", ", range - 1,
              "], got ", d);
  return d < 0 ? d + range : d;
}

int64_t checked_numel(IntArrayRef sizes, const char* who) {
  TENON_CHECK(sizes.size() <= kMaxDims, ShapeError, who, ": a tensor has at most ", kMaxDims, " dimensions, got ",
              sizes.size());
  int64_t n = 1;
  bool zero = false, overflow = false;
  for (const int64_t s : sizes) {
    TENON_CHECK(s >= 0, ShapeError, who, ": sizes must not be negative, got ", sizes);
    zero = zero || s == 0;
    overflow = overflow || __builtin_mul_overflow(n, s, &n);
  }
  // 16 bytes is the largest element, so the byte count must fit too.
  int64_t bytes = 0;
  overflow = overflow || __builtin_mul_overflow(n, int64_t{16}, &bytes);
  TENON_CHECK(zero || !overflow, ShapeError, who, ": too many elements for sizes ", sizes);
  return zero ? 0 : n;
}

namespace detail {
Tensor wrap(DataPtr memory, int64_t bytes, DType t, IntArrayRef sizes) {
  Storage storage = Storage::adopt(StorageImpl::create(memory, bytes, Device(kCPU)));
  const int64_t n = checked_numel(sizes, "from_vector");
  TENON_CHECK(n * item_size(t) == bytes, ShapeError, "from_vector: sizes ", sizes, " need ", n, " elements, got ",
              bytes / item_size(t));
  return Tensor(Ref<TensorImpl>::adopt(
      TensorImpl::create(static_cast<Storage&&>(storage), t, Backend::cpu, Device(kCPU), sizes)));
}
}  // namespace detail

namespace {
struct BlobHolder {
  void* data;
  Function<void(void*)> deleter;
  static void free(void* p) {
    auto* holder = static_cast<BlobHolder*>(p);
    holder->deleter(holder->data);
    delete holder;
  }
};
}  // namespace

// A write that nobody could see: the memory is tenon's, and this handle the only one to it.
void Tensor::check_place() const {
  TENON_CHECK(defined(), ValueError,
              "operator=: cannot write to an undefined tensor; an absent gradient is set with set_grad()");
  if (use_count() > 1 || numel() == 0 || !storage() || storage()->use_count() > 1) return;
  TENON_CHECK(
      !storage()->context() || storage()->owned_by(&BlobHolder::free), ValueError,
      "operator=: the tensor on the left is a temporary copy, not a view; write with index_put_() where tensors "
      "among the indices gather, or give the copy a name");
}

Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options) {
  return from_blob(data, sizes, {}, nullptr, options);
}

Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, Function<void(void*)> deleter,
                 const TensorOptions& options) {
  const int64_t n = checked_numel(sizes, "from_blob");
  TENON_CHECK(strides.empty() || strides.size() == sizes.size(), ShapeError, "from_blob: strides: expected ",
              sizes.size(), " values, got ", strides);
  int64_t extent = n;
  int64_t bytes = 0;
  if (n != 0 && !strides.empty()) {
    extent = 1;
    bool overflow = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      TENON_CHECK(strides[i] >= 0, ShapeError, "from_blob: strides must not be negative, got ", strides);
      int64_t step = 0;
      overflow = overflow || __builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
                 __builtin_add_overflow(extent, step, &extent);
    }
    overflow = overflow || __builtin_mul_overflow(extent, int64_t{16}, &bytes);
    TENON_CHECK(!overflow, ShapeError, "from_blob: too many elements for sizes ", sizes, " with strides ", strides);
  }
  const DType t = options.dtype().value_or(default_dtype());
  Device device = options.device().value_or(Device(kCPU));
  if (!device.has_index()) device = Device(device.type(), 0);
  TENON_CHECK(data != nullptr || extent == 0, ValueError, "from_blob: data: expected an address for ", n,
              " elements, got null");
  DataPtr memory{data, nullptr, nullptr};
  if (deleter) memory = {data, new BlobHolder{data, static_cast<Function<void(void*)>&&>(deleter)}, &BlobHolder::free};
  Storage storage = Storage::adopt(StorageImpl::create(memory, extent * item_size(t), device));
  Tensor out(Ref<TensorImpl>::adopt(
      TensorImpl::create(static_cast<Storage&&>(storage), t, backend_of(device.type()), device, sizes, strides)));
  if (options.requires_grad()) out.requires_grad_();
  return out;
}

}  // namespace tenon

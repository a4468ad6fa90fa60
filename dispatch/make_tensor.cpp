// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/memory/allocator.h>
#include <tenon/streams/op_context.h>

#include <algorithm>

namespace tenon::dispatch {

Tensor make_tensor(IntArrayRef sizes, DType dtype, Device device, IntArrayRef strides, bool pinned) {
  if (!device.has_index()) device = resolve(device);
  // Operators multiply and broadcast sizes freely: here is where they must fit.
  int64_t extent = 1, bytes = 0;
  bool empty = false, overflow = false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    empty = empty || sizes[d] == 0;
    overflow = overflow || sizes[d] < 0;
    int64_t step = 0;
    if (strides.empty())
      overflow = __builtin_mul_overflow(extent, sizes[d], &extent) || overflow;
    else
      overflow = __builtin_mul_overflow(sizes[d] - 1, strides[d], &step) ||
                 __builtin_add_overflow(extent, step, &extent) || overflow;
  }
  if (empty) extent = 0;
  overflow = __builtin_mul_overflow(extent, item_size(dtype), &bytes) || (overflow && !empty);
  if (overflow) [[unlikely]] {
    const std::string_view schema = current_operator ? current_operator : "make_tensor";
    const std::string who(schema.substr(0, schema.find('(')));
    checked_numel(sizes, who.c_str());  // has the better words for most cases
    TENON_CHECK(false, ShapeError, who, ": too many elements for sizes ", sizes, " with strides ", strides);
  }
  Storage storage = memory::make_storage(device, bytes, pinned);
  TensorImpl* impl =
      TensorImpl::create(static_cast<Storage&&>(storage), dtype, backend_of(device.type()), device, sizes, strides);
  if (thread_state.inference) [[unlikely]]
    impl->set_inference(true);
  return Tensor(Ref<TensorImpl>::adopt(impl));
}

Tensor make_view(const Tensor& self, IntArrayRef sizes, IntArrayRef strides, int64_t offset, bool multi_output,
                 DType dtype) {
  TensorImpl* from = self.impl();
  if (dtype == DType::undefined) dtype = from->dtype();
  TensorImpl* impl =
      TensorImpl::create(from->storage(), dtype, from->backend(), from->device(), sizes, strides, offset);
  Ref<TensorImpl> view = Ref<TensorImpl>::adopt(impl);
  if (from->inference()) {
    impl->set_inference(true);
    return Tensor(static_cast<Ref<TensorImpl>&&>(view));
  }
  ViewMode mode = from->base() ? from->view_mode() : ViewMode::normal;
  if (mode == ViewMode::normal && multi_output) mode = ViewMode::multi_output;
  // Only a view of something that already takes part in a graph is spoilt by no-grad mode.
  if (!grad_enabled() && from->requires_grad())
    mode = thread_state.inference || mode == ViewMode::inference ? ViewMode::inference : ViewMode::no_grad;
  impl->set_base(from->base() ? from->base() : Ref<TensorImpl>::share(from), mode);
  return Tensor(static_cast<Ref<TensorImpl>&&>(view));
}

Tensor make_alias(const Tensor& self) {
  TensorImpl* from = self.impl();
  TensorImpl* impl = TensorImpl::create(from->storage(), from->dtype(), from->backend(), from->device(), from->sizes(),
                                        from->strides(), from->offset());
  impl->set_inference(from->inference());
  return Tensor(Ref<TensorImpl>::adopt(impl));
}

bool overlaps_itself(const Tensor& t) {
  if (t.is_contiguous() || t.numel() <= 1) return false;
  // Dimensions by stride: each must step over all that the smaller ones reach.
  std::pair<int64_t, int64_t> dims[kMaxDims];
  int n = 0;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.sizes()[d] > 1) dims[n++] = {t.strides()[d], t.sizes()[d]};
  std::sort(dims, dims + n);
  int64_t reach = 0;
  for (int i = 0; i < n; ++i) {
    if (dims[i].first <= reach) return true;
    reach += dims[i].first * (dims[i].second - 1);
  }
  return false;
}

bool is_dense(const Tensor& t) {
  if (t.is_contiguous()) return true;
  std::pair<int64_t, int64_t> dims[kMaxDims];
  int n = 0;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.sizes()[d] != 1) dims[n++] = {t.strides()[d], t.sizes()[d]};
  std::sort(dims, dims + n);
  int64_t expected = 1;
  for (int i = 0; i < n; ++i) {
    if (dims[i].first != expected) return false;
    expected *= dims[i].second;
  }
  return true;
}

Overlap overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || !(a.storage() == b.storage())) return Overlap::none;
  const auto range = [](const Tensor& t) {
    int64_t last = 0;
    for (int64_t d = 0; d < t.dim(); ++d) last += (t.sizes()[d] - 1) * t.strides()[d];
    const char* first = static_cast<const char*>(t.data_ptr());
    return std::pair(first, first + (last + 1) * t.itemsize());
  };
  if (a.data_ptr() == b.data_ptr() && a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides())
    return Overlap::full;
  const auto [a0, a1] = range(a);
  const auto [b0, b1] = range(b);
  if (a1 <= b0 || b1 <= a0) return Overlap::none;
  // Views of one grid: with strides that divide one another the distance has one digit per dimension.
  if (a.dim() > 0 && a.dim() == b.dim() && a.strides() == b.strides() && a.itemsize() == b.itemsize() &&
      (b0 - a0) % a.itemsize() == 0) {
    const Tensor &lower = a0 < b0 ? a : b, &upper = a0 < b0 ? b : a;
    int64_t rest = std::abs((b0 - a0) / a.itemsize());
    bool grid = true, apart = false;
    for (int64_t d = 0; d < a.dim() && grid; ++d) {
      const int64_t step = a.strides()[d], outer = d > 0 ? a.strides()[d - 1] : 0;
      grid = step > 0 && (d == 0 || outer % step == 0);
      if (!grid) break;
      const int64_t digit = rest / step;
      rest -= digit * step;
      grid = d == 0 || (lower.sizes()[d] * step <= outer && (digit + upper.sizes()[d]) * step <= outer);
      apart = apart || digit >= lower.sizes()[d];
    }
    if (grid && (apart || rest != 0)) return Overlap::none;
  }
  return Overlap::partial;
}

void check_writable(std::string_view who, const Tensor& out, std::span<const Tensor* const> inputs) {
  TENON_CHECK(!overlaps_itself(out), AliasError, who,
              ": the output has several elements at one address (an expanded tensor); write to a clone() instead");
  for (const Tensor* input : inputs) {
    if (!input || !input->defined()) continue;
    TENON_CHECK(
        overlap(out, *input) != Overlap::partial, AliasError, who,
        ": the output shares part of its memory with an input; clone() the input first, or write to another tensor");
  }
}

void resize(const Tensor& t, IntArrayRef sizes) {
  if (t.sizes() == sizes) return;
  const int64_t bytes = checked_numel(sizes, "resize") * t.itemsize() + t.storage_offset() * t.itemsize();
  if (!t.storage() || t.storage()->bytes() < bytes) {
    const DataPtr fresh = memory::allocate(t.device(), bytes);
    if (t.storage()) {
      t.storage()->replace(fresh, bytes);
    } else {
      t.impl()->set_storage(Storage::adopt(StorageImpl::create(fresh, bytes, t.device())));
    }
  }
  t.impl()->set_geometry(sizes, {}, t.storage_offset());
}

DimVector broadcast_sizes(IntArrayRef a, IntArrayRef b, std::string_view who) {
  const std::size_t rank = std::max(a.size(), b.size());
  DimVector out(rank);
  for (std::size_t i = 0; i < rank; ++i) {  // i counts from the last dimension
    const int64_t sa = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t sb = i < b.size() ? b[b.size() - 1 - i] : 1;
    TENON_CHECK(sa == sb || sa == 1 || sb == 1, ShapeError, who, ": sizes ", a, " and ", b,
                " do not broadcast: they differ at dimension ", static_cast<long long>(rank - 1 - i));
    out[rank - 1 - i] = sa == 1 ? sb : sa;
  }
  return out;
}

}  // namespace tenon::dispatch

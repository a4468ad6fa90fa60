// SPDX-License-Identifier: Apache-2.0
// Tensor: the handle users hold. Metadata and data access come from TensorBase; operators are one-line forwards in
// ops/tensor_methods.cpp, so methods and the free functions of ops/, documented there, are the same calls.
#pragma once

#include <tenon/core/tensor_base.h>

#include <tuple>

namespace tenon {

class Operand;
class Stream;
struct TensorIndex;
class Tensor;
using TensorList = std::span<const Tensor>;
namespace autograd {
class Node;
class HookHandle;
}  // namespace autograd

class TENON_API Tensor : public TensorBase {
 public:
  using TensorBase::TensorBase;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  /// `x[0] = y` and `x[0] = 1.5` write to x: a tensor that has no name can only be meant as a place. ValueError when
  /// nobody else sees its memory, as after `x.index({mask})`, which gathers: index_put_() writes there.
  void operator=(const Tensor& values) && { check_place(), copy_(values); }
  void operator=(const Scalar& value) && { check_place(), fill_(value); }

  /// The value of a one-element tensor; waits for the device.
  Scalar item() const;
  template <class T>
  T item() const {
    return item().to<T>();
  }
  /// All elements in row-major order, converted to T; waits for the device.
  template <class T>
  std::vector<T> to_vector() const {
    const Tensor host = to(Device(kCPU), dtype_of<T>()).contiguous();
    if constexpr (std::is_same_v<T, bool>) {
      const bool* p = host.data_ptr<bool>();
      return std::vector<bool>(p, p + host.numel());
    } else {
      const T* p = host.data_ptr<T>();
      return std::vector<T>(p, p + host.numel());
    }
  }
  /// Text as printed: values (summarised beyond 1,000 elements), dtype, device, gradient function.
  std::string str() const;
  /// Keeps the memory from being reused until `stream` has passed its present work.
  void record_stream(const Stream& stream) const;

  // --- autograd (defined in autograd/) ----------------------------------------------------------------
  bool requires_grad() const { return impl_ && impl_->requires_grad() && (!impl_->base() || view_requires_grad()); }
  Tensor& requires_grad_(bool on = true) &;
  Tensor requires_grad_(bool on = true) && { return static_cast<Tensor&&>(requires_grad_(on)); }
  Tensor& set_requires_grad(bool on) & { return requires_grad_(on); }
  Tensor set_requires_grad(bool on) && { return static_cast<Tensor&&>(requires_grad_(on)); }
  bool is_leaf() const;
  /// The accumulated gradient; undefined before the first backward.
  Tensor grad() const;
  void set_grad(const Tensor& g) const;
  autograd::Node* grad_fn() const;
  /// What the tensor came from, "mul"; empty for leaves.
  std::string grad_fn_name() const;
  void retain_grad() const;
  bool retains_grad() const;
  /// autograd::register_hook as a method (the handle is in autograd/node.h); `hook` may also return nothing.
  autograd::HookHandle register_hook(Function<Tensor(const Tensor&)> hook) const;
  template <class F, class = std::enable_if_t<std::is_void_v<std::invoke_result_t<F&, const Tensor&>>>>
  autograd::HookHandle register_hook(F hook) const;
  /// autograd::register_post_accumulate_grad_hook as a method.
  autograd::HookHandle register_post_accumulate_grad_hook(Function<void(Tensor&)> hook) const;
  /// Same for every view of a tensor; the one it was first taken from.
  Tensor base() const { return Tensor(known("base").base()); }
  bool is_view() const { return impl_ && impl_->base(); }
  /// Backpropagates from this tensor; `gradient` may be left out for one-element tensors.
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = {}, bool create_graph = false) const;
  /// Same data, no history. Shares the version counter.
  Tensor detach() const;

  // --- operators as methods: see ops/ for shapes, dtypes and errors ------------------------------------
  Tensor to(DType t, bool non_blocking = false, bool copy = false) const;
  Tensor to(Device d, bool non_blocking = false, bool copy = false) const;
  Tensor to(DeviceType d, bool non_blocking = false, bool copy = false) const {
    return to(Device(d), non_blocking, copy);
  }
  Tensor to(Device d, DType t, bool non_blocking = false, bool copy = false) const;
  Tensor to(const TensorOptions& options, bool non_blocking = false, bool copy = false) const;
  Tensor cpu() const { return to(Device(kCPU)); }
  Tensor cuda() const { return to(Device(kCUDA)); }
  Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  Tensor clone(MemoryFormat format = MemoryFormat::preserve) const;
  Tensor pin_memory() const;
  Tensor& copy_(const Tensor& source, bool non_blocking = false);
  Tensor& fill_(const Scalar& value);
  Tensor& zero_();

  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const;
  Tensor permute(IntArrayRef dims) const;
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  Tensor t() const;
  Tensor expand(IntArrayRef sizes) const;
  Tensor squeeze() const;
  Tensor squeeze(IntArrayRef dims) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor select(int64_t dim, int64_t index) const;
  Tensor slice(int64_t dim, std::optional<int64_t> start = {}, std::optional<int64_t> end = {}, int64_t step = 1) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  std::vector<Tensor> split(int64_t size, int64_t dim = 0) const;
  std::vector<Tensor> unbind(int64_t dim = 0) const;
  Tensor as_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<int64_t> offset = {}) const;

#define TENON_UNARY(name) \
  Tensor name() const;    \
  Tensor& name##_()
  TENON_UNARY(neg);
  TENON_UNARY(abs);
  TENON_UNARY(exp);
  TENON_UNARY(log);
  TENON_UNARY(sqrt);
  TENON_UNARY(tanh);
  TENON_UNARY(sigmoid);
  TENON_UNARY(relu);
#undef TENON_UNARY
  Tensor operator-() const { return neg(); }
  Tensor clamp(const std::optional<Scalar>& min, const std::optional<Scalar>& max = {}) const;
  Tensor& clamp_(const std::optional<Scalar>& min, const std::optional<Scalar>& max = {});
  Tensor logical_not() const;

#define TENON_BINARY(name)                 \
  Tensor name(const Operand& other) const; \
  Tensor& name##_(const Operand& other)
  TENON_BINARY(mul);
  TENON_BINARY(div);
  TENON_BINARY(pow);
#undef TENON_BINARY
  Tensor add(const Operand& other, const Scalar& alpha = 1) const;
  Tensor& add_(const Operand& other, const Scalar& alpha = 1);
  Tensor sub(const Operand& other, const Scalar& alpha = 1) const;
  Tensor& sub_(const Operand& other, const Scalar& alpha = 1);
  Tensor maximum(const Tensor& other) const;
  Tensor minimum(const Tensor& other) const;
  Tensor eq(const Operand& other) const;
  Tensor ne(const Operand& other) const;
  Tensor lt(const Operand& other) const;
  Tensor le(const Operand& other) const;
  Tensor gt(const Operand& other) const;
  Tensor ge(const Operand& other) const;
  Tensor logical_and(const Tensor& other) const;
  Tensor logical_or(const Tensor& other) const;
  Tensor where(const Tensor& condition, const Operand& other) const;
  Tensor masked_fill(const Tensor& mask, const Operand& value) const;
  Tensor& masked_fill_(const Tensor& mask, const Operand& value);
  Tensor& operator+=(const Operand& other);
  Tensor& operator-=(const Operand& other);
  Tensor& operator*=(const Operand& other);
  Tensor& operator/=(const Operand& other);

  Tensor sum(std::optional<DType> dtype = {}) const;
  Tensor sum(IntArrayRef dims, bool keepdim = false, std::optional<DType> dtype = {}) const;
  Tensor mean(std::optional<DType> dtype = {}) const;
  Tensor mean(IntArrayRef dims, bool keepdim = false, std::optional<DType> dtype = {}) const;
  Tensor var(IntArrayRef dims, const Scalar& correction = 1, bool keepdim = false) const;
  Tensor amax(IntArrayRef dims = {}, bool keepdim = false) const;
  Tensor amin(IntArrayRef dims = {}, bool keepdim = false) const;
  Tensor max() const;
  std::tuple<Tensor, Tensor> max(int64_t dim, bool keepdim = false) const;
  Tensor min() const;
  std::tuple<Tensor, Tensor> min(int64_t dim, bool keepdim = false) const;
  Tensor argmax(std::optional<int64_t> dim = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<int64_t> dim = {}, bool keepdim = false) const;
  Tensor all() const;
  Tensor any() const;

  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor bmm(const Tensor& other) const;
  Tensor softmax(int64_t dim, std::optional<DType> dtype = {}) const;
  Tensor log_softmax(int64_t dim, std::optional<DType> dtype = {}) const;
  Tensor index_select(int64_t dim, const Tensor& index) const;
  Tensor gather(int64_t dim, const Tensor& index) const;

  // --- indexing ---------------------------------------------------------------------------------------
  /// x[i] = select(0, i), a view.
  Tensor operator[](int64_t i) const;
  /// x.index({Slice(1, 3), None, Ellipsis, 0}); tensors among the indices gather (see ops/indexing.h).
  Tensor index(std::initializer_list<TensorIndex> indices) const;
  Tensor index(std::span<const TensorIndex> indices) const;
  Tensor& index_put_(std::initializer_list<TensorIndex> indices, const Operand& value);

 private:
  bool view_requires_grad() const;
  void check_place() const;
};

/// Wraps memory without owning it; `deleter`, if given, runs when the last view dies. `sizes` and `strides`
/// are in elements; strides default to contiguous. ShapeError on negative sizes.
TENON_API Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});
TENON_API Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, Function<void(void*)> deleter,
                           const TensorOptions& options = {});
/// Copies host values into a new tensor of `sizes` (default: one dimension).
template <class T>
Tensor from_span(std::span<const T> values, IntArrayRef sizes, const TensorOptions& options = {});
/// Takes over the vector's memory, no copy.
template <class T>
Tensor from_vector(std::vector<T>&& values, IntArrayRef sizes);
template <class T>
Tensor from_vector(std::vector<T>&& values) {
  const auto n = static_cast<int64_t>(values.size());
  return from_vector(static_cast<std::vector<T>&&>(values), IntArrayRef(n));
}

namespace detail {
template <class T>
struct VectorHolder {
  std::vector<T> values;
  static void free(void* p) { delete static_cast<VectorHolder*>(p); }
};
TENON_API Tensor wrap(DataPtr memory, int64_t bytes, DType t, IntArrayRef sizes);
TENON_API Tensor copy_from_host(const void* data, int64_t count, DType t, IntArrayRef sizes, const TensorOptions& o);
}  // namespace detail

template <class T>
Tensor from_span(std::span<const T> values, IntArrayRef sizes, const TensorOptions& options) {
  return detail::copy_from_host(values.data(), static_cast<int64_t>(values.size()), dtype_of<T>(), sizes, options);
}
template <class T>
Tensor from_vector(std::vector<T>&& values, IntArrayRef sizes) {
  static_assert(!std::is_same_v<T, bool>, "vector<bool> has no contiguous elements; use from_span or uint8");
  auto* holder = new detail::VectorHolder<T>{static_cast<std::vector<T>&&>(values)};
  return detail::wrap({holder->values.data(), holder, &detail::VectorHolder<T>::free},
                      static_cast<int64_t>(holder->values.size() * sizeof(T)), dtype_of<T>(), sizes);
}

TENON_API Message& operator<<(Message& m, const Tensor& t);
/// std::cout << t, for any stream that takes strings; <ostream> itself is not included here.
template <class Stream, class = decltype(std::declval<Stream&>().flush())>
Stream& operator<<(Stream& stream, const Tensor& t) {
  stream << t.str();
  return stream;
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// The operators that are also methods of Tensor: one-line forwards, all of them here.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/memory/allocator.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>
#if __has_include(<tenon/ops/matmul.h>)
#include <tenon/ops/index.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/softmax.h>
#endif

namespace tenon {

Scalar Tensor::item() const { return op::item(*this); }
void Tensor::record_stream(const Stream& stream) const { memory::record_stream(storage(), stream); }

Tensor Tensor::to(DType t, bool non_blocking, bool copy) const {
  if (defined() && t == dtype() && !copy) return *this;
  return op::to(*this, t, {}, non_blocking, copy, {});
}
Tensor Tensor::to(Device d, bool non_blocking, bool copy) const { return op::to(*this, {}, d, non_blocking, copy, {}); }
Tensor Tensor::to(Device d, DType t, bool non_blocking, bool copy) const {
  return op::to(*this, t, d, non_blocking, copy, {});
}
Tensor Tensor::to(const TensorOptions& o, bool non_blocking, bool copy) const {
  return op::to(*this, o.dtype(), o.device(), non_blocking, copy, o.memory_format());
}
Tensor Tensor::contiguous(MemoryFormat format) const {
  return defined() && is_contiguous(format) ? *this : op::contiguous(*this, format);
}
Tensor Tensor::clone(MemoryFormat format) const { return op::clone(*this, format); }
Tensor Tensor::pin_memory() const {
  TENON_CHECK(defined(), ValueError, "pin_memory: self: expected a tensor, got an undefined one");
  TENON_CHECK(is_cpu(), DeviceError, "pin_memory: self: expected a CPU tensor, got one on ", device());
  if (is_pinned()) return *this;
  Tensor out = op::empty(sizes(), dtype(), Device(kCPU), true);
  return out.copy_(*this);
}
Tensor& Tensor::copy_(const Tensor& source, bool non_blocking) {
  op::copy.inplace(*this, *this, source, non_blocking);
  return *this;
}
Tensor& Tensor::fill_(const Scalar& value) {
  op::fill.inplace(*this, *this, value);
  return *this;
}
Tensor& Tensor::zero_() { return fill_(0); }

Tensor Tensor::view(IntArrayRef sizes) const { return op::view(*this, sizes); }
Tensor Tensor::reshape(IntArrayRef sizes) const { return op::reshape(*this, sizes); }
Tensor Tensor::permute(IntArrayRef dims) const { return op::permute(*this, dims); }
Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const { return op::transpose(*this, dim0, dim1); }
Tensor Tensor::t() const { return op::t(*this); }
Tensor Tensor::expand(IntArrayRef sizes) const { return op::expand(*this, sizes, false); }
Tensor Tensor::squeeze() const { return op::squeeze(*this); }
Tensor Tensor::squeeze(IntArrayRef dims) const { return op::squeeze_dims(*this, dims); }
Tensor Tensor::unsqueeze(int64_t dim) const { return op::unsqueeze(*this, dim); }
Tensor Tensor::select(int64_t dim, int64_t index) const { return op::select(*this, dim, index); }
Tensor Tensor::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) const {
  return op::slice(*this, dim, start, end, step);
}
Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  return op::narrow(*this, dim, start, length);
}
Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const { return op::flatten(*this, start_dim, end_dim); }
std::vector<Tensor> Tensor::split(int64_t size, int64_t dim) const { return op::split(*this, size, dim); }
std::vector<Tensor> Tensor::unbind(int64_t dim) const { return op::unbind(*this, dim); }
Tensor Tensor::as_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<int64_t> offset) const {
  return op::as_strided(*this, sizes, strides, offset);
}
Tensor Tensor::detach() const { return op::detach(*this); }

#define TENON_UNARY(name)                                 \
  Tensor Tensor::name() const { return op::name(*this); } \
  Tensor& Tensor::name##_() {                             \
    op::name.inplace(*this, *this);                       \
    return *this;                                         \
  }
TENON_UNARY(neg)
TENON_UNARY(abs)
TENON_UNARY(exp)
TENON_UNARY(log)
TENON_UNARY(sqrt)
TENON_UNARY(tanh)
TENON_UNARY(sigmoid)
TENON_UNARY(relu)
#undef TENON_UNARY
Tensor Tensor::clamp(const std::optional<Scalar>& min, const std::optional<Scalar>& max) const {
  return op::clamp(*this, min, max);
}
Tensor& Tensor::clamp_(const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  op::clamp.inplace(*this, *this, min, max);
  return *this;
}
Tensor Tensor::logical_not() const { return op::logical_not(*this); }

Tensor Tensor::add(const Operand& other, const Scalar& alpha) const { return op::add(*this, other, alpha); }
Tensor& Tensor::add_(const Operand& other, const Scalar& alpha) {
  op::add.inplace(*this, *this, other, alpha);
  return *this;
}
Tensor Tensor::sub(const Operand& other, const Scalar& alpha) const { return op::sub(*this, other, alpha); }
Tensor& Tensor::sub_(const Operand& other, const Scalar& alpha) {
  op::sub.inplace(*this, *this, other, alpha);
  return *this;
}
Tensor Tensor::mul(const Operand& other) const { return op::mul(*this, other); }
Tensor& Tensor::mul_(const Operand& other) {
  op::mul.inplace(*this, *this, other);
  return *this;
}
Tensor Tensor::div(const Operand& other) const { return op::div(*this, other, {}); }
Tensor& Tensor::div_(const Operand& other) {
  op::div.inplace(*this, *this, other, {});
  return *this;
}
Tensor Tensor::pow(const Operand& exponent) const { return op::pow(*this, exponent); }
Tensor& Tensor::pow_(const Operand& exponent) {
  op::pow.inplace(*this, *this, exponent);
  return *this;
}
Tensor& Tensor::operator+=(const Operand& other) { return add_(other); }
Tensor& Tensor::operator-=(const Operand& other) { return sub_(other); }
Tensor& Tensor::operator*=(const Operand& other) { return mul_(other); }
Tensor& Tensor::operator/=(const Operand& other) { return div_(other); }
Tensor Tensor::maximum(const Tensor& other) const { return op::maximum(*this, other); }
Tensor Tensor::minimum(const Tensor& other) const { return op::minimum(*this, other); }
Tensor Tensor::eq(const Operand& other) const { return op::eq(*this, other); }
Tensor Tensor::ne(const Operand& other) const { return op::ne(*this, other); }
Tensor Tensor::lt(const Operand& other) const { return op::lt(*this, other); }
Tensor Tensor::le(const Operand& other) const { return op::le(*this, other); }
Tensor Tensor::gt(const Operand& other) const { return op::gt(*this, other); }
Tensor Tensor::ge(const Operand& other) const { return op::ge(*this, other); }
Tensor Tensor::logical_and(const Tensor& other) const { return op::logical_and(*this, other); }
Tensor Tensor::logical_or(const Tensor& other) const { return op::logical_or(*this, other); }
Tensor Tensor::where(const Tensor& condition, const Operand& other) const { return op::where(condition, *this, other); }
Tensor Tensor::masked_fill(const Tensor& mask, const Operand& value) const {
  return op::masked_fill(*this, mask, value);
}
Tensor& Tensor::masked_fill_(const Tensor& mask, const Operand& value) {
  op::masked_fill.inplace(*this, *this, mask, value);
  return *this;
}

Tensor Tensor::sum(std::optional<DType> dtype) const { return op::sum(*this, {}, false, dtype); }
Tensor Tensor::sum(IntArrayRef dims, bool keepdim, std::optional<DType> dtype) const {
  return op::sum(*this, dims, keepdim, dtype);
}
Tensor Tensor::mean(std::optional<DType> dtype) const { return op::mean(*this, {}, false, dtype); }
Tensor Tensor::mean(IntArrayRef dims, bool keepdim, std::optional<DType> dtype) const {
  return op::mean(*this, dims, keepdim, dtype);
}
Tensor Tensor::var(IntArrayRef dims, const Scalar& correction, bool keepdim) const {
  return op::var(*this, dims, correction, keepdim);
}
Tensor Tensor::amax(IntArrayRef dims, bool keepdim) const { return op::amax(*this, dims, keepdim); }
Tensor Tensor::amin(IntArrayRef dims, bool keepdim) const { return op::amin(*this, dims, keepdim); }
Tensor Tensor::max() const { return op::max(*this); }
Tensor Tensor::min() const { return op::min(*this); }
std::tuple<Tensor, Tensor> Tensor::max(int64_t dim, bool keepdim) const { return op::max_dim(*this, dim, keepdim); }
std::tuple<Tensor, Tensor> Tensor::min(int64_t dim, bool keepdim) const { return op::min_dim(*this, dim, keepdim); }
Tensor Tensor::argmax(std::optional<int64_t> dim, bool keepdim) const { return op::argmax(*this, dim, keepdim); }
Tensor Tensor::argmin(std::optional<int64_t> dim, bool keepdim) const { return op::argmin(*this, dim, keepdim); }
Tensor Tensor::all() const { return op::all(*this, {}, false); }
Tensor Tensor::any() const { return op::any(*this, {}, false); }

#if __has_include(<tenon/ops/matmul.h>)
Tensor Tensor::matmul(const Tensor& other) const { return op::matmul(*this, other); }
Tensor Tensor::mm(const Tensor& other) const { return op::mm(*this, other); }
Tensor Tensor::bmm(const Tensor& other) const { return op::bmm(*this, other); }
Tensor Tensor::softmax(int64_t dim, std::optional<DType> dtype) const { return op::softmax(*this, dim, dtype); }
Tensor Tensor::log_softmax(int64_t dim, std::optional<DType> dtype) const { return op::log_softmax(*this, dim, dtype); }
Tensor Tensor::index_select(int64_t dim, const Tensor& index) const { return op::index_select(*this, dim, index); }
Tensor Tensor::gather(int64_t dim, const Tensor& index) const { return op::gather(*this, dim, index, false); }
#endif

namespace detail {
Tensor copy_from_host(const void* data, int64_t count, DType t, IntArrayRef sizes, const TensorOptions& o) {
  const int64_t n = checked_numel(sizes, "from_span");
  TENON_CHECK(n == count, ShapeError, "from_span: sizes ", sizes, " need ", n, " elements, got ", count);
  // The values are only borrowed for this call.
  const Tensor borrowed = from_blob(const_cast<void*>(data), sizes, TensorOptions(t));
  const Tensor out = op::to(borrowed, o.dtype(), o.device(), false, true, {});
  return with_options(out, o);
}
}  // namespace detail

}  // namespace tenon

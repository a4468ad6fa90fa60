// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/softmax.h>

#include <tenon/dispatch/make_tensor.h>

namespace tenon::impl {
namespace {
using dispatch::make_view;

Tensor at_least_1d(const Tensor& t) { return t.dim() > 0 ? t : make_view(t, {1}, {1}, t.storage_offset()); }

template <class Handle>
Tensor forward(Call& call, const Handle& handle, const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  const Tensor x = !dtype || *dtype == self.dtype() ? self : self.to(*dtype);
  TENON_CHECK(is_floating_point(x.dtype()), DtypeError, call.name(), ": self: expected a floating dtype, got ",
              x.dtype(), "; give dtype to convert");
  const int64_t d = wrap_dim(dim, x.dim(), std::string(call.name()).c_str());
  const Tensor out = call.output(0, x.sizes(), x.dtype(), x.device(), {&x});
  if (out.is_meta()) return out;
  const auto kernel = handle.kernel(x.backend(), dispatch::key_of(x.dtype()));
  if (out.numel() != 0) kernel(at_least_1d(out), at_least_1d(x), d);
  return out;
}

template <class Handle>
Tensor backward(Call& call, const Handle& handle, const Tensor& grad_output, const Tensor& output, int64_t dim,
                DType input_dtype) {
  const Device device = call.device_of({&grad_output, &output});
  TENON_CHECK(grad_output.sizes() == output.sizes(), ShapeError, call.name(),
              ": grad_output: expected the sizes of output, ", output.sizes(), ", got ", grad_output.sizes());
  TENON_CHECK(grad_output.dtype() == output.dtype(), DtypeError, call.name(),
              ": grad_output: expected the dtype of output, ", output.dtype(), ", got ", grad_output.dtype());
  const int64_t d = wrap_dim(dim, output.dim(), std::string(call.name()).c_str());
  const DType t = output.dtype();
  const Tensor out = t == input_dtype ? call.output(0, output.sizes(), t, device, {&grad_output, &output})
                                      : dispatch::make_tensor(output.sizes(), t, device);
  if (out.numel() != 0 && !out.is_meta())
    handle.kernel(output.backend(), dispatch::key_of(t))(at_least_1d(out), at_least_1d(grad_output),
                                                         at_least_1d(output), d);
  return t == input_dtype ? out : out.to(input_dtype);
}

}  // namespace

Tensor softmax(Call& call, const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return forward(call, op::softmax, self, dim, dtype);
}
Tensor log_softmax(Call& call, const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return forward(call, op::log_softmax, self, dim, dtype);
}
Tensor softmax_backward(Call& call, const Tensor& grad_output, const Tensor& output, int64_t dim, DType input_dtype) {
  return backward(call, op::softmax_backward, grad_output, output, dim, input_dtype);
}
Tensor log_softmax_backward(Call& call, const Tensor& grad_output, const Tensor& output, int64_t dim,
                            DType input_dtype) {
  return backward(call, op::log_softmax_backward, grad_output, output, dim, input_dtype);
}

}  // namespace tenon::impl

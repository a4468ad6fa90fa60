// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/norm.h>

#include <tenon/dispatch/make_tensor.h>

namespace tenon::impl {
namespace {
using dispatch::make_view;

// A contiguous tensor as [rows, columns], [rows] or [columns]; undefined stays undefined.
Tensor matrix(const Tensor& t, int64_t rows, int64_t columns) {
  return t.defined() ? make_view(t, {rows, columns}, {columns, 1}, t.storage_offset()) : t;
}
Tensor vector(const Tensor& t, int64_t n) { return t.defined() ? make_view(t, {n}, {1}, t.storage_offset()) : t; }

struct Geometry {
  int64_t rows = 1, columns = 1;
  DimVector statistics;  // sizes of mean and rstd
};

Geometry check(const Call& call, const Tensor& input, IntArrayRef shape, const Tensor& weight, const Tensor& bias) {
  TENON_CHECK(is_floating_point(input.dtype()), DtypeError, call.name(), ": input: expected a floating dtype, got ",
              input.dtype());
  TENON_CHECK(!shape.empty(), ShapeError, call.name(), ": normalized_shape: expected at least one dimension");
  const std::size_t rank = input.sizes().size();
  const bool fits = rank >= shape.size() && input.sizes().slice(rank - shape.size(), shape.size()) == shape;
  TENON_CHECK(fits, ShapeError, call.name(), ": input: expected sizes ending in normalized_shape ", shape, ", got ",
              input.sizes());
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    TENON_CHECK(t->sizes() == shape, ShapeError, call.name(), ": weight, bias: expected sizes ", shape, ", got ",
                t->sizes());
    TENON_CHECK(t->dtype() == input.dtype() || (is_half(input.dtype()) && t->dtype() == kFloat32), DtypeError,
                call.name(), ": weight, bias: expected the dtype of input, ", input.dtype(), ", got ", t->dtype());
  }
  TENON_CHECK(!weight.defined() || !bias.defined() || weight.dtype() == bias.dtype(), DtypeError, call.name(),
              ": weight and bias: expected one dtype, got ", weight.dtype(), " and ", bias.dtype());
  Geometry g;
  for (std::size_t d = 0; d < rank; ++d) {
    const bool kept = d < rank - shape.size();
    (kept ? g.rows : g.columns) *= input.sizes()[d];
    g.statistics.push_back(kept ? input.sizes()[d] : 1);
  }
  return g;
}

DType parameter_dtype(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return weight.defined() ? weight.dtype() : bias.defined() ? bias.dtype() : input.dtype();
}
Tensor dense(const Tensor& t) { return t.defined() ? t.contiguous() : t; }

}  // namespace

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(Call& call, const Tensor& input, IntArrayRef normalized_shape,
                                                     const Tensor& weight, const Tensor& bias, double eps) {
  const Device device = call.device_of({&input, &weight, &bias});
  const Geometry g = check(call, input, normalized_shape, weight, bias);
  const DType t = parameter_dtype(input, weight, bias);
  const auto own = [&](int i, IntArrayRef sizes, DType dtype) {
    const Tensor out = call.output(i, sizes, dtype, device, {&input, &weight, &bias});
    return out.is_contiguous() ? out : dispatch::make_tensor(sizes, dtype, device);
  };
  const Tensor out = own(0, input.sizes(), input.dtype());
  Tensor mean = own(1, g.statistics, t), rstd = own(2, g.statistics, t);
  if (out.is_meta()) return {out, mean, rstd};
  const auto kernel = op::native_layer_norm.kernel(input.backend(), dispatch::key_of(input.dtype()));
  if (input.numel() == 0) {
    if (mean.numel() != 0) mean.zero_(), rstd.zero_();
    return {out, mean, rstd};
  }
  kernel(matrix(out, g.rows, g.columns), vector(mean, g.rows), vector(rstd, g.rows),
         matrix(input.contiguous(), g.rows, g.columns), vector(dense(weight), g.columns),
         vector(dense(bias), g.columns), eps);
  return {out, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward(Call& call, const Tensor& grad_output,
                                                              const Tensor& input, IntArrayRef normalized_shape,
                                                              const Tensor& mean, const Tensor& rstd,
                                                              const Tensor& weight, const Tensor& bias,
                                                              int64_t output_mask) {
  const Device device = call.device_of({&grad_output, &input, &mean, &rstd, &weight, &bias});
  const Geometry g = check(call, input, normalized_shape, weight, bias);
  TENON_CHECK(grad_output.sizes() == input.sizes() && grad_output.dtype() == input.dtype(), ShapeError, call.name(),
              ": grad_output: expected sizes and dtype of input, ", input.sizes(), " ", input.dtype(), ", got ",
              grad_output.sizes(), " ", grad_output.dtype());
  TENON_CHECK(mean.numel() == g.rows && rstd.numel() == g.rows, ShapeError, call.name(), ": mean, rstd: expected ",
              g.rows, " elements, got ", mean.numel(), " and ", rstd.numel());
  const DType t = parameter_dtype(input, weight, bias);
  const auto own = [&](int i, IntArrayRef sizes, DType dtype) {
    if ((output_mask >> i & 1) == 0) return Tensor();
    const Tensor out = call.output(i, sizes, dtype, device, {&grad_output, &input, &mean, &rstd, &weight, &bias});
    return out.is_contiguous() ? out : dispatch::make_tensor(sizes, dtype, device);
  };
  const Tensor dx = own(0, input.sizes(), input.dtype());
  Tensor dweight = own(1, normalized_shape, t), dbias = own(2, normalized_shape, t);
  if (device.is_meta()) return {dx, dweight, dbias};
  if (input.numel() == 0) {
    if (dweight.defined()) dweight.zero_();
    if (dbias.defined()) dbias.zero_();
    return {dx, dweight, dbias};
  }
  op::native_layer_norm_backward.kernel(input.backend(), dispatch::key_of(input.dtype()))(
      matrix(dx, g.rows, g.columns), vector(dweight, g.columns), vector(dbias, g.columns),
      matrix(grad_output.contiguous(), g.rows, g.columns), matrix(input.contiguous(), g.rows, g.columns),
      vector(mean.to(t).contiguous(), g.rows), vector(rstd.to(t).contiguous(), g.rows),
      vector(dense(weight), g.columns));
  return {dx, dweight, dbias};
}

Tensor layer_norm(Call&, const Tensor& input, IntArrayRef normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  return std::get<0>(op::native_layer_norm(input, normalized_shape, weight, bias, eps));
}

}  // namespace tenon::impl

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/norm.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/vector_norm.h>
#include <tenon/ops/where.h>

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

namespace {
Tensor wide(const Tensor& t, const Tensor& input) {
  return t.defined() ? t.to(is_half(input.dtype()) ? kFloat32 : input.dtype()).contiguous() : t;
}
}  // namespace

std::tuple<Tensor, Tensor> fused_rms_norm(Call& call, const Tensor& input, IntArrayRef normalized_shape,
                                          const Tensor& weight, double eps) {
  const Device device = call.device_of({&input, &weight});
  const Geometry g = check(call, input, normalized_shape, weight, {});
  const auto own = [&](int i, IntArrayRef sizes, DType dtype) {
    const Tensor out = call.output(i, sizes, dtype, device, {&input, &weight});
    return out.is_contiguous() ? out : dispatch::make_tensor(sizes, dtype, device);
  };
  const Tensor out = own(0, input.sizes(), input.dtype());
  Tensor rstd = own(1, g.statistics, is_half(input.dtype()) ? kFloat32 : input.dtype());
  if (out.is_meta()) return {out, rstd};
  const auto kernel = op::fused_rms_norm.kernel(input.backend(), dispatch::key_of(input.dtype()));
  if (input.numel() == 0) {
    if (rstd.numel() != 0) rstd.zero_();
    return {out, rstd};
  }
  kernel(matrix(out, g.rows, g.columns), vector(rstd, g.rows), matrix(input.contiguous(), g.rows, g.columns),
         vector(wide(weight, input), g.columns), eps);
  return {out, rstd};
}

std::tuple<Tensor, Tensor> fused_rms_norm_backward(Call& call, const Tensor& grad_output, const Tensor& input,
                                                   IntArrayRef normalized_shape, const Tensor& rstd,
                                                   const Tensor& weight, int64_t output_mask) {
  const Device device = call.device_of({&grad_output, &input, &rstd, &weight});
  const Geometry g = check(call, input, normalized_shape, weight, {});
  TENON_CHECK(grad_output.sizes() == input.sizes() && grad_output.dtype() == input.dtype(), ShapeError, call.name(),
              ": grad_output: expected sizes and dtype of input, ", input.sizes(), " ", input.dtype(), ", got ",
              grad_output.sizes(), " ", grad_output.dtype());
  TENON_CHECK(rstd.numel() == g.rows, ShapeError, call.name(), ": rstd: expected ", g.rows, " elements, got ",
              rstd.numel());
  const auto own = [&](int i, IntArrayRef sizes, DType dtype) {
    if ((output_mask >> i & 1) == 0) return Tensor();
    const Tensor out = call.output(i, sizes, dtype, device, {&grad_output, &input, &rstd, &weight});
    return out.is_contiguous() ? out : dispatch::make_tensor(sizes, dtype, device);
  };
  const Tensor dx = own(0, input.sizes(), input.dtype());
  Tensor dweight = own(1, normalized_shape, is_half(input.dtype()) ? kFloat32 : input.dtype());
  if (device.is_meta()) return {dx, dweight};
  if (input.numel() == 0) {
    if (dweight.defined()) dweight.zero_();
    return {dx, dweight};
  }
  op::fused_rms_norm_backward.kernel(input.backend(), dispatch::key_of(input.dtype()))(
      matrix(dx, g.rows, g.columns), vector(dweight, g.columns), matrix(grad_output.contiguous(), g.rows, g.columns),
      matrix(input.contiguous(), g.rows, g.columns), vector(wide(rstd, input), g.rows),
      vector(wide(weight, input), g.columns));
  return {dx, dweight};
}

Tensor rms_norm(Call& call, const Tensor& input, IntArrayRef normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  const DType t = real_of(input.dtype());
  const double least = eps.value_or(t == kFloat64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  if (!input.is_complex()) return std::get<0>(op::fused_rms_norm(input, normalized_shape, weight, least));
  const std::size_t rank = input.sizes().size(), n = normalized_shape.size();
  TENON_CHECK(n > 0 && rank >= n && input.sizes().slice(rank - n, n) == normalized_shape, ShapeError, call.name(),
              ": input: expected sizes ending in normalized_shape ", normalized_shape, ", got ", input.sizes());
  DimVector dims;
  for (std::size_t d = rank - n; d < rank; ++d) dims.push_back(static_cast<int64_t>(d));
  const Tensor square = op::mean(op::mul(input, input), dims, true, {});
  const Tensor out = op::mul(input, op::rsqrt(op::add(square, least, 1)));
  return weight.defined() ? op::mul(out, weight) : out;
}

Tensor normalize(Call&, const Tensor& input, double p, int64_t dim, double eps) {
  // float16 would take an eps of 1e-12 for 0.
  const bool half = is_half(input.dtype());
  const Tensor norm =
      op::linalg_vector_norm(input, p, IntArrayRef(dim), true, half ? std::optional<DType>(kFloat32) : std::nullopt);
  const Tensor out = op::div(input, op::clamp_min(norm, eps), {});
  return half ? out.to(input.dtype()) : out;
}

}  // namespace tenon::impl

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/batch_norm.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <limits>

namespace tenon::impl {
namespace {
using dispatch::make_view;

DType wide_of(DType t) { return is_half(t) ? kFloat32 : t; }

/// How a tensor [n, channels, ...] is read: contiguous, or channels-last as [everything, channels, 1].
struct Channels {
  int64_t outer = 1, channels = 1, inner = 1;
  std::optional<MemoryFormat> format;
  Tensor dense(const Tensor& t) const { return format ? t.contiguous(*format) : t.contiguous(); }
  Tensor view(const Tensor& t) const {
    return t.defined() ? make_view(t, {outer, channels, inner}, {channels * inner, inner, 1}, t.storage_offset()) : t;
  }
};
Channels channels_of(const Tensor& x) {
  Channels c{x.size(0), x.size(1), 1, {}};
  for (int64_t d = 2; d < x.dim(); ++d) c.inner *= x.size(d);
  const bool last = x.dim() == 4 || x.dim() == 5;
  const auto format = x.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
  if (last && c.channels > 1 && c.inner > 1 && !x.is_contiguous() && x.is_contiguous(format))
    c = {c.outer * c.inner, c.channels, 1, format};
  return c;
}

void check_input(std::string_view who, const Tensor& input, int64_t rank) {
  TENON_CHECK(is_floating_point(input.dtype()), DtypeError, who, ": input: expected a floating dtype, got ",
              input.dtype());
  TENON_CHECK(input.dim() >= rank, ShapeError, who, ": input: expected at least ", rank, " dimensions, got ",
              input.sizes());
}
void check_vector(std::string_view who, const char* name, const Tensor& t, int64_t n, const Tensor& input) {
  if (!t.defined()) return;
  TENON_CHECK(t.numel() == n && t.dim() <= 1, ShapeError, who, ": ", name, ": expected ", n, " elements, got sizes ",
              t.sizes());
  TENON_CHECK(t.dtype() == input.dtype() || (is_half(input.dtype()) && t.dtype() == kFloat32), DtypeError, who, ": ",
              name, ": expected the dtype of input, ", input.dtype(), ", got ", t.dtype());
}
// A vector per channel as the kernels read it.
Tensor wide(const Tensor& t) { return t.defined() ? t.to(wide_of(t.dtype())).contiguous() : t; }

/// The results of a backward operator, in the layout of the input.
struct Outputs {
  Call& call;
  Device device;
  int64_t mask;
  Tensor operator()(int i, IntArrayRef sizes, DType t, const Channels& c,
                    std::initializer_list<const Tensor*> in) const {
    if ((mask >> i & 1) == 0) return {};
    const bool like = c.format && sizes.size() > 1;
    const DimVector strides = like ? DimVector(channels_last_strides(sizes)) : DimVector();
    const Tensor out = call.output(i, sizes, t, device, in, strides);
    const bool fits = like ? out.is_contiguous(*c.format) : out.is_contiguous();
    return fits ? out : dispatch::make_tensor(sizes, t, device, strides);
  }
  static DimVector channels_last_strides(IntArrayRef sizes) {
    DimVector strides(sizes.size(), 1);
    int64_t step = sizes[1];
    for (std::size_t d = sizes.size() - 1; d >= 2; --d) strides[d] = step, step *= sizes[d];
    strides[0] = step;
    return strides;
  }
};

Tensor rstd_of(const Tensor& variance, double eps) {
  return op::rsqrt(op::add(variance.to(wide_of(variance.dtype())), eps, 1));
}

// Statistics that only training's forward sees: what it writes is copied where a tensor is no contiguous wide vector.
struct Running {
  Tensor given, used;
  explicit Running(const Tensor& t) : given(t), used(wide(t)) {}
  void finish() const {
    if (!given.defined()) return;
    if (used.is_same(given)) return given.impl()->storage()->bump_version();
    Tensor to = given;
    to.copy_(used);
  }
};

}  // namespace

std::tuple<Tensor, Tensor, Tensor> batch_norm_train(Call& call, const Tensor& input, const Tensor& weight,
                                                    const Tensor& bias, const Tensor& running_mean,
                                                    const Tensor& running_var, double momentum, double eps) {
  const Device device = call.device_of({&input, &weight, &bias, &running_mean, &running_var});
  check_input("batch_norm", input, 2);
  const Channels c = channels_of(input);
  const DType t = wide_of(input.dtype());
  const Outputs own{call, device, 7};
  const Tensor out = own(0, input.sizes(), input.dtype(), c, {&input, &weight, &bias});
  const Tensor mean = own(1, {c.channels}, t, {}, {}), rstd = own(2, {c.channels}, t, {}, {});
  if (out.is_meta()) return {out, mean, rstd};
  const auto kernel = op::batch_norm_train.kernel(input.backend(), dispatch::key_of(input.dtype()));
  if (input.numel() == 0) {
    Tensor empty = mean, none = rstd;
    empty.zero_(), none.zero_();
    return {out, mean, rstd};
  }
  const Running means(running_mean), variances(running_var);
  kernel(c.view(out), mean, rstd, c.view(c.dense(input)), wide(weight), wide(bias), means.used, variances.used,
         momentum, eps);
  means.finish(), variances.finish();
  return {out, mean, rstd};
}

Tensor batch_norm_apply(Call& call, const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                        const Tensor& rstd) {
  const Device device = call.device_of({&input, &weight, &bias, &mean, &rstd});
  check_input("batch_norm", input, 2);
  const Channels c = channels_of(input);
  const Tensor out =
      Outputs{call, device, 1}(0, input.sizes(), input.dtype(), c, {&input, &weight, &bias, &mean, &rstd});
  if (out.is_meta() || out.numel() == 0) return out;
  op::batch_norm_apply.kernel(input.backend(), dispatch::key_of(input.dtype()))(
      c.view(out), c.view(c.dense(input)), wide(weight), wide(bias), wide(mean), wide(rstd));
  return out;
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(Call& call, const Tensor& grad_output, const Tensor& input,
                                                       const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                                                       bool train, int64_t output_mask) {
  const Device device = call.device_of({&grad_output, &input, &weight, &mean, &rstd});
  check_input("batch_norm_backward", input, 2);
  TENON_CHECK(grad_output.sizes() == input.sizes() && grad_output.dtype() == input.dtype(), ShapeError,
              "batch_norm_backward: grad_output: expected sizes and dtype of input, ", input.sizes(), " ",
              input.dtype(), ", got ", grad_output.sizes(), " ", grad_output.dtype());
  const Channels c = channels_of(input);
  const DType t = wide_of(input.dtype());
  const Outputs own{call, device, output_mask};
  const Tensor dx = own(0, input.sizes(), input.dtype(), c, {&grad_output, &input});
  Tensor dweight = own(1, {c.channels}, t, {}, {}), dbias = own(2, {c.channels}, t, {}, {});
  if (device.is_meta()) return {dx, dweight, dbias};
  if (input.numel() == 0) {
    if (dweight.defined()) dweight.zero_();
    if (dbias.defined()) dbias.zero_();
    return {dx, dweight, dbias};
  }
  op::batch_norm_backward.kernel(input.backend(), dispatch::key_of(input.dtype()))(
      c.view(dx), dweight, dbias, c.view(c.dense(grad_output)), c.view(c.dense(input)), wide(weight), wide(mean),
      wide(rstd), train);
  return {dx, dweight, dbias};
}

namespace {

// All of batch norm; the statistics are undefined when not training.
BatchNormResults normalized(std::string_view who, const Tensor& input, const Tensor& weight, const Tensor& bias,
                            const Tensor& running_mean, const Tensor& running_var, bool training, double momentum,
                            double eps) {
  check_input(who, input, 2);
  const int64_t channels = input.size(1);
  check_vector(who, "weight", weight, channels, input);
  check_vector(who, "bias", bias, channels, input);
  check_vector(who, "running_mean", running_mean, channels, input);
  check_vector(who, "running_var", running_var, channels, input);
  if (training) return op::batch_norm_train(input, weight, bias, running_mean, running_var, momentum, eps);
  TENON_CHECK(running_mean.defined() && running_var.defined(), ValueError, who,
              ": running_mean, running_var: expected tensors when not training");
  return {op::batch_norm_apply(input, weight, bias, running_mean.detach(), rstd_of(running_var.detach(), eps)), {}, {}};
}

BatchNormResults native(std::string_view who, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Tensor& running_mean, const Tensor& running_var, bool training, double momentum,
                        double eps) {
  auto [out, mean, rstd] = normalized(who, input, weight, bias, running_mean, running_var, training, momentum, eps);
  const DType t = weight.defined() ? weight.dtype() : input.dtype();
  if (!mean.defined()) mean = rstd = dispatch::make_tensor({0}, t, input.device());
  return {out, mean.to(t), rstd.to(t)};
}

}  // namespace

BatchNormResults native_batch_norm(Call&, const Tensor& input, const Tensor& weight, const Tensor& bias,
                                   const Tensor& running_mean, const Tensor& running_var, bool training,
                                   double momentum, double eps) {
  return native("native_batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps);
}
BatchNormResults native_batch_norm_legit(Call&, const Tensor& input, const Tensor& weight, const Tensor& bias,
                                         const Tensor& running_mean, const Tensor& running_var, bool training,
                                         double momentum, double eps) {
  return native("_native_batch_norm_legit", input, weight, bias, running_mean, running_var, training, momentum, eps);
}
BatchNormResults native_batch_norm_no_stats(Call&, const Tensor& input, const Tensor& weight, const Tensor& bias,
                                            bool training, double momentum, double eps) {
  return native("_native_batch_norm_legit", input, weight, bias, {}, {}, training, momentum, eps);
}
BatchNormUpdateResults batch_norm_with_update(Call&, const Tensor& input, const Tensor& weight, const Tensor& bias,
                                              const Tensor& running_mean, const Tensor& running_var, double momentum,
                                              double eps) {
  const auto [out, mean, rstd] =
      native("_batch_norm_with_update", input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {out, mean, rstd, dispatch::make_tensor({0}, kUInt8, input.device())};
}
BatchNormResults native_batch_norm_backward(Call&, const Tensor& grad_out, const Tensor& input, const Tensor& weight,
                                            const Tensor& running_mean, const Tensor& running_var,
                                            const Tensor& save_mean, const Tensor& save_invstd, bool train, double eps,
                                            int64_t output_mask) {
  const Tensor &mean = train ? save_mean : running_mean, &spread = train ? save_invstd : running_var;
  TENON_CHECK(mean.defined() && spread.defined(), ValueError,
              "native_batch_norm_backward: ", train ? "save_mean, save_invstd" : "running_mean, running_var",
              ": expected tensors");
  auto [dx, dweight, dbias] =
      op::batch_norm_backward(grad_out, input, weight, mean, train ? spread : rstd_of(spread, eps), train, output_mask);
  const DType t = weight.defined() ? weight.dtype() : input.dtype();
  return {dx, dweight.defined() ? dweight.to(t) : dweight, dbias.defined() ? dbias.to(t) : dbias};
}

Tensor batch_norm(Call&, const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum, double eps) {
  check_input("batch_norm", input, 2);
  TENON_CHECK(!training || input.numel() != input.size(1) || input.numel() == 0, ValueError,
              "batch_norm: input: expected more than 1 value per channel when training, got ", input.sizes());
  return std::get<0>(normalized("batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps));
}

Tensor instance_norm(Call&, const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, bool use_input_stats, double momentum, double eps) {
  check_input("instance_norm", input, 2);
  const int64_t n = input.size(0), channels = input.size(1);
  int64_t inner = 1;
  for (int64_t d = 2; d < input.dim(); ++d) inner *= input.size(d);
  TENON_CHECK(!use_input_stats || inner != 1, ValueError,
              "instance_norm: input: expected more than 1 spatial element when training, got ", input.sizes());
  TENON_CHECK(use_input_stats || (running_mean.defined() && running_var.defined()), ValueError,
              "instance_norm: running_mean, running_var: expected tensors unless use_input_stats");
  const auto repeated = [&](const char* name, const Tensor& t) {
    check_vector("instance_norm", name, t, channels, input);
    return t.defined() ? t.reshape({1, channels}).expand({n, channels}).reshape({n * channels}) : t;
  };
  const auto statistics = [&](const char* name, const Tensor& t) {
    return t.defined() ? repeated(name, t.detach()).clone() : t;  // its own memory: it is written
  };
  const Tensor means = statistics("running_mean", running_mean), spreads = statistics("running_var", running_var);
  const Tensor out =
      std::get<0>(normalized("instance_norm", op::reshape(input, {1, n * channels, inner}), repeated("weight", weight),
                             repeated("bias", bias), means, spreads, use_input_stats, momentum, eps));
  if (use_input_stats && n > 0) {
    const NoGradGuard no_grad;
    for (const auto& [to, from] : {std::pair(running_mean, means), std::pair(running_var, spreads)}) {
      Tensor moved = to;
      if (from.defined()) moved.copy_(from.view({n, channels}).mean(IntArrayRef(int64_t{0})));
    }
  }
  return op::reshape(out, input.sizes());
}

namespace {
int64_t check_groups(std::string_view who, const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t n,
                     int64_t channels, int64_t inner, int64_t groups) {
  check_input(who, input, 1);
  TENON_CHECK(n * channels * inner == input.numel(), ShapeError, who, ": input: expected ", n, " * ", channels, " * ",
              inner, " elements, got sizes ", input.sizes());
  TENON_CHECK(groups > 0 && channels % groups == 0, ValueError, who, ": group: expected a divisor of the ", channels,
              " channels, got ", groups);
  check_vector(who, "weight", weight, channels, input);
  check_vector(who, "bias", bias, channels, input);
  return groups;
}
}  // namespace

std::tuple<Tensor, Tensor, Tensor> native_group_norm(Call& call, const Tensor& input, const Tensor& weight,
                                                     const Tensor& bias, int64_t n, int64_t channels, int64_t inner,
                                                     int64_t groups, double eps) {
  const Device device = call.device_of({&input, &weight, &bias});
  check_groups("group_norm", input, weight, bias, n, channels, inner, groups);
  const DType t = wide_of(input.dtype());
  const Channels c{n, channels, inner, {}};
  const Outputs own{call, device, 7};
  const Tensor out = own(0, input.sizes(), input.dtype(), c, {&input, &weight, &bias});
  Tensor mean = own(1, {n, groups}, t, {}, {}), rstd = own(2, {n, groups}, t, {}, {});
  if (out.is_meta()) return {out, mean, rstd};
  if (input.numel() == 0) {
    mean.fill_(std::numeric_limits<double>::quiet_NaN()), rstd.fill_(std::numeric_limits<double>::quiet_NaN());
    return {out, mean, rstd};
  }
  op::native_group_norm.kernel(input.backend(), dispatch::key_of(input.dtype()))(
      c.view(out), mean, rstd, c.view(input.contiguous()), wide(weight), wide(bias), eps);
  return {out, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm_backward(Call& call, const Tensor& grad_output,
                                                              const Tensor& input, const Tensor& mean,
                                                              const Tensor& rstd, const Tensor& weight, int64_t n,
                                                              int64_t channels, int64_t inner, int64_t groups,
                                                              int64_t output_mask) {
  const Device device = call.device_of({&grad_output, &input, &mean, &rstd, &weight});
  check_groups("native_group_norm_backward", input, weight, {}, n, channels, inner, groups);
  TENON_CHECK(grad_output.sizes() == input.sizes() && grad_output.dtype() == input.dtype(), ShapeError,
              "native_group_norm_backward: grad_output: expected sizes and dtype of input, ", input.sizes(), " ",
              input.dtype(), ", got ", grad_output.sizes(), " ", grad_output.dtype());
  const DType t = wide_of(input.dtype());
  const Channels c{n, channels, inner, {}};
  const Outputs own{call, device, output_mask};
  const Tensor dx = own(0, input.sizes(), input.dtype(), c, {&grad_output, &input});
  Tensor dweight = own(1, {channels}, t, {}, {}), dbias = own(2, {channels}, t, {}, {});
  if (device.is_meta()) return {dx, dweight, dbias};
  if (input.numel() == 0) {
    if (dweight.defined()) dweight.zero_();
    if (dbias.defined()) dbias.zero_();
    return {dx, dweight, dbias};
  }
  op::native_group_norm_backward.kernel(input.backend(), dispatch::key_of(input.dtype()))(
      c.view(dx), dweight, dbias, c.view(grad_output.contiguous()), c.view(input.contiguous()), wide(mean), wide(rstd),
      wide(weight));
  return {dx, dweight, dbias};
}

Tensor group_norm(Call&, const Tensor& input, int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  check_input("group_norm", input, 2);
  const int64_t n = input.size(0), channels = input.size(1);
  const int64_t inner = n * channels == 0 ? 1 : input.numel() / (n * channels);
  TENON_CHECK(groups > 0 && channels % groups == 0, ValueError, "group_norm: num_groups: expected a divisor of the ",
              channels, " channels, got ", groups);
  TENON_CHECK(input.numel() == 0 || n * channels / groups * inner != 1, ValueError,
              "group_norm: input: expected more than 1 value, got ", input.sizes(), " in ", groups, " groups");
  return std::get<0>(op::native_group_norm(input, weight, bias, n, channels, inner, groups, eps));
}

}  // namespace tenon::impl

// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/random.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>

#include <cmath>

namespace tenon::impl {
namespace {
using dispatch::key_of;
using dispatch::make_tensor;

// Where the kernel writes: contiguous, as the numbers are counted in logical order.
Tensor target(Call& call, int i, const Tensor& self, DType dtype, std::initializer_list<const Tensor*> inputs = {}) {
  const Tensor out = call.output(i, self.sizes(), dtype, self.device(), inputs);
  return out.is_contiguous() ? out : make_tensor(self.sizes(), dtype, self.device());
}

// Blocks for n numbers of `dtype`: four of 32 bits or two of 64 in each.
uint64_t blocks(int64_t n, bool wide) { return (static_cast<uint64_t>(n) + (wide ? 1 : 3)) / (wide ? 2 : 4); }
uint64_t float_blocks(const Tensor& t) {
  return blocks(is_complex(t.dtype()) ? 2 * t.numel() : t.numel(), real_of(t.dtype()) == kFloat64);
}
PhiloxState draw(const Tensor& t, uint64_t count) { return current_generator(t.device()).advance(count); }

void check_inexact(const Call& call, DType t) {
  TENON_CHECK(is_differentiable(t) && !is_float8(t), DtypeError, call.name(),
              ": self: expected a floating or complex dtype, got ", t);
}

// The largest integer up to which all are represented.
double exact_limit(DType t) {
  return t == kFloat64 ? 9007199254740992.0 : t == kFloat32 ? 16777216.0 : t == kFloat16 ? 2048.0 : 256.0;
}
void check_range(const char* who, int64_t low, int64_t high, DType t) {
  TENON_CHECK(low < high, ValueError, who, ": expected low < high, got ", low, " and ", high);
  const int64_t top = high - 1;
  bool fits = true;
  switch (t) {
    case kUInt8:
      fits = low >= 0 && top <= 255;
      break;
    case kInt8:
      fits = low >= -128 && top <= 127;
      break;
    case kInt16:
      fits = low >= -32768 && top <= 32767;
      break;
    case kInt32:
      fits = low >= -2147483648LL && top <= 2147483647LL;
      break;
    case kBool:
      fits = low >= 0 && top <= 1;
      break;
    case kInt64:
      break;
    default:
      fits = static_cast<double>(low) >= -exact_limit(t) && static_cast<double>(top) <= exact_limit(t);
  }
  TENON_CHECK(fits, ValueError, who, ": low, high: ", low, " to ", top, " does not fit ", t);
}

Tensor made(IntArrayRef sizes, DType t, std::optional<Device> device, const char* who) {
  checked_numel(sizes, who);
  return make_tensor(sizes, t, device.value_or(Device(kCPU)));
}
Tensor with_grad(Tensor t, bool requires_grad) {
  TENON_CHECK(!requires_grad || is_differentiable(t.dtype()), DtypeError,
              "requires_grad: only floating and complex tensors can have gradients, got ", t.dtype());
  if (requires_grad) t.impl()->set_requires_grad(true);
  return t;
}
Tensor like(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device) {
  return make_tensor(self.sizes(), dtype.value_or(self.dtype()), device.value_or(self.device()));
}

void check_probability(const Call& call, double p) {
  TENON_CHECK(p >= 0 && p <= 1, ValueError, call.name(), ": p: expected a probability between 0 and 1, got ", p);
}

}  // namespace

Tensor uniform(Call& call, const Tensor& self, double from, double to) {
  check_inexact(call, self.dtype());
  TENON_CHECK(from <= to, ValueError, "uniform: expected from <= to, got ", from, " and ", to);
  TENON_CHECK(std::isfinite(from) && std::isfinite(to) && std::isfinite(to - from), ValueError,
              "uniform: from, to: expected a finite range, got ", from, " and ", to);
  const Tensor out = target(call, 0, self, self.dtype());
  if (out.numel() == 0 || out.is_meta()) return out;
  op::uniform.kernel(out.backend(), key_of(out.dtype()))(out, from, to, draw(out, float_blocks(out)));
  return out;
}

Tensor normal(Call& call, const Tensor& self, double mean, double std) {
  check_inexact(call, self.dtype());
  TENON_CHECK(std >= 0, ValueError, "normal: std: expected a number >= 0, got ", std);
  const Tensor out = target(call, 0, self, self.dtype());
  if (out.numel() == 0 || out.is_meta()) return out;
  op::normal.kernel(out.backend(), key_of(out.dtype()))(out, mean, std, draw(out, float_blocks(out)));
  return out;
}

namespace {
void check_std(const Tensor& std) {
  if (std.is_cpu() && std.numel() != 0 && !is_complex(std.dtype()))
    TENON_CHECK(std.amin().item<double>() >= 0, ValueError, "normal: std: expected numbers >= 0");
}
// mean + std * z in the dtype and sizes they give together.
Tensor spread(const Operand& mean, const Operand& std, IntArrayRef sizes, Device device) {
  const DType t = dispatch::float_of(dispatch::result_type(mean, std));
  const Tensor z = make_tensor(sizes, t, device);
  return op::add(op::mul(op::normal.inplace(z, z, 0, 1), std), mean, 1);
}
}  // namespace

Tensor normal_tensors(Call& call, const Tensor& mean, const Tensor& std) {
  check_std(std);
  return spread(mean, std, dispatch::broadcast_sizes(mean.sizes(), std.sizes(), "normal"),
                call.device_of({&mean, &std}));
}
Tensor normal_mean(Call&, const Tensor& mean, double std) {
  TENON_CHECK(std >= 0, ValueError, "normal: std: expected a number >= 0, got ", std);
  return spread(mean, std, mean.sizes(), mean.device());
}
Tensor normal_std(Call&, double mean, const Tensor& std) {
  check_std(std);
  return spread(mean, std, std.sizes(), std.device());
}
Tensor normal_sizes(Call&, double mean, double std, IntArrayRef size, std::optional<DType> dtype,
                    std::optional<Device> device, bool requires_grad) {
  const Tensor out = made(size, dtype.value_or(default_dtype()), device, "normal");
  return with_grad(op::normal.inplace(out, out, mean, std), requires_grad);
}

Tensor random(Call& call, const Tensor& self, int64_t low, int64_t high) {
  TENON_CHECK(!is_complex(self.dtype()) && !is_float8(self.dtype()), DtypeError,
              "random: self: expected a real dtype, got ", self.dtype());
  check_range("random", low, high, self.dtype());
  const Tensor out = target(call, 0, self, self.dtype());
  if (out.numel() == 0 || out.is_meta()) return out;
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  op::random.kernel(out.backend(), key_of(out.dtype()))(out, low, range,
                                                        draw(out, blocks(out.numel(), range > kNarrowRange)));
  return out;
}

Tensor bernoulli_p(Call& call, const Tensor& self, double p) {
  check_probability(call, p);
  const Tensor out = target(call, 0, self, self.dtype());
  if (out.numel() == 0 || out.is_meta()) return out;
  op::bernoulli_p.kernel(out.backend(), key_of(out.dtype()))(out, Tensor(), p, draw(out, blocks(out.numel(), false)));
  return out;
}
Tensor bernoulli(Call& call, const Tensor& self) {
  TENON_CHECK(is_floating_point(self.dtype()), DtypeError,
              "bernoulli: self: expected probabilities of a floating dtype, got ", self.dtype());
  const Tensor out = target(call, 0, self, self.dtype(), {&self});
  if (out.numel() == 0 || out.is_meta()) return out;
  op::bernoulli.kernel(out.backend(), key_of(out.dtype()))(out, self.contiguous(), 0,
                                                           draw(out, blocks(out.numel(), false)));
  return out;
}

Tensor randperm(Call& call, int64_t n, std::optional<DType> dtype, std::optional<Device> device, bool requires_grad) {
  TENON_CHECK(n >= 0, ValueError, "randperm: n: expected a number >= 0, got ", n);
  const DType t = dtype.value_or(kInt64);
  TENON_CHECK(!is_complex(t) && t != kBool && !is_float8(t), DtypeError, "randperm: dtype: expected a real dtype, got ",
              t);
  if (n > 0) check_range("randperm", 0, n, t);
  Tensor out = call.output(0, n, t, device.value_or(Device(kCPU)));
  if (!out.is_contiguous()) out = make_tensor(n, t, out.device());
  if (n > 0 && !out.is_meta()) op::randperm.kernel(out.backend(), key_of(t))(out, draw(out, blocks(n, true)));
  return with_grad(out, requires_grad);
}

std::tuple<Tensor, Tensor> native_dropout(Call& call, const Tensor& input, double p, std::optional<bool> train) {
  check_probability(call, p);
  TENON_CHECK(is_floating_point(input.dtype()), DtypeError, "native_dropout: input: expected a floating dtype, got ",
              input.dtype());
  Tensor out = target(call, 0, input, input.dtype(), {&input}), mask = target(call, 1, input, kBool, {&input});
  if (out.numel() == 0 || out.is_meta()) return {out, mask};
  if (!train.value_or(true)) {
    out.copy_(input);
    mask.fill_(true);
    return {out, mask};
  }
  op::native_dropout.kernel(out.backend(), key_of(out.dtype()))(out, mask, input.contiguous(), p,
                                                                draw(out, blocks(out.numel(), false)));
  return {out, mask};
}

Tensor native_dropout_backward(Call&, const Tensor& grad_output, const Tensor& mask, double scale) {
  TENON_CHECK(mask.dtype() == kBool, DtypeError, "native_dropout_backward: mask: expected a bool tensor, got ",
              mask.dtype());
  return op::mul(op::mul(grad_output, mask), scale);
}

Tensor dropout(Call& call, const Tensor& input, double p, bool training, bool inplace) {
  check_probability(call, p);
  if (inplace) return op::dropout.inplace(input, input, p, training, false);
  if (p == 0 || !training || input.numel() == 0) return input;
  return std::get<0>(op::native_dropout(input, p, true));
}

Tensor rand(Call&, IntArrayRef size, std::optional<DType> dtype, std::optional<Device> device, bool requires_grad) {
  const Tensor out = made(size, dtype.value_or(default_dtype()), device, "rand");
  return with_grad(op::uniform.inplace(out, out, 0, 1), requires_grad);
}
Tensor randn(Call&, IntArrayRef size, std::optional<DType> dtype, std::optional<Device> device, bool requires_grad) {
  const Tensor out = made(size, dtype.value_or(default_dtype()), device, "randn");
  return with_grad(op::normal.inplace(out, out, 0, 1), requires_grad);
}
Tensor randint(Call&, int64_t high, IntArrayRef size, std::optional<DType> dtype, std::optional<Device> device,
               bool requires_grad) {
  return op::randint_low(0, high, size, dtype, device, requires_grad);
}
Tensor randint_low(Call&, int64_t low, int64_t high, IntArrayRef size, std::optional<DType> dtype,
                   std::optional<Device> device, bool requires_grad) {
  check_range("randint", low, high, dtype.value_or(kInt64));
  const Tensor out = made(size, dtype.value_or(kInt64), device, "randint");
  return with_grad(op::random.inplace(out, out, low, high), requires_grad);
}
Tensor rand_like(Call&, const Tensor& self, std::optional<DType> dtype, std::optional<Device> device,
                 bool requires_grad) {
  const Tensor out = like(self, dtype, device);
  return with_grad(op::uniform.inplace(out, out, 0, 1), requires_grad);
}
Tensor randn_like(Call&, const Tensor& self, std::optional<DType> dtype, std::optional<Device> device,
                  bool requires_grad) {
  const Tensor out = like(self, dtype, device);
  return with_grad(op::normal.inplace(out, out, 0, 1), requires_grad);
}
Tensor randint_like(Call&, const Tensor& self, int64_t high, std::optional<DType> dtype, std::optional<Device> device,
                    bool requires_grad) {
  return op::randint_like_low(self, 0, high, dtype, device, requires_grad);
}
Tensor randint_like_low(Call&, const Tensor& self, int64_t low, int64_t high, std::optional<DType> dtype,
                        std::optional<Device> device, bool requires_grad) {
  const Tensor out = like(self, dtype, device);
  return with_grad(op::random.inplace(out, out, low, high), requires_grad);
}

}  // namespace tenon::impl

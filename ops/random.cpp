// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/random.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/scan.h>
#include <tenon/ops/search.h>
#include <tenon/ops/sort.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

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

// Fills what shall look like self by the operator's kernel, which takes `parameters` and reads `input`.
template <class Op, class... Parameters>
Tensor drawn(Call& call, const Op& op, const Tensor& self, uint64_t count, const Tensor& input,
             const Parameters&... parameters) {
  const Tensor out = target(call, 0, self, self.dtype(), {&input});
  if (out.numel() != 0 && !out.is_meta())
    op.kernel(out.backend(), key_of(out.dtype()))(out, parameters..., draw(out, count));
  return out;
}

void check_inexact(const Call& call, DType t) {
  TENON_CHECK(is_differentiable(t) && !is_float8(t), DtypeError, call.name(),
              ": self: expected a floating or complex dtype, got ", t);
}

// The integers a dtype holds; of a floating one those up to which it has all.
struct IntegerRange {
  int64_t low, high;
};
IntegerRange integers_of(DType t) {
  const int bits = t == kFloat64 ? 53 : t == kFloat32 ? 24 : t == kFloat16 ? 11 : t == kBFloat16 ? 8 : 0;
  if (bits) return {-(int64_t{1} << bits), int64_t{1} << bits};
  if (t == kBool) return {0, 1};
  const int64_t top = INT64_MAX >> (64 - 8 * item_size(t));
  return t == kUInt8 ? IntegerRange{0, 255} : IntegerRange{-top - 1, top};
}
// From low to high, both included.
void check_range(const char* who, int64_t low, int64_t high, DType t) {
  const IntegerRange held = integers_of(t);
  TENON_CHECK(low >= held.low && high <= held.high, ValueError, who, ": low, high: ", low, " to ", high,
              " does not fit ", t);
}
void check_bounds(const char* who, int64_t low, int64_t high, DType t) {
  TENON_CHECK(low < high, ValueError, who, ": expected low < high, got ", low, " and ", high);
  check_range(who, low, high - 1, t);
}

Tensor made(IntArrayRef sizes, DType t, OptionalDevice device, const char* who) {
  checked_numel(sizes, who);
  return make_tensor(sizes, t, device.value_or(Device(kCPU)));
}
Tensor with_grad(Tensor t, bool requires_grad) {
  TENON_CHECK(!requires_grad || is_differentiable(t.dtype()), DtypeError,
              "requires_grad: only floating and complex tensors can have gradients, got ", t.dtype());
  if (requires_grad) t.impl()->set_requires_grad(true);
  return t;
}
// `out` filled by the in-place form of an operator.
template <class Op, class... Parameters>
Tensor filled(const Op& op, const Tensor& out, bool requires_grad, const Parameters&... parameters) {
  return with_grad(op.inplace(out, out, parameters...), requires_grad);
}
void check_probability(const Call& call, double p) {
  TENON_CHECK(p >= 0 && p <= 1, ValueError, call.name(), ": p: expected a probability between 0 and 1, got ", p);
}

}  // namespace

Tensor uniform(Call& call, const Tensor& self, double from, double to) {
  check_inexact(call, self.dtype());
  TENON_CHECK(from <= to, ValueError, "uniform: expected from <= to, got ", from, " and ", to);
  const DType t = real_of(self.dtype());
  const double largest = t == kFloat64   ? 1.7976931348623157e308
                         : t == kFloat32 ? 3.4028234663852886e38
                         : t == kFloat16 ? 65504.0
                                         : 3.3895313892515355e38;
  TENON_CHECK(from >= -largest && to <= largest && to - from <= largest, ValueError,
              "uniform: from, to: expected a range within ", self.dtype(), ", got ", from, " and ", to);
  return drawn(call, op::uniform, self, float_blocks(self), {}, from, to);
}

Tensor normal(Call& call, const Tensor& self, double mean, double std) {
  check_inexact(call, self.dtype());
  TENON_CHECK(std >= 0, ValueError, "normal: std: expected a number >= 0, got ", std);
  return drawn(call, op::normal, self, float_blocks(self), {}, mean, std);
}

namespace {
void check_std(const Tensor& std) {
  if (!std.is_meta() && std.numel() != 0 && !is_complex(std.dtype()))
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
  return spread(mean.detach(), std.detach(), dispatch::broadcast_sizes(mean.sizes(), std.sizes(), "normal"),
                call.device_of({&mean, &std}));
}
Tensor normal_mean(Call&, const Tensor& mean, double std) {
  TENON_CHECK(std >= 0, ValueError, "normal: std: expected a number >= 0, got ", std);
  return spread(mean.detach(), std, mean.sizes(), mean.device());
}
Tensor normal_std(Call&, double mean, const Tensor& std) {
  check_std(std);
  return spread(mean, std.detach(), std.sizes(), std.device());
}
Tensor normal_sizes(Call&, double mean, double std, IntArrayRef size, OptionalDtype dtype, OptionalDevice device,
                    bool requires_grad) {
  return filled(op::normal, made(size, dtype.value_or(default_dtype()), device, "normal"), requires_grad, mean, std);
}

namespace {
uint64_t blocks(const Tensor& t) { return blocks(t.numel(), t.itemsize() == 8); }
void check_floating(const Call& call, DType t) {
  TENON_CHECK(is_floating_point(t) && !is_float8(t), DtypeError, call.name(), ": self: expected a floating dtype, got ",
              t);
}
}  // namespace

Tensor exponential(Call& call, const Tensor& self, double lambd) {
  check_floating(call, self.dtype());
  TENON_CHECK(lambd > 0, ValueError, "exponential: lambd: expected a number > 0, got ", lambd);
  return drawn(call, op::exponential, self, blocks(self), {}, lambd, 0.0);
}
Tensor cauchy(Call& call, const Tensor& self, double median, double sigma) {
  check_floating(call, self.dtype());
  TENON_CHECK(sigma > 0, ValueError, "cauchy: sigma: expected a number > 0, got ", sigma);
  return drawn(call, op::cauchy, self, blocks(self), {}, median, sigma);
}
Tensor geometric(Call& call, const Tensor& self, double p) {
  TENON_CHECK(!self.is_complex() && self.dtype() != kBool && !is_float8(self.dtype()), DtypeError,
              "geometric: self: expected numbers of a real dtype, got ", self.dtype());
  TENON_CHECK(p > 0 && p < 1, ValueError, "geometric: p: expected a number between 0 and 1, both excluded, got ", p);
  return drawn(call, op::geometric, self, blocks(self), {}, std::log1p(-p), 0.0);
}
Tensor log_normal(Call& call, const Tensor& self, double mean, double std) {
  check_floating(call, self.dtype());
  TENON_CHECK(std > 0, ValueError, "log_normal: std: expected a number > 0, got ", std);
  const Tensor z = make_tensor(self.sizes(), self.dtype() == kFloat64 ? kFloat64 : kFloat32, self.device());
  op::normal.inplace(z, z, mean, std);
  return op::exp.inplace(z, z).to(self.dtype());
}

Tensor random(Call& call, const Tensor& self, std::optional<int64_t> from, std::optional<int64_t> to) {
  const DType t = self.dtype();
  TENON_CHECK(!is_complex(t) && !is_float8(t), DtypeError, "random: self: expected a real dtype, got ", t);
  const int64_t low = from.value_or(0), high = to ? *to - (*to > INT64_MIN) : integers_of(t).high;
  if (to) check_bounds("random", low, *to, t);
  check_range("random", low, high, t);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;  // 0: all
  return drawn(call, op::random, self, blocks(self.numel(), range - 1 >= kNarrowRange), {}, low, range);
}
Tensor random_to(Call& call, const Tensor& self, int64_t to) {
  return call.form == dispatch::Form::inplace ? op::random.inplace(self, self, 0, to) : op::random(self, 0, to);
}

Tensor bernoulli_p(Call& call, const Tensor& self, const Operand& p) {
  Tensor chances;
  double number = 0;
  if (p.is_tensor()) {
    TENON_CHECK(is_floating_point(p.dtype()) && !is_float8(p.dtype()), DtypeError,
                "bernoulli: p: expected probabilities of a floating dtype, got ", p.dtype());
    TENON_CHECK(dispatch::broadcast_sizes(self.sizes(), p.tensor().sizes(), "bernoulli") == self.sizes(), ShapeError,
                "bernoulli: p: expected sizes that broadcast to self's, ", self.sizes(), ", got ", p.tensor().sizes());
    call.device_of({&self, &p.tensor()});
    chances = p.tensor().expand(self.sizes()).contiguous();
  } else {
    number = p.number().real();
    check_probability(call, number);
  }
  return drawn(call, op::bernoulli_p, self, blocks(self.numel(), false), chances, chances, number);
}
Tensor bernoulli(Call& call, const Tensor& self) {
  TENON_CHECK(is_floating_point(self.dtype()), DtypeError,
              "bernoulli: self: expected probabilities of a floating dtype, got ", self.dtype());
  return drawn(call, op::bernoulli, self, blocks(self.numel(), false), self, self.contiguous(), 0.0);
}

Tensor randperm(Call& call, int64_t n, OptionalDtype dtype, OptionalDevice device, bool requires_grad) {
  TENON_CHECK(n >= 0, ValueError, "randperm: n: expected a number >= 0, got ", n);
  const DType t = dtype.value_or(kInt64);
  TENON_CHECK(!is_complex(t) && t != kBool && !is_float8(t), DtypeError, "randperm: dtype: expected a real dtype, got ",
              t);
  if (n > 0) check_range("randperm", 0, n - 1, t);
  Tensor out = call.output(0, n, t, device.value_or(Device(kCPU)));
  if (!out.is_contiguous()) out = make_tensor(n, t, out.device());
  if (n > 0 && !out.is_meta()) op::randperm.kernel(out.backend(), key_of(t))(out, draw(out, blocks(n, true)));
  return with_grad(out, requires_grad);
}

Tensor multinomial(Call& call, const Tensor& self, int64_t num_samples, bool replacement) {
  check_floating(call, self.dtype());
  TENON_CHECK(self.dim() == 1 || self.dim() == 2, ShapeError,
              "multinomial: self: expected a vector or a matrix of weights, got sizes ", self.sizes());
  const int64_t categories = self.sizes().back();
  TENON_CHECK(num_samples > 0, ValueError, "multinomial: num_samples: expected a number > 0, got ", num_samples);
  TENON_CHECK(categories > 0 && (replacement || num_samples <= categories), ValueError,
              "multinomial: num_samples: expected at most the number of categories, ", categories, ", got ",
              num_samples);
  TENON_CHECK(call.destinations.empty() || call.destinations[0].dtype() == kInt64, DtypeError,
              "multinomial: out: expected int64, got ", call.destinations[0].dtype());
  DimVector sizes(self.sizes());
  sizes[sizes.size() - 1] = num_samples;
  if (self.is_meta() || self.numel() == 0) return make_tensor(sizes, kInt64, self.device());
  const Tensor w = self.detach().to(kFloat64), positive = op::gt(w, 0);
  // The number of categories that can be drawn; below 0 where a weight is none.
  const Tensor proper = op::logical_and(op::ge(w, 0), op::lt(w, HUGE_VAL));
  const auto least =
      op::amin(op::sum(op::where(proper, positive, -categories - 1), -1, false, {}), {}, false).item<int64_t>();
  TENON_CHECK(least >= 0, ValueError, "multinomial: self: expected finite weights >= 0");
  TENON_CHECK(least > 0, ValueError, "multinomial: self: expected a positive weight in every row");
  TENON_CHECK(replacement || least >= num_samples, ValueError, "multinomial: num_samples: expected at most ", least,
              " without replacement, as there are no more positive weights, got ", num_samples);
  const Tensor share = op::div(w, op::amax(w, -1, true), {});  // in [0, 1]: their sum is finite
  if (replacement) {
    // The running maximum gives a category of weight 0 exactly what the one before has: it is passed over, however the
    // sums are rounded. A uniform number below 1 times the total is below the total.
    const Tensor upto = std::get<0>(op::cummax(op::where(positive, op::cumsum(share, -1, {}, false), 0), -1));
    const Tensor u = make_tensor(sizes, kFloat64, self.device());
    op::uniform.inplace(u, u, 0, 1);
    return op::searchsorted(upto, op::mul(u, upto.slice(-1, categories - 1)), false, true, {}, {});
  }
  // The first num_samples events of exponential clocks whose rates are the weights.
  const Tensor clock = make_tensor(self.sizes(), kFloat64, self.device());
  op::exponential.inplace(clock, clock, 1);
  return std::get<1>(op::topk(op::where(positive, op::div(share, clock, {}), -1), num_samples, -1, true, true));
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

Tensor rand(Call&, IntArrayRef size, OptionalDtype dtype, OptionalDevice device, bool requires_grad) {
  return filled(op::uniform, made(size, dtype.value_or(default_dtype()), device, "rand"), requires_grad, 0, 1);
}
Tensor randn(Call&, IntArrayRef size, OptionalDtype dtype, OptionalDevice device, bool requires_grad) {
  return filled(op::normal, made(size, dtype.value_or(default_dtype()), device, "randn"), requires_grad, 0, 1);
}
Tensor randint(Call&, int64_t high, IntArrayRef size, OptionalDtype dtype, OptionalDevice device, bool requires_grad) {
  return op::randint_low(0, high, size, dtype, device, requires_grad);
}
Tensor randint_low(Call&, int64_t low, int64_t high, IntArrayRef size, OptionalDtype dtype, OptionalDevice device,
                   bool requires_grad) {
  check_bounds("randint", low, high, dtype.value_or(kInt64));
  return filled(op::random, made(size, dtype.value_or(kInt64), device, "randint"), requires_grad, low, high);
}
Tensor rand_like(Call&, const Tensor& self, OptionalDtype dtype, OptionalDevice device, bool requires_grad,
                 std::optional<MemoryFormat> format) {
  return filled(op::uniform, op::empty_like(self, dtype, device, format), requires_grad, 0, 1);
}
Tensor randn_like(Call&, const Tensor& self, OptionalDtype dtype, OptionalDevice device, bool requires_grad,
                  std::optional<MemoryFormat> format) {
  return filled(op::normal, op::empty_like(self, dtype, device, format), requires_grad, 0, 1);
}
Tensor randint_like(Call&, const Tensor& self, int64_t high, OptionalDtype dtype, OptionalDevice device,
                    bool requires_grad, std::optional<MemoryFormat> format) {
  return op::randint_like_low(self, 0, high, dtype, device, requires_grad, format);
}
Tensor randint_like_low(Call&, const Tensor& self, int64_t low, int64_t high, OptionalDtype dtype,
                        OptionalDevice device, bool requires_grad, std::optional<MemoryFormat> format) {
  return filled(op::random, op::empty_like(self, dtype, device, format), requires_grad, low, high);
}

}  // namespace tenon::impl

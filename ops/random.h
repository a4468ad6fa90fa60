// SPDX-License-Identifier: Apache-2.0
// Random numbers and dropout. Which number an element gets is set by kernels/philox.h: bits, integers and uniforms are
// the same on every device, other distributions agree to 4 ULP. What is drawn has no gradient.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>
#include <tenon/ops/generator.h>

namespace tenon {

#define TENON_FACTORY(name, schema, ...)                                                                               \
  TENON_OP(name, schema ", *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor", composite, \
           kNoInplace, Tensor(__VA_ARGS__, std::optional<DType>, std::optional<Device>, bool), void())
#define TENON_LIKE(name, schema, ...)                                                                           \
  TENON_OP(name,                                                                                                \
           schema                                                                                               \
           ", *, dtype? dtype=None, device? device=None, bool requires_grad=False, memory_format? "             \
           "memory_format=None) -> Tensor",                                                                     \
           composite, kNoInplace,                                                                               \
           Tensor(__VA_ARGS__, std::optional<DType>, std::optional<Device>, bool, std::optional<MemoryFormat>), \
           void())

// Kernels write every element of `out`, which is contiguous and not empty; the counters they use are reserved.
TENON_OP(uniform, "uniform(Tensor self, float from=0, float to=1) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, double, double),
         void(const Tensor& out, double from, double to, const PhiloxState& state))
// normal.Tensor_float and its sisters come first, so that normal(mean) means elementwise means; normal_ is `normal`.
TENON_OP(normal_tensors, "normal.Tensor_Tensor(Tensor mean, Tensor std) -> Tensor", composite,
         kNoInplace | kNotCapturable, Tensor(const Tensor&, const Tensor&), void())
TENON_OP(normal_mean, "normal.Tensor_float(Tensor mean, float std=1) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, double), void())
TENON_OP(normal_std, "normal.float_Tensor(float mean, Tensor std) -> Tensor", composite, kNoInplace | kNotCapturable,
         Tensor(double, const Tensor&), void())
TENON_FACTORY(normal_sizes, "normal.float_float(float mean, float std, int[] size", double, double, IntArrayRef)
TENON_OP(normal, "normal(Tensor self, float mean=0, float std=1) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, double, double),
         void(const Tensor& out, double mean, double std, const PhiloxState& state))
// The distributions that are functions of one uniform number; a and b are their parameters in the schema's order.
TENON_OP(exponential, "exponential(Tensor self, float lambd=1) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, double), void(const Tensor& out, double a, double b, const PhiloxState& state))
/// Density sigma / (pi ((x - median)^2 + sigma^2)).
TENON_OP(cauchy, "cauchy(Tensor self, float median=0, float sigma=1) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, double, double), void(const Tensor& out, double a, double b, const PhiloxState& state))
TENON_OP(geometric, "geometric(Tensor self, float p) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, double), void(const Tensor& out, double a, double b, const PhiloxState& state))
TENON_OP(log_normal, "log_normal(Tensor self, float mean=1, float std=2) -> Tensor", composite, kPlain,
         Tensor(const Tensor&, double, double), void())
// random.to comes first, so that one number is the upper bound. Kernel: low and the number of values (0: all 2^64).
TENON_OP(random_to, "random.to(Tensor self, int to) -> Tensor", composite, kPlain, Tensor(const Tensor&, int64_t),
         void())
TENON_OP(random, "random.from(Tensor self, int? from=None, int? to=None) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, std::optional<int64_t>, std::optional<int64_t>),
         void(const Tensor& out, int64_t low, uint64_t range, const PhiloxState& state))
// `p` is contiguous with out's sizes and a floating dtype, and undefined when the number counts. Key: out's dtype.
TENON_OP(bernoulli_p, "bernoulli.p(Tensor self, Tensor|Scalar p) -> Tensor", kernel, kNonDifferentiable,
         Tensor(const Tensor&, const Operand&),
         void(const Tensor& out, const Tensor& p, double number, const PhiloxState& state))
TENON_OP(bernoulli, "bernoulli(Tensor self) -> Tensor", kernel, kNonDifferentiable, Tensor(const Tensor&),
         void(const Tensor& out, const Tensor& p, double number, const PhiloxState& state))
TENON_OP(randperm, "randperm(int n, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor",
         kernel, kNoInplace | kNonDifferentiable, Tensor(int64_t, std::optional<DType>, std::optional<Device>, bool),
         void(const Tensor& out, const PhiloxState& state))
TENON_OP(multinomial, "multinomial(Tensor self, int num_samples, bool replacement=False) -> Tensor", composite,
         kNoInplace | kNotCapturable, Tensor(const Tensor&, int64_t, bool), void())
// out, mask (bool) and x contiguous; element i is kept when its uniform is below 1 - p, and then scaled by 1 / (1 - p).
/// dropout with the mask of what it kept.
TENON_OP(native_dropout, "native_dropout(Tensor input, float p, bool? train=True) -> (Tensor output, Tensor mask)",
         kernel, kNoInplace, std::tuple<Tensor, Tensor>(const Tensor&, double, std::optional<bool>),
         void(const Tensor& out, const Tensor& mask, const Tensor& x, double p, const PhiloxState& state))
/// Its gradient.
TENON_OP(native_dropout_backward, "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
         composite, kNoInplace, Tensor(const Tensor&, const Tensor&, double), void())
TENON_OP(dropout, "dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor", composite,
         kPlain, Tensor(const Tensor&, double, bool, bool), void())

TENON_FACTORY(rand, "rand(int[] size", IntArrayRef)
TENON_FACTORY(randn, "randn(int[] size", IntArrayRef)
TENON_FACTORY(randint, "randint(int high, int[] size", int64_t, IntArrayRef)
TENON_FACTORY(randint_low, "randint.low(int low, int high, int[] size", int64_t, int64_t, IntArrayRef)
/// rand, randn and randint with sizes, dtype and device of self.
TENON_LIKE(rand_like, "rand_like(Tensor self", const Tensor&)
TENON_LIKE(randn_like, "randn_like(Tensor self", const Tensor&)
TENON_LIKE(randint_like, "randint_like(Tensor self, int high", const Tensor&, int64_t)
TENON_LIKE(randint_like_low, "randint_like.low_dtype(Tensor self, int low, int high", const Tensor&, int64_t, int64_t)
#undef TENON_FACTORY
#undef TENON_LIKE

#define TENON_OPTIONS o.dtype(), o.device(), o.requires_grad()
/// Uniform on [0, 1). Default float unless `options` name a floating or complex dtype.
inline Tensor rand(IntArrayRef sizes, const TensorOptions& o = {}) { return op::rand(sizes, TENON_OPTIONS); }
/// Standard normal; complex numbers have variance 1.
inline Tensor randn(IntArrayRef sizes, const TensorOptions& o = {}) { return op::randn(sizes, TENON_OPTIONS); }
/// Normal with the given mean and standard deviation.
inline Tensor normal(double mean, double std, IntArrayRef sizes, const TensorOptions& o = {}) {
  return op::normal_sizes(mean, std, sizes, TENON_OPTIONS);
}
/// Integers from low (0 if left out) to high - 1; int64 by default. ValueError unless low < high and both fit the dtype.
inline Tensor randint(int64_t high, IntArrayRef sizes, const TensorOptions& o = {}) {
  return op::randint(high, sizes, TENON_OPTIONS);
}
inline Tensor randint(int64_t low, int64_t high, IntArrayRef sizes, const TensorOptions& o = {}) {
  return op::randint_low(low, high, sizes, TENON_OPTIONS);
}
/// A random order of 0 ... n - 1; int64 by default.
inline Tensor randperm(int64_t n, const TensorOptions& o = {}) { return op::randperm(n, TENON_OPTIONS); }
inline Tensor rand_like(const Tensor& self, const TensorOptions& o = {}) {
  return op::rand_like(self, TENON_OPTIONS, o.memory_format());
}
inline Tensor randn_like(const Tensor& self, const TensorOptions& o = {}) {
  return op::randn_like(self, TENON_OPTIONS, o.memory_format());
}
inline Tensor randint_like(const Tensor& self, int64_t low, int64_t high, const TensorOptions& o = {}) {
  return op::randint_like_low(self, low, high, TENON_OPTIONS, o.memory_format());
}
#undef TENON_OPTIONS
/// Fills self, in place. Returns it. uniform_: from <= x < to.
inline Tensor uniform_(const Tensor& x, double from = 0, double to = 1) { return op::uniform.inplace(x, x, from, to); }
inline Tensor normal_(const Tensor& x, double mean = 0, double std = 1) { return op::normal.inplace(x, x, mean, std); }
inline Tensor bernoulli_(const Tensor& self, const Operand& p = 0.5) { return op::bernoulli_p.inplace(self, self, p); }
/// from <= x < to; without `to` up to the largest integer up to which self's dtype has all, that one too; from 0.
inline Tensor random_(const Tensor& self, std::optional<int64_t> from, std::optional<int64_t> to) {
  return op::random.inplace(self, self, from, to);
}
inline Tensor random_(const Tensor& self, int64_t to) { return op::random_to.inplace(self, self, to); }
inline Tensor random_(const Tensor& self) { return random_(self, {}, {}); }
/// Density lambd exp(-lambd x); positive and finite.
inline Tensor exponential_(const Tensor& self, double lambd = 1) { return op::exponential.inplace(self, self, lambd); }
inline Tensor cauchy_(const Tensor& self, double median = 0, double sigma = 1) {
  return op::cauchy.inplace(self, self, median, sigma);
}
/// Number of trials of probability p up to the first success, from 1; integers too, of which the largest stands for more.
inline Tensor geometric_(const Tensor& self, double p) { return op::geometric.inplace(self, self, p); }
/// exp of a normal number of this mean and standard deviation.
inline Tensor log_normal_(const Tensor& self, double mean = 1, double std = 2) {
  return op::log_normal.inplace(self, self, mean, std);
}
/// Indices (int64) of a vector or of each row of a matrix, drawn in proportion to its weights, never one of weight 0.
/// Waits for the device. ValueError for weights that are negative, infinite, NaN, all 0, or too few without replacement.
inline Tensor multinomial(const Tensor& self, int64_t num_samples, bool replacement = false) {
  return op::multinomial(self, num_samples, replacement);
}
/// Normal numbers with elementwise means and standard deviations, which broadcast.
inline Tensor normal(const Tensor& mean, const Tensor& std) { return op::normal_tensors(mean, std); }
inline Tensor normal(const Tensor& mean, double std = 1) { return op::normal_mean(mean, std); }
inline Tensor normal(double mean, const Tensor& std) { return op::normal_std(mean, std); }
/// 1 with the probability the element gives, else 0; floating dtypes. ValueError unless 0 <= p <= 1 (on the CPU).
inline Tensor bernoulli(const Tensor& self) { return op::bernoulli(self); }
inline Tensor bernoulli(const Tensor& self, const Operand& p) { return op::bernoulli_p(self, p); }
/// In training, each element is zeroed with probability p and the others are scaled by 1 / (1 - p); else the input
/// itself. ValueError unless 0 <= p <= 1.
inline Tensor dropout(const Tensor& x, double p = 0.5, bool train = true) { return op::dropout(x, p, train, false); }

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Layer normalisation (ops/norm.h). One row at a time, in the cache; statistics in two passes. The gradients of weight
// and bias are summed in a fixed number of parts, so that they do not depend on the number of threads.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/norm.h>

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/norm.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/rows.h>

#ifndef TENON_KERNELS_CPU_NORM_COMMON
#define TENON_KERNELS_CPU_NORM_COMMON
namespace tenon::cpu {

/// A parameter of dtype T or C as C; null stays null. `memory` is used when a conversion is needed.
template <class T, class C>
const C* parameter(const Tensor& t, C* memory) {
  if (!t.defined()) return nullptr;
  if (t.dtype() == dtype_of<C>()) return static_cast<const C*>(t.data_ptr());
  load_row(memory, static_cast<const T*>(t.data_ptr()), 1, t.numel());
  return memory;
}
template <class T, class C>
void put(const Tensor& t, int64_t i, C value) {
  if (t.dtype() == dtype_of<C>())
    static_cast<C*>(t.data_ptr())[i] = value;
  else
    static_cast<T*>(t.data_ptr())[i] = static_cast<T>(value);
}
template <class T, class C>
C get(const Tensor& t, int64_t i) {
  return t.dtype() == dtype_of<C>() ? static_cast<const C*>(t.data_ptr())[i]
                                    : static_cast<C>(static_cast<const T*>(t.data_ptr())[i]);
}

}  // namespace tenon::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

template <class C>
C row_sum(const C* x, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto zero = hn::Zero(d);
  auto s0 = zero;
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) { s0 = hn::Add(s0, load(d, partial, mask, x + i, zero)); });
  return hn::GetLane(hn::SumOfLanes(d, s0));
}
template <class C>
C row_squares(const C* x, C mean, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto shift = hn::Set(d, mean);
  auto sum = hn::Zero(d);
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto v = hn::Sub(load(d, partial, mask, x + i, shift), shift);
    sum = hn::MulAdd(v, v, sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <class T>
void native_layer_norm_cpu(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                           const Tensor& weight, const Tensor& bias, double eps) {
  using C = compute_t<T>;
  const int64_t rows = x.sizes()[0], n = x.sizes()[1];
  const Scratch<C> memory(2 * n, 3);
  const C *const w = parameter<T>(weight, memory.data()), *const b = parameter<T>(bias, memory.data() + n);
  parallel_for(0, rows, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
    const Scratch<C> row(std::is_same_v<T, C> ? 0 : n, 2);
    for (int64_t r = begin; r < end; ++r) {
      const C* in;
      C* to;
      if constexpr (std::is_same_v<T, C>) {
        in = static_cast<const T*>(x.data_ptr()) + r * n;
        to = static_cast<T*>(out.data_ptr()) + r * n;
      } else {
        load_row(row.data(), static_cast<const T*>(x.data_ptr()) + r * n, 1, n);
        in = to = row.data();
      }
      const C m = row_sum(in, n) / static_cast<C>(n);
      const C scale = C(1) / std::sqrt(row_squares(in, m, n) / static_cast<C>(n) + static_cast<C>(eps));
      const hn::ScalableTag<C> d;
      const auto vs = hn::Set(d, scale), vm = hn::Set(d, m), zero = hn::Zero(d);
      each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
        auto v = hn::Mul(hn::Sub(load(d, partial, mask, in + i, zero), vm), vs);
        if (w) v = hn::Mul(v, load(d, partial, mask, w + i, zero));
        if (b) v = hn::Add(v, load(d, partial, mask, b + i, zero));
        store(d, partial, mask, v, to + i);
      });
      if constexpr (!std::is_same_v<T, C>) store_row(static_cast<T*>(out.data_ptr()) + r * n, 1, to, n);
      put<T>(mean, r, m);
      put<T>(rstd, r, scale);
    }
  });
}

/// One row: adds to dw and db (if any) and writes dx (if any).
template <class C>
void backward_row(const C* g, const C* x, C mean, C scale, const C* w, C* dx, C* dw, C* db, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto vm = hn::Set(d, mean), vs = hn::Set(d, scale), zero = hn::Zero(d);
  auto sum = zero, product = zero;
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto vg = load(d, partial, mask, g + i, zero),
               hat = hn::Mul(hn::Sub(load(d, partial, mask, x + i, vm), vm), vs);
    if (dw) store(d, partial, mask, hn::MulAdd(vg, hat, load(d, partial, mask, dw + i, zero)), dw + i);
    if (db) store(d, partial, mask, hn::Add(vg, load(d, partial, mask, db + i, zero)), db + i);
    const auto wg = w ? hn::Mul(vg, load(d, partial, mask, w + i, zero)) : vg;
    sum = hn::Add(sum, wg);
    product = hn::MulAdd(wg, hat, product);
  });
  if (!dx) return;
  const auto a = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sum)) / static_cast<C>(n));
  const auto b = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, product)) / static_cast<C>(n));
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto vg = load(d, partial, mask, g + i, zero),
               hat = hn::Mul(hn::Sub(load(d, partial, mask, x + i, vm), vm), vs);
    const auto wg = w ? hn::Mul(vg, load(d, partial, mask, w + i, zero)) : vg;
    store(d, partial, mask, hn::Mul(hn::NegMulAdd(hat, b, hn::Sub(wg, a)), vs), dx + i);
  });
}

template <class T>
void native_layer_norm_backward_cpu(const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias,
                                    const Tensor& grad_output, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& weight) {
  using C = compute_t<T>;
  const int64_t rows = x.sizes()[0], n = x.sizes()[1];
  const bool wants_weight = grad_weight.defined(), wants_bias = grad_bias.defined();
  const int64_t parts =
      wants_weight || wants_bias ? std::clamp<int64_t>(rows / 16, 1, 16) : std::max<int64_t>(1, rows * n / 16384);
  const int64_t share = (rows + parts - 1) / parts;
  const int64_t kept = wants_weight || wants_bias ? 2 * parts * n : 0;
  const Scratch<C> memory(n + kept, 3);
  const C* const w = parameter<T>(weight, memory.data());
  C* const sums = memory.data() + n;
  for (int64_t i = 0; i < kept; ++i) sums[i] = C(0);
  parallel_for(0, parts, rows * n < 16384 ? parts : 1, [&](int64_t begin, int64_t end) {
    const Scratch<C> row(std::is_same_v<T, C> ? 0 : 2 * n, 2);
    for (int64_t r = begin * share; r < std::min(end * share, rows); ++r) {
      const int64_t part = r / share;
      C *const dw = wants_weight ? sums + 2 * part * n : nullptr, *const db =
                                                                      wants_bias ? sums + (2 * part + 1) * n : nullptr;
      const C m = get<T, C>(mean, r), s = get<T, C>(rstd, r);
      const T *const gt = static_cast<const T*>(grad_output.data_ptr()) + r * n, *const xt = static_cast<const T*>(
                                                                                                 x.data_ptr()) +
                                                                                             r * n;
      T* const dx = grad_input.defined() ? static_cast<T*>(grad_input.data_ptr()) + r * n : nullptr;
      if constexpr (std::is_same_v<T, C>) {
        backward_row(gt, xt, m, s, w, dx, dw, db, n);
      } else {
        C *const g = row.data(), *const in = g + n;
        load_row(g, gt, 1, n);
        load_row(in, xt, 1, n);
        backward_row(static_cast<const C*>(g), static_cast<const C*>(in), m, s, w, dx ? g : nullptr, dw, db, n);
        if (dx) store_row(dx, 1, g, n);
      }
    }
  });
  for (int64_t i = 0; i < n && kept != 0; ++i) {
    C dw = 0, db = 0;
    for (int64_t p = 0; p < parts; ++p) dw += sums[2 * p * n + i], db += sums[(2 * p + 1) * n + i];
    if (wants_weight) put<T>(grad_weight, i, dw);
    if (wants_bias) put<T>(grad_bias, i, db);
  }
}
TENON_REGISTER_SIMD_KERNEL(op::native_layer_norm, FloatsAndHalves, native_layer_norm_cpu);
TENON_REGISTER_SIMD_KERNEL(op::native_layer_norm_backward, FloatsAndHalves, native_layer_norm_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

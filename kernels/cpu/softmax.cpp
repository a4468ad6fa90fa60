// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients (ops/softmax.h). Rows that are contiguous are worked on one by one, in the
// cache; for other dimensions many rows that lie side by side are worked on together, a tile of columns at a time.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/softmax.h>

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/softmax.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/rows.h>

#ifndef TENON_KERNELS_CPU_SOFTMAX_COMMON
#define TENON_KERNELS_CPU_SOFTMAX_COMMON
namespace tenon::cpu {

/// What all four operators walk: `rows` positions, each with a row of n elements `step` elements apart.
struct RowLayout {
  int64_t n, rows, step;
  int rank = 0;
  int64_t sizes[kMaxDims], strides[kMaxDims];  // of the other dimensions, outermost first

  RowLayout(const Tensor& t, int64_t dim) : n(t.sizes()[static_cast<std::size_t>(dim)]), rows(1), step(t.stride(dim)) {
    for (int64_t d = 0; d < t.dim(); ++d) {
      if (d == dim) continue;
      sizes[rank] = t.size(d);
      strides[rank++] = t.stride(d);
      rows *= t.size(d);
    }
  }
  /// Offset of a row's first element.
  int64_t offset(int64_t row) const {
    int64_t o = 0;
    for (int d = rank; d-- > 0; row /= sizes[d]) o += row % sizes[d] * strides[d];
    return o;
  }
  /// Whether `count` rows from `row` on lie one element apart.
  bool side_by_side() const { return rank > 0 && strides[rank - 1] == 1; }
};

}  // namespace tenon::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The largest element; NaN is not looked for (a NaN makes the sum NaN).
template <class C>
C row_max(const C* x, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto low = hn::Set(d, -HUGE_VAL);
  auto top = low;
  each_vector<C>(n,
                 [&](int64_t i, auto partial, auto mask) { top = hn::Max(load(d, partial, mask, x + i, low), top); });
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

/// Writes exp(x - top) (if `to`) and returns the sum, which is NaN when top is an infinity, as it must be.
template <bool kWrite, class C>
C exp_sum(C* to, const C* x, C top, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto shift = hn::Set(d, top);
  auto sum = hn::Zero(d);
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    auto e = exp_of(d, hn::Sub(load(d, partial, mask, x + i, shift), shift));
    if constexpr (kWrite) store(d, partial, mask, e, to + i);
    if constexpr (decltype(partial)::value) e = hn::IfThenElseZero(mask, e);
    sum = hn::Add(sum, e);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// to[i] = a * x[i] + b
template <class C>
void scale_row(C* to, const C* x, C a, C b, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto va = hn::Set(d, a), vb = hn::Set(d, b);
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    store(d, partial, mask, hn::MulAdd(va, load(d, partial, mask, x + i, vb), vb), to + i);
  });
}

template <bool kLog, class C>
void forward_row(C* out, const C* x, int64_t n) {
  const C top = row_max(x, n);
  if constexpr (kLog) {
    // Two subtractions keep the precision of x - top where the logarithm is small beside it.
    const C log_sum = std::log(exp_sum<false>(out, x, top, n));
    const hn::ScalableTag<C> d;
    const auto vt = hn::Set(d, top), vl = hn::Set(d, log_sum);
    each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
      store(d, partial, mask, hn::Sub(hn::Sub(load(d, partial, mask, x + i, vt), vt), vl), out + i);
    });
  } else {
    const C sum = exp_sum<true>(out, x, top, n);
    scale_row(out, out, C(1) / sum, C(0), n);
  }
}

/// softmax: dx = y (g - sum(g y)); log_softmax: dx = g - exp(y) sum(g).
template <bool kLog, class C>
void backward_row(C* out, const C* g, const C* y, int64_t n) {
  const hn::ScalableTag<C> d;
  auto total = hn::Zero(d);
  const auto zero = total;
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto v = load(d, partial, mask, g + i, zero);
    if constexpr (kLog)
      total = hn::Add(total, v);
    else
      total = hn::MulAdd(v, load(d, partial, mask, y + i, zero), total);
  });
  const auto sum = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, total)));
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto vg = load(d, partial, mask, g + i, zero), vy = load(d, partial, mask, y + i, zero);
    if constexpr (kLog)
      store(d, partial, mask, hn::NegMulAdd(exp_of(d, vy), sum, vg), out + i);
    else
      store(d, partial, mask, hn::Mul(vy, hn::Sub(vg, sum)), out + i);
  });
}

// --- rows side by side: `width` columns, n steps down ---------------------------------------------------------------
template <bool kLog, class C>
void forward_columns(C* block, C* stats, int64_t n, int64_t width) {
  C *const top = stats, *const sum = stats + width;
  for (int64_t j = 0; j < width; ++j) top[j] = block[j], sum[j] = C(0);
  for (int64_t i = 1; i < n; ++i)
    for (int64_t j = 0; j < width; ++j) top[j] = block[i * width + j] > top[j] ? block[i * width + j] : top[j];
  for (int64_t j = 0; j < width; ++j) top[j] = top[j] == top[j] ? top[j] : -HUGE_VAL;
  const hn::ScalableTag<C> d;
  for (int64_t i = 0; i < n; ++i) {
    C* const row = block + i * width;
    each_vector<C>(width, [&](int64_t j, auto partial, auto mask) {
      const auto zero = hn::Zero(d);
      const auto shifted = hn::Sub(load(d, partial, mask, row + j, zero), load(d, partial, mask, top + j, zero));
      const auto e = exp_of(d, shifted);
      store(d, partial, mask, hn::Add(load(d, partial, mask, sum + j, zero), e), sum + j);
      store(d, partial, mask, kLog ? shifted : e, row + j);
    });
  }
  for (int64_t j = 0; j < width; ++j) sum[j] = kLog ? std::log(sum[j]) : C(1) / sum[j];
  for (int64_t i = 0; i < n; ++i) {
    C* const row = block + i * width;
    for (int64_t j = 0; j < width; ++j) row[j] = kLog ? row[j] - sum[j] : row[j] * sum[j];
  }
}
template <bool kLog, class C>
void backward_columns(C* g, const C* y, C* sum, int64_t n, int64_t width) {
  for (int64_t j = 0; j < width; ++j) sum[j] = C(0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < width; ++j) sum[j] += kLog ? g[i * width + j] : g[i * width + j] * y[i * width + j];
  const hn::ScalableTag<C> d;
  for (int64_t i = 0; i < n; ++i) {
    C* const row = g + i * width;
    const C* const yr = y + i * width;
    each_vector<C>(width, [&](int64_t j, auto partial, auto mask) {
      const auto zero = hn::Zero(d);
      const auto vg = load(d, partial, mask, row + j, zero), vy = load(d, partial, mask, yr + j, zero);
      const auto vs = load(d, partial, mask, sum + j, zero);
      store(d, partial, mask, kLog ? hn::NegMulAdd(exp_of(d, vy), vs, vg) : hn::Mul(vy, hn::Sub(vg, vs)), row + j);
    });
  }
}

// Tiles of columns: as wide as keeps a tile in the second cache.
template <class C>
int64_t tile_width(int64_t n) {
  return std::clamp<int64_t>((int64_t(1) << 20) / static_cast<int64_t>(sizeof(C)) / n / 16 * 16, 16, 512);
}
// Calls f(first row, count) for runs of side-by-side rows that end where the innermost other dimension does.
template <class F>
void each_tile(const RowLayout& rows, int64_t width, int64_t grain, F&& f) {
  const int64_t inner = rows.sizes[rows.rank - 1], tiles = (inner + width - 1) / width;
  parallel_for(0, rows.rows / inner * tiles, std::max<int64_t>(1, grain / width), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      f(t / tiles * inner + t % tiles * width, std::min(width, inner - t % tiles * width));
  });
}

template <bool kLog, class T>
void forward(const Tensor& out, const Tensor& self, int64_t dim) {
  using C = compute_t<T>;
  const RowLayout from(self, dim), to(out, dim);
  const T* const x = static_cast<const T*>(self.data_ptr());
  T* const y = static_cast<T*>(out.data_ptr());
  const int64_t n = from.n, grain = std::max<int64_t>(1, 16384 / n);
  if (from.side_by_side() && n > 1) {
    const int64_t width = tile_width<C>(n);
    each_tile(from, width, grain, [&](int64_t row, int64_t count) {
      const Scratch<C> memory((n + 2) * count, 2);
      C* const block = memory.data();
      for (int64_t i = 0; i < n; ++i) load_row(block + i * count, x + from.offset(row) + i * from.step, 1, count);
      forward_columns<kLog>(block, block + n * count, n, count);
      const int64_t across = to.strides[to.rank - 1];
      for (int64_t i = 0; i < n; ++i) store_row(y + to.offset(row) + i * to.step, across, block + i * count, count);
    });
    return;
  }
  parallel_for(0, from.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* const in = x + from.offset(r);
      T* const result = y + to.offset(r);
      if constexpr (std::is_same_v<T, C>) {
        if (from.step == 1 && to.step == 1) {
          forward_row<kLog>(result, in, n);
          continue;
        }
      }
      const Scratch<C> memory(n, 2);
      load_row(memory.data(), in, from.step, n);
      forward_row<kLog>(memory.data(), static_cast<const C*>(memory.data()), n);
      store_row(result, to.step, memory.data(), n);
    }
  });
}

template <bool kLog, class T>
void backward(const Tensor& grad_input, const Tensor& grad_output, const Tensor& output, int64_t dim) {
  using C = compute_t<T>;
  const RowLayout to(grad_input, dim), by(grad_output, dim), from(output, dim);
  T* const dx = static_cast<T*>(grad_input.data_ptr());
  const T *const g = static_cast<const T*>(grad_output.data_ptr()), *const y = static_cast<const T*>(output.data_ptr());
  const int64_t n = from.n, grain = std::max<int64_t>(1, 16384 / n);
  if (from.side_by_side() && n > 1) {
    const int64_t width = tile_width<C>(n);
    each_tile(from, width, grain, [&](int64_t row, int64_t count) {
      const Scratch<C> memory((2 * n + 1) * count, 2);
      C *const gs = memory.data(), *const ys = gs + n * count;
      for (int64_t i = 0; i < n; ++i) {
        load_row(gs + i * count, g + by.offset(row) + i * by.step, by.strides[by.rank - 1], count);
        load_row(ys + i * count, y + from.offset(row) + i * from.step, 1, count);
      }
      backward_columns<kLog>(gs, static_cast<const C*>(ys), ys + n * count, n, count);
      const int64_t across = to.strides[to.rank - 1];
      for (int64_t i = 0; i < n; ++i) store_row(dx + to.offset(row) + i * to.step, across, gs + i * count, count);
    });
    return;
  }
  parallel_for(0, from.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T *const gr = g + by.offset(r), *const yr = y + from.offset(r);
      T* const result = dx + to.offset(r);
      if constexpr (std::is_same_v<T, C>) {
        if (by.step == 1 && from.step == 1 && to.step == 1) {
          backward_row<kLog>(result, gr, yr, n);
          continue;
        }
      }
      const Scratch<C> memory(2 * n, 2);
      C *const gs = memory.data(), *const ys = gs + n;
      load_row(gs, gr, by.step, n);
      load_row(ys, yr, from.step, n);
      backward_row<kLog>(gs, static_cast<const C*>(gs), static_cast<const C*>(ys), n);
      store_row(result, to.step, gs, n);
    }
  });
}

template <class T>
void softmax_cpu(const Tensor& out, const Tensor& self, int64_t dim) {
  forward<false, T>(out, self, dim);
}
template <class T>
void log_softmax_cpu(const Tensor& out, const Tensor& self, int64_t dim) {
  forward<true, T>(out, self, dim);
}
template <class T>
void softmax_backward_cpu(const Tensor& dx, const Tensor& g, const Tensor& y, int64_t dim) {
  backward<false, T>(dx, g, y, dim);
}
template <class T>
void log_softmax_backward_cpu(const Tensor& dx, const Tensor& g, const Tensor& y, int64_t dim) {
  backward<true, T>(dx, g, y, dim);
}
TENON_REGISTER_SIMD_KERNEL(op::softmax, FloatsAndHalves, softmax_cpu);
TENON_REGISTER_SIMD_KERNEL(op::log_softmax, FloatsAndHalves, log_softmax_cpu);
TENON_REGISTER_SIMD_KERNEL(op::softmax_backward, FloatsAndHalves, softmax_backward_cpu);
TENON_REGISTER_SIMD_KERNEL(op::log_softmax_backward, FloatsAndHalves, log_softmax_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

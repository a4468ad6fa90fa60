// SPDX-License-Identifier: Apache-2.0
// Averages over windows (ops/pool.h) and their gradient. A row of outputs is made in two steps that both run along rows:
// the rows of its windows are added, then neighbouring columns of the sum; the gradient takes the same way back. With
// channels last every step runs along the channels.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/pool_average.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/pool.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

using Span = PoolWindows::Span;

template <class C>
void add_row(C* to, const C* from, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}
template <class C>
C row_total(const C* from, int64_t n, int64_t step) {
  constexpr int64_t kLanes = 16;
  C total = 0;
  int64_t i = 0;
  if (step == 1 && n >= kLanes) {
    C lanes[kLanes] = {};
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] += from[i + l];
    for (int64_t half = kLanes / 2; half > 0; half /= 2)
      for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    total = lanes[0];
  }
  for (; i < n; ++i) total += from[i * step];
  return total;
}

// to[i] = sum of `taps` columns from i * stride on, for i < count.
template <class C>
void sum_columns(C* to, const C* from, int64_t stride, int64_t taps, int64_t count) {
  if (taps > 8) {
    for (int64_t i = 0; i < count; ++i) to[i] = row_total(from + i * stride, taps, 1);
    return;
  }
  with_stride_and_taps(stride, taps, [&](auto known_stride, auto known_taps) {
    constexpr int64_t S = known_stride, K = known_taps;
    const int64_t s = S ? S : stride, k = K ? K : taps;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      C sum = from[i * s];
      for (int64_t j = 1; j < k; ++j) sum += from[i * s + j];
      to[i] = sum;
    }
  });
}
// The way back: to[i * stride + j] += from[i].
template <class C>
void spread_columns(C* to, const C* from, int64_t stride, int64_t taps, int64_t count) {
  if (stride == 1) {
    for (int64_t j = 0; j < taps; ++j) add_row(to + j, from, count);
    return;
  }
  with_stride_and_taps(stride, taps, [&](auto known_stride, auto known_taps) {
    constexpr int64_t S = known_stride, K = known_taps;
    const int64_t s = S ? S : stride, k = K ? K : taps;
    if (k > s) {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < k; ++j) to[i * s + j] += from[i];
      return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < k; ++j) to[i * s + j] += from[i];
  });
}

template <class C>
C divisor_of(const PoolWindows& w, const Span& a, const Span& b, const Span& c) {
  return static_cast<C>(w.divisor ? w.divisor : a.counted * b.counted * c.counted);
}
template <class T>
void average_last(T* out, const T* x, const PoolWindows& w, const PoolSpans& spans) {
  using C = compute_t<T>;
  const int64_t channels = w.channels, positions = w.positions_out();
  const int64_t grain = std::max<int64_t>(1, kGrain / (channels * w.window()));
  parallel_for(0, w.n * positions, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(2 * channels, 2);
    C *const sum = memory.data(), *const row = sum + channels;
    for (int64_t p = begin; p < end; ++p) {
      const PoolPlace o(w, p % positions);
      const Span &a = spans(0, o.at[0]), &b = spans(1, o.at[1]), &c = spans(2, o.at[2]);
      const T* const image = x + p / positions * w.positions_in() * channels;
      std::fill(sum, sum + channels, C(0));
      for (int64_t i = 0; i < a.taps; ++i)
        for (int64_t j = 0; j < b.taps; ++j)
          for (int64_t k = 0; k < c.taps; ++k) {
            const int64_t from = ((a.begin + i) * w.in[1] + b.begin + j) * w.in[2] + c.begin + k;
            add_row(sum, row_as(image + from * channels, row, channels), channels);
          }
      const C divisor = divisor_of<C>(w, a, b, c);
      for (int64_t i = 0; i < channels; ++i) sum[i] = sum[i] / divisor;
      put_row(out + p * channels, static_cast<const C*>(sum), channels);
    }
  });
}

template <class T>
void avg_pool_cpu(const Tensor& to, const Tensor& from, const PoolWindows& w) {
  using C = compute_t<T>;
  const PoolSpans spans(w);
  T* const out = static_cast<T*>(to.data_ptr());
  const T* const x = static_cast<const T*>(from.data_ptr());
  if (w.channels_last) return average_last(out, x, w, spans);
  const int64_t width = w.in[2], columns = w.out[2], rows = w.out[0] * w.out[1];
  const int64_t grain = std::max<int64_t>(1, kGrain / (width * w.kernel[0] * w.kernel[1] + columns));
  if (rows * columns == 1 && w.kernel[2] == w.positions_in()) {  // the mean of all there is
    const C divisor = divisor_of<C>(w, spans(0, 0), spans(1, 0), spans(2, 0));
    parallel_for(0, w.n * w.channels, grain, [&](int64_t begin, int64_t end) {
      const Scratch<C> memory(width, 2);
      for (int64_t p = begin; p < end; ++p)
        out[p] = static_cast<T>(row_total(row_as(x + p * width, memory.data(), width), width, 1) / divisor);
    });
    return;
  }
  parallel_for(0, w.n * w.channels * rows, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(2 * width + columns, 2);
    C *const sum = memory.data(), *const row = sum + width, *const result = row + width;
    for (int64_t r = begin; r < end; ++r) {
      const T* const plane = x + r / rows * w.positions_in();
      const Span &a = spans(0, r % rows / w.out[1]), &b = spans(1, r % w.out[1]);
      const C* total = sum;
      for (int64_t i = 0; i < a.taps; ++i)
        for (int64_t j = 0; j < b.taps; ++j) {
          const C* const line = row_as(plane + ((a.begin + i) * w.in[1] + b.begin + j) * width, row, width);
          if (i + j > 0)
            add_row(sum, line, width);
          else if (a.taps * b.taps == 1)
            total = line;
          else
            std::copy(line, line + width, sum);
        }
      const int64_t lo = spans.full[0], hi = spans.full[1];
      if (lo < hi) {
        const C divisor = divisor_of<C>(w, a, b, spans(2, lo));
        sum_columns(result + lo, total + spans(2, lo).begin, w.stride[2], w.kernel[2], hi - lo);
        for (int64_t i = lo; i < hi; ++i) result[i] = result[i] / divisor;
      }
      for (int64_t i = 0; i < columns; ++i) {
        if (i == lo && lo < hi) i = hi;
        if (i >= columns) break;
        const Span& c = spans(2, i);
        result[i] = row_total(total + c.begin, c.taps, 1) / divisor_of<C>(w, a, b, c);
      }
      put_row(out + r * columns, static_cast<const C*>(result), columns);
    }
  });
}

template <class T>
void spread_last(T* dx, const T* g, const PoolWindows& w, const PoolSpans& spans) {
  using C = compute_t<T>;
  const int64_t channels = w.channels, places = w.positions_in();
  const int64_t grain = std::max<int64_t>(1, kGrain / channels);
  parallel_for(0, w.n * places, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(2 * channels, 2);
    C *const sum = memory.data(), *const row = sum + channels;
    for (int64_t p = begin; p < end; ++p) {
      const int64_t at[3] = {p % places / (w.in[1] * w.in[2]), p / w.in[2] % w.in[1], p % w.in[2]};
      const T* const image = g + p / places * w.positions_out() * channels;
      int64_t lo[3], hi[3];
      for (int d = 0; d < 3; ++d) w.covering(d, at[d], lo[d], hi[d]);
      std::fill(sum, sum + channels, C(0));
      for (int64_t i = lo[0]; i < hi[0]; ++i)
        for (int64_t j = lo[1]; j < hi[1]; ++j)
          for (int64_t k = lo[2]; k < hi[2]; ++k) {
            const C divisor = divisor_of<C>(w, spans(0, i), spans(1, j), spans(2, k));
            const C* const from = row_as(image + ((i * w.out[1] + j) * w.out[2] + k) * channels, row, channels);
#pragma GCC ivdep
            for (int64_t c = 0; c < channels; ++c) sum[c] += from[c] / divisor;
          }
      put_row(dx + p * channels, static_cast<const C*>(sum), channels);
    }
  });
}

template <class T>
void avg_pool_backward_cpu(const Tensor& to, const Tensor& from, const PoolWindows& w) {
  using C = compute_t<T>;
  const PoolSpans spans(w);
  T* const dx = static_cast<T*>(to.data_ptr());
  const T* const g = static_cast<const T*>(from.data_ptr());
  if (w.channels_last) return spread_last(dx, g, w, spans);
  const int64_t width = w.in[2], columns = w.out[2], rows = w.out[0] * w.out[1], places = w.positions_in();
  const int64_t grain = std::max<int64_t>(1, kGrain / (places + rows * columns));
  parallel_for(0, w.n * w.channels, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(2 * columns + width + (std::is_same_v<T, C> ? 0 : places), 2);
    C *const row = memory.data(), *const shares = row + columns, *const spread = shares + columns;
    for (int64_t plane = begin; plane < end; ++plane) {
      C* sums = spread + width;
      if constexpr (std::is_same_v<T, C>) sums = dx + plane * places;
      std::fill(sums, sums + places, C(0));
      for (int64_t r = 0; r < rows; ++r) {
        const Span &a = spans(0, r / w.out[1]), &b = spans(1, r % w.out[1]);
        const C* const up = row_as(g + (plane * rows + r) * columns, row, columns);
        const bool once = a.taps * b.taps == 1;
        C* const line = once ? sums + (a.begin * w.in[1] + b.begin) * width : spread;
        if (!once) std::fill(spread, spread + width, C(0));
        const int64_t lo = spans.full[0], hi = spans.full[1];
        if (lo < hi) {
          const C divisor = divisor_of<C>(w, a, b, spans(2, lo));
          for (int64_t i = lo; i < hi; ++i) shares[i] = up[i] / divisor;
          spread_columns(line + spans(2, lo).begin, static_cast<const C*>(shares) + lo, w.stride[2], w.kernel[2],
                         hi - lo);
        }
        for (int64_t i = 0; i < columns; ++i) {
          if (i == lo && lo < hi) i = hi;
          if (i >= columns) break;
          const Span& c = spans(2, i);
          const C part = up[i] / divisor_of<C>(w, a, b, c);
          for (int64_t k = 0; k < c.taps; ++k) line[c.begin + k] += part;
        }
        for (int64_t i = 0; i < a.taps && !once; ++i)
          for (int64_t j = 0; j < b.taps; ++j)
            add_row(sums + ((a.begin + i) * w.in[1] + b.begin + j) * width, static_cast<const C*>(spread), width);
      }
      if constexpr (!std::is_same_v<T, C>) put_row(dx + plane * places, static_cast<const C*>(sums), places);
    }
  });
}

using Averaged = Join<FloatsAndHalves, Types<int64_t>>;
TENON_REGISTER_SIMD_KERNEL(op::avg_pool, Averaged, avg_pool_cpu);
TENON_REGISTER_SIMD_KERNEL(op::avg_pool_backward, Averaged, avg_pool_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

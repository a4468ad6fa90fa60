// SPDX-License-Identifier: Apache-2.0
// Largest elements of windows with their positions (ops/pool.h), and the gradient. A row of outputs is made in two steps
// that both run along rows: the largest of each column of its windows' rows, then the largest of neighbouring columns;
// with channels last one step runs along the channels. In the order of the window the first of equals wins, and of NaN,
// which is larger than every number, the last.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/pool_max.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/pool.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

using Span = PoolWindows::Span;

template <class T>
constexpr pool_compute_t<T> least() {
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::lowest();
  else
    return -std::numeric_limits<pool_compute_t<T>>::infinity();
}

/// Takes `line`, whose elements stand at `place`, into best: it comes later in the window's order.
template <class C, class I>
void take_row(C* best, I* places, const C* line, I place, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const C a = best[i], b = line[i];
    const bool better = (b > a) | is_nan(b);
    best[i] = better ? b : a;
    places[i] = better ? place : places[i];
  }
}
template <class C>
void take_row(C* best, const C* line, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) best[i] = (line[i] > best[i]) | is_nan(line[i]) ? line[i] : best[i];
}

/// Of `taps` columns from i * stride on, `dilation` apart: places count rows, the result's also columns, from `first` on.
template <class C, class I>
void take_columns(C* to, I* where, const C* best, const I* places, int64_t first, int64_t stride, int64_t dilation,
                  int64_t taps, int64_t count) {
  with_stride_and_taps(stride, taps, [&](auto known_stride, auto known_taps) {
    constexpr int64_t S = known_stride, K = known_taps;
    const int64_t s = S ? S : stride, k = K ? K : taps;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      C a = best[i * s];
      I at = places[i * s] + static_cast<I>(first + i * s);
      for (int64_t j = 1; j < k; ++j) {
        const int64_t from = i * s + j * dilation;
        const C b = best[from];
        const I there = places[from] + static_cast<I>(first + from);
        const bool better = (b > a) | ((b == a) & (there < at)) | (is_nan(b) & (!is_nan(a) | (there > at)));
        a = better ? b : a;
        at = better ? there : at;
      }
      to[i] = a;
      where[i] = at;
    }
  });
}
template <class C>
void take_columns(C* to, const C* best, int64_t stride, int64_t dilation, int64_t taps, int64_t count) {
  with_stride_and_taps(stride, taps, [&](auto known_stride, auto known_taps) {
    constexpr int64_t S = known_stride, K = known_taps;
    const int64_t s = S ? S : stride, k = K ? K : taps;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      C a = best[i * s];
      for (int64_t j = 1; j < k; ++j) {
        const C b = best[i * s + j * dilation];
        a = (b > a) | is_nan(b) ? b : a;
      }
      to[i] = a;
    }
  });
}

template <class T, class I>
void largest_last(T* out, int64_t* indices, const T* x, const PoolWindows& w, const PoolSpans& spans) {
  using C = pool_compute_t<T>;
  const int64_t channels = w.channels, positions = w.positions_out();
  const int64_t grain = std::max<int64_t>(1, kGrain / (channels * w.window()));
  parallel_for(0, w.n * positions, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(2 * channels, 2);
    const Scratch<I> places(channels, 3);
    C *const best = memory.data(), *const row = best + channels;
    for (int64_t p = begin; p < end; ++p) {
      const PoolPlace o(w, p % positions);
      const Span &a = spans(0, o.at[0]), &b = spans(1, o.at[1]), &c = spans(2, o.at[2]);
      const T* const image = x + p / positions * w.positions_in() * channels;
      const auto place = [&](int64_t i, int64_t j, int64_t k) {
        return ((a.begin + i * a.step) * w.in[1] + b.begin + j * b.step) * w.in[2] + c.begin + k * c.step;
      };
      if (a.taps * b.taps * c.taps == 0) std::fill(best, best + channels, least<T>());
      std::fill(places.data(), places.data() + channels, static_cast<I>(place(0, 0, 0)));
      for (int64_t i = 0; i < a.taps; ++i)
        for (int64_t j = 0; j < b.taps; ++j)
          for (int64_t k = 0; k < c.taps; ++k) {
            const int64_t from = place(i, j, k);
            const C* const line = row_as(image + from * channels, row, channels);
            if (i + j + k == 0)
              std::copy(line, line + channels, best);
            else if (indices)
              take_row(best, places.data(), line, static_cast<I>(from), channels);
            else
              take_row(best, line, channels);
          }
      put_row(out + p * channels, static_cast<const C*>(best), channels);
      if (indices) put_row(indices + p * channels, static_cast<const I*>(places.data()), channels);
    }
  });
}

template <class T, class I>
void largest(const Tensor& to, const Tensor& indices, const Tensor& from, const Tensor& samples, const PoolWindows& w) {
  using C = pool_compute_t<T>;
  const PoolSpans shared(w);
  T* const out = static_cast<T*>(to.data_ptr());
  int64_t* const where = indices.defined() ? static_cast<int64_t*>(indices.data_ptr()) : nullptr;
  const T* const x = static_cast<const T*>(from.data_ptr());
  const int64_t width = w.in[2], columns = w.out[2], rows = w.out[0] * w.out[1], planes = w.n * w.channels;
  const bool random = w.kind == PoolWindows::Kind::fractional;
  if (w.channels_last && !random) return largest_last<T, I>(out, where, x, w, shared);
  const int64_t grain = std::max<int64_t>(1, kGrain / (width * w.kernel[0] * w.kernel[1] + columns));
  parallel_for(0, planes * rows, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(2 * width + columns, 2);
    const Scratch<I> place_memory(width + columns, 3);
    C *const best = memory.data(), *const row = best + width, *const result = row + width;
    I *const places = place_memory.data(), *const result_places = places + width;
    PoolSpans own = shared;
    const PoolSpans& spans = random ? own : shared;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t plane = r / rows;
      if constexpr (std::is_floating_point_v<C>) {
        if (random && (r == begin || r % rows == 0)) {
          const int64_t dimensions = samples.sizes()[2];
          C drawn[3];
          put_row(drawn, static_cast<const T*>(samples.data_ptr()) + plane * dimensions, dimensions);
          own.draw(w, static_cast<const C*>(drawn), dimensions);
        }
      }
      const Span &a = spans(0, r % rows / w.out[1]), &b = spans(1, r % w.out[1]);
      const C* top = best;
      for (int64_t i = 0; i < a.taps; ++i)
        for (int64_t j = 0; j < b.taps; ++j) {
          const int64_t at = ((a.begin + i * a.step) * w.in[1] + b.begin + j * b.step) * width;
          const C* const line = row_as(x + plane * w.positions_in() + at, row, width);
          if (i + j > 0) {
            where ? take_row(best, places, line, static_cast<I>(at), width) : take_row(best, line, width);
            continue;
          }
          if (where) std::fill(places, places + width, static_cast<I>(at));
          if (a.taps * b.taps == 1)
            top = line;
          else
            std::copy(line, line + width, best);
        }
      const bool empty = a.taps * b.taps == 0;
      const int64_t lo = empty ? 0 : shared.full[0], hi = empty ? 0 : shared.full[1];
      if (lo < hi) {
        const int64_t first = spans(2, lo).begin;
        if (where)
          take_columns(result + lo, result_places + lo, top + first, static_cast<const I*>(places) + first, first,
                       w.stride[2], w.dilation[2], w.kernel[2], hi - lo);
        else
          take_columns(result + lo, top + first, w.stride[2], w.dilation[2], w.kernel[2], hi - lo);
      }
      for (int64_t i = 0; i < columns; ++i) {
        if (i == lo && lo < hi) i = hi;
        if (i >= columns) break;
        const Span& c = spans(2, i);
        if (empty || c.taps == 0) {
          result[i] = least<T>(), result_places[i] = 0;
        } else if (where) {
          take_columns(result + i, result_places + i, top + c.begin, static_cast<const I*>(places) + c.begin, c.begin,
                       0, c.step, c.taps, 1);
        } else {
          take_columns(result + i, top + c.begin, 0, c.step, c.taps, 1);
        }
      }
      put_row(out + r * columns, static_cast<const C*>(result), columns);
      if (where) put_row(where + r * columns, static_cast<const I*>(result_places), columns);
    }
  });
}

template <class T>
void max_pool_cpu(const Tensor& out, const Tensor& indices, const Tensor& self, const Tensor& samples,
                  const PoolWindows& w) {
  if constexpr (std::is_floating_point_v<pool_compute_t<T>> && sizeof(pool_compute_t<T>) == 4)
    if (w.positions_in() < std::numeric_limits<int32_t>::max())
      return largest<T, int32_t>(out, indices, self, samples, w);
  largest<T, int64_t>(out, indices, self, samples, w);
}

template <class T>
void max_pool_backward_cpu(const Tensor& grad_input, const Tensor& grad_output, const Tensor& indices,
                           const PoolWindows& w) {
  using C = pool_compute_t<T>;
  T* const dx = static_cast<T*>(grad_input.data_ptr());
  const T* const g = static_cast<const T*>(grad_output.data_ptr());
  const auto* const where = static_cast<const int64_t*>(indices.data_ptr());
  const int64_t places = w.positions_in(), outputs = w.positions_out();
  // Planes one by one, or with channels last a few channels of an image at a time.
  const int64_t block = w.channels_last ? std::min<int64_t>(w.channels, 64) : 1;
  const int64_t blocks = (w.channels + block - 1) / block;
  const int64_t grain = std::max<int64_t>(1, kGrain / ((places + outputs) * block));
  parallel_for(0, w.n * blocks, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(std::is_same_v<T, C> ? 0 : places * block, 2);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / blocks, first = task % blocks * block, count = std::min(block, w.channels - first);
      const int64_t row = w.channels_last ? w.channels : 1;  // from one position to the next
      const auto start = [&](int64_t positions) {
        return w.channels_last ? image * positions * w.channels + first : (image * w.channels + first) * positions;
      };
      const int64_t in_base = start(places), out_base = start(outputs);
      C* sums = memory.data();
      int64_t step = count;
      bool wrong = false;
      if constexpr (std::is_same_v<T, C>) sums = dx + in_base, step = row;
      if (step == count)
        std::fill(sums, sums + places * count, C(0));
      else
        for (int64_t p = 0; p < places; ++p) std::fill(sums + p * step, sums + p * step + count, C(0));
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t* const at = where + out_base + o * row;
        for (int64_t c = 0; c < count; ++c) wrong |= static_cast<uint64_t>(at[c]) >= static_cast<uint64_t>(places);
      }
      TENON_CHECK(!wrong, IndexError, "max_pool_backward: indices: expected numbers from 0 to ", places - 1);
      if (count == 1) {
        for (int64_t o = 0; o < outputs; ++o)
          sums[where[out_base + o * row] * step] += static_cast<C>(g[out_base + o * row]);
      } else {
        for (int64_t o = 0; o < outputs; ++o)
          for (int64_t c = 0; c < count; ++c)
            sums[where[out_base + o * row + c] * step + c] += static_cast<C>(g[out_base + o * row + c]);
      }
      if constexpr (!std::is_same_v<T, C>)
        for (int64_t p = 0; p < places; ++p)
          put_row(dx + in_base + p * row, static_cast<const C*>(sums) + p * step, count);
    }
  });
}

TENON_REGISTER_SIMD_KERNEL(op::max_pool, Numbers, max_pool_cpu);
TENON_REGISTER_SIMD_KERNEL(op::max_pool_backward, FloatsAndHalves, max_pool_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

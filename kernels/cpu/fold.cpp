// SPDX-License-Identifier: Apache-2.0
// im2col and col2im (ops/fold.h): the elements of every block row by row. Blocks are added plane by plane in the order of
// the kernel's elements.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/fold.h>

#include <algorithm>

namespace tenon::cpu {
namespace {

/// For element k of the kernel in dimension d: outputs [lo, hi) find it in the image, output lo at `first`.
struct Reach {
  int64_t lo, hi, first;
  Reach(const PoolWindows& w, int d, int64_t k) {
    const int64_t at = k * w.dilation[d] - w.padding[d], s = w.stride[d];
    lo = at < 0 ? std::min(w.out[d], (-at + s - 1) / s) : 0;
    hi = at < w.in[d] ? std::min(w.out[d], (w.in[d] - at + s - 1) / s) : 0;
    hi = std::max(lo, hi);
    first = at + lo * s;
  }
};

template <class W>
void im2col_cpu(const Tensor& columns, const Tensor& image, const PoolWindows& w) {
  W* const to = static_cast<W*>(columns.data_ptr());
  const W* const from = static_cast<const W*>(image.data_ptr());
  const int64_t window = w.window(), width = w.out[2], blocks = w.positions_out();
  parallel_for(0, w.n * w.channels * window, std::max<int64_t>(1, kGrain / blocks), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const W* const plane = from + r / window * w.positions_in();
      const Reach down(w, 1, r % window / w.kernel[2]), across(w, 2, r % w.kernel[2]);
      W* row = to + r * blocks;
      for (int64_t o = 0; o < w.out[1]; ++o, row += width) {
        if (o < down.lo || o >= down.hi) {
          std::fill(row, row + width, W{});
          continue;
        }
        const W* const line = plane + (down.first + (o - down.lo) * w.stride[1]) * w.in[2] + across.first;
        std::fill(row, row + across.lo, W{});
        if (w.stride[2] == 1)
          std::copy(line, line + (across.hi - across.lo), row + across.lo);
        else
          for (int64_t i = across.lo; i < across.hi; ++i) row[i] = line[(i - across.lo) * w.stride[2]];
        std::fill(row + across.hi, row + width, W{});
      }
    }
  });
}

template <class C, class T>
void add_to(C& to, T v) {
  if constexpr (std::is_same_v<C, bool>)
    to = to || v;
  else if constexpr (std::is_integral_v<C>)
    to = static_cast<C>(static_cast<uint64_t>(to) + static_cast<uint64_t>(v));
  else
    to += static_cast<C>(v);
}

template <class T>
void col2im_cpu(const Tensor& image, const Tensor& columns, const PoolWindows& w) {
  using C = compute_t<T>;
  T* const to = static_cast<T*>(image.data_ptr());
  const T* const from = static_cast<const T*>(columns.data_ptr());
  const int64_t window = w.window(), places = w.positions_in(), blocks = w.positions_out(), width = w.out[2];
  const int64_t grain = std::max<int64_t>(1, kGrain / (blocks * window + places));
  parallel_for(0, w.n * w.channels, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(std::is_same_v<T, C> ? 0 : places, 2);
    for (int64_t p = begin; p < end; ++p) {
      C* sums = memory.data();
      if constexpr (std::is_same_v<T, C>) sums = to + p * places;
      std::fill(sums, sums + places, C{});
      for (int64_t k = 0; k < window; ++k) {
        const Reach down(w, 1, k / w.kernel[2]), across(w, 2, k % w.kernel[2]);
        const int64_t count = across.hi - across.lo, s = w.stride[2];
        for (int64_t o = down.lo; o < down.hi; ++o) {
          C* const line = sums + (down.first + (o - down.lo) * w.stride[1]) * w.in[2] + across.first;
          const T* const row = from + (p * window + k) * blocks + o * width + across.lo;
          if (s == 1)
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) add_to(line[i], row[i]);
          else
            for (int64_t i = 0; i < count; ++i) add_to(line[i * s], row[i]);
        }
      }
      if constexpr (!std::is_same_v<T, C>)
        for (int64_t i = 0; i < places; ++i) to[p * places + i] = static_cast<T>(sums[i]);
    }
  });
}

TENON_REGISTER_KERNEL(op::im2col, cpu, Widths, im2col_cpu);
TENON_REGISTER_KERNEL(op::col2im, cpu, AllTypes, col2im_cpu);

}  // namespace
}  // namespace tenon::cpu

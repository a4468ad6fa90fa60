// SPDX-License-Identifier: Apache-2.0
// PoolWindows: where the windows of a pool lie, over three dimensions (fewer: leading ones of size 1), for kernels on
// both devices. Nothing here allocates or checks.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>

namespace tenon {

struct PoolWindows {
  /// regular: kernel, stride, padding and dilation; adaptive: as equal parts as can be; fractional: of `kernel` elements,
  /// beginning where a random number of each plane and dimension says (fractional_begin).
  enum class Kind : uint8_t { regular, adaptive, fractional };
  /// What a window has in one dimension: `taps` elements, `step` apart; an average counts it as `counted`.
  struct Span {
    int64_t begin, taps, step, counted;
  };

  Kind kind = Kind::regular;
  bool channels_last = false;  ///< memory is [n, positions, channels], else [n, channels, positions]
  bool count_padding = false;
  int64_t divisor = 0;  ///< of an average; 0: the size of the window
  int64_t n = 1, channels = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1};

  TENON_HOST_DEVICE int64_t positions_in() const { return in[0] * in[1] * in[2]; }
  TENON_HOST_DEVICE int64_t positions_out() const { return out[0] * out[1] * out[2]; }
  /// a / b of numbers that are not negative, without 64-bit division where a device would have to program it.
  TENON_HOST_DEVICE static int64_t quotient(int64_t a, int64_t b) {
    if (b == 1) return a;
#if defined(__CUDA_ARCH__)
    if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
#endif
    return a / b;
  }
  /// How many elements a window has at most.
  TENON_HOST_DEVICE int64_t window() const { return kernel[0] * kernel[1] * kernel[2]; }

  /// Of regular and adaptive windows. taps is 0 only where a dilated window misses the input altogether.
  TENON_HOST_DEVICE Span span(int d, int64_t o) const {
    if (kind == Kind::adaptive) {
      const int64_t begin = quotient(o * in[d], out[d]), length = 1 + quotient((o + 1) * in[d] - 1, out[d]) - begin;
      return {begin, length, 1, length};
    }
    const int64_t at = o * stride[d] - padding[d];
    const int64_t skipped = at < 0 ? quotient(-at + dilation[d] - 1, dilation[d]) : 0,
                  begin = at + skipped * dilation[d];
    int64_t taps = kernel[d] - skipped;
    const int64_t fit = begin < in[d] ? quotient(in[d] - begin + dilation[d] - 1, dilation[d]) : 0;
    taps = taps < fit ? taps : fit;
    if (taps <= 0) return {0, 0, 1, 1};
    const int64_t edge = in[d] + padding[d];
    return {begin, taps, dilation[d], count_padding ? (at + kernel[d] < edge ? at + kernel[d] : edge) - at : taps};
  }
  /// The outputs [lo, hi) of dimension d whose windows may have element i.
  TENON_HOST_DEVICE void covering(int d, int64_t i, int64_t& lo, int64_t& hi) const {
    if (kind == Kind::adaptive) {
      lo = quotient(i * out[d], in[d]);
      hi = quotient((i + 1) * out[d] + in[d] - 1, in[d]);
    } else if (kind == Kind::regular) {
      const int64_t first = i + padding[d] - (kernel[d] - 1) * dilation[d];
      lo = first > 0 ? quotient(first + stride[d] - 1, stride[d]) : 0;
      hi = quotient(i + padding[d], stride[d]) + 1;
    } else {  // window o begins less than 1 from o times this step, rounding aside
      const double room = static_cast<double>(in[d] - kernel[d]);
      const double step = out[d] > 1 ? room / static_cast<double>(out[d] - 1) : 0.0;
      lo = 0, hi = out[d];
      if (step > 0) {
        const double low = static_cast<double>(i - kernel[d]) / step, high = static_cast<double>(i + 1) / step;
        lo = low > 2 ? static_cast<int64_t>(low) - 2 : 0;
        if (high + 3 < static_cast<double>(hi)) hi = static_cast<int64_t>(high) + 3;
      }
    }
    hi = hi < out[d] ? hi : out[d];
  }
  /// Where window o begins for the random number `sample` in [0, 1); R is float or double.
  template <class R>
  TENON_HOST_DEVICE int64_t fractional_begin(int d, R sample, int64_t o) const {
    const int64_t room = in[d] - kernel[d];
    if (o + 1 == out[d] || !(sample >= 0 && sample <= 1)) return room;
    const R step = static_cast<R>(room) / static_cast<R>(out[d] - 1);
    const int64_t begin =
        static_cast<int64_t>((static_cast<R>(o) + sample) * step) - static_cast<int64_t>(sample * step);
    return begin < room ? begin : room;
  }
};

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// What the library's own convolutions on CUDA share: a phase as a kernel parameter, and what products are added up in.
#pragma once

#include <tenon/kernels/convolution.h>
#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/kernels/cuda/vector.cuh>

namespace tenon::cuda {

/// Integers wrap as unsigned numbers, half types add up in float.
template <class T>
struct ConvolutionSum {
  using type = compute_t<T>;
};
template <>
struct ConvolutionSum<int64_t> {
  using type = uint64_t;
};
template <class T>
using convolution_sum_t = typename ConvolutionSum<T>::type;

/// GatherDim with its taps as a progression.
struct GatherSteps {
  int64_t out_first, out_step, count, in_step, in_size;
  int64_t tap_first, tap_step, offset_first, offset_step;

  GatherSteps() = default;
  explicit GatherSteps(const GatherDim& d)
      : out_first(d.out_first),
        out_step(d.out_step),
        count(d.count),
        in_step(d.in_step),
        in_size(d.in_size),
        tap_first(0),
        tap_step(0),
        offset_first(0),
        offset_step(0) {
    if (!d.taps.empty()) tap_first = d.taps[0].index, offset_first = d.taps[0].offset;
    if (d.taps.size() > 1) tap_step = d.taps[1].index - tap_first, offset_step = d.taps[1].offset - offset_first;
  }
};

/// Strides in elements of a side [n, channels, 3 spatial], groups of `group` channels.
struct SideSteps {
  int64_t image, channel, place[3];
  SideSteps() = default;
  explicit SideSteps(const Tensor& t) : image(t.strides()[0]), channel(t.strides()[1]) {
    for (std::size_t d = 0; d < 3; ++d) place[d] = t.strides()[d + 2];
  }
};

/// The taps of a phase, numbered: which they are in each dimension.
struct TapSplit {
  uint32_t count;
  Divider last, last_two;
  TapSplit() = default;
  explicit TapSplit(const Gather& g)
      : count(static_cast<uint32_t>(g.taps())),
        last(static_cast<uint32_t>(std::max<std::size_t>(1, g.dim[2].taps.size()))),
        last_two(static_cast<uint32_t>(std::max<std::size_t>(1, g.dim[1].taps.size() * g.dim[2].taps.size()))) {}
  TENON_HOST_DEVICE void split(uint32_t tap, uint32_t (&t)[3]) const {
    t[0] = last_two.quotient(tap);
    const uint32_t rest = tap - t[0] * last_two.size;
    t[1] = last.quotient(rest);
    t[2] = rest - t[1] * last.size;
  }
};

/// A side as numbers of one type that its kernels know: integers all become int64, which wraps to the same low bits.
inline Tensor as_convolved(const Tensor& t) {
  return t.defined() && is_integral(t.dtype()) && t.dtype() != kInt64 ? t.to(kInt64) : t;
}

}  // namespace tenon::cuda

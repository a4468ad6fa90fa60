// SPDX-License-Identifier: Apache-2.0
// How convolutions gather, on both devices: a result element is a sum over taps of input elements, whose places are linear
// in the place of the result. For the small side that is so at once; the big side splits into phases, its elements of one
// remainder modulo the stride, each of which sees every stride-th tap.
#pragma once

#include <tenon/ops/convolution.h>

#include <algorithm>
#include <vector>

namespace tenon {

/// One spatial dimension of a phase: result place o, at out_first + o * out_step, reads input place o * in_step + offset of
/// each tap, where that is in [0, in_size).
struct GatherDim {
  struct Tap {
    int64_t index, offset;  ///< in the kernel; in the input
  };
  int64_t out_first, out_step, count, in_step, in_size;
  std::vector<Tap> taps;
};
struct Gather {
  GatherDim dim[3];
  int64_t count() const { return dim[0].count * dim[1].count * dim[2].count; }
  int64_t taps() const { return static_cast<int64_t>(dim[0].taps.size() * dim[1].taps.size() * dim[2].taps.size()); }
  /// f(tap number, tap of each dimension) for all taps.
  template <class F>
  void each_tap(F&& f) const {
    int64_t t = 0;
    for (const auto& a : dim[0].taps)
      for (const auto& b : dim[1].taps)
        for (const auto& c : dim[2].taps) f(t++, a, b, c);
  }
};

/// The phases of making `out` from `in` with `kernel`, spatial sizes all; a phase may have no taps.
inline std::vector<Gather> phases_of(const ConvolutionGeometry& g, IntArrayRef out, IntArrayRef in,
                                     IntArrayRef kernel) {
  std::vector<GatherDim> choices[3];
  for (int d = 0; d < 3; ++d) {
    const std::size_t i = static_cast<std::size_t>(d) + 2;
    if (g.part != ConvolutionPart::big) {
      GatherDim x{0, 1, out[i], g.stride[d], in[i], {}};
      for (int64_t r = 0; r < kernel[i]; ++r) x.taps.push_back({r, r * g.dilation[d] - g.padding[d]});
      choices[d].push_back(x);
      continue;
    }
    for (int64_t phase = 0; phase < std::min(g.stride[d], out[i]); ++phase) {
      GatherDim x{phase, g.stride[d], (out[i] - phase - 1) / g.stride[d] + 1, 1, in[i], {}};
      for (int64_t r = 0; r < kernel[i]; ++r) {
        const int64_t place = phase + g.padding[d] - r * g.dilation[d];
        if (place % g.stride[d] == 0) x.taps.push_back({r, place / g.stride[d]});
      }
      choices[d].push_back(x);
    }
  }
  std::vector<Gather> phases;
  for (const GatherDim& a : choices[0])
    for (const GatherDim& b : choices[1])
      for (const GatherDim& c : choices[2]) phases.push_back({{a, b, c}});
  return phases;
}

}  // namespace tenon

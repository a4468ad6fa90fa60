// SPDX-License-Identifier: Apache-2.0
// The arithmetic of ops/grid_sample.h along one dimension, the same on every device.
#pragma once

#include <tenon/kernels/grid_axes.h>
#include <tenon/ops/grid_sample.h>

namespace tenon::grid {

/// The entries that a coordinate lies between (-1: none, beyond an edge that is padded with zeros), their weights and how
/// fast these grow with the coordinate.
template <class C, int K>
struct Neighbours {
  int64_t index[K];
  C weight[K], slope[K];
};

/// 16-bit floats find their places in their own precision, as PyTorch does on the CPU; sums are in float32.
template <class T, class C>
TENON_HOST_DEVICE C rounded(C x) {
  if constexpr (std::is_same_v<T, C>)
    return x;
  else
    return static_cast<C>(static_cast<T>(x));
}
/// Folds x at the outermost centres (align_corners) or edges of `size` entries until it lies between them. `slope` becomes
/// that of the result.
template <class T, class C>
TENON_HOST_DEVICE C mirrored(C x, int64_t size, bool align_corners, C& slope) {
  const C low = align_corners ? C(0) : C(-0.5), span = static_cast<C>(align_corners ? size - 1 : size);
  if (span == 0) {
    slope = 0;
    return 0;
  }
  C far = rounded<T>(x - low);
  if (far < 0) far = -far, slope = -slope;
  const C turns = std::floor(far / span), rest = rounded<T>(far - turns * span);
  if (std::fmod(turns, C(2)) == 0) return rounded<T>(rest + low);
  slope = -slope;
  return rounded<T>(span - rest + low);
}
template <class C>
TENON_HOST_DEVICE C clipped(C x, int64_t size, C& slope) {
  const C last = static_cast<C>(size - 1);
  if (x > 0 && x < last) return x;
  slope = 0;
  return x > 0 ? last : 0;
}
/// Within the entries there are, unless zeros surround them.
template <class T, class C>
TENON_HOST_DEVICE C bounded(const SampleMode& mode, C x, int64_t size, C& slope) {
  if (mode.padding == 2) x = mirrored<T>(x, size, mode.align_corners, slope);
  return mode.padding == 0 ? x : clipped(x, size, slope);
}
/// x as the number of an entry; -1 for what is not there.
template <class C>
TENON_HOST_DEVICE int64_t entry(C x, int64_t size) {
  return x >= 0 && x < static_cast<C>(size) ? static_cast<int64_t>(x) : -1;
}

/// The cubic convolution kernel of parameter -0.75 at a distance u below 1, or from there to 2 (Keys 1981).
template <class T, class C>
TENON_HOST_DEVICE C cubic_near(C u) {
  const C a = rounded<T>(rounded<T>(C(1.25) * u) - C(2.25));
  return rounded<T>(rounded<T>(rounded<T>(a * u) * u) + 1);
}
template <class T, class C>
TENON_HOST_DEVICE C cubic_far(C u) {
  const C a = rounded<T>(rounded<T>(C(-0.75) * u) + C(3.75));
  return rounded<T>(rounded<T>(rounded<T>(rounded<T>(a * u) - 6) * u) + 3);
}

/// For coordinates of type T, in C. K: 1 nearest, 2 linear, 4 cubic.
template <int K, class T, class C>
TENON_HOST_DEVICE Neighbours<C, K> neighbours(const SampleMode& mode, C coordinate, int64_t size) {
  Neighbours<C, K> n;
  C slope = static_cast<C>(mode.align_corners ? size - 1 : size) / 2;
  C x = rounded<T>(rounded<T>(coordinate + 1) * slope);
  if (!mode.align_corners) x = rounded<T>(x - C(0.5));
  if constexpr (K == 4) {
    const C floor_x = std::floor(x), t = rounded<T>(x - floor_x), rest = rounded<T>(1 - t);
    const C far[4] = {rounded<T>(t + 1), t, rest, rounded<T>(rest + 1)};
    for (int k = 0; k < 4; ++k) {
      const C u = far[k];
      const bool near = k == 1 || k == 2;
      C unused = 0;
      n.index[k] = entry(bounded<T>(mode, floor_x + static_cast<C>(k - 1), size, unused), size);
      n.weight[k] = near ? cubic_near<T>(u) : cubic_far<T>(u);
      const C steep = near ? (C(3.75) * u - C(4.5)) * u : C(-0.75) * ((3 * u - 10) * u + 8);
      n.slope[k] = k < 2 ? slope * steep : -slope * steep;
    }
  } else {
    x = bounded<T>(mode, x, size, slope);
    if constexpr (K == 1) {
      n.index[0] = entry(std::nearbyint(x), size);
      n.weight[0] = 1, n.slope[0] = 0;
    } else {
      const C floor_x = std::floor(x), t = rounded<T>(x - floor_x);
      n.index[0] = entry(floor_x, size), n.index[1] = entry(floor_x + 1, size);
      n.weight[0] = rounded<T>(1 - t), n.weight[1] = t;
      n.slope[0] = -slope, n.slope[1] = slope;
    }
  }
  return n;
}

}  // namespace tenon::grid

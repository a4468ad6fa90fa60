// SPDX-License-Identifier: Apache-2.0
// The arithmetic of GridAxis (ops/grid_axes.h), the same on every device.
#pragma once

#include <tenon/core/api.h>
#include <tenon/core/half.h>
#include <tenon/ops/grid_axes.h>

#include <cmath>

namespace tenon::grid {

/// Where entry i of the result comes from, for maps that pick one entry.
TENON_HOST_DEVICE inline int64_t picked(const GridAxis& a, int64_t i) {
  int64_t at = i - a.shift;
  if (a.map == AxisMap::reflect) {
    at = at < 0 ? -at : at;
    return at < a.in ? at : 2 * (a.in - 1) - at;
  }
  if (a.map == AxisMap::circular) {
    at %= a.in;
    return at < 0 ? at + a.in : at;
  }
  if (a.map != AxisMap::replicate) {
    // In float32, whatever the dtype: where a position falls on an edge, PyTorch's rounding decides.
    const float position = static_cast<float>(i) + (a.map == AxisMap::nearest_exact ? 0.5f : 0.0f);
    const float floor_x = std::floor(position * static_cast<float>(a.scale));
    at = floor_x < static_cast<float>(a.in) ? static_cast<int64_t>(floor_x) : a.in - 1;
  }
  return at < 0 ? 0 : at < a.in ? at : a.in - 1;
}

/// Entries of the input an entry of the result is made of.
struct TapSpan {
  int64_t first;
  int64_t count;
};
/// An upper bound of TapSpan::count.
TENON_HOST_DEVICE inline int64_t most_taps(const GridAxis& a) {
  if (a.map == AxisMap::linear) return 2;
  if (a.map == AxisMap::cubic) return 4;
  if (a.map == AxisMap::area) return a.in / a.out + 2;
  if (a.map < AxisMap::linear) return 1;
  const double reach = (a.map == AxisMap::cubic_antialias ? 2 : 1) * (a.scale > 1 ? a.scale : 1);
  const double most = 2 * std::ceil(reach) + 1, all = static_cast<double>(a.in);
  return static_cast<int64_t>(most < all ? most : all);
}
/// The triangle, or the cubic convolution kernel of parameter b (Keys 1981).
template <class C>
TENON_HOST_DEVICE C filter(bool cubic, C b, C x) {
  x = x < 0 ? -x : x;
  if (!cubic) return x < 1 ? 1 - x : 0;
  if (x < 1) return ((b + 2) * x - (b + 3)) * x * x + 1;
  return x < 2 ? b * (((x - 5) * x + 8) * x - 4) : 0;
}
TENON_HOST_DEVICE inline double round_weight(const GridAxis& a, double w) {
  if (a.rounded == kFloat16) return static_cast<float>(float16(static_cast<float>(w)));
  if (a.rounded == kBFloat16) return static_cast<float>(bfloat16(static_cast<float>(w)));
  return w;
}
/// Weights of entry i of the result, at w[0 .. count). They add up to 1.
TENON_HOST_DEVICE inline TapSpan taps(const GridAxis& a, int64_t i, double* w) {
  if (a.map < AxisMap::linear) {
    w[0] = 1;
    return {picked(a, i), 1};
  }
  if (a.map == AxisMap::area) {
    const int64_t first = i * a.in / a.out, count = ((i + 1) * a.in + a.out - 1) / a.out - first;
    for (int64_t k = 0; k < count; ++k) w[k] = 1 / static_cast<double>(count);
    return {first, count};
  }
  const bool cubic = a.map == AxisMap::cubic || a.map == AxisMap::cubic_antialias;
  const double at = static_cast<double>(i), last = static_cast<double>(a.in - 1);
  if (a.map < AxisMap::linear_antialias) {
    double x = a.align_corners ? a.scale * at : a.scale * (at + 0.5) - 0.5;
    if (!cubic && x < 0) x = 0;
    const double floor_x = std::floor(x) < last ? std::floor(x) : last;
    const double t = x - floor_x < 1 ? x - floor_x : 1, upper = round_weight(a, t);
    const int64_t reach = cubic ? 2 : 1, begin = static_cast<int64_t>(floor_x) - reach + 1, end = begin + 2 * reach;
    const int64_t first = begin < 0 ? 0 : begin, stop = end < a.in ? end : a.in;
    for (int64_t k = first; k < stop; ++k) w[k - first] = 0;
    for (int64_t k = 0; k < 2 * reach; ++k) {  // what lies outside is the entry at the edge
      const int64_t j = begin + k < 0 ? 0 : begin + k < a.in ? begin + k : a.in - 1;
      w[j - first] += cubic    ? round_weight(a, filter(true, -0.75, static_cast<double>(k + 1 - reach) - t))
                      : k == 1 ? upper
                               : round_weight(a, 1 - upper);
    }
    return {first, stop - first};
  }
  // Antialiased: the filter is as wide as an entry of the result.
  const double widen = a.scale > 1 ? a.scale : 1, reach = (cubic ? 2 : 1) * widen, center = a.scale * (at + 0.5);
  const double low = center - reach + 0.5, high = center + reach + 0.5, size = last + 1;
  const int64_t first = low < 0 ? 0 : low < last ? static_cast<int64_t>(low) : a.in - 1;
  const int64_t stop = high < size ? static_cast<int64_t>(high) : a.in, most = most_taps(a);
  const int64_t count = stop - first < 0 ? 0 : stop - first < most ? stop - first : most;
  double total = 0;
  for (int64_t k = 0; k < count; ++k)
    total += w[k] = filter(cubic, -0.5, (static_cast<double>(first + k) - center + 0.5) / widen);
  for (int64_t k = 0; k < count && total != 0; ++k) w[k] /= total;
  return {first, count};
}

}  // namespace tenon::grid

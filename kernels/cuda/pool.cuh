// SPDX-License-Identifier: Apache-2.0
// What the pooling kernels share: one thread for each element of a dense tensor, and where that element stands.
#pragma once

#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/ops/pool_windows.h>

namespace tenon::cuda {

inline constexpr int kPoolThreads = 256;

/// Division by one number: in 32 bits where all numerators of a launch fit.
struct PoolDivider {
  Divider small;
  int64_t size;
  bool wide;
  PoolDivider() = default;
  PoolDivider(int64_t n, int64_t largest) : size(n), wide(largest >= int64_t(1) << 31) {
    if (!wide) small = Divider(static_cast<uint32_t>(n));
  }
  /// n becomes the quotient; returns the remainder.
  __device__ __forceinline__ int64_t take(int64_t& n) const {
    const int64_t quotient = wide ? n / size : static_cast<int64_t>(small.quotient(static_cast<uint32_t>(n)));
    const int64_t rest = n - quotient * size;
    n = quotient;
    return rest;
  }
};

/// The windows and the sizes of the tensor that is walked, in the order of memory.
struct PoolWalk {
  PoolWindows w;
  PoolDivider channels, sizes[3];
  int64_t total;

  PoolWalk(const PoolWindows& windows, const int64_t (&walked)[3])
      : w(windows), total(windows.n * windows.channels * walked[0] * walked[1] * walked[2]) {
    channels = PoolDivider(w.channels, total);
    for (int d = 0; d < 3; ++d) sizes[d] = PoolDivider(walked[d], total);
  }
  unsigned blocks() const { return static_cast<unsigned>(ceil_div(total, kPoolThreads)); }
};

/// Element i of what is walked.
struct PoolPlace {
  int64_t at[3], plane, channel;

  __device__ __forceinline__ PoolPlace(const PoolWalk& p, int64_t i) : channel(0) {
    if (p.w.channels_last) channel = p.channels.take(i);
    for (int d = 2; d >= 0; --d) at[d] = p.sizes[d].take(i);
    plane = p.w.channels_last ? i * p.w.channels + channel : i;
  }
  /// The first element of this one's plane in a tensor of `positions`, and the distance to the next.
  __device__ __forceinline__ int64_t base(const PoolWalk& p, int64_t positions) const {
    return p.w.channels_last ? (plane - channel) * positions + channel : plane * positions;
  }
  __device__ __forceinline__ int64_t step(const PoolWalk& p) const { return p.w.channels_last ? p.w.channels : 1; }
};

}  // namespace tenon::cuda

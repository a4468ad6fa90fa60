// SPDX-License-Identifier: Apache-2.0
// Divider: unsigned division by a number known on the host, as one high multiply, an add and a shift
// (Granlund and Montgomery 1994). Exact for numerators below 2^31.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>

namespace tenon::cuda {

struct Divider {
  uint32_t magic, shift, size;

  Divider() = default;
  /// 1 <= n < 2^31.
  explicit Divider(uint32_t n) : shift(0), size(n) {
    while ((uint64_t(1) << shift) < n) ++shift;
    magic = static_cast<uint32_t>(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - n)) / n + 1);
  }
  TENON_HOST_DEVICE uint32_t quotient(uint32_t n) const {
#if defined(__CUDA_ARCH__)
    return (__umulhi(n, magic) + n) >> shift;
#else
    return static_cast<uint32_t>(((uint64_t(n) * magic) >> 32) + n) >> shift;
#endif
  }
};

/// Offset of element `index` in a list of dimensions, innermost first. The size of the last one is not needed.
TENON_HOST_DEVICE inline int64_t find_offset(int ndim, const Divider* sizes, const int64_t* strides, uint32_t index) {
  int64_t offset = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (int d = 0; d + 1 < ndim; ++d) {
    const uint32_t quotient = sizes[d].quotient(index);
    offset += static_cast<int64_t>(index - quotient * sizes[d].size) * strides[d];
    index = quotient;
  }
  return ndim > 0 ? offset + static_cast<int64_t>(index) * strides[ndim - 1] : 0;
}

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
// TensorAccessor: N nested strides over typed memory, for loops over elements on the host and in kernels.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>

namespace tenon {

/// Does not own; indexes are checked by nobody. a[i][j] walks one dimension at a time.
template <class T, int N>
class TensorAccessor {
 public:
  TENON_HOST_DEVICE TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  TENON_HOST_DEVICE decltype(auto) operator[](int64_t i) const {
    if constexpr (N == 1) {
      return (data_[i * strides_[0]]);
    } else {
      return TensorAccessor<T, N - 1>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
    }
  }
  TENON_HOST_DEVICE int64_t size(int d) const { return sizes_[d]; }
  TENON_HOST_DEVICE int64_t stride(int d) const { return strides_[d]; }
  TENON_HOST_DEVICE T* data() const { return data_; }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

/// The same by value (sizes and strides copied), as a kernel parameter.
template <class T, int N>
class PackedAccessor {
 public:
  PackedAccessor(T* data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (int d = 0; d < N; ++d) sizes_[d] = sizes[d], strides_[d] = strides[d];
  }
  TENON_HOST_DEVICE decltype(auto) operator[](int64_t i) const {
    return TensorAccessor<T, N>(data_, sizes_, strides_)[i];
  }
  TENON_HOST_DEVICE int64_t size(int d) const { return sizes_[d]; }

 private:
  T* data_;
  int64_t sizes_[N], strides_[N];
};

}  // namespace tenon

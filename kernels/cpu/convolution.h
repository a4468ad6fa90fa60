// SPDX-License-Identifier: Apache-2.0
// What the CPU's ways of convolving share: the two sides, and changing their memory format.
#pragma once

#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/convolution.h>
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/parallel.h>

namespace tenon::cpu {

/// A dense side of a convolution.
template <class T>
struct Side {
  T* data;
  int64_t batch, channels, pixels;
  int64_t size[3];
  explicit Side(const Tensor& t)
      : data(static_cast<T*>(t.data_ptr())), batch(t.sizes()[0]), channels(t.sizes()[1]), pixels(1) {
    for (std::size_t d = 0; d < 3; ++d) pixels *= size[d] = t.sizes()[d + 2];
  }
};

/// to[i * rows + r] of matrices [columns][rows] -> [rows][columns], `count` of them one after the other, by all threads.
template <class T>
void transpose_matrices(T* to, const T* from, int64_t count, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 64, kSize = sizeof(T);
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  parallel_for(0, count * blocks, std::max<int64_t>(1, 16384 / (kBlock * columns)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r = i % blocks * kBlock, base = i / blocks * rows * columns;
      move_transposed(reinterpret_cast<char*>(to + base + r * columns), columns * kSize,
                      reinterpret_cast<const char*>(from + base + r), rows * kSize, kSize, std::min(kBlock, rows - r),
                      columns);
    }
  });
}
/// Elements that live as long as the object.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t count) : memory_(dispatch::make_tensor({count}, dtype_of<T>(), kCPU)) {}
  T* data() const { return static_cast<T*>(memory_.data_ptr()); }

 private:
  Tensor memory_;
};

}  // namespace tenon::cpu

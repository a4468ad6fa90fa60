// SPDX-License-Identifier: Apache-2.0
// im2col, one thread for each element of the columns, and col2im, which gathers: every element of the image adds up the
// blocks that have it, in order.
#include <tenon/ops/fold.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/pool.cuh>
#include <tenon/kernels/cuda/vector.cuh>

namespace tenon {
namespace {

using cuda::compute_t;

struct Columns {
  PoolWindows w;
  cuda::PoolDivider out[2], kernel[2];  // of the last two dimensions
  int64_t total;

  explicit Columns(const PoolWindows& windows) : w(windows), total(w.n * w.channels * w.window() * w.positions_out()) {
    for (int d = 0; d < 2; ++d) {
      out[d] = cuda::PoolDivider(w.out[1 + d], total);
      kernel[d] = cuda::PoolDivider(w.kernel[1 + d], total);
    }
  }
};

template <class W>
__global__ void __launch_bounds__(cuda::kPoolThreads)
    im2col_kernel(const __grid_constant__ Columns p, const W* __restrict__ image, W* __restrict__ columns) {
  const int64_t i = int64_t(blockIdx.x) * cuda::kPoolThreads + threadIdx.x;
  if (i >= p.total) return;
  int64_t plane = i;
  const int64_t x = p.out[1].take(plane), y = p.out[0].take(plane);
  const int64_t kx = p.kernel[1].take(plane), ky = p.kernel[0].take(plane);
  const int64_t row = y * p.w.stride[1] - p.w.padding[1] + ky * p.w.dilation[1];
  const int64_t column = x * p.w.stride[2] - p.w.padding[2] + kx * p.w.dilation[2];
  W v{};
  if (row >= 0 && row < p.w.in[1] && column >= 0 && column < p.w.in[2])
    v = image[(plane * p.w.in[1] + row) * p.w.in[2] + column];
  columns[i] = v;
}

template <class T>
__global__ void __launch_bounds__(cuda::kPoolThreads)
    col2im_kernel(const __grid_constant__ cuda::PoolWalk p, const T* __restrict__ columns, T* __restrict__ image) {
  using C = compute_t<T>;
  const int64_t i = int64_t(blockIdx.x) * cuda::kPoolThreads + threadIdx.x;
  if (i >= p.total) return;
  const cuda::PoolPlace o(p, i);
  const PoolWindows& w = p.w;
  int64_t lo[3], hi[3];
  for (int d = 1; d < 3; ++d) w.covering(d, o.at[d], lo[d], hi[d]);
  C sum{};
  for (int64_t y = lo[1]; y < hi[1]; ++y) {
    const int64_t down = o.at[1] + w.padding[1] - y * w.stride[1], ky = PoolWindows::quotient(down, w.dilation[1]);
    if (ky * w.dilation[1] != down) continue;
    for (int64_t x = lo[2]; x < hi[2]; ++x) {
      const int64_t across = o.at[2] + w.padding[2] - x * w.stride[2],
                    kx = PoolWindows::quotient(across, w.dilation[2]);
      if (kx * w.dilation[2] != across) continue;
      const int64_t row = (o.plane * w.kernel[1] + ky) * w.kernel[2] + kx;
      const T v = columns[(row * w.out[1] + y) * w.out[2] + x];
      if constexpr (std::is_same_v<T, bool>)
        sum = sum || v;
      else
        sum = static_cast<C>(sum + static_cast<C>(v));
    }
  }
  image[i] = static_cast<T>(sum);
}

template <class W>
void im2col_cuda(const Tensor& columns, const Tensor& image, const PoolWindows& windows) {
  const DeviceGuard guard(columns.device());
  const Columns p(windows);
  cuda::launch(im2col_kernel<W>, static_cast<unsigned>(cuda::ceil_div(p.total, cuda::kPoolThreads)), cuda::kPoolThreads,
               0, p, static_cast<const W*>(image.data_ptr()), static_cast<W*>(columns.data_ptr()));
}
template <class T>
void col2im_cuda(const Tensor& image, const Tensor& columns, const PoolWindows& windows) {
  const DeviceGuard guard(image.device());
  const cuda::PoolWalk p(windows, windows.in);
  cuda::launch(col2im_kernel<T>, p.blocks(), cuda::kPoolThreads, 0, p, static_cast<const T*>(columns.data_ptr()),
               static_cast<T*>(image.data_ptr()));
}

TENON_REGISTER_KERNEL(op::im2col, cuda, Widths, im2col_cuda);
TENON_REGISTER_KERNEL(op::col2im, cuda, AllTypes, col2im_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Averages over windows and their gradient, which gathers: every element of the input adds up its share of the outputs
// whose windows have it. No atomics, so the same input gives the same bits.
#include <tenon/ops/pool.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/pool.cuh>
#include <tenon/kernels/cuda/vector.cuh>

namespace tenon {
namespace {

using cuda::compute_t;
using Span = PoolWindows::Span;

template <class C>
__device__ __forceinline__ C divisor_of(const PoolWindows& w, const Span& a, const Span& b, const Span& c) {
  return static_cast<C>(w.divisor ? w.divisor : a.counted * b.counted * c.counted);
}

template <class T>
__global__ void __launch_bounds__(cuda::kPoolThreads)
    average_kernel(const __grid_constant__ cuda::PoolWalk p, const T* __restrict__ x, T* __restrict__ out) {
  using C = compute_t<T>;
  const int64_t i = int64_t(blockIdx.x) * cuda::kPoolThreads + threadIdx.x;
  if (i >= p.total) return;
  const cuda::PoolPlace o(p, i);
  const Span a = p.w.span(0, o.at[0]), b = p.w.span(1, o.at[1]), c = p.w.span(2, o.at[2]);
  const int64_t step = o.step(p);
  const T* const plane = x + o.base(p, p.w.positions_in());
  C sum = 0;
  for (int64_t j = 0; j < a.taps; ++j)
    for (int64_t k = 0; k < b.taps; ++k) {
      const T* const row = plane + (((a.begin + j) * p.w.in[1] + b.begin + k) * p.w.in[2] + c.begin) * step;
      for (int64_t l = 0; l < c.taps; ++l) sum += static_cast<C>(row[l * step]);
    }
  out[i] = static_cast<T>(sum / divisor_of<C>(p.w, a, b, c));
}

template <class T>
__global__ void __launch_bounds__(cuda::kPoolThreads)
    average_backward_kernel(const __grid_constant__ cuda::PoolWalk p, const T* __restrict__ g, T* __restrict__ dx) {
  using C = compute_t<T>;
  const int64_t i = int64_t(blockIdx.x) * cuda::kPoolThreads + threadIdx.x;
  if (i >= p.total) return;
  const cuda::PoolPlace o(p, i);
  int64_t lo[3], hi[3];
  for (int d = 0; d < 3; ++d) p.w.covering(d, o.at[d], lo[d], hi[d]);
  const int64_t step = o.step(p);
  const T* const plane = g + o.base(p, p.w.positions_out());
  C sum = 0;
  for (int64_t j = lo[0]; j < hi[0]; ++j)
    for (int64_t k = lo[1]; k < hi[1]; ++k)
      for (int64_t l = lo[2]; l < hi[2]; ++l) {
        const C divisor = divisor_of<C>(p.w, p.w.span(0, j), p.w.span(1, k), p.w.span(2, l));
        sum += static_cast<C>(plane[((j * p.w.out[1] + k) * p.w.out[2] + l) * step]) / divisor;
      }
  dx[i] = static_cast<T>(sum);
}

template <class T>
void avg_pool_cuda(const Tensor& to, const Tensor& from, const PoolWindows& windows) {
  const DeviceGuard guard(to.device());
  const cuda::PoolWalk p(windows, windows.out);
  cuda::launch(average_kernel<T>, p.blocks(), cuda::kPoolThreads, 0, p, static_cast<const T*>(from.data_ptr()),
               static_cast<T*>(to.data_ptr()));
}
template <class T>
void avg_pool_backward_cuda(const Tensor& to, const Tensor& from, const PoolWindows& windows) {
  const DeviceGuard guard(to.device());
  const cuda::PoolWalk p(windows, windows.in);
  cuda::launch(average_backward_kernel<T>, p.blocks(), cuda::kPoolThreads, 0, p, static_cast<const T*>(from.data_ptr()),
               static_cast<T*>(to.data_ptr()));
}

using Averaged = Join<FloatsAndHalves, Types<int64_t>>;
TENON_REGISTER_KERNEL(op::avg_pool, cuda, Averaged, avg_pool_cuda);
TENON_REGISTER_KERNEL(op::avg_pool_backward, cuda, Averaged, avg_pool_backward_cuda);

}  // namespace
}  // namespace tenon

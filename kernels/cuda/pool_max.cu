// SPDX-License-Identifier: Apache-2.0
// Largest elements of windows with their positions, and the gradient, which gathers: every element of the input adds up
// the outputs whose windows may have it and whose position it is. No atomics, so the same input gives the same bits.
#include <tenon/ops/pool.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/pool.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

#include <limits>

namespace tenon {
namespace {

using cuda::compute_t;
using Span = PoolWindows::Span;

// Indices may be null; samples are of fractional windows, `dimensions` a plane.
template <class T>
__global__ void __launch_bounds__(cuda::kPoolThreads)
    max_kernel(const __grid_constant__ cuda::PoolWalk p, compute_t<T> least, const T* __restrict__ x,
               const T* __restrict__ samples, int dimensions, T* __restrict__ out, int64_t* __restrict__ indices) {
  using C = compute_t<T>;
  const int64_t i = int64_t(blockIdx.x) * cuda::kPoolThreads + threadIdx.x;
  if (i >= p.total) return;
  const cuda::PoolPlace o(p, i);
  Span s[3];
  for (int d = 0; d < 3; ++d) {
    if constexpr (cuda::is_float_v<T>) {
      if (samples != nullptr) {
        const int number = dimensions == 2 ? 2 - d : d;  // planes count their dimensions from the last one
        const bool drawn = d >= 3 - dimensions;
        s[d] = {0, p.w.kernel[d], 1, 1};
        if (drawn)
          s[d].begin = p.w.fractional_begin(d, static_cast<C>(samples[o.plane * dimensions + number]), o.at[d]);
        continue;
      }
    }
    s[d] = p.w.span(d, o.at[d]);
  }
  const int64_t step = o.step(p);
  const T* const plane = x + o.base(p, p.w.positions_in());
  C best = least;
  int64_t where = (s[0].begin * p.w.in[1] + s[1].begin) * p.w.in[2] + s[2].begin;
  for (int64_t j = 0; j < s[0].taps; ++j)
    for (int64_t k = 0; k < s[1].taps; ++k) {
      int64_t at = ((s[0].begin + j * s[0].step) * p.w.in[1] + s[1].begin + k * s[1].step) * p.w.in[2] + s[2].begin;
      for (int64_t l = 0; l < s[2].taps; ++l, at += s[2].step) {
        const C v = static_cast<C>(plane[at * step]);
        if (v > best || cuda::is_nan(v)) best = v, where = at;
      }
    }
  out[i] = static_cast<T>(best);
  if (indices != nullptr) indices[i] = where;
}

template <class T>
__global__ void __launch_bounds__(cuda::kPoolThreads)
    max_backward_kernel(const __grid_constant__ cuda::PoolWalk p, const T* __restrict__ g,
                        const int64_t* __restrict__ indices, T* __restrict__ dx) {
  using C = compute_t<T>;
  const int64_t i = int64_t(blockIdx.x) * cuda::kPoolThreads + threadIdx.x;
  if (i >= p.total) return;
  const cuda::PoolPlace o(p, i);
  const int64_t own = (o.at[0] * p.w.in[1] + o.at[1]) * p.w.in[2] + o.at[2];
  int64_t lo[3], hi[3];
  for (int d = 0; d < 3; ++d) p.w.covering(d, o.at[d], lo[d], hi[d]);
  const int64_t step = o.step(p), base = o.base(p, p.w.positions_out());
  C sum = 0;
  for (int64_t j = lo[0]; j < hi[0]; ++j)
    for (int64_t k = lo[1]; k < hi[1]; ++k)
      for (int64_t l = lo[2]; l < hi[2]; ++l) {
        const int64_t at = base + ((j * p.w.out[1] + k) * p.w.out[2] + l) * step;
        if (indices[at] == own) sum += static_cast<C>(g[at]);
      }
  dx[i] = static_cast<T>(sum);
}

template <class T>
void max_pool_cuda(const Tensor& out, const Tensor& indices, const Tensor& self, const Tensor& samples,
                   const PoolWindows& windows) {
  using C = compute_t<T>;
  const DeviceGuard guard(out.device());
  const cuda::PoolWalk p(windows, windows.out);
  C least;
  if constexpr (std::is_integral_v<T>)
    least = std::numeric_limits<T>::lowest();
  else
    least = -std::numeric_limits<C>::infinity();
  cuda::launch(max_kernel<T>, p.blocks(), cuda::kPoolThreads, 0, p, least, static_cast<const T*>(self.data_ptr()),
               samples.defined() ? static_cast<const T*>(samples.data_ptr()) : nullptr,
               samples.defined() ? static_cast<int>(samples.size(2)) : 0, static_cast<T*>(out.data_ptr()),
               indices.defined() ? static_cast<int64_t*>(indices.data_ptr()) : nullptr);
}
template <class T>
void max_pool_backward_cuda(const Tensor& grad_input, const Tensor& grad_output, const Tensor& indices,
                            const PoolWindows& windows) {
  const DeviceGuard guard(grad_input.device());
  const cuda::PoolWalk p(windows, windows.in);
  cuda::launch(max_backward_kernel<T>, p.blocks(), cuda::kPoolThreads, 0, p,
               static_cast<const T*>(grad_output.data_ptr()), static_cast<const int64_t*>(indices.data_ptr()),
               static_cast<T*>(grad_input.data_ptr()));
}

TENON_REGISTER_KERNEL(op::max_pool, cuda, Numbers, max_pool_cuda);
TENON_REGISTER_KERNEL(op::max_pool_backward, cuda, FloatsAndHalves, max_pool_backward_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Samples at the places of a grid (kernels/grid_sample.h): a thread a place, channel after channel. Gradients of the input are
// added by atomics, 16-bit floats in float32; when the order must be fixed, a thread takes a channel and all its places.
#include <tenon/dispatch/deterministic.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/grid_sample.h>
#include <tenon/kernels/cuda/atomic.cuh>

#include <algorithm>

namespace tenon {
namespace {

constexpr int kThreads = 256;

struct SampleArgs {
  int64_t batch, channels, places, plane, sizes[3];
  SampleMode mode;

  SampleArgs(const Tensor& input, const Tensor& grid, const SampleMode& m)
      : batch(input.size(0)), channels(input.size(1)), places(1), plane(1), sizes{}, mode(m) {
    for (int64_t d = 2; d < input.dim(); ++d) {
      sizes[d - 2] = input.size(d);
      plane *= input.size(d);
      places *= grid.size(d - 1);
    }
  }
};

// The entries around a place that are there.
template <class T, int K, int R, bool kSlopes>
struct Entries {
  using C = cuda::compute_t<T>;
  static constexpr int kMost = R == 2 ? K * K : K * K * K;
  int count = 0;
  int64_t at[kMost];
  C weight[kMost], slope[kSlopes ? R : 1][kMost];

  __device__ __forceinline__ Entries(const SampleArgs& s, const T* coordinates) {
    grid::Neighbours<C, K> n[R];
#pragma unroll
    for (int d = 0; d < R; ++d)
      n[d] = grid::neighbours<K, T>(s.mode, static_cast<C>(coordinates[R - 1 - d]), s.sizes[d]);
#pragma unroll 1
    for (int k = 0; k < kMost; ++k) {
      int64_t entry = 0;
      C w = 1, by[R];
      bool there = true;
      int rest = k;
#pragma unroll
      for (int d = 0; d < R; ++d) by[d] = 1;
#pragma unroll
      for (int d = 0; d < R; ++d, rest /= K) {
        const int i = rest % K;
        there = there && n[d].index[i] >= 0;
        entry = entry * s.sizes[d] + n[d].index[i];
        w *= n[d].weight[i];
#pragma unroll
        for (int e = 0; e < R; ++e) by[e] *= e == d ? n[d].slope[i] : n[d].weight[i];
      }
      if (!there) continue;
      at[count] = entry;
      weight[count] = w;
      if constexpr (kSlopes)
#pragma unroll
        for (int d = 0; d < R; ++d) slope[d][count] = by[d];
      ++count;
    }
  }
};

template <class T, int K, int R>
__global__ void __launch_bounds__(kThreads)
    sample_kernel(T* out, const T* input, const T* coordinates, const __grid_constant__ SampleArgs s) {
  using C = cuda::compute_t<T>;
  const int64_t count = s.batch * s.places;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += int64_t(gridDim.x) * kThreads) {
    const int64_t n = i / s.places, p = i - n * s.places;
    const Entries<T, K, R, false> e(s, coordinates + i * R);
    for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      C sum = 0;
      for (int k = 0; k < e.count; ++k)
        if (e.weight[k] != 0) sum += e.weight[k] * static_cast<C>(input[c * s.plane + e.at[k]]);
      out[c * s.places + p] = static_cast<T>(sum);
    }
  }
}

// grad_input: float32 for the 16-bit floats. Either may be null.
template <class T, int K, int R>
__global__ void __launch_bounds__(kThreads)
    sample_backward_kernel(cuda::compute_t<T>* grad_input, T* grad_grid, const T* grad, const T* input,
                           const T* coordinates, const __grid_constant__ SampleArgs s) {
  using C = cuda::compute_t<T>;
  const int64_t count = s.batch * s.places;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += int64_t(gridDim.x) * kThreads) {
    const int64_t n = i / s.places, p = i - n * s.places;
    const Entries<T, K, R, true> e(s, coordinates + i * R);
    C sums[R] = {};
    for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      const C g = static_cast<C>(grad[c * s.places + p]);
      for (int k = 0; k < e.count; ++k) {
        const C x = grad_grid ? g * static_cast<C>(input[c * s.plane + e.at[k]]) : C(0);
#pragma unroll
        for (int d = 0; d < R; ++d)
          if (e.slope[d][k] != 0) sums[d] += e.slope[d][k] * x;
        if (grad_input && e.weight[k] != 0) cuda::atomic_add(grad_input + c * s.plane + e.at[k], e.weight[k] * g);
      }
    }
    if (grad_grid)
#pragma unroll
      for (int d = 0; d < R; ++d) grad_grid[i * R + (R - 1 - d)] = static_cast<T>(sums[d]);
  }
}

template <class T, int K, int R>
__global__ void __launch_bounds__(kThreads)
    add_in_order_kernel(cuda::compute_t<T>* grad_input, const T* grad, const T* coordinates,
                        const __grid_constant__ SampleArgs s) {
  using C = cuda::compute_t<T>;
  const int64_t count = s.batch * s.channels;
  for (int64_t c = int64_t(blockIdx.x) * kThreads + threadIdx.x; c < count; c += int64_t(gridDim.x) * kThreads) {
    const T* const places = coordinates + c / s.channels * s.places * R;
    for (int64_t p = 0; p < s.places; ++p) {
      const C g = static_cast<C>(grad[c * s.places + p]);
      const Entries<T, K, R, false> e(s, places + p * R);
      for (int k = 0; k < e.count; ++k)
        if (e.weight[k] != 0) grad_input[c * s.plane + e.at[k]] += e.weight[k] * g;
    }
  }
}

unsigned blocks(int64_t n) {
  return static_cast<unsigned>(std::min<int64_t>(cuda::ceil_div(n, kThreads), int64_t(1) << 22));
}

// f of the number of neighbours a mode has.
template <int R, class F>
void with_neighbours(const SampleMode& mode, F&& f) {
  if (mode.interpolation == 0) return f(std::integral_constant<int, 2>());
  if (mode.interpolation == 1) return f(std::integral_constant<int, 1>());
  if constexpr (R == 2) f(std::integral_constant<int, 4>());
}

template <class T, int R>
void sample(const Tensor& out, const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  const SampleArgs s(input, grid, mode);
  with_neighbours<R>(mode, [&](auto k) {
    cuda::launch(sample_kernel<T, decltype(k)::value, R>, blocks(s.batch * s.places), kThreads, 0,
                 static_cast<T*>(out.data_ptr()), static_cast<const T*>(input.data_ptr()),
                 static_cast<const T*>(grid.data_ptr()), s);
  });
}

template <class T, int R>
void sample_backward(const Tensor& grad_input, const Tensor& grad_grid, const Tensor& grad, const Tensor& input,
                     const Tensor& grid, const SampleMode& mode) {
  using C = cuda::compute_t<T>;
  const SampleArgs s(input, grid, mode);
  Tensor sum = grad_input;
  if (sum.defined() && !std::is_same_v<T, C>) {
    sum = dispatch::make_tensor(grad_input.sizes(), kFloat32, grad_input.device());
    sum.zero_();
  }
  C* const to = sum.defined() ? static_cast<C*>(sum.data_ptr()) : nullptr;
  T* const to_grid = grad_grid.defined() ? static_cast<T*>(grad_grid.data_ptr()) : nullptr;
  const auto data = [](const Tensor& t) { return static_cast<const T*>(t.data_ptr()); };
  const bool in_order = to && is_deterministic();
  with_neighbours<R>(mode, [&](auto k) {
    constexpr int K = decltype(k)::value;
    if (in_order)
      cuda::launch(add_in_order_kernel<T, K, R>, blocks(s.batch * s.channels), kThreads, 0, to, data(grad), data(grid),
                   s);
    if (to_grid || (to && !in_order))
      cuda::launch(sample_backward_kernel<T, K, R>, blocks(s.batch * s.places), kThreads, 0, in_order ? nullptr : to,
                   to_grid, data(grad), data(input), data(grid), s);
  });
  if (sum.defined() && !sum.is_same(grad_input)) Tensor(grad_input).copy_(sum);
}

template <class T>
void grid_sampler_2d_cuda(const Tensor& out, const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  sample<T, 2>(out, input, grid, mode);
}
template <class T>
void grid_sampler_3d_cuda(const Tensor& out, const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  sample<T, 3>(out, input, grid, mode);
}
template <class T>
void grid_sampler_2d_backward_cuda(const Tensor& grad_input, const Tensor& grad_grid, const Tensor& grad,
                                   const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  sample_backward<T, 2>(grad_input, grad_grid, grad, input, grid, mode);
}
template <class T>
void grid_sampler_3d_backward_cuda(const Tensor& grad_input, const Tensor& grad_grid, const Tensor& grad,
                                   const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  sample_backward<T, 3>(grad_input, grad_grid, grad, input, grid, mode);
}
TENON_REGISTER_KERNEL(op::grid_sampler_2d, cuda, FloatsAndHalves, grid_sampler_2d_cuda);
TENON_REGISTER_KERNEL(op::grid_sampler_3d, cuda, FloatsAndHalves, grid_sampler_3d_cuda);
TENON_REGISTER_KERNEL(op::grid_sampler_2d_backward, cuda, FloatsAndHalves, grid_sampler_2d_backward_cuda);
TENON_REGISTER_KERNEL(op::grid_sampler_3d_backward, cuda, FloatsAndHalves, grid_sampler_3d_backward_cuda);

}  // namespace
}  // namespace tenon

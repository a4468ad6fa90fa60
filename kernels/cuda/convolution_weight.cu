// SPDX-License-Identifier: Apache-2.0
// The weight's gradient of convolutions (ops/convolution.h), by cuDNN or here: a tiled product of the small side with
// gathered pixels of the big one, cut along the pixels into slices whose sums are added up in order, or for groups of few
// channels a block per element. No atomics: the same bits in every run.
#include <tenon/kernels/cuda/cudnn.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/convolution.cuh>

namespace tenon {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256;

template <class T>
struct WeightArgs {
  const T *big, *small;
  T* out;
  cuda::convolution_sum_t<T>* partial;  // [slices][groups][width][columns]
  cuda::SideSteps big_steps, small_steps;
  int64_t weight_out, weight_in, weight_group, weight_tap[3];
  cuda::GatherSteps dim[3];
  cuda::TapSplit taps;
  cuda::Divider places[3];  // pixels of an image of the small side, of its last two dimensions, of its last
  cuda::Divider depth;      // channels of a group of the big side
  int64_t pixels, slice;    // of the small side, all images; how many of them a slice adds up
  int width, columns;       // channels of a group of the small side; taps times depth
  int64_t groups;
};

// Where pixel `place` (counted from image n0's first) lies in both sides; false when the tap is outside.
template <class T>
__device__ bool find_pair(const WeightArgs<T>& p, int64_t n0, uint32_t place, const int64_t (&offset)[3], int64_t& big,
                          int64_t& small) {
  const uint32_t n = p.places[0].quotient(place), at = place - n * p.places[0].size;
  const uint32_t o0 = p.places[1].quotient(at), rest = at - o0 * p.places[1].size, o1 = p.places[2].quotient(rest);
  const int64_t o[3] = {o0, o1, rest - o1 * p.places[2].size};
  big = (n0 + n) * p.big_steps.image;
  small = (n0 + n) * p.small_steps.image;
  bool inside = true;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const int64_t i = o[d] * p.dim[d].in_step + offset[d];
    inside = inside && i >= 0 && i < p.dim[d].in_size;
    big += i * p.big_steps.place[d];
    small += o[d] * p.small_steps.place[d];
  }
  return inside;
}
template <class T>
__device__ void tap_offsets(const WeightArgs<T>& p, uint32_t tap, int64_t (&offset)[3], int64_t& weight) {
  uint32_t t[3];
  p.taps.split(tap, t);
  weight = 0;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    offset[d] = p.dim[d].offset_first + t[d] * p.dim[d].offset_step;
    weight += (p.dim[d].tap_first + t[d] * p.dim[d].tap_step) * p.weight_tap[d];
  }
}

// A block adds up a slice of pixels for kTile channels of the small side and kTile columns (tap, channel of the big side).
template <class T>
__global__ void __launch_bounds__(kThreads)
    weight_tiled_kernel(const WeightArgs<T> p, unsigned tiles_across, unsigned tiles) {
  using A = cuda::convolution_sum_t<T>;
  __shared__ A ys[kDepth][kTile + 1], xs[kDepth][kTile + 1];
  const unsigned tile = blockIdx.x % tiles;
  const int64_t group = blockIdx.x / tiles, slice = blockIdx.y;
  const int row0 = static_cast<int>(tile / tiles_across) * kTile,
            column0 = static_cast<int>(tile % tiles_across) * kTile;
  const int64_t first = slice * p.slice, count = min(p.slice, p.pixels - first);
  const int64_t n0 = first / p.places[0].size;
  const uint32_t start = static_cast<uint32_t>(first % p.places[0].size);
  const int64_t depth = p.depth.size;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  A sum[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[i][j] = A(0);
  constexpr int kLoads = kTile * kDepth / kThreads;
  int64_t offset[kLoads][3], channel[kLoads];  // of the columns this thread loads
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int column = column0 + static_cast<int>(threadIdx.x + i * kThreads) / kDepth;
    const uint32_t tap = p.depth.quotient(static_cast<uint32_t>(column));
    int64_t unused;
    tap_offsets(p, tap, offset[i], unused);
    channel[i] =
        column < p.columns ? (group * depth + column - static_cast<int64_t>(tap) * depth) * p.big_steps.channel : -1;
  }
  for (int64_t k0 = 0; k0 < count; k0 += kDepth) {
    const int k = threadIdx.x % kDepth;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int line = static_cast<int>(threadIdx.x + i * kThreads) / kDepth;
      A x = A(0), y = A(0);
      if (k0 + k < count) {
        int64_t big, small;
        const bool inside =
            find_pair(p, n0, start + static_cast<uint32_t>(k0) + static_cast<uint32_t>(k), offset[i], big, small);
        if (inside && channel[i] >= 0) x = static_cast<A>(p.big[big + channel[i]]);
        if (row0 + line < p.width)
          y = static_cast<A>(p.small[small + (group * p.width + row0 + line) * p.small_steps.channel]);
      }
      xs[k][line] = x;
      ys[k][line] = y;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < kDepth; ++q) {
      A y[4], x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) y[i] = ys[q][ty + 16 * i], x[i] = xs[q][tx + 16 * i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += y[i] * x[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = row0 + ty + 16 * i, column = column0 + tx + 16 * j;
      if (row < p.width && column < p.columns)
        p.partial[((slice * p.groups + group) * p.width + row) * p.columns + column] = sum[i][j];
    }
}

// Adds up the slices of one element.
template <class T>
__global__ void __launch_bounds__(kThreads) add_slices_kernel(const WeightArgs<T> p, int64_t slices) {
  using A = cuda::convolution_sum_t<T>;
  const int64_t all = p.groups * p.width * int64_t(p.columns);
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < all; i += int64_t(gridDim.x) * kThreads) {
    A sum = A(0);
    for (int64_t s = 0; s < slices; ++s) sum += p.partial[s * all + i];
    const int64_t column = i % p.columns, row = i / p.columns % p.width, group = i / p.columns / p.width;
    const uint32_t tap = p.depth.quotient(static_cast<uint32_t>(column));
    int64_t offset[3], place;
    tap_offsets(p, tap, offset, place);
    p.out[group * p.weight_group + row * p.weight_out + (column - int64_t(tap) * p.depth.size) * p.weight_in + place] =
        static_cast<T>(sum);
  }
}

// A block adds up one element over all pixels.
template <class T>
__global__ void __launch_bounds__(kThreads) weight_direct_kernel(const WeightArgs<T> p) {
  using A = cuda::convolution_sum_t<T>;
  __shared__ A sums[kThreads];
  const int64_t i = blockIdx.x, column = i % p.columns, row = i / p.columns % p.width, group = i / p.columns / p.width;
  const uint32_t tap = p.depth.quotient(static_cast<uint32_t>(column));
  const int64_t c = column - int64_t(tap) * p.depth.size;
  int64_t offset[3], place;
  tap_offsets(p, tap, offset, place);
  const T* const x = p.big + (group * int64_t(p.depth.size) + c) * p.big_steps.channel;
  const T* const y = p.small + (group * p.width + row) * p.small_steps.channel;
  A sum = A(0);
  for (int64_t first = threadIdx.x; first < p.pixels; first += kThreads) {
    int64_t big, small;
    if (find_pair(p, first / p.places[0].size, static_cast<uint32_t>(first % p.places[0].size), offset, big, small))
      sum += static_cast<A>(y[small]) * static_cast<A>(x[big]);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    p.out[group * p.weight_group + row * p.weight_out + c * p.weight_in + place] = static_cast<T>(sums[0]);
}

template <class T>
void weight_own(const Tensor& weight, const Tensor& big, const Tensor& small, const ConvolutionGeometry& g) {
  const Gather gather = phases_of(g, small.sizes(), big.sizes(), weight.sizes())[0];
  WeightArgs<T> p;
  p.big = static_cast<const T*>(big.data_ptr()), p.small = static_cast<const T*>(small.data_ptr());
  p.out = static_cast<T*>(weight.data_ptr());
  p.big_steps = cuda::SideSteps(big), p.small_steps = cuda::SideSteps(small);
  const IntArrayRef s = weight.strides(), y = small.sizes();
  const int64_t depth = big.sizes()[1] / g.groups, width = y[1] / g.groups, image = y[2] * y[3] * y[4];
  p.weight_out = s[0], p.weight_in = s[1], p.weight_group = width * s[0];
  for (std::size_t d = 0; d < 3; ++d) p.weight_tap[d] = s[d + 2], p.dim[d] = cuda::GatherSteps(gather.dim[d]);
  const int64_t columns = gather.taps() * depth;
  constexpr int64_t kMost = int64_t{1} << 30;
  TENON_CHECK(image < kMost && columns < kMost && width < kMost && weight.numel() < INT32_MAX, ShapeError,
              "convolution_backward: expected fewer than 2^30 pixels and 2^31 elements of weight, got sizes ", y,
              " and ", weight.sizes());
  p.taps = cuda::TapSplit(gather);
  p.places[0] = cuda::Divider(static_cast<uint32_t>(image));
  p.places[1] = cuda::Divider(static_cast<uint32_t>(y[3] * y[4]));
  p.places[2] = cuda::Divider(static_cast<uint32_t>(y[4]));
  p.depth = cuda::Divider(static_cast<uint32_t>(depth));
  p.pixels = y[0] * image, p.width = static_cast<int>(width), p.columns = static_cast<int>(columns);
  p.groups = g.groups;
  if (width * columns < 1024) {
    cuda::launch(weight_direct_kernel<T>, dim3(static_cast<unsigned>(weight.numel())), kThreads, 0, p);
    return;
  }
  const int64_t across = cuda::ceil_div(columns, kTile), tiles = across * cuda::ceil_div(width, kTile);
  // Enough blocks for the device, of at least 1024 pixels each.
  const int64_t wanted = cuda::ceil_div(4 * cuda::device_limits().multiprocessors, tiles * g.groups);
  p.slice = std::max<int64_t>(cuda::ceil_div(p.pixels, std::clamp<int64_t>(wanted, 1, 256)), 1024);
  p.slice = std::min(cuda::ceil_div(p.slice, kDepth) * kDepth, kMost);
  const int64_t slices = cuda::ceil_div(p.pixels, p.slice);
  TENON_CHECK(slices < 65536, ShapeError, "convolution_backward: too many pixels, got sizes ", y);
  using A = cuda::convolution_sum_t<T>;
  const cuda::Workspace workspace(slices * weight.numel() * static_cast<int64_t>(sizeof(A)));
  p.partial = reinterpret_cast<A*>(workspace.data());
  cuda::launch(weight_tiled_kernel<T>, dim3(static_cast<unsigned>(tiles * g.groups), static_cast<unsigned>(slices)),
               kThreads, 0, p, static_cast<unsigned>(across), static_cast<unsigned>(tiles));
  cuda::launch(add_slices_kernel<T>,
               dim3(static_cast<unsigned>(std::min<int64_t>(cuda::ceil_div(weight.numel(), kThreads), 1 << 16))),
               kThreads, 0, p, slices);
}

template <class T>
void convolution_backward_cuda(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                               const ConvolutionGeometry& g) {
  const DeviceGuard guard(out.device());
  if (g.part != ConvolutionPart::weight)
    return op::convolution.kernel(Backend::cuda, dispatch::kKeyOf<T>)(out, a, b, bias, g);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, int64_t>) {
    Tensor narrow = out;
    const Tensor wide = out.to(kInt64);
    weight_own<int64_t>(wide, cuda::as_convolved(a), cuda::as_convolved(b), g);
    narrow.copy_(wide);
  } else {
    if constexpr (!std::is_integral_v<T> && !is_complex_v<T>) {
      if (cuda::convolve_by_cudnn(out, a, b, g)) return;
    }
    weight_own<T>(out, a, b, g);
  }
}

using Types = Join<Integers, FloatsAndHalves, Complexes>;
TENON_REGISTER_KERNEL(op::convolution_backward, cuda, Types, convolution_backward_cuda);

}  // namespace
}  // namespace tenon

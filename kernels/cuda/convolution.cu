// SPDX-License-Identifier: Apache-2.0
// Convolutions (ops/convolution.h) that make one of the sides. cuDNN does what it can; everything else, and all of it
// where cuDNN is off or absent, the kernels here: a tiled product of the weight with gathered pixels for groups of many
// channels, a sum per thread for groups of few (depthwise). No atomics: the same bits in every run.
#include <tenon/kernels/cuda/cudnn.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/convolution.cuh>

namespace tenon {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256;
using cuda::GatherSteps;
using cuda::SideSteps;

template <class T>
struct GatherArgs {
  const T *in, *weight, *bias;  // bias may be null
  T* out;
  SideSteps in_steps, out_steps;
  int64_t weight_out, weight_in, weight_group, weight_tap[3];
  GatherSteps dim[3];
  cuda::TapSplit taps;
  cuda::Divider depth;  // channels of a group that are read
  int64_t columns;      // pixels of all images
  int width, total;     // channels of a group that are made; taps times depth
  int groups, first_group;
  bool depth_is_dense;  // neighbours in memory are channels, not pixels
};

// A pixel of the result: where it is written, where its taps start.
template <class T>
struct Pixel {
  int64_t out, in;
  int64_t at[3];
  bool exists;
  __device__ void find(const GatherArgs<T>& p, int64_t column) {
    exists = column < p.columns;
    const int64_t c2 = p.dim[2].count, c1 = p.dim[1].count, c0 = p.dim[0].count;
    const int64_t o2 = column % c2, rest = column / c2, o1 = rest % c1, rest0 = rest / c1, o0 = rest0 % c0,
                  n = rest0 / c0;
    const int64_t o[3] = {o0, o1, o2};
    out = n * p.out_steps.image;
    in = n * p.in_steps.image;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      out += (p.dim[d].out_first + o[d] * p.dim[d].out_step) * p.out_steps.place[d];
      at[d] = o[d] * p.dim[d].in_step + p.dim[d].offset_first;
    }
  }
  // The element of the input that tap (t) and channel (an offset) see, or 0.
  __device__ T read(const GatherArgs<T>& p, const uint32_t (&t)[3], int64_t channel) const {
    int64_t offset = in + channel;
    bool inside = exists;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      const int64_t i = at[d] + t[d] * p.dim[d].offset_step;
      inside = inside && i >= 0 && i < p.dim[d].in_size;
      offset += i * p.in_steps.place[d];
    }
    return inside ? p.in[offset] : T(0);
  }
};
template <class T>
__device__ int64_t weight_place(const GatherArgs<T>& p, const uint32_t (&t)[3]) {
  int64_t offset = 0;
#pragma unroll
  for (int d = 0; d < 3; ++d) offset += (p.dim[d].tap_first + t[d] * p.dim[d].tap_step) * p.weight_tap[d];
  return offset;
}

// A block makes kTile channels of kTile pixels.
template <class T>
__global__ void __launch_bounds__(kThreads) gather_tiled_kernel(const GatherArgs<T> p) {
  using A = cuda::convolution_sum_t<T>;
  __shared__ A ws[kDepth][kTile + 1], xs[kDepth][kTile + 1];
  const int64_t column0 = int64_t(blockIdx.x) * kTile;
  const int row0 = static_cast<int>(blockIdx.y) * kTile;
  const int64_t group = p.first_group + static_cast<int64_t>(blockIdx.z);
  const T* const weight = p.weight + group * p.weight_group;
  const int64_t first_channel = group * static_cast<int64_t>(p.depth.size) * p.in_steps.channel;
  constexpr int kLoads = kTile * kDepth / kThreads;
  Pixel<T> pixel[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int e = static_cast<int>(threadIdx.x) + i * kThreads;
    pixel[i].find(p, column0 + (p.depth_is_dense ? e / kDepth : e % kTile));
  }
  A sum[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[i][j] = A(0);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  for (int k0 = 0; k0 < p.total; k0 += kDepth) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int e = static_cast<int>(threadIdx.x) + i * kThreads;
      const int column = p.depth_is_dense ? e / kDepth : e % kTile, k = p.depth_is_dense ? e % kDepth : e / kTile;
      uint32_t t[3] = {};
      A x = A(0);
      if (k0 + k < p.total) {
        const uint32_t tap = p.depth.quotient(static_cast<uint32_t>(k0 + k));
        const int64_t c = static_cast<uint32_t>(k0 + k) - tap * p.depth.size;
        p.taps.split(tap, t);
        x = static_cast<A>(pixel[i].read(p, t, first_channel + c * p.in_steps.channel));
      }
      xs[k][column] = x;
      const int wk = e % kDepth, row = e / kDepth;
      A w = A(0);
      if (k0 + wk < p.total && row0 + row < p.width) {
        const uint32_t tap = p.depth.quotient(static_cast<uint32_t>(k0 + wk));
        const int64_t c = static_cast<uint32_t>(k0 + wk) - tap * p.depth.size;
        p.taps.split(tap, t);
        w = static_cast<A>(weight[(row0 + row) * p.weight_out + c * p.weight_in + weight_place(p, t)]);
      }
      ws[wk][row] = w;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      A w[4], x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = ws[k][ty + 16 * i], x[i] = xs[k][tx + 16 * i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += w[i] * x[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    Pixel<T> to;
    to.find(p, column0 + tx + 16 * j);
    if (!to.exists) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = row0 + ty + 16 * i;
      if (row >= p.width) continue;
      const int64_t channel = group * p.width + row;
      if (p.bias) sum[i][j] += static_cast<A>(p.bias[channel]);
      p.out[to.out + channel * p.out_steps.channel] = static_cast<T>(sum[i][j]);
    }
  }
}

// A thread makes one channel of one pixel; `total` is not used.
template <class T>
__global__ void __launch_bounds__(kThreads) gather_direct_kernel(const GatherArgs<T> p) {
  using A = cuda::convolution_sum_t<T>;
  const int64_t channels = int64_t(p.groups) * p.width, all = p.columns * channels;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < all; i += int64_t(gridDim.x) * kThreads) {
    const int64_t channel = p.depth_is_dense ? i % channels : i / p.columns % channels;
    const int64_t column = p.depth_is_dense ? i / channels : i % p.columns;
    const int64_t group = channel / p.width;
    const T* const weight = p.weight + group * p.weight_group + channel % p.width * p.weight_out;
    Pixel<T> pixel;
    pixel.find(p, column);
    A sum = p.bias ? static_cast<A>(p.bias[channel]) : A(0);
    for (uint32_t tap = 0; tap < p.taps.count; ++tap) {
      uint32_t t[3];
      p.taps.split(tap, t);
      const T* const w = weight + weight_place(p, t);
      for (uint32_t c = 0; c < p.depth.size; ++c)
        sum += static_cast<A>(w[c * p.weight_in]) *
               static_cast<A>(pixel.read(p, t, (group * static_cast<int64_t>(p.depth.size) + c) * p.in_steps.channel));
    }
    p.out[pixel.out + channel * p.out_steps.channel] = static_cast<T>(sum);
  }
}

template <class T>
void gather_cuda(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias,
                 const ConvolutionGeometry& g) {
  GatherArgs<T> p;
  p.in = static_cast<const T*>(in.data_ptr()), p.weight = static_cast<const T*>(weight.data_ptr());
  p.bias = bias.defined() ? static_cast<const T*>(bias.data_ptr()) : nullptr;
  p.out = static_cast<T*>(out.data_ptr());
  p.in_steps = SideSteps(in), p.out_steps = SideSteps(out);
  const IntArrayRef s = weight.strides();
  const bool small = g.part == ConvolutionPart::small;
  p.weight_out = s[small ? 0 : 1], p.weight_in = s[small ? 1 : 0];
  p.weight_group = weight.sizes()[0] / g.groups * s[0];
  for (std::size_t d = 0; d < 3; ++d) p.weight_tap[d] = s[d + 2];
  const int64_t depth = in.sizes()[1] / g.groups, width = out.sizes()[1] / g.groups;
  TENON_CHECK(depth * weight.sizes()[2] * weight.sizes()[3] * weight.sizes()[4] < INT32_MAX && width < INT32_MAX &&
                  g.groups < INT32_MAX,
              ShapeError, "convolution: weight: expected fewer than 2^31 elements for a channel, got sizes ",
              weight.sizes());
  p.depth = cuda::Divider(static_cast<uint32_t>(depth));
  p.width = static_cast<int>(width);
  p.groups = static_cast<int>(g.groups);
  p.depth_is_dense = g.channels_last;
  for (const Gather& phase : phases_of(g, out.sizes(), in.sizes(), weight.sizes())) {
    for (int d = 0; d < 3; ++d) p.dim[d] = GatherSteps(phase.dim[d]);
    p.taps = cuda::TapSplit(phase);
    p.columns = out.sizes()[0] * phase.count();
    p.total = static_cast<int>(phase.taps() * depth);
    p.first_group = 0;
    const int64_t column_tiles = cuda::ceil_div(p.columns, kTile), row_tiles = cuda::ceil_div(width, kTile);
    if (width < 8 || column_tiles > INT32_MAX || row_tiles > 65535) {
      const int64_t blocks = cuda::ceil_div(p.columns * width * g.groups, kThreads);
      cuda::launch(gather_direct_kernel<T>, dim3(static_cast<unsigned>(std::min<int64_t>(blocks, 1 << 20))), kThreads,
                   0, p);
      continue;
    }
    for (; p.first_group < p.groups; p.first_group += 65535)
      cuda::launch(gather_tiled_kernel<T>,
                   dim3(static_cast<unsigned>(column_tiles), static_cast<unsigned>(row_tiles),
                        static_cast<unsigned>(std::min(65535, p.groups - p.first_group))),
                   kThreads, 0, p);
  }
}

template <class T>
struct AddBias {
  const T* bias;
  T* out;
  int64_t numel, inner, channels;
};
template <class T>
__global__ void __launch_bounds__(kThreads) add_bias_kernel(const AddBias<T> p) {
  using A = cuda::convolution_sum_t<T>;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < p.numel; i += int64_t(gridDim.x) * kThreads)
    p.out[i] = static_cast<T>(static_cast<A>(p.out[i]) + static_cast<A>(p.bias[i / p.inner % p.channels]));
}

template <class T>
void convolution_side(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                      const ConvolutionGeometry& g) {
  if constexpr (!std::is_integral_v<T> && !is_complex_v<T>) {
    if (cuda::convolve_by_cudnn(out, a, b, g)) {
      if (!bias.defined()) return;
      AddBias<T> p{static_cast<const T*>(bias.data_ptr()), static_cast<T*>(out.data_ptr()), out.numel(),
                   g.channels_last ? 1 : out.numel() / (out.sizes()[0] * out.sizes()[1]), out.sizes()[1]};
      cuda::launch(add_bias_kernel<T>,
                   dim3(static_cast<unsigned>(std::min<int64_t>(cuda::ceil_div(p.numel, kThreads), 1 << 16))), kThreads,
                   0, p);
      return;
    }
  }
  gather_cuda<T>(out, a, b, bias, g);
}

template <class T>
void convolution_cuda(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                      const ConvolutionGeometry& g) {
  const DeviceGuard guard(out.device());
  if (g.part == ConvolutionPart::weight)
    return op::convolution_backward.kernel(Backend::cuda, dispatch::kKeyOf<T>)(out, a, b, bias, g);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, int64_t>) {
    Tensor narrow = out;
    const Tensor wide = out.to(kInt64);
    gather_cuda<int64_t>(wide, cuda::as_convolved(a), cuda::as_convolved(b), cuda::as_convolved(bias), g);
    narrow.copy_(wide);
  } else {
    convolution_side<T>(out, a, b, bias, g);
  }
}

using Types = Join<Integers, FloatsAndHalves, Complexes>;
TENON_REGISTER_KERNEL(op::convolution, cuda, Types, convolution_cuda);

}  // namespace
}  // namespace tenon

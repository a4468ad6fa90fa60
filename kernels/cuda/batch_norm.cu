// SPDX-License-Identifier: Apache-2.0
// Batch and group norm (ops/batch_norm.h). A first kernel reduces parts of each channel, a small one joins them in order
// and makes the channel's coefficients, a third one applies them: x and the gradient are read twice, nothing is added
// atomically. Two layouts: runs of one channel, or rows of all channels (kRows), which are read 32 channels wide.
//
// Note [Moments]. Each thread sums distances, and their squares, from the first value it meets; threads and parts are joined
// as by Chan, Golub and LeVeque (1979). So a mean far from 0 costs no digits.
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/batch_norm.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/rows.cuh>

#include <algorithm>

namespace tenon {
namespace {

using cuda::compute_t;
using cuda::load_vector;
using cuda::store_vector;
using cuda::Vector;

constexpr int kThreads = 256, kWide = 32;  // channels a block of the row layout takes
constexpr int kMostParts = 96;

/// x seen as [outer, channels, inner]; `per` channels share an entry of mean and rstd.
struct Shape {
  int64_t outer, channels, inner, per;
};

// (count, mean, sum of squared distances) joined, or two sums added.
template <bool kBackward, class C>
__device__ __forceinline__ void join(C (&v)[3], C n, C mean, C squares) {
  if constexpr (kBackward) {
    v[0] += n, v[1] += mean;
  } else if (n > C(0)) {
    const C total = v[0] + n, away = mean - v[1], share = n / total;
    v[1] += away * share;
    v[2] += squares + away * away * v[0] * share;
    v[0] = total;
  }
}
// Over the threads that are `width` apart; the first `width` threads get the results.
template <bool kBackward, class C>
__device__ __forceinline__ void fold(C (&v)[3], int width) {
  __shared__ C all[3][kThreads];
  const int t = threadIdx.x;
#pragma unroll
  for (int i = 0; i < 3; ++i) all[i][t] = v[i];
#pragma unroll 1
  for (int offset = kThreads / 2; offset >= width; offset /= 2) {
    __syncthreads();
    if (t < offset) {
      join<kBackward>(v, all[0][t + offset], all[1][t + offset], all[2][t + offset]);
#pragma unroll
      for (int i = 0; i < 3; ++i) all[i][t] = v[i];
    }
  }
}

// What one thread has summed.
template <bool kBackward, class C>
struct Sums {
  C first = C(0), sum = C(0), square = C(0);  // backward: the mean, and the sums of g and g (x - mean)
  bool any = false;
  int64_t count = 0;
  __device__ __forceinline__ void add(C x, C g) {
    if constexpr (kBackward) {
      sum += g;
      square += g * (x - first);
    } else {
      if (!any) first = x, any = true;
      const C d = x - first;
      sum += d;
      square += d * d;
      ++count;
    }
  }
  __device__ __forceinline__ void finish(C (&v)[3]) const {
    if constexpr (kBackward) {
      v[0] = sum, v[1] = square, v[2] = C(0);
    } else {
      const C n = static_cast<C>(count), away = count ? sum / n : C(0);
      v[0] = n, v[1] = first + away;
      const C squares = square - sum * away;
      v[2] = squares > C(0) || squares != squares ? squares : C(0);
    }
  }
};

// partial: [3][gridDim.y][channels]. blockIdx.x: a channel, or kWide of them. centre: the mean (backward).
template <class T, int W, bool kRows, bool kBackward>
__global__ void __launch_bounds__(kThreads) reduce_channels(const T* x, const T* g, const compute_t<T>* centre, Shape s,
                                                            compute_t<T>* partial, int tx_log2, int64_t chunk) {
  using C = compute_t<T>;
  const int tx = threadIdx.x & ((1 << tx_log2) - 1), ty = threadIdx.x >> tx_log2, rows = kThreads >> tx_log2;
  const int64_t channel = kRows ? int64_t(blockIdx.x) * kWide + tx : int64_t(blockIdx.x);
  Sums<kBackward, C> sums;
  if (kBackward && channel < s.channels) sums.first = centre[channel / s.per];
  if constexpr (kRows) {
    if (channel < s.channels)
#pragma unroll 4
      for (int64_t row = int64_t(blockIdx.y) * rows + ty; row < s.outer; row += int64_t(gridDim.y) * rows) {
        const int64_t at = row * s.channels + channel;
        sums.add(static_cast<C>(x[at]), kBackward ? static_cast<C>(g[at]) : C(0));
      }
  } else {
    const int64_t chunks = cuda::ceil_div(s.inner, chunk);
    for (int64_t q = int64_t(blockIdx.y) * rows + ty; q < s.outer * chunks; q += int64_t(gridDim.y) * rows) {
      const int64_t o = chunks == 1 ? q : q / chunks, begin = (q - o * chunks) * chunk;
      const int64_t end = ::min(begin + chunk, s.inner), run = (o * s.channels + channel) * s.inner;
#pragma unroll 4
      for (int64_t i = begin + int64_t(tx) * W; i < end; i += int64_t(W) << tx_log2) {
        const auto vx = load_vector<T, W>(x + run + i);
        Vector<T, W> vg{};
        if (kBackward) vg = load_vector<T, W>(g + run + i);
#pragma unroll
        for (int w = 0; w < W; ++w) sums.add(static_cast<C>(vx.v[w]), kBackward ? static_cast<C>(vg.v[w]) : C(0));
      }
    }
  }
  C v[3];
  sums.finish(v);
  fold<kBackward>(v, kRows ? kWide : 1);
  if (threadIdx.x >= (kRows ? kWide : 1) || channel >= s.channels) return;
#pragma unroll
  for (int i = 0; i < 3; ++i) partial[(i * int64_t(gridDim.y) + blockIdx.y) * s.channels + channel] = v[i];
}

// The parts of kWide channels, joined in order; the first kWide threads get the results.
template <bool kBackward, class C>
__device__ __forceinline__ void join_parts(C (&v)[3], const C* partial, int parts, int64_t channels, int64_t channel) {
  v[0] = v[1] = v[2] = C(0);
  if (channel < channels)
    for (int p = threadIdx.x / kWide; p < parts; p += kThreads / kWide) {
      const C* at = partial + p * channels + channel;
      join<kBackward>(v, at[0], at[parts * channels], at[2 * parts * channels]);
    }
  fold<kBackward>(v, kWide);
}

// out = (x - m) a + b, or g a + (x - m) b + c: the coefficients [3][channels].
template <class C>
struct Finish {
  const C* partial;  // null: mean and rstd are given
  int parts;
  int64_t channels, per;
  double count;
  C *mean, *rstd;
  const C *weight, *bias;
  C *running_mean, *running_var;
  C momentum, eps;
  C* coefficients;
};
template <class C>
__global__ void __launch_bounds__(kThreads) finish_forward(const Finish<C> f) {
  const int64_t channel = int64_t(blockIdx.x) * kWide + threadIdx.x % kWide;
  C v[3];
  if (f.partial) join_parts<false>(v, f.partial, f.parts, f.channels, channel);
  if (threadIdx.x >= kWide || channel >= f.channels) return;
  C rstd;
  if (f.partial) {
    const C variance = v[2] / static_cast<C>(f.count);
    rstd = C(1) / math::sqrt(variance + f.eps);
    f.mean[channel] = v[1], f.rstd[channel] = rstd;
    if (f.running_mean) f.running_mean[channel] += f.momentum * (v[1] - f.running_mean[channel]);
    if (f.running_var)
      f.running_var[channel] += f.momentum * (v[2] / static_cast<C>(f.count - 1) - f.running_var[channel]);
  } else {
    rstd = f.rstd[channel];
  }
  if (!f.coefficients) return;
  f.coefficients[channel] = f.weight ? rstd * f.weight[channel] : rstd;
  f.coefficients[f.channels + channel] = f.bias ? f.bias[channel] : C(0);
}
// The coefficients of group norm, one thread for each channel of each entry.
template <class C>
__global__ void __launch_bounds__(kThreads) group_forward(const Finish<C> f, int64_t weights) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= f.channels) return;
  const C rstd = f.rstd[i / f.per];
  f.coefficients[i] = f.weight ? rstd * f.weight[i % weights] : rstd;
  f.coefficients[f.channels + i] = f.bias ? f.bias[i % weights] : C(0);
}

template <class C>
__device__ __forceinline__ void put_slope(C* coefficients, int64_t channels, int64_t i, bool train, C rstd, C weight,
                                          C sum, C product, C count) {
  coefficients[i] = rstd * weight;
  coefficients[channels + i] = train ? -rstd * rstd * rstd * product / count : C(0);
  coefficients[2 * channels + i] = train ? -rstd * sum / count : C(0);
}
template <class C>
__global__ void __launch_bounds__(kThreads) finish_backward(const Finish<C> f, C* dweight, C* dbias, bool train) {
  const int64_t channel = int64_t(blockIdx.x) * kWide + threadIdx.x % kWide;
  C v[3];
  join_parts<true>(v, f.partial, f.parts, f.channels, channel);
  if (threadIdx.x >= kWide || channel >= f.channels) return;
  const C rstd = f.rstd[channel], weight = f.weight ? f.weight[channel] : C(1);
  if (dweight) dweight[channel] = v[1] * rstd;
  if (dbias) dbias[channel] = v[0];
  put_slope(f.coefficients, f.channels, channel, train, rstd, weight, v[0] * weight, v[1] * weight,
            static_cast<C>(f.count));
}
// One thread for each group of each entry.
template <class C>
__global__ void __launch_bounds__(kThreads) group_backward(const Finish<C> f, int64_t weights) {
  const int64_t k = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (k >= f.channels / f.per) return;
  const auto weight = [&](int64_t i) { return f.weight ? f.weight[i % weights] : C(1); };
  C sum = C(0), product = C(0);
  for (int64_t i = k * f.per; i < (k + 1) * f.per; ++i)
    for (int p = 0; p < f.parts; ++p) {
      sum += f.partial[p * f.channels + i] * weight(i);
      product += f.partial[(f.parts + p) * f.channels + i] * weight(i);
    }
  for (int64_t i = k * f.per; i < (k + 1) * f.per; ++i)
    put_slope(f.coefficients, f.channels, i, true, f.rstd[k], weight(i), sum, product, static_cast<C>(f.count));
}
// One thread for each channel.
template <class C>
__global__ void __launch_bounds__(kThreads) group_weights(const Finish<C> f, int64_t weights, C* dweight, C* dbias) {
  const int64_t c = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= weights) return;
  C dw = C(0), db = C(0);
  for (int64_t i = c; i < f.channels; i += weights)
    for (int p = 0; p < f.parts; ++p) {
      db += f.partial[p * f.channels + i];
      dw += f.partial[(f.parts + p) * f.channels + i] * f.rstd[i / f.per];
    }
  if (dweight) dweight[c] = dw;
  if (dbias) dbias[c] = db;
}

// Runs of n elements (rows of n channels with kRows), as many as there are threads down and blocks across.
template <class T, int W, bool kRows, bool kBackward>
__global__ void __launch_bounds__(kThreads)
    apply_channels(T* out, const T* x, const T* g, const compute_t<T>* mean, const compute_t<T>* coefficients, Shape s,
                   int64_t runs, int64_t n, int tx_log2) {
  using C = compute_t<T>;
  const int tx = threadIdx.x & ((1 << tx_log2) - 1), ty = threadIdx.x >> tx_log2, rows = kThreads >> tx_log2;
  const C *a = coefficients, *b = a + s.channels, *c = b + s.channels;
  for (int64_t run = int64_t(blockIdx.x) * rows + ty; run < runs; run += int64_t(gridDim.x) * rows) {
    const int64_t own = kRows ? 0 : run % s.channels;
    C m, va, vb, vc = C(0);
    if (!kRows) {
      m = mean[own / s.per], va = a[own], vb = b[own];
      if (kBackward) vc = c[own];
    }
#pragma unroll 2
    for (int64_t i = ((int64_t(blockIdx.y) << tx_log2) + tx) * W; i < n; i += (int64_t(gridDim.y) * W) << tx_log2) {
      const auto vx = load_vector<T, W>(x + run * n + i);
      Vector<T, W> vg{}, y;
      if (kBackward) vg = load_vector<T, W>(g + run * n + i);
#pragma unroll
      for (int w = 0; w < W; ++w) {
        if (kRows) {
          m = mean[(i + w) / s.per], va = a[i + w], vb = b[i + w];
          if (kBackward) vc = c[i + w];
        }
        const C away = static_cast<C>(vx.v[w]) - m;
        y.v[w] = static_cast<T>(kBackward ? static_cast<C>(vg.v[w]) * va + (away * vb + vc) : away * va + vb);
      }
      store_vector<T, W>(out + run * n + i, y);
    }
  }
}

// --- host ---------------------------------------------------------------------------------------------------------
template <class T>
T* pointer(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.data_ptr()) : nullptr;
}
int log2_threads(int64_t vectors) {
  int log2 = 0;
  while (log2 < 8 && (int64_t(1) << log2) < vectors) ++log2;
  return log2;
}
unsigned blocks_of(int64_t n, int each) { return static_cast<unsigned>(cuda::ceil_div(n, each)); }

/// Queues the kernels of one call; owns its workspace.
template <class T>
struct Work {
  using C = compute_t<T>;
  static constexpr int kVector = static_cast<int>(16 / sizeof(T));
  Shape s;
  bool rows, vectors;
  int parts = 1;
  cuda::Workspace memory;
  C *partial = nullptr, *coefficients = nullptr;

  Work(const Shape& shape, bool aligned, int64_t coefficient_channels)
      : s(shape), rows(s.inner == 1), vectors((rows ? s.channels : s.inner) % kVector == 0 && aligned) {
    const int64_t sms = cuda::device_limits().multiprocessors;
    const int64_t blocks = rows ? cuda::ceil_div(s.channels, kWide) : s.channels;
    const int64_t most = rows ? cuda::ceil_div(s.outer, kThreads / kWide) : s.outer * chunks();
    parts =
        static_cast<int>(std::clamp(cuda::ceil_div(8 * sms, blocks), int64_t(1), std::min<int64_t>(kMostParts, most)));
    partial =
        reinterpret_cast<C*>(memory.allocate((3 * parts * s.channels + 3 * coefficient_channels) * int64_t(sizeof(C))));
    coefficients = partial + 3 * parts * s.channels;
  }
  int tx_log2() const { return rows ? 5 : log2_threads(cuda::ceil_div(s.inner, vectors ? kVector : 1)); }
  int64_t chunk() const { return (int64_t(8) * (vectors ? kVector : 1)) << tx_log2(); }
  int64_t chunks() const { return cuda::ceil_div(s.inner, chunk()); }

  template <bool kBackward>
  void reduce(const T* x, const T* g, const C* centre) {
    const dim3 grid(rows ? blocks_of(s.channels, kWide) : static_cast<unsigned>(s.channels),
                    static_cast<unsigned>(parts));
    const auto kernel = rows      ? reduce_channels<T, 1, true, kBackward>
                        : vectors ? reduce_channels<T, kVector, false, kBackward>
                                  : reduce_channels<T, 1, false, kBackward>;
    cuda::launch(kernel, grid, kThreads, 0, x, g, centre, s, partial, tx_log2(), chunk());
  }
  /// With the coefficients of `t`'s channels.
  template <bool kBackward>
  void apply(T* out, const T* x, const T* g, const C* mean, const Shape& t) const {
    const bool by_row = t.inner == 1;
    const int64_t n = by_row ? t.channels : t.inner, runs = by_row ? t.outer : t.outer * t.channels;
    const bool wide = n % kVector == 0 && cuda::aligned_16(out, x, g);
    const int64_t width = wide ? kVector : 1, count = cuda::ceil_div(n, width);
    const int log2 = log2_threads(count);
    const dim3 grid(static_cast<unsigned>(std::min<int64_t>(cuda::ceil_div(runs, kThreads >> log2), int64_t(1) << 30)),
                    static_cast<unsigned>(std::clamp<int64_t>(cuda::ceil_div(count, int64_t(8) << log2), 1, 65535)));
    const auto kernel =
        by_row ? (wide ? apply_channels<T, kVector, true, kBackward> : apply_channels<T, 1, true, kBackward>)
               : (wide ? apply_channels<T, kVector, false, kBackward> : apply_channels<T, 1, false, kBackward>);
    cuda::launch(kernel, grid, kThreads, 0, out, x, g, mean, static_cast<const C*>(coefficients), t, runs, n, log2);
  }
  Finish<C> finish(const Shape& t, double count, const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                   const Tensor& bias) const {
    return {partial,          parts,   t.channels, t.per, count, pointer<C>(mean), pointer<C>(rstd), pointer<C>(weight),
            pointer<C>(bias), nullptr, nullptr,    C(0),  C(0),  coefficients};
  }
};
Shape shape_of(const Tensor& x) { return {x.size(0), x.size(1), x.size(2), 1}; }
double count_of(const Shape& s) { return static_cast<double>(s.outer) * static_cast<double>(s.inner); }

template <class T>
void batch_norm_train_cuda(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                           const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                           const Tensor& running_var, double momentum, double eps) {
  using C = compute_t<T>;
  const DeviceGuard guard(x.device());
  const Shape s = shape_of(x);
  Work<T> work(s, cuda::aligned_16(pointer<T>(x)), s.channels);
  work.template reduce<false>(pointer<T>(x), nullptr, nullptr);
  Finish<C> f = work.finish(s, count_of(s), mean, rstd, weight, bias);
  f.running_mean = pointer<C>(running_mean), f.running_var = pointer<C>(running_var);
  f.momentum = static_cast<C>(momentum), f.eps = static_cast<C>(eps);
  cuda::launch(finish_forward<C>, blocks_of(s.channels, kWide), kThreads, 0, f);
  work.template apply<false>(pointer<T>(out), pointer<T>(x), nullptr, pointer<C>(mean), s);
}

template <class T>
void batch_norm_apply_cuda(const Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Tensor& mean, const Tensor& rstd) {
  using C = compute_t<T>;
  const DeviceGuard guard(x.device());
  const Shape s = shape_of(x);
  Work<T> work(s, false, s.channels);
  Finish<C> f = work.finish(s, count_of(s), mean, rstd, weight, bias);
  f.partial = nullptr;
  cuda::launch(finish_forward<C>, blocks_of(s.channels, kWide), kThreads, 0, f);
  work.template apply<false>(pointer<T>(out), pointer<T>(x), nullptr, pointer<C>(mean), s);
}

template <class T>
void batch_norm_backward_cuda(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dy,
                              const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                              bool train) {
  using C = compute_t<T>;
  const DeviceGuard guard(x.device());
  const Shape s = shape_of(x);
  Work<T> work(s, cuda::aligned_16(pointer<T>(x), pointer<T>(dy)), s.channels);
  work.template reduce<true>(pointer<T>(x), pointer<T>(dy), pointer<C>(mean));
  cuda::launch(finish_backward<C>, blocks_of(s.channels, kWide), kThreads, 0,
               work.finish(s, count_of(s), mean, rstd, weight, {}), pointer<C>(dweight), pointer<C>(dbias), train);
  if (dx.defined()) work.template apply<true>(pointer<T>(dx), pointer<T>(x), pointer<T>(dy), pointer<C>(mean), s);
}

template <class T>
void native_group_norm_cuda(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                            const Tensor& weight, const Tensor& bias, double eps) {
  using C = compute_t<T>;
  const DeviceGuard guard(x.device());
  const int64_t entries = x.size(0) * x.size(1), groups = mean.numel(), depth = entries / groups;
  const Shape whole{1, groups, depth * x.size(2), 1}, each{1, entries, x.size(2), depth};
  Work<T> work(whole, cuda::aligned_16(pointer<T>(x)), entries);
  work.template reduce<false>(pointer<T>(x), nullptr, nullptr);
  Finish<C> f = work.finish(whole, count_of(whole), mean, rstd, {}, {});
  f.eps = static_cast<C>(eps), f.coefficients = nullptr;
  cuda::launch(finish_forward<C>, blocks_of(groups, kWide), kThreads, 0, f);
  cuda::launch(group_forward<C>, blocks_of(entries, kThreads), kThreads, 0,
               work.finish(each, 0, mean, rstd, weight, bias), x.size(1));
  work.template apply<false>(pointer<T>(out), pointer<T>(x), nullptr, pointer<C>(mean), each);
}

template <class T>
void native_group_norm_backward_cuda(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dy,
                                     const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  using C = compute_t<T>;
  const DeviceGuard guard(x.device());
  const int64_t entries = x.size(0) * x.size(1), groups = mean.numel(), depth = entries / groups;
  const Shape each{1, entries, x.size(2), depth};
  Work<T> work(each, cuda::aligned_16(pointer<T>(x), pointer<T>(dy)), entries);
  work.template reduce<true>(pointer<T>(x), pointer<T>(dy), pointer<C>(mean));
  const Finish<C> f =
      work.finish(each, static_cast<double>(depth) * static_cast<double>(x.size(2)), mean, rstd, weight, {});
  if (dweight.defined() || dbias.defined())
    cuda::launch(group_weights<C>, blocks_of(x.size(1), kThreads), kThreads, 0, f, x.size(1), pointer<C>(dweight),
                 pointer<C>(dbias));
  if (!dx.defined()) return;
  cuda::launch(group_backward<C>, blocks_of(groups, kThreads), kThreads, 0, f, x.size(1));
  work.template apply<true>(pointer<T>(dx), pointer<T>(x), pointer<T>(dy), pointer<C>(mean), each);
}

TENON_REGISTER_KERNEL(op::batch_norm_train, cuda, FloatsAndHalves, batch_norm_train_cuda);
TENON_REGISTER_KERNEL(op::batch_norm_apply, cuda, FloatsAndHalves, batch_norm_apply_cuda);
TENON_REGISTER_KERNEL(op::batch_norm_backward, cuda, FloatsAndHalves, batch_norm_backward_cuda);
TENON_REGISTER_KERNEL(op::native_group_norm, cuda, FloatsAndHalves, native_group_norm_cuda);
TENON_REGISTER_KERNEL(op::native_group_norm_backward, cuda, FloatsAndHalves, native_group_norm_backward_cuda);

}  // namespace
}  // namespace tenon

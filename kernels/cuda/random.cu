// SPDX-License-Identifier: Apache-2.0
// Random numbers and dropout, after the layout of kernels/philox.h: a thread makes one block of four 32-bit words, which
// is four elements (two of 64 bits) that lie side by side, whatever the launch.
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/philox.h>
#include <tenon/ops/random.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <cmath>

namespace tenon {
namespace {

constexpr int kThreads = 256;

// out[i] for N elements per block: f(block, first element, values). `whole`: vectors may be stored.
template <int N, class T, class F>
__global__ void __launch_bounds__(kThreads)
    random_kernel(T* out, int64_t n, const PhiloxState state, bool whole, const F f) {
  const int64_t b = int64_t(blockIdx.x) * kThreads + threadIdx.x, first = b * N;
  if (first >= n) return;
  const philox::Block block = philox::generate(state.seed, philox::first_block(state) + static_cast<uint64_t>(b));
  cuda::Vector<T, N> x;
  f(block, first, n, x.v);
  if (whole && first + N <= n) {
    cuda::store_vector<T, N>(out + first, x);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (first + i < n) out[first + i] = x.v[i];
  }
}

template <int N, class T, class F>
void fill(T* out, int64_t n, const PhiloxState& state, const F& f) {
  constexpr uintptr_t kBytes = sizeof(T) * N < 16 ? sizeof(T) * N : 16;
  const bool whole = reinterpret_cast<uintptr_t>(out) % kBytes == 0;
  cuda::launch(random_kernel<N, T, F>, static_cast<unsigned>(cuda::ceil_div(n, int64_t(N) * kThreads)), kThreads, 0,
               out, n, state, whole, f);
}

// --- uniform and normal: R is float, double or a half; a complex number is two of them ------------------------------
template <class R>
inline constexpr int kPerBlock = std::is_same_v<R, double> ? 2 : 4;

template <class R>
struct Uniform {
  double from, to, width;
  bool unit;
  template <int N>
  __device__ void operator()(const philox::Block& block, int64_t, int64_t, R (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (std::is_same_v<R, double>) {
        const double u = philox::uniform_double(block.wide(i));
        x[i] = unit ? u : philox::below(philox::affine(u, from, width), from, to);
      } else {
        const R u = philox::uniform<R>(block.word[i]);
        const R v = static_cast<R>(philox::affine(static_cast<float>(u), from, width));
        x[i] = unit ? u : philox::below(v, from, to);
      }
    }
  }
};
template <class T>
void uniform_cuda(const Tensor& out, double from, double to, const PhiloxState& state) {
  using R = math::real_t<T>;
  const DeviceGuard guard(out.device());
  const int64_t n = out.numel() * static_cast<int64_t>(sizeof(T) / sizeof(R));
  fill<kPerBlock<R>>(static_cast<R*>(out.data_ptr()), n, state, Uniform<R>{from, to, to - from, from == 0 && to == 1});
}

template <class R>
struct Normal {
  double mean, std, imaginary_mean;
  bool unit;
  template <int N>
  __device__ void operator()(const philox::Block& block, int64_t, int64_t, R (&x)[N]) const {
    using C = cuda::compute_t<R>;
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      C z[2];
      if constexpr (std::is_same_v<R, double>)
        philox::normal_pair(block.wide(i), block.wide(i + 1), z[0], z[1]);
      else
        philox::normal_pair(block.word[i], block.word[i + 1], z[0], z[1]);
      x[i] = static_cast<R>(unit ? z[0] : philox::scaled_normal(z[0], mean, std));
      x[i + 1] = static_cast<R>(unit ? z[1] : philox::scaled_normal(z[1], imaginary_mean, std));
    }
  }
};
template <class T>
void normal_cuda(const Tensor& out, double mean, double std, const PhiloxState& state) {
  using R = math::real_t<T>;
  const DeviceGuard guard(out.device());
  constexpr bool kComplex = !std::is_same_v<T, R>;
  if (kComplex) std *= 0.70710678118654752;  // the variance is shared by the parts; the mean is real
  const int64_t n = out.numel() * (kComplex ? 2 : 1);
  fill<kPerBlock<R>>(static_cast<R*>(out.data_ptr()), n, state,
                     Normal<R>{mean, std, kComplex ? 0.0 : mean, mean == 0 && std == 1});
}

// --- integers -----------------------------------------------------------------------------------------------------
template <class T>
struct Integer {
  int64_t low;
  uint64_t range;
  template <int N>
  __device__ void operator()(const philox::Block& block, int64_t, int64_t, T (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (N == 2)
        x[i] = static_cast<T>(philox::integer_wide(block.wide(i), low, range));
      else
        x[i] = static_cast<T>(philox::integer(block.word[i], low, range));
    }
  }
};
template <class T>
void random_cuda(const Tensor& out, int64_t low, uint64_t range, const PhiloxState& state) {
  const DeviceGuard guard(out.device());
  auto* x = static_cast<T*>(out.data_ptr());
  if (range == 0 || range > kNarrowRange)
    fill<2>(x, out.numel(), state, Integer<T>{low, range});
  else
    fill<4>(x, out.numel(), state, Integer<T>{low, range});
}

// --- functions of one uniform number ------------------------------------------------------------------------------
template <class T, class F>
struct Transform {
  F f;
  template <int N>
  __device__ void operator()(const philox::Block& block, int64_t, int64_t, T (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i)
      x[i] = philox::rounded<T>(
          f(F::of(N == 2 ? philox::open_uniform(block.wide(i)) : philox::open_uniform(block.word[i]))));
  }
};
#define TENON_TRANSFORM(name, Function, Types)                                                                   \
  template <class T>                                                                                             \
  void name##_cuda(const Tensor& out, double a, double b, const PhiloxState& state) {                            \
    using F = philox::Function<T>;                                                                               \
    const DeviceGuard guard(out.device());                                                                       \
    fill<sizeof(T) == 8 ? 2 : 4>(static_cast<T*>(out.data_ptr()), out.numel(), state, Transform<T, F>{F{a, b}}); \
  }                                                                                                              \
  TENON_REGISTER_KERNEL(op::name, cuda, Types, name##_cuda);
TENON_TRANSFORM(exponential, Exponential, FloatsAndHalves)
TENON_TRANSFORM(cauchy, Cauchy, FloatsAndHalves)
TENON_TRANSFORM(geometric, Geometric, Numbers)
#undef TENON_TRANSFORM

// --- bernoulli ----------------------------------------------------------------------------------------------------
template <class T>
struct Bernoulli {
  const void* p;  // or null: `number` counts
  DType dtype;
  double number;
  __device__ double chance(int64_t i) const {
    if (!p) return number;
    switch (dtype) {
      case kFloat64:
        return static_cast<const double*>(p)[i];
      case kFloat16:
        return static_cast<float>(static_cast<const float16*>(p)[i]);
      case kBFloat16:
        return static_cast<float>(static_cast<const bfloat16*>(p)[i]);
      default:
        return static_cast<const float*>(p)[i];
    }
  }
  template <int N>
  __device__ void operator()(const philox::Block& block, int64_t first, int64_t n, T (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const bool one = first + i < n && philox::fraction(block.word[i]) < chance(first + i);
      x[i] = static_cast<T>(one ? 1.0f : 0.0f);
    }
  }
};
template <class T>
void bernoulli_cuda(const Tensor& out, const Tensor& p, double number, const PhiloxState& state) {
  const DeviceGuard guard(out.device());
  const bool each = p.defined();
  fill<4>(static_cast<T*>(out.data_ptr()), out.numel(), state,
          Bernoulli<T>{each ? p.data_ptr() : nullptr, each ? p.dtype() : kFloat32, number});
}

// --- dropout: a thread takes one vector of 16 bytes, or of one block of numbers where that is more -----------------
template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(T* out, bool* mask, const T* x, int64_t n, uint64_t threshold, cuda::compute_t<T> scale,
                   const PhiloxState state) {
  using C = cuda::compute_t<T>;
  constexpr int W = sizeof(T) == 2 ? 8 : 4;
  const int64_t at = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * W;
  if (at >= n) return;
  const uint64_t first = philox::first_block(state) + static_cast<uint64_t>(at / 4);
  const bool whole = kWhole && at + W <= n;
  cuda::Vector<T, W> values;
  cuda::Vector<bool, W> kept;
  if (whole) {
    values = cuda::load_vector<T, W>(x + at);
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) values.v[i] = at + i < n ? x[at + i] : T(0);
  }
#pragma unroll
  for (int b = 0; b < W / 4; ++b) {
    const philox::Block block = philox::generate(state.seed, first + b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int e = b * 4 + i;
      kept.v[e] = block.word[i] < threshold;
      values.v[e] = kept.v[e] ? static_cast<T>(static_cast<C>(values.v[e]) * scale) : T(0);
    }
  }
  if (whole) {
    cuda::store_vector<T, W>(out + at, values);
    cuda::store_vector<bool, W>(mask + at, kept);
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i)
      if (at + i < n) out[at + i] = values.v[i], mask[at + i] = kept.v[i];
  }
}

template <class T>
void native_dropout_cuda(const Tensor& out, const Tensor& mask, const Tensor& x, double p, const PhiloxState& state) {
  using C = cuda::compute_t<T>;
  const DeviceGuard guard(out.device());
  constexpr int64_t W = sizeof(T) == 2 ? 8 : 4;
  const int64_t n = out.numel();
  const double keep = 1 - p;
  const C scale = keep == 0 ? C(0) : static_cast<C>(1 / keep);
  // fraction(word) < keep, in integers.
  const auto threshold = static_cast<uint64_t>(std::ceil(keep * 4294967296.0));
  auto* to = static_cast<T*>(out.data_ptr());
  auto* kept = static_cast<bool*>(mask.data_ptr());
  const auto* from = static_cast<const T*>(x.data_ptr());
  const bool whole = ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 |
                      reinterpret_cast<uintptr_t>(kept) % W) == 0;
  const auto blocks = static_cast<unsigned>(cuda::ceil_div(n, W * kThreads));
  if (whole)
    cuda::launch(dropout_kernel<T, true>, blocks, kThreads, 0, to, kept, from, n, threshold, scale, state);
  else
    cuda::launch(dropout_kernel<T, false>, blocks, kThreads, 0, to, kept, from, n, threshold, scale, state);
}

using Inexact = Join<FloatsAndHalves, Complexes>;
using Reals = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::uniform, cuda, Inexact, uniform_cuda);
TENON_REGISTER_KERNEL(op::normal, cuda, Inexact, normal_cuda);
TENON_REGISTER_KERNEL(op::random, cuda, Reals, random_cuda);
TENON_REGISTER_KERNEL(op::bernoulli, cuda, FloatsAndHalves, bernoulli_cuda);
TENON_REGISTER_KERNEL(op::bernoulli_p, cuda, AllTypes, bernoulli_cuda);
TENON_REGISTER_KERNEL(op::native_dropout, cuda, FloatsAndHalves, native_dropout_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Layer normalisation, forward and backward. T: the dtype of x; P: of the parameters and saved statistics.
//
// Note [Backward in one read]. A block keeps its threads on the same columns of all the rows it takes, so that the sums
// for weight and bias stay in registers beside the row itself; x and the gradient are read once. Each block leaves its
// sums in a workspace, which a second kernel adds in order of block. Rows too long for registers take one kernel for
// grad_input and one for the sums.
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/norm.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/rows.cuh>

#include <algorithm>

namespace tenon {
namespace {

using cuda::compute_t;
using cuda::load_vector;
using cuda::store_vector;
using cuda::Vector;

constexpr int K = 4;                              // forward: vectors a thread
constexpr int kLongLog2 = 9, kLongThreads = 512;  // a block walks a long row
constexpr int kDown = 16;                         // column sums: threads down
template <class C>
constexpr int kElements = sizeof(C) == 8 ? 4 : 8;  // backward: elements a thread

// --- forward ------------------------------------------------------------------------------------------------------
template <class T, class P>
struct Forward {
  T* out;
  P *mean, *rstd;
  const T* x;
  const P *weight, *bias;  // or null
  int64_t rows, n;
  compute_t<T> eps;
};

template <int W, class T, class P>
__device__ __forceinline__ void write_normalized(const Forward<T, P>& a, int64_t row, int64_t i,
                                                 const compute_t<T> (&x)[W], compute_t<T> mean, compute_t<T> rstd) {
  using C = compute_t<T>;
  Vector<P, W> weight, bias;
  if (a.weight) weight = load_vector<P, W>(a.weight + i);
  if (a.bias) bias = load_vector<P, W>(a.bias + i);
  Vector<T, W> y;
#pragma unroll
  for (int w = 0; w < W; ++w) {
    C v = (x[w] - mean) * rstd;
    if (a.weight) v *= static_cast<C>(weight.v[w]);
    if (a.bias) v += static_cast<C>(bias.v[w]);
    y.v[w] = static_cast<T>(v);
  }
  store_vector<T, W>(a.out + row * a.n + i, y);
}

template <int W, class T, class P>
__global__ void __launch_bounds__(cuda::kMostRowThreads) forward_rows(const Forward<T, P> a, int group_log2) {
  using C = compute_t<T>;
  const int n = static_cast<int>(a.n), lane = threadIdx.x & ((1 << group_log2) - 1);
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x >> group_log2) + (threadIdx.x >> group_log2);
  const bool valid = row < a.rows;
  C v[K * W];
  cuda::load_row<W, K>(v, a.x + row * n, n, lane, group_log2, valid, C(0));
  C sum[1] = {C(0)};
#pragma unroll
  for (int i = 0; i < K * W; ++i) sum[0] += v[i];
  cuda::fold_row(sum, group_log2, C(0), 0, cuda::Plus{});
  const C mean = sum[0] / static_cast<C>(n);
  C squares[1] = {C(0)};
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const bool in = (lane + (k << group_log2)) * W < n;
#pragma unroll
    for (int w = 0; w < W; ++w) {
      const C d = v[k * W + w] - mean;
      squares[0] += in ? d * d : C(0);
    }
  }
  cuda::fold_row(squares, group_log2, C(0), 1, cuda::Plus{});
  const C rstd = C(1) / math::sqrt(squares[0] / static_cast<C>(n) + a.eps);
  if (!valid) return;
  if (lane == 0) a.mean[row] = static_cast<P>(mean), a.rstd[row] = static_cast<P>(rstd);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = (lane + (k << group_log2)) * W;
    if (i >= n) continue;
    C x[W];
#pragma unroll
    for (int w = 0; w < W; ++w) x[w] = v[k * W + w];
    write_normalized<W>(a, row, i, x, mean, rstd);
  }
}

template <int W, class T>
__device__ __forceinline__ void load(compute_t<T> (&v)[W], const T* p) {
  const auto x = load_vector<T, W>(p);
#pragma unroll
  for (int i = 0; i < W; ++i) v[i] = static_cast<compute_t<T>>(x.v[i]);
}

template <int W, class T, class P>
__global__ void __launch_bounds__(kLongThreads) forward_long(const Forward<T, P> a) {
  using C = compute_t<T>;
  const int64_t row = blockIdx.x;
  const T* x = a.x + row * a.n;
  C sum[1] = {C(0)};
  for (int64_t i = int64_t(threadIdx.x) * W; i < a.n; i += kLongThreads * W) {
    C v[W];
    load<W>(v, x + i);
#pragma unroll
    for (int w = 0; w < W; ++w) sum[0] += v[w];
  }
  cuda::fold_row(sum, kLongLog2, C(0), 0, cuda::Plus{});
  const C mean = sum[0] / static_cast<C>(a.n);
  C squares[1] = {C(0)};
  for (int64_t i = int64_t(threadIdx.x) * W; i < a.n; i += kLongThreads * W) {
    C v[W];
    load<W>(v, x + i);
#pragma unroll
    for (int w = 0; w < W; ++w) squares[0] += (v[w] - mean) * (v[w] - mean);
  }
  cuda::fold_row(squares, kLongLog2, C(0), 1, cuda::Plus{});
  const C rstd = C(1) / math::sqrt(squares[0] / static_cast<C>(a.n) + a.eps);
  if (threadIdx.x == 0) a.mean[row] = static_cast<P>(mean), a.rstd[row] = static_cast<P>(rstd);
  for (int64_t i = int64_t(threadIdx.x) * W; i < a.n; i += kLongThreads * W) {
    C v[W];
    load<W>(v, x + i);
    write_normalized<W>(a, row, i, v, mean, rstd);
  }
}

// --- backward -----------------------------------------------------------------------------------------------------
template <class T, class P>
struct Backward {
  T* dx;  // or null
  const T *dy, *x;
  const P *mean, *rstd, *weight;  // weight or null
  compute_t<T>* partial;          // [2][blocks][n]: of weight and bias; or null
  int64_t rows, n;
};

template <int W, int KB, class T, class P>
__global__ void __launch_bounds__(cuda::kMostRowThreads) backward_rows(const Backward<T, P> a, int group_log2) {
  using C = compute_t<T>;
  constexpr int E = KB * W;
  const int n = static_cast<int>(a.n), lane = threadIdx.x & ((1 << group_log2) - 1), group = threadIdx.x >> group_log2;
  const int groups = blockDim.x >> group_log2;
  const int64_t step = int64_t(gridDim.x) * groups;
  const C scale = C(1) / static_cast<C>(n);
  auto place = [&](int k) { return (lane + (k << group_log2)) * W; };

  // A row as it came, and the next one, which is on its way while this one is summed. Normalized values are computed
  // twice rather than kept: the registers are the sums'.
  struct Row {
    Vector<T, W> x[KB], dy[KB];
    C mean, rstd;
  };
  auto fetch = [&](Row& r, int64_t row) {
    const bool valid = row < a.rows;
    cuda::load_vectors(r.x, a.x + row * n, n, lane, group_log2, valid);
    cuda::load_vectors(r.dy, a.dy + row * n, n, lane, group_log2, valid);
    r.mean = valid ? static_cast<C>(a.mean[row]) : C(0);
    r.rstd = valid ? static_cast<C>(a.rstd[row]) : C(0);
  };
  auto load_weight = [&](Vector<P, W>& weight, int k) {
    if (a.weight) {
      weight = {};
      if (place(k) < n) weight = load_vector<P, W>(a.weight + place(k));
    } else {
#pragma unroll
      for (int w = 0; w < W; ++w) weight.v[w] = P(1);
    }
  };
  C weight_sum[E] = {}, bias_sum[E] = {};
  int turn = 0;
  Row now, next;
  fetch(now, int64_t(blockIdx.x) * groups + group);
  for (int64_t base = int64_t(blockIdx.x) * groups; base < a.rows; base += step, turn ^= 1) {
    const int64_t row = base + group;
    fetch(next, row + step);
    C sums[2] = {C(0), C(0)};
#pragma unroll
    for (int k = 0; k < KB; ++k) {
      Vector<P, W> weight;
      load_weight(weight, k);
      const bool in = place(k) < n;
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const C d = static_cast<C>(now.dy[k].v[w]),
                hat = in ? (static_cast<C>(now.x[k].v[w]) - now.mean) * now.rstd : C(0);
        weight_sum[k * W + w] += d * hat;
        bias_sum[k * W + w] += d;
        const C g = d * static_cast<C>(weight.v[w]);
        sums[0] += g;
        sums[1] += g * hat;
      }
    }
    if (a.dx) {  // the same for all threads
      cuda::fold_row(sums, group_log2, C(0), turn, cuda::Plus{});
      sums[0] *= scale, sums[1] *= scale;
#pragma unroll
      for (int k = 0; k < KB; ++k) {
        if (row >= a.rows || place(k) >= n) continue;
        Vector<P, W> weight;
        load_weight(weight, k);
        Vector<T, W> y;
#pragma unroll
        for (int w = 0; w < W; ++w) {
          const C hat = (static_cast<C>(now.x[k].v[w]) - now.mean) * now.rstd;
          const C g = static_cast<C>(now.dy[k].v[w]) * static_cast<C>(weight.v[w]);
          y.v[w] = static_cast<T>(now.rstd * (g - sums[0] - hat * sums[1]));
        }
        store_vector<T, W>(a.dx + row * n + place(k), y);
      }
    }
    now = next;
  }
  if (!a.partial) return;
  if (groups > 1) {  // add the groups' sums in order
    __shared__ C all[2 * E][512];
#pragma unroll
    for (int e = 0; e < E; ++e) all[e][threadIdx.x] = weight_sum[e], all[E + e][threadIdx.x] = bias_sum[e];
    __syncthreads();
    if (group > 0) return;
    for (int other = 1; other < groups; ++other)
#pragma unroll
      for (int e = 0; e < E; ++e) {
        weight_sum[e] += all[e][(other << group_log2) + lane];
        bias_sum[e] += all[E + e][(other << group_log2) + lane];
      }
  }
#pragma unroll
  for (int k = 0; k < KB; ++k) {
    if (place(k) >= n) continue;
    C* to = a.partial + int64_t(blockIdx.x) * n + place(k);
#pragma unroll
    for (int w = 0; w < W; ++w) {
      to[w] = weight_sum[k * W + w];
      to[int64_t(gridDim.x) * n + w] = bias_sum[k * W + w];
    }
  }
}

template <class T, class P>
__global__ void __launch_bounds__(kLongThreads) backward_long(const Backward<T, P> a) {
  using C = compute_t<T>;
  const int64_t at = int64_t(blockIdx.x) * a.n;
  const C mean = static_cast<C>(a.mean[blockIdx.x]), rstd = static_cast<C>(a.rstd[blockIdx.x]);
  auto weighted = [&](int64_t i) {
    const C d = static_cast<C>(a.dy[at + i]);
    return a.weight ? d * static_cast<C>(a.weight[i]) : d;
  };
  C sums[2] = {C(0), C(0)};
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < a.n; i += kLongThreads) {
    const C g = weighted(i);
    sums[0] += g;
    sums[1] += g * ((static_cast<C>(a.x[at + i]) - mean) * rstd);
  }
  cuda::fold_row(sums, kLongLog2, C(0), 0, cuda::Plus{});
  const C scale = C(1) / static_cast<C>(a.n);
  sums[0] *= scale, sums[1] *= scale;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < a.n; i += kLongThreads) {
    const C hat = (static_cast<C>(a.x[at + i]) - mean) * rstd;
    a.dx[at + i] = static_cast<T>(rstd * (weighted(i) - sums[0] - hat * sums[1]));
  }
}

// Sums of 32 columns over a part of the rows, for long rows.
template <class T, class P>
__global__ void __launch_bounds__(32 * kDown) column_sums(const Backward<T, P> a, int64_t rows_each) {
  using C = compute_t<T>;
  __shared__ C all[2][kDown][32];
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x;
  const int64_t end = ::min(a.rows, (int64_t(blockIdx.y) + 1) * rows_each);
  C sums[2] = {C(0), C(0)};
  if (column < a.n)
#pragma unroll 4
    for (int64_t row = int64_t(blockIdx.y) * rows_each + threadIdx.y; row < end; row += kDown) {
      const C d = static_cast<C>(a.dy[row * a.n + column]);
      sums[0] +=
          d * ((static_cast<C>(a.x[row * a.n + column]) - static_cast<C>(a.mean[row])) * static_cast<C>(a.rstd[row]));
      sums[1] += d;
    }
  all[0][threadIdx.y][threadIdx.x] = sums[0];
  all[1][threadIdx.y][threadIdx.x] = sums[1];
  __syncthreads();
  if (threadIdx.y >= 2 || column >= a.n) return;
  C sum = C(0);
  for (int j = 0; j < kDown; ++j) sum += all[threadIdx.y][j][threadIdx.x];
  a.partial[(int64_t(threadIdx.y) * gridDim.y + blockIdx.y) * a.n + column] = sum;
}

// The sums over `blocks` partial ones; blockIdx.y: weight or bias.
template <class P, class C>
__global__ void __launch_bounds__(32 * kDown)
    join_sums(P* weight, P* bias, const C* partial, int64_t blocks, int64_t n) {
  __shared__ C all[kDown][32];
  P* out = blockIdx.y == 0 ? weight : bias;
  if (!out) return;
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x;
  const C* from = partial + int64_t(blockIdx.y) * blocks * n + column;
  C sum = C(0);
  if (column < n)
#pragma unroll 4
    for (int64_t b = threadIdx.y; b < blocks; b += kDown) sum += from[b * n];
  all[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  sum = C(0);
  for (int j = 0; j < kDown; ++j) sum += all[j][threadIdx.x];
  out[column] = static_cast<P>(sum);
}

// --- host ---------------------------------------------------------------------------------------------------------
template <class T>
T* pointer(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.data_ptr()) : nullptr;
}

template <class T, class P>
void forward(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& weight,
             const Tensor& bias, double eps) {
  constexpr int W = static_cast<int>(16 / sizeof(T));
  const Forward<T, P> a{pointer<T>(out), pointer<P>(mean),   pointer<P>(rstd),
                        pointer<T>(x),   pointer<P>(weight), pointer<P>(bias),
                        x.size(0),       x.size(1),          static_cast<compute_t<T>>(eps)};
  const bool vectors = a.n % W == 0 && cuda::aligned_16(a.out, a.x, a.weight, a.bias);
  const int64_t count = vectors ? a.n / W : a.n;
  if (count <= K * cuda::kMostRowThreads) {
    const auto s = cuda::row_shape<K>(a.rows, count);
    if (vectors)
      cuda::launch(forward_rows<W, T, P>, s.blocks, s.threads, 0, a, s.group_log2);
    else
      cuda::launch(forward_rows<1, T, P>, s.blocks, s.threads, 0, a, s.group_log2);
  } else {
    const auto blocks = static_cast<unsigned>(a.rows);
    if (vectors)
      cuda::launch(forward_long<W, T, P>, blocks, kLongThreads, 0, a);
    else
      cuda::launch(forward_long<1, T, P>, blocks, kLongThreads, 0, a);
  }
}

template <class T, class P>
void backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x,
              const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  using C = compute_t<T>;
  constexpr int W = static_cast<int>(16 / sizeof(T)), E = kElements<C>;
  Backward<T, P> a{pointer<T>(dx),     pointer<T>(dy), pointer<T>(x), pointer<P>(mean), pointer<P>(rstd),
                   pointer<P>(weight), nullptr,        x.size(0),     x.size(1)};
  const bool sums = dweight.defined() || dbias.defined();
  if (!dx.defined() && !sums) return;
  const bool vectors = a.n % W == 0 && cuda::aligned_16(a.dx, a.dy, a.x, a.weight);
  const int sms = cuda::device_limits().multiprocessors;
  cuda::Workspace workspace;
  int64_t blocks = 0;
  if (a.n <= E * cuda::kMostRowThreads) {
    int group_log2 = 0;
    while ((int64_t(E) << group_log2) < a.n) ++group_log2;
    const int threads = group_log2 == 10 ? 1024 : 512;
    blocks = std::min(cuda::ceil_div(a.rows, threads >> group_log2), int64_t(sms) * (1024 / threads));
    if (sums) a.partial = reinterpret_cast<C*>(workspace.allocate(2 * blocks * a.n * int64_t(sizeof(C))));
    if (vectors)
      cuda::launch(backward_rows<W, E / W, T, P>, static_cast<unsigned>(blocks), threads, 0, a, group_log2);
    else
      cuda::launch(backward_rows<1, E, T, P>, static_cast<unsigned>(blocks), threads, 0, a, group_log2);
  } else {
    if (dx.defined()) cuda::launch(backward_long<T, P>, static_cast<unsigned>(a.rows), kLongThreads, 0, a);
    const int64_t tiles = cuda::ceil_div(a.n, 32);
    const int64_t wanted = std::clamp(cuda::ceil_div(8 * sms, tiles), int64_t(1), cuda::ceil_div(a.rows, 4 * kDown));
    const int64_t rows_each = cuda::ceil_div(a.rows, wanted);
    blocks = cuda::ceil_div(a.rows, rows_each);
    if (sums) {
      a.partial = reinterpret_cast<C*>(workspace.allocate(2 * blocks * a.n * int64_t(sizeof(C))));
      cuda::launch(column_sums<T, P>, dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(blocks)),
                   dim3(32, kDown), 0, a, rows_each);
    }
  }
  if (sums)
    cuda::launch(join_sums<P, C>, dim3(static_cast<unsigned>(cuda::ceil_div(a.n, 32)), 2), dim3(32, kDown), 0,
                 pointer<P>(dweight), pointer<P>(dbias), a.partial, blocks, a.n);
}

template <class T>
void native_layer_norm_cuda(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                            const Tensor& weight, const Tensor& bias, double eps) {
  const DeviceGuard guard(x.device());
  if (mean.dtype() == x.dtype()) return forward<T, T>(out, mean, rstd, x, weight, bias, eps);
  if constexpr (sizeof(T) == 2) forward<T, float>(out, mean, rstd, x, weight, bias, eps);
}
template <class T>
void native_layer_norm_backward_cuda(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dy,
                                     const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  const DeviceGuard guard(x.device());
  if (mean.dtype() == x.dtype()) return backward<T, T>(dx, dweight, dbias, dy, x, mean, rstd, weight);
  if constexpr (sizeof(T) == 2) backward<T, float>(dx, dweight, dbias, dy, x, mean, rstd, weight);
}

TENON_REGISTER_KERNEL(op::native_layer_norm, cuda, FloatsAndHalves, native_layer_norm_cuda);
TENON_REGISTER_KERNEL(op::native_layer_norm_backward, cuda, FloatsAndHalves, native_layer_norm_backward_cuda);

}  // namespace
}  // namespace tenon

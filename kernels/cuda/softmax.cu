// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their backward operators. Tensors are seen as [outer, n, inner], contiguous (others are
// copied). Rows (inner is 1) stay in registers up to 4096 vectors (backward of the halves: 2048); longer ones and
// columns are read twice, with maximum and sum found in one walk. The halves compute in float.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/softmax.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/rows.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using cuda::compute_t;
constexpr int K = 4;  // vectors a thread
template <int W>
constexpr int kBackward = W == 8 ? 2 : K;  // backward holds two rows

template <class C>
__device__ __forceinline__ C lowest() {
  return -math::infinity<C>();
}

// Maximum so far, and the sum of exp(x - maximum).
template <class C>
struct Sum {
  C top, sum;
};
template <int N, class C>
__device__ __forceinline__ void add(Sum<C>& a, const C (&x)[N]) {
  C top = a.top;
#pragma unroll
  for (int i = 0; i < N; ++i) top = cuda::larger(top, x[i]);
  if (top == lowest<C>()) return;
  C sum = a.sum * math::exp(a.top - top);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += math::exp(x[i] - top);
  a = {top, sum};
}
template <class C>
__device__ __forceinline__ Sum<C> merge(Sum<C> a, Sum<C> b) {
  const C top = cuda::larger(a.top, b.top);
  if (top == lowest<C>()) return {top, C(0)};
  return {top, a.sum * math::exp(a.top - top) + b.sum * math::exp(b.top - top)};
}

// The result of one element from the row's maximum and `scale`, which is 1 / sum or log(sum).
template <bool kLog, class C>
__device__ __forceinline__ C result(C x, C top, C scale) {
  if constexpr (kLog)
    return x - top - scale;
  else
    return math::exp(x - top) * scale;
}
template <bool kLog, class C>
__device__ __forceinline__ C scale_of(C sum) {
  if constexpr (kLog)
    return math::log(sum);
  else
    return C(1) / sum;
}
// Backward: what is summed, and the result.
template <bool kLog, class C>
__device__ __forceinline__ C term(C g, C y) {
  if constexpr (kLog)
    return g;
  else
    return g * y;
}
template <bool kLog, class C>
__device__ __forceinline__ C result_backward(C g, C y, C sum) {
  if constexpr (kLog)
    return g - math::exp(y) * sum;
  else
    return (g - sum) * y;
}

// --- rows in registers --------------------------------------------------------------------------------------------
template <bool kLog, int W, class T>
__global__ void __launch_bounds__(cuda::kMostRowThreads)
    forward_rows(const T* x, T* y, int64_t rows, int n, int group_log2) {
  using C = compute_t<T>;
  const int lane = threadIdx.x & ((1 << group_log2) - 1);
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x >> group_log2) + (threadIdx.x >> group_log2);
  const bool valid = row < rows;
  C v[K * W];
  cuda::load_row<W, K>(v, x + row * n, n, lane, group_log2, valid, lowest<C>());
  C top[1] = {v[0]};
#pragma unroll
  for (int i = 1; i < K * W; ++i) top[0] = cuda::Most{}(top[0], v[i]);
  cuda::fold_row(top, group_log2, lowest<C>(), 0, cuda::Most{});
  C sum[1] = {C(0)};
#pragma unroll
  for (int i = 0; i < K * W; ++i) {
    const C e = math::exp(v[i] - top[0]);
    sum[0] += e;
    if constexpr (!kLog) v[i] = e;
  }
  cuda::fold_row(sum, group_log2, C(0), 1, cuda::Plus{});
  const C scale = scale_of<kLog>(sum[0]);
#pragma unroll
  for (int i = 0; i < K * W; ++i) v[i] = kLog ? v[i] - top[0] - scale : v[i] * scale;
  if (valid) cuda::store_row<W, K>(y + row * n, v, n, lane, group_log2);
}

template <bool kLog, int W, class T>
__global__ void __launch_bounds__(cuda::kMostRowThreads)
    backward_rows(const T* grad, const T* y, T* out, int64_t rows, int n, int group_log2) {
  using C = compute_t<T>;
  constexpr int KB = kBackward<W>;
  const int lane = threadIdx.x & ((1 << group_log2) - 1);
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x >> group_log2) + (threadIdx.x >> group_log2);
  const bool valid = row < rows;
  cuda::Vector<T, W> g[KB], v[KB];  // as they came: half the registers for the halves
  cuda::load_vectors(g, grad + row * n, n, lane, group_log2, valid);
  cuda::load_vectors(v, y + row * n, n, lane, group_log2, valid);
  C sum[1] = {C(0)};
#pragma unroll
  for (int k = 0; k < KB; ++k)
#pragma unroll
    for (int w = 0; w < W; ++w) sum[0] += term<kLog>(static_cast<C>(g[k].v[w]), static_cast<C>(v[k].v[w]));
  cuda::fold_row(sum, group_log2, C(0), 0, cuda::Plus{});
#pragma unroll
  for (int k = 0; k < KB; ++k) {
    const int i = (lane + (k << group_log2)) * W;
    if (!valid || i >= n) continue;
    cuda::Vector<T, W> dx;
#pragma unroll
    for (int w = 0; w < W; ++w)
      dx.v[w] = static_cast<T>(result_backward<kLog>(static_cast<C>(g[k].v[w]), static_cast<C>(v[k].v[w]), sum[0]));
    cuda::store_vector<T, W>(out + row * n + i, dx);
  }
}

// --- long rows: a block walks a row twice -------------------------------------------------------------------------
template <class T, int N>
__device__ __forceinline__ void load(compute_t<T> (&v)[N], const T* p) {
  const auto x = cuda::load_vector<T, N>(p);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = static_cast<compute_t<T>>(x.v[i]);
}
template <class T, int N>
__device__ __forceinline__ void store(T* p, const compute_t<T> (&v)[N]) {
  cuda::Vector<T, N> y;
#pragma unroll
  for (int i = 0; i < N; ++i) y.v[i] = static_cast<T>(v[i]);
  cuda::store_vector<T, N>(p, y);
}

constexpr int kLongLog2 = 9, kLongThreads = 1 << kLongLog2;

template <bool kLog, int W, class T>
__global__ void __launch_bounds__(kLongThreads) forward_long(const T* x, T* y, int64_t n) {
  using C = compute_t<T>;
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  Sum<C> a{lowest<C>(), C(0)};
  cuda::walk_row<W>(x, n, [&](int64_t i, auto width) {
    C v[width()];
    load(v, x + i);
    add(a, v);
  });
  C top[1] = {a.top};
  cuda::fold_row(top, kLongLog2, lowest<C>(), 0, [](C p, C q) { return cuda::larger(p, q); });
  // All of this thread's may be -inf, or nothing: exp(-inf - top) is 0 unless the whole row is.
  C sum[1] = {a.top == lowest<C>() ? C(0) : a.sum * math::exp(a.top - top[0])};
  cuda::fold_row(sum, kLongLog2, C(0), 1, cuda::Plus{});
  const C scale = scale_of<kLog>(sum[0]);
  cuda::walk_row<W>(x, n, [&](int64_t i, auto width) {
    C v[width()];
    load(v, x + i);
#pragma unroll
    for (int w = 0; w < width(); ++w) v[w] = result<kLog>(v[w], top[0], scale);
    store(y + i, v);
  });
}

template <bool kLog, int W, class T>
__global__ void __launch_bounds__(kLongThreads) backward_long(const T* grad, const T* y, T* out, int64_t n) {
  using C = compute_t<T>;
  grad += blockIdx.x * n;
  y += blockIdx.x * n;
  out += blockIdx.x * n;
  C sum[1] = {C(0)};
  cuda::walk_row<W>(grad, n, [&](int64_t i, auto width) {
    C g[width()], v[width()];
    load(g, grad + i);
    load(v, y + i);
#pragma unroll
    for (int w = 0; w < width(); ++w) sum[0] += term<kLog>(g[w], v[w]);
  });
  cuda::fold_row(sum, kLongLog2, C(0), 0, cuda::Plus{});
  cuda::walk_row<W>(grad, n, [&](int64_t i, auto width) {
    C g[width()], v[width()];
    load(g, grad + i);
    load(v, y + i);
#pragma unroll
    for (int w = 0; w < width(); ++w) g[w] = result_backward<kLog>(g[w], v[w], sum[0]);
    store(out + i, g);
  });
}

// --- columns: 32 neighbouring ones side by side, blockDim.y threads down each --------------------------------------
constexpr int kMostDown = 16;

struct Columns {
  int64_t n, inner, tiles;  // tiles of 32 columns in `inner`
};

template <bool kLog, class T>
__global__ void __launch_bounds__(32 * kMostDown) forward_columns(const T* x, T* y, const Columns c) {
  using C = compute_t<T>;
  __shared__ Sum<C> all[kMostDown][32];
  const int64_t column = blockIdx.x % c.tiles * 32 + threadIdx.x, start = blockIdx.x / c.tiles * c.n * c.inner + column;
  const bool valid = column < c.inner;
  Sum<C> a{lowest<C>(), C(0)};
  const int64_t step = int64_t(blockDim.y) * c.inner;
  if (valid) {
    int64_t i = threadIdx.y;
    const T* p = x + start + i * c.inner;
    for (; i + 3 * int64_t(blockDim.y) < c.n; i += 4 * blockDim.y, p += 4 * step) {
      const C v[4] = {static_cast<C>(p[0]), static_cast<C>(p[step]), static_cast<C>(p[2 * step]),
                      static_cast<C>(p[3 * step])};
      add(a, v);
    }
    for (; i < c.n; i += blockDim.y, p += step) {
      const C v[1] = {static_cast<C>(*p)};
      add(a, v);
    }
  }
  all[threadIdx.y][threadIdx.x] = a;
  __syncthreads();
  a = all[0][threadIdx.x];
  for (int j = 1; j < blockDim.y; ++j) a = merge(a, all[j][threadIdx.x]);
  if (!valid) return;
  const C scale = scale_of<kLog>(a.sum);
  const int64_t end = start + c.n * c.inner;
#pragma unroll 4
  for (int64_t at = start + threadIdx.y * c.inner; at < end; at += step)
    y[at] = static_cast<T>(result<kLog>(static_cast<C>(x[at]), a.top, scale));
}

template <bool kLog, class T>
__global__ void __launch_bounds__(32 * kMostDown) backward_columns(const T* grad, const T* y, T* out, const Columns c) {
  using C = compute_t<T>;
  __shared__ C all[kMostDown][32];
  const int64_t column = blockIdx.x % c.tiles * 32 + threadIdx.x, start = blockIdx.x / c.tiles * c.n * c.inner + column;
  const bool valid = column < c.inner;
  const int64_t step = int64_t(blockDim.y) * c.inner, end = start + c.n * c.inner;
  C sum = C(0);
  if (valid)
#pragma unroll 4
    for (int64_t at = start + threadIdx.y * c.inner; at < end; at += step)
      sum += term<kLog>(static_cast<C>(grad[at]), static_cast<C>(y[at]));
  all[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = C(0);
  for (int j = 0; j < blockDim.y; ++j) sum += all[j][threadIdx.x];
  if (!valid) return;
#pragma unroll 4
  for (int64_t at = start + threadIdx.y * c.inner; at < end; at += step)
    out[at] = static_cast<T>(result_backward<kLog>(static_cast<C>(grad[at]), static_cast<C>(y[at]), sum));
}

// --- host ---------------------------------------------------------------------------------------------------------
struct Geometry {
  int64_t outer = 1, n = 1, inner = 1;
  explicit Geometry(const Tensor& t, int64_t dim) {
    for (int64_t d = 0; d < t.dim(); ++d)
      (d < dim ? outer : d == dim ? n : inner) *= t.sizes()[static_cast<std::size_t>(d)];
  }
};
struct ColumnLaunch {
  Columns columns;
  dim3 grid, block;
  explicit ColumnLaunch(const Geometry& g) : columns{g.n, g.inner, cuda::ceil_div(g.inner, 32)} {
    int down = 1;
    while (down < kMostDown && down * 4 < g.n) down *= 2;
    const int64_t blocks = g.outer * columns.tiles;
    TENON_CHECK(blocks < (int64_t(1) << 31), ShapeError, "softmax: self: too many columns for one launch");
    grid = dim3(static_cast<unsigned>(blocks));
    block = dim3(32, static_cast<unsigned>(down));
  }
};
// The destination as the kernels write it.
Tensor dense_result(const Tensor& out) {
  return out.is_contiguous() ? out : dispatch::make_tensor(out.sizes(), out.dtype(), out.device());
}

template <bool kLog, class T>
void forward(const Tensor& out, const Tensor& self, int64_t dim) {
  constexpr int W = static_cast<int>(16 / sizeof(T));
  const DeviceGuard guard(out.device());
  const Tensor from = self.contiguous(), to = dense_result(out);
  const Geometry g(from, dim);
  const auto* x = static_cast<const T*>(from.data_ptr());
  auto* y = static_cast<T*>(to.data_ptr());
  if (g.inner > 1) {
    const ColumnLaunch l(g);
    cuda::launch(forward_columns<kLog, T>, l.grid, l.block, 0, x, y, l.columns);
  } else if (g.n % W == 0 && g.n <= W * K * cuda::kMostRowThreads && cuda::aligned_16(x, y)) {
    const auto s = cuda::row_shape<K>(g.outer, g.n / W);
    cuda::launch(forward_rows<kLog, W, T>, s.blocks, s.threads, 0, x, y, g.outer, static_cast<int>(g.n), s.group_log2);
  } else if (g.n <= K * cuda::kMostRowThreads) {
    const auto s = cuda::row_shape<K>(g.outer, g.n);
    cuda::launch(forward_rows<kLog, 1, T>, s.blocks, s.threads, 0, x, y, g.outer, static_cast<int>(g.n), s.group_log2);
  } else if (cuda::alike(x, y)) {
    cuda::launch(forward_long<kLog, W, T>, static_cast<unsigned>(g.outer), kLongThreads, 0, x, y, g.n);
  } else {
    cuda::launch(forward_long<kLog, 1, T>, static_cast<unsigned>(g.outer), kLongThreads, 0, x, y, g.n);
  }
  if (!to.is_same(out)) Tensor(out).copy_(to);
}

template <bool kLog, class T>
void backward(const Tensor& grad_input, const Tensor& grad_output, const Tensor& output, int64_t dim) {
  constexpr int W = static_cast<int>(16 / sizeof(T));
  const DeviceGuard guard(grad_input.device());
  const Tensor grad = grad_output.contiguous(), from = output.contiguous(), to = dense_result(grad_input);
  const Geometry g(from, dim);
  const auto *dy = static_cast<const T*>(grad.data_ptr()), *y = static_cast<const T*>(from.data_ptr());
  auto* dx = static_cast<T*>(to.data_ptr());
  if (g.inner > 1) {
    const ColumnLaunch l(g);
    cuda::launch(backward_columns<kLog, T>, l.grid, l.block, 0, dy, y, dx, l.columns);
  } else if (g.n % W == 0 && g.n <= W * kBackward<W> * cuda::kMostRowThreads && cuda::aligned_16(dy, y, dx)) {
    const auto s = cuda::row_shape<kBackward<W>>(g.outer, g.n / W);
    cuda::launch(backward_rows<kLog, W, T>, s.blocks, s.threads, 0, dy, y, dx, g.outer, static_cast<int>(g.n),
                 s.group_log2);
  } else if (g.n <= kBackward<1> * cuda::kMostRowThreads) {
    const auto s = cuda::row_shape<kBackward<1>>(g.outer, g.n);
    cuda::launch(backward_rows<kLog, 1, T>, s.blocks, s.threads, 0, dy, y, dx, g.outer, static_cast<int>(g.n),
                 s.group_log2);
  } else if (cuda::alike(dy, y, dx)) {
    cuda::launch(backward_long<kLog, W, T>, static_cast<unsigned>(g.outer), kLongThreads, 0, dy, y, dx, g.n);
  } else {
    cuda::launch(backward_long<kLog, 1, T>, static_cast<unsigned>(g.outer), kLongThreads, 0, dy, y, dx, g.n);
  }
  if (!to.is_same(grad_input)) Tensor(grad_input).copy_(to);
}

template <class T>
void softmax_cuda(const Tensor& out, const Tensor& self, int64_t dim) {
  forward<false, T>(out, self, dim);
}
template <class T>
void log_softmax_cuda(const Tensor& out, const Tensor& self, int64_t dim) {
  forward<true, T>(out, self, dim);
}
template <class T>
void softmax_backward_cuda(const Tensor& dx, const Tensor& dy, const Tensor& y, int64_t dim) {
  backward<false, T>(dx, dy, y, dim);
}
template <class T>
void log_softmax_backward_cuda(const Tensor& dx, const Tensor& dy, const Tensor& y, int64_t dim) {
  backward<true, T>(dx, dy, y, dim);
}

TENON_REGISTER_KERNEL(op::softmax, cuda, FloatsAndHalves, softmax_cuda);
TENON_REGISTER_KERNEL(op::log_softmax, cuda, FloatsAndHalves, log_softmax_cuda);
TENON_REGISTER_KERNEL(op::softmax_backward, cuda, FloatsAndHalves, softmax_backward_cuda);
TENON_REGISTER_KERNEL(op::log_softmax_backward, cuda, FloatsAndHalves, log_softmax_backward_cuda);

}  // namespace
}  // namespace tenon

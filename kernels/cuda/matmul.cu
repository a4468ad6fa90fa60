// SPDX-License-Identifier: Apache-2.0
// mm, bmm, addmm and baddbmm. Floats and complex numbers go to cuBLASLt with their strides where it can read them, other
// layouts are copied first; integers, an empty inner dimension and what cuBLASLt refuses go to a tiled kernel here, which
// takes any strides and is exact for integers (they wrap).
//
// Note [Orientation]. cuBLASLt is column-major. A row-major out = a @ b is, in the same memory, the column-major
// out^T = b^T @ a^T: operands swap places and a row-major one needs no transposition. A column-major out is first turned
// into a row-major one the same way.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cuda/cublaslt.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/ops/matmul.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <algorithm>

namespace tenon {
namespace {

// Batches of matrices; strides in elements.
struct Matrices {
  char* data = nullptr;
  int64_t rows, columns, row_step, column_step, batch_step;

  Matrices() = default;
  explicit Matrices(const Tensor& t) : data(static_cast<char*>(t.data_ptr())) {
    const std::size_t r = t.sizes().size();
    rows = t.sizes()[r - 2], columns = t.sizes()[r - 1];
    row_step = t.strides()[r - 2], column_step = t.strides()[r - 1];
    batch_step = r == 3 ? t.strides()[0] : 0;
  }
  void transpose() {
    std::swap(rows, columns);
    std::swap(row_step, column_step);
  }
  // What row-major means to cuBLASLt: steps that a leading dimension can express. Steps of single rows and columns do
  // not count and are set to fit.
  bool row_major() {
    if (column_step != 1 && columns > 1) return false;
    if (rows == 1) row_step = std::max<int64_t>(columns, 1);
    if (row_step < std::max<int64_t>(columns, 1)) return false;
    column_step = 1;
    return true;
  }
  bool column_major() {
    transpose();
    const bool yes = row_major();
    transpose();
    return yes;
  }
};

// --- the tiled kernel ----------------------------------------------------------------------------------------------
constexpr int kTile = 64, kDepth = 16, kThreads = 256;

// Integers are summed in unsigned words, whose low bits are those of the wrapped result.
template <class T>
struct Accumulator {
  using type = cuda::compute_t<T>;
};
template <>
struct Accumulator<uint8_t> {
  using type = uint32_t;
};
template <>
struct Accumulator<int8_t> {
  using type = uint32_t;
};
template <>
struct Accumulator<int16_t> {
  using type = uint32_t;
};
template <>
struct Accumulator<int32_t> {
  using type = uint32_t;
};
template <>
struct Accumulator<int64_t> {
  using type = uint64_t;
};
template <class T>
using accumulator_t = typename Accumulator<T>::type;

template <class T>
struct TiledArgs {
  Matrices out, self, a, b;  // self.data null: not read
  accumulator_t<T> alpha, beta;
  int64_t k;
  unsigned tiles_across;
};

template <class T>
__global__ void __launch_bounds__(kThreads) tiled_kernel(const TiledArgs<T> p) {
  using A = accumulator_t<T>;
  __shared__ A as[kDepth][kTile + 1], bs[kDepth][kTile + 1];
  const int64_t row0 = int64_t(blockIdx.x / p.tiles_across) * kTile,
                column0 = int64_t(blockIdx.x % p.tiles_across) * kTile;
  const int64_t batch = blockIdx.z;
  const T* a = reinterpret_cast<const T*>(p.a.data) + batch * p.a.batch_step;
  const T* b = reinterpret_cast<const T*>(p.b.data) + batch * p.b.batch_step;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  // Neighbouring threads read along the operand's fast dimension.
  const bool a_rows = p.a.column_step <= p.a.row_step, b_rows = p.b.column_step <= p.b.row_step;
  A sum[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[i][j] = A(0);
  for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
#pragma unroll
    for (int i = 0; i < kTile * kDepth / kThreads; ++i) {
      const int e = threadIdx.x + i * kThreads;
      const int ak = a_rows ? e % kDepth : e / kTile, ar = a_rows ? e / kDepth : e % kTile;
      const bool in_a = row0 + ar < p.out.rows && k0 + ak < p.k;
      as[ak][ar] = in_a ? static_cast<A>(a[(row0 + ar) * p.a.row_step + (k0 + ak) * p.a.column_step]) : A(0);
      const int bk = b_rows ? e / kTile : e % kDepth, bc = b_rows ? e % kTile : e / kDepth;
      const bool in_b = column0 + bc < p.out.columns && k0 + bk < p.k;
      bs[bk][bc] = in_b ? static_cast<A>(b[(k0 + bk) * p.b.row_step + (column0 + bc) * p.b.column_step]) : A(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      A x[4], y[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = as[k][ty + 16 * i], y[i] = bs[k][tx + 16 * i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  T* out = reinterpret_cast<T*>(p.out.data) + batch * p.out.batch_step;
  const T* self = reinterpret_cast<const T*>(p.self.data) + batch * p.self.batch_step;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t r = row0 + ty + 16 * i, c = column0 + tx + 16 * j;
      if (r >= p.out.rows || c >= p.out.columns) continue;
      A v = p.alpha * sum[i][j];
      if (p.self.data) v += p.beta * static_cast<A>(self[r * p.self.row_step + c * p.self.column_step]);
      out[r * p.out.row_step + c * p.out.column_step] = static_cast<T>(v);
    }
}

template <class T>
void tiled_product(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                   const Scalar& alpha) {
  using A = accumulator_t<T>;
  TiledArgs<T> p;
  p.out = Matrices(out), p.a = Matrices(a), p.b = Matrices(b);
  p.self = self.defined() ? Matrices(self) : p.out;
  if (!self.defined()) p.self.data = nullptr;
  p.alpha = alpha.to<A>();
  p.beta = beta.to<A>();
  p.k = p.a.columns;
  p.tiles_across = static_cast<unsigned>(cuda::ceil_div(p.out.columns, kTile));
  const int64_t tiles = cuda::ceil_div(p.out.rows, kTile) * p.tiles_across, batch = out.dim() == 3 ? out.size(0) : 1;
  constexpr int64_t kMostBatches = 32768;
  for (int64_t first = 0; first < batch; first += kMostBatches) {
    TiledArgs<T> part = p;
    for (Matrices* m : {&part.out, &part.self, &part.a, &part.b})
      if (m->data) m->data += first * m->batch_step * static_cast<int64_t>(sizeof(T));
    const dim3 grid(static_cast<unsigned>(tiles), 1, static_cast<unsigned>(std::min(kMostBatches, batch - first)));
    cuda::launch(tiled_kernel<T>, grid, kThreads, 0, part);
  }
}

// --- cuBLASLt -----------------------------------------------------------------------------------------------------
// An operand as cuBLASLt reads it: itself, or a copy that `copy` holds.
Matrices readable(const Tensor& t, bool swapped, bool& transposed, Tensor& copy) {
  Matrices m(t);
  if (swapped) m.transpose();
  transposed = false;
  if (m.row_major()) return m;
  transposed = true;
  if (m.column_major()) return m;
  copy = t.contiguous();
  // An expanded batch is contiguous only in the copy; single rows or columns are settled by row_major again.
  m = Matrices(copy);
  if (swapped) m.transpose();
  transposed = !m.row_major();
  if (transposed) m.column_major();
  return m;
}

// Where the result goes and from what it starts; false when the tensors do not fit cuBLASLt.
template <class T>
bool library_product(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                     const Scalar& alpha) {
  using C = cuda::compute_t<T>;
  Matrices d(out);
  bool swapped = false;
  if (!d.row_major()) {
    d.transpose();
    swapped = true;
    if (!d.row_major()) return false;
  }
  // In row-major terms: d = x @ y.
  Tensor x_copy, y_copy;
  bool x_transposed, y_transposed;
  const Matrices x = readable(swapped ? b : a, swapped, x_transposed, x_copy);
  const Matrices y = readable(swapped ? a : b, swapped, y_transposed, y_copy);

  cuda::Product p{};
  const int64_t size = static_cast<int64_t>(sizeof(T));
  C one = alpha.to<C>(), other = self.defined() ? beta.to<C>() : C(0);
  Matrices c = d;
  if (self.defined()) {
    c = Matrices(self);
    if (swapped) c.transpose();
    constexpr bool kBias = std::is_same_v<T, float> || sizeof(T) == 2;
    // Without 16-byte rows cuBLASLt rounds the product to 16 bits before it adds the bias; as beta * C it does not.
    const int64_t x_step = x_transposed ? x.column_step : x.row_step,
                  y_step = y_transposed ? y.column_step : y.row_step;
    const bool rounds_once = size > 2 || (x_step % 8 == 0 && y_step % 8 == 0 && d.row_step % 8 == 0);
    if (kBias && rounds_once && beta.equal(1) && out.dim() == 2 && c.row_step == 0 && c.rows > 1 &&
        c.column_step == 1) {
      p.key.bias = 1;
      p.bias = c.data;
      c = d;
      other = C(0);
    } else if (!self.is_same(out) && (!c.row_major() || (out.dim() == 3 && c.batch_step == 0))) {
      Tensor(out).copy_(self);
      c = d;
    } else if (self.is_same(out)) {
      c = d;
    }
  }
  const int64_t batch = out.dim() == 3 ? out.size(0) : 1;
  cuda::ProductKey& key = p.key;
  key.m = d.columns, key.n = d.rows, key.k = x.columns, key.batch = batch;
  key.a_ld = y_transposed ? y.column_step : y.row_step;
  key.b_ld = x_transposed ? x.column_step : x.row_step;
  key.c_ld = c.row_step, key.d_ld = d.row_step;
  if (batch > 1)
    key.a_step = y.batch_step, key.b_step = x.batch_step, key.c_step = c.batch_step, key.d_step = d.batch_step;
  key.a_align = cuda::alignment(y.data, key.a_step * size);
  key.b_align = cuda::alignment(x.data, key.b_step * size);
  key.c_align = cuda::alignment(c.data, key.c_step * size);
  key.d_align = cuda::alignment(d.data, key.d_step * size);
  key.a_transposed = y_transposed, key.b_transposed = x_transposed;
  key.tf32 = (std::is_same_v<T, float> || std::is_same_v<T, complex<float>>)&&allow_tf32();
  key.dtype = static_cast<uint8_t>(dtype_of<T>());
  key.device = static_cast<uint8_t>(out.device().index());
  p.a = y.data, p.b = x.data, p.c = c.data, p.d = d.data;
  p.alpha = &one, p.beta = &other;
  return cuda::multiply(p);
}

template <class T>
void product_cuda(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                  const Scalar& alpha) {
  const DeviceGuard guard(out.device());
  if constexpr (!std::is_integral_v<T>) {
    if (a.size(-1) != 0) {
      if (library_product<T>(out, self, a, b, beta, alpha)) return;
    }
  }
  tiled_product<T>(out, self, a, b, beta, alpha);
}

using Types = Join<Integers, FloatsAndHalves, Complexes>;
TENON_REGISTER_KERNEL(op::mm, cuda, Types, product_cuda);
TENON_REGISTER_KERNEL(op::bmm, cuda, Types, product_cuda);
TENON_REGISTER_KERNEL(op::addmm, cuda, Types, product_cuda);
TENON_REGISTER_KERNEL(op::baddbmm, cuda, Types, product_cuda);

}  // namespace
}  // namespace tenon

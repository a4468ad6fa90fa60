// SPDX-License-Identifier: Apache-2.0
// Matrix products of floating dtypes (ops/matmul.h): a blocked product after Goto and van de Geijn (2008). Panels of b
// and a are packed, which makes all strides alike, and a register tile of kRows x 2 vectors runs over them. Vectors
// on either side take a matrix-vector loop, small products a tile that reads its operands where they lie. The 16-bit
// floats are computed in float32 from converted copies.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/matmul.h>

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/matmul.cpp"
#include <tenon/kernels/cpu/targets.h>

#include <tenon/kernels/cpu/matrix_vector.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows of a register tile: with two vectors each they leave registers for one row of b and a broadcast.
inline constexpr int kRows = HWY_TARGET == HWY_AVX3 ? 14 : 6;
inline constexpr int64_t kDepth = 512;          ///< steps of k per packed block
inline constexpr int64_t kHeight = 16 * kRows;  ///< rows of a packed at once, for the second cache
inline constexpr int64_t kWidth = 1024;         ///< columns of b packed at once
inline constexpr int64_t kSmall = 1 << 15;      ///< multiply-adds up to which nothing is packed

// Widths of packed panels: full ones, and narrower ones for what is left.
inline int64_t panel_rows(int64_t left) { return left > 8 ? kRows : left > 4 ? (kRows > 8 ? 8 : kRows) : 4; }
template <class T>
int64_t panel_columns(int64_t left) {
  return left > kLanes<T> ? 2 * kLanes<T> : kLanes<T>;
}

/// Where a tile's results go.
template <class T>
struct Target {
  T* c;
  const T* s;  ///< null: nothing is added, or (later blocks of k) c itself
  int64_t c_row, c_column, s_row, s_column;
  T alpha, beta;
  int64_t rows, columns;
};

template <class T, class V>
HWY_INLINE void store_row(const Target<T>& t, int64_t r, int64_t j, V sum) {
  const hn::ScalableTag<T> d;
  const int64_t left = t.columns - j;
  if (left <= 0) return;
  sum = hn::Mul(sum, hn::Set(d, t.alpha));
  T* const c = t.c + r * t.c_row + j * t.c_column;
  const T* const s = t.s ? t.s + r * t.s_row + j * t.s_column : nullptr;
  if (t.c_column == 1 && (!s || t.s_column <= 1)) {
    if (left >= kLanes<T>) {
      if (s) sum = hn::MulAdd(hn::Set(d, t.beta), t.s_column == 1 ? hn::LoadU(d, s) : hn::Set(d, *s), sum);
      hn::StoreU(sum, d, c);
      return;
    }
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(left));
    if (s) sum = hn::MulAdd(hn::Set(d, t.beta), t.s_column == 1 ? hn::MaskedLoad(rest, d, s) : hn::Set(d, *s), sum);
    hn::BlendedStore(sum, rest, d, c);
    return;
  }
  HWY_ALIGN T values[kLanes<T>];
  hn::Store(sum, d, values);
  for (int64_t i = 0; i < std::min(left, kLanes<T>); ++i)
    c[i * t.c_column] = values[i] + (s ? t.beta * s[i * t.s_column] : T(0));
}

/// The tile: kPanel rows of a packed panel times one or two vectors of columns. Indices are template arguments so that
/// every sum is a register.
template <class T, int kPanel, int kVectors, std::size_t... R>
HWY_INLINE void tile_rows(int64_t k, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, const Target<T>& target,
                          std::index_sequence<R...>) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  V sum0[kPanel] = {((void)R, hn::Zero(d))...};
  [[maybe_unused]] V sum1[kPanel] = {((void)R, hn::Zero(d))...};
  for (int64_t p = 0; p < k; ++p, a += kPanel, b += kVectors * kLanes<T>) {
    const V b0 = hn::LoadU(d, b);
    if constexpr (kVectors == 2) {
      const V b1 = hn::LoadU(d, b + kLanes<T>);
      ((sum0[R] = hn::MulAdd(hn::Set(d, a[R]), b0, sum0[R]), sum1[R] = hn::MulAdd(hn::Set(d, a[R]), b1, sum1[R])), ...);
    } else {
      ((sum0[R] = hn::MulAdd(hn::Set(d, a[R]), b0, sum0[R])), ...);
    }
  }
  ((static_cast<int64_t>(R) < target.rows ? store_row(target, R, 0, sum0[R]) : void()), ...);
  if constexpr (kVectors == 2)
    ((static_cast<int64_t>(R) < target.rows ? store_row(target, R, kLanes<T>, sum1[R]) : void()), ...);
}
template <class T, int kPanel, int kVectors>
HWY_NOINLINE void tile(int64_t k, const T* a, const T* b, const Target<T>& target) {
  tile_rows<T, kPanel, kVectors>(k, a, b, target, std::make_index_sequence<kPanel>());
}
template <class T, int kVectors>
void run_tile(int64_t panel, int64_t k, const T* a, const T* b, const Target<T>& target) {
  if (panel == kRows) return tile<T, kRows, kVectors>(k, a, b, target);
  if constexpr (kRows > 8) {
    if (panel == 8) return tile<T, 8, kVectors>(k, a, b, target);
  }
  tile<T, 4, kVectors>(k, a, b, target);
}

/// `to` = the panel's columns of row p, `width` values for each of k rows; what is missing becomes 0. `across` is the
/// step along the panel, `along` the step in k.
template <class T>
void pack_panel(T* HWY_RESTRICT to, const T* HWY_RESTRICT from, int64_t across, int64_t along, int64_t count,
                int64_t width, int64_t k) {
  if (count < width)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t i = count; i < width; ++i) to[p * width + i] = T(0);
  if (across == 1) {
    for (int64_t p = 0; p < k; ++p)
      for (int64_t i = 0; i < count; ++i) to[p * width + i] = from[p * along + i];
    return;
  }
  constexpr int64_t kBlock = 64, kAtOnce = 8;  // lines of the panel that stay in the cache; columns read side by side
  for (int64_t q = 0; q < k; q += kBlock) {
    const int64_t end = std::min(q + kBlock, k);
    int64_t i = 0;
    for (; i + kAtOnce <= count; i += kAtOnce) {
      const T* const column = from + i * across;
      for (int64_t p = q; p < end; ++p)
        for (int64_t r = 0; r < kAtOnce; ++r) to[p * width + i + r] = column[r * across + p * along];
    }
    for (; i < count; ++i)
      for (int64_t p = q; p < end; ++p) to[p * width + i] = from[i * across + p * along];
  }
}

template <class T>
void fill_product(const Product<T>& x) {  // k is 0
  for (int64_t i = 0; i < x.m; ++i)
    for (int64_t j = 0; j < x.n; ++j)
      x.c[i * x.c_row + j * x.c_column] = x.s ? x.beta * x.s[i * x.s_row + j * x.s_column] : T(0);
}

/// Rows [i, i + R) x one vector of columns from j, read where they lie; rows of b are contiguous.
template <class T, std::size_t... R>
HWY_INLINE void direct_tile(const Product<T>& x, int64_t i, int64_t j, std::index_sequence<R...>) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kCount = sizeof...(R);
  const int64_t rows = std::min(kCount, x.m - i), columns = std::min(x.n - j, kLanes<T>);
  const T* const a[] = {x.a + (i + std::min<int64_t>(R, rows - 1)) * x.a_row...};
  V sum[kCount] = {((void)R, hn::Zero(d))...};
  const T* b = x.b + j;
  const auto run = [&](auto load) HWY_ATTR {
    for (int64_t p = 0; p < x.k; ++p, b += x.b_row) {
      const V row = load(b);
      ((sum[R] = hn::MulAdd(hn::Set(d, a[R][p * x.a_column]), row, sum[R])), ...);
    }
  };
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(columns));
  if (columns == kLanes<T>)
    run([&](const T* from) HWY_ATTR { return hn::LoadU(d, from); });
  else
    run([&](const T* from) HWY_ATTR { return hn::MaskedLoad(mask, d, from); });
  const Target<T> target{x.c + i * x.c_row + j * x.c_column,
                         x.s ? x.s + i * x.s_row + j * x.s_column : nullptr,
                         x.c_row,
                         x.c_column,
                         x.s_row,
                         x.s_column,
                         x.alpha,
                         x.beta,
                         rows,
                         columns};
  ((static_cast<int64_t>(R) < rows ? store_row(target, R, 0, sum[R]) : void()), ...);
}
/// Small products, which packing would cost more than multiplying.
template <class T>
void multiply_small(const Product<T>& x) {
  for (int64_t i = 0; i<x.m; i += x.m - i> 4 ? 8 : 4)
    for (int64_t j = 0; j < x.n; j += kLanes<T>)
      x.m - i > 4 ? direct_tile(x, i, j, std::make_index_sequence<8>())
                  : direct_tile(x, i, j, std::make_index_sequence<4>());
}
/// With a copy of b whose rows are contiguous.
template <class T>
HWY_NOINLINE void multiply_small_copied(Product<T> x) {
  Scratch<T> rows(x.k * x.n, 1);
  pack_panel(rows.data(), x.b, x.b_column, x.b_row, x.n, x.n, x.k);
  x.b = rows.data(), x.b_row = x.n, x.b_column = 1;
  multiply_small(x);
}

/// Rows [i0, i1) x columns [j0, j1) of one block (p0, depth) of k; `packed` holds b's panels of columns from jc on.
template <class T>
void multiply_block(const Product<T>& x, const T* packed, int64_t jc, int64_t p0, int64_t depth, int64_t i0, int64_t i1,
                    int64_t j0, int64_t j1) {
  const int64_t rows = i1 - i0;
  Scratch<T> panels((rows + kRows) * depth, 0);
  int64_t used = 0;
  for (int64_t i = 0; i < rows;) {
    const int64_t width = panel_rows(rows - i), count = std::min(width, rows - i);
    pack_panel(panels.data() + used, x.a + (i0 + i) * x.a_row + p0 * x.a_column, x.a_row, x.a_column, count, width,
               depth);
    used += width * depth;
    i += count;
  }
  const bool first = p0 == 0;
  for (int64_t j = j0; j < j1;) {
    const int64_t width = panel_columns<T>(x.n - j), columns = std::min(width, j1 - j);
    const T* const b = packed + (j - jc) * depth;
    const T* a = panels.data();
    for (int64_t i = 0; i < rows;) {
      const int64_t panel = panel_rows(rows - i), count = std::min(panel, rows - i);
      T* const c = x.c + (i0 + i) * x.c_row + j * x.c_column;
      const Target<T> target =
          first ? Target<T>{c,       x.s ? x.s + (i0 + i) * x.s_row + j * x.s_column : nullptr,
                            x.c_row, x.c_column,
                            x.s_row, x.s_column,
                            x.alpha, x.beta,
                            count,   columns}
                : Target<T>{c, c, x.c_row, x.c_column, x.c_row, x.c_column, x.alpha, T(1), count, columns};
      if (width == kLanes<T>)
        run_tile<T, 1>(panel, depth, a, b, target);
      else
        run_tile<T, 2>(panel, depth, a, b, target);
      a += panel * depth;
      i += count;
    }
    j += columns;
  }
}

template <class T>
void multiply(const Product<T>& x) {
  if (x.k == 0) return fill_product(x);
  if (x.n == 1) return matrix_vector(x);
  if (x.m == 1) return matrix_vector(x.transposed());
  if (x.c_column != 1 && x.c_row == 1) return multiply(x.transposed());
  if (x.m * x.n * x.k <= kSmall) return x.b_column == 1 ? multiply_small(x) : multiply_small_copied(x);
  constexpr int64_t kPanel = 2 * kLanes<T>;
  const bool serial = x.m * x.n * x.k < kParallelWork || in_parallel_region();
  const int64_t threads = serial ? 1 : num_threads();
  const int64_t width = std::min(kWidth, (x.n + kPanel - 1) / kPanel * kPanel), depth_most = std::min(kDepth, x.k);
  Scratch<T> packed(width * depth_most, 1);
  const int64_t bands = (x.m + kHeight - 1) / kHeight;
  for (int64_t jc = 0; jc < x.n; jc += kWidth) {
    const int64_t je = std::min(jc + kWidth, x.n), panels = (je - jc + kPanel - 1) / kPanel;
    for (int64_t p0 = 0; p0 < x.k; p0 += kDepth) {
      const int64_t depth = std::min(kDepth, x.k - p0);
      const auto pack = [&](int64_t begin, int64_t end) {
        for (int64_t q = begin; q < end; ++q) {
          const int64_t j = jc + q * kPanel, count = std::min(kPanel, je - j);
          pack_panel(packed.data() + q * kPanel * depth, x.b + p0 * x.b_row + j * x.b_column, x.b_column, x.b_row,
                     count, panel_columns<T>(x.n - j), depth);
        }
      };
      // Tasks: bands of rows, times slices of columns when there are few bands.
      const int64_t slices = std::clamp<int64_t>((4 * threads + bands - 1) / bands, 1, panels);
      const int64_t slice = (panels + slices - 1) / slices;
      const auto task = [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t i0 = t / slices * kHeight, j0 = jc + t % slices * slice * kPanel;
          if (j0 < je)
            multiply_block(x, packed.data(), jc, p0, depth, i0, std::min(i0 + kHeight, x.m), j0,
                           std::min(j0 + slice * kPanel, je));
        }
      };
      if (threads == 1) {
        pack(0, panels);
        for (int64_t band = 0; band < bands; ++band)
          multiply_block(x, packed.data(), jc, p0, depth, band * kHeight, std::min(band * kHeight + kHeight, x.m), jc,
                         je);
      } else {
        parallel_for(0, panels, 4, pack);
        parallel_for(0, bands * slices, 1, task);
      }
    }
  }
}

template <class T>
Product<T> product_of(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, T beta, T alpha) {
  const std::size_t d = out.sizes().size() - 2;
  const auto row = [d](const Tensor& t) { return t.defined() ? t.strides()[d] : 0; };
  const auto column = [d](const Tensor& t) { return t.defined() ? t.strides()[d + 1] : 0; };
  return {out.sizes()[d],
          out.sizes()[d + 1],
          a.sizes()[d + 1],
          static_cast<const T*>(a.data_ptr()),
          static_cast<const T*>(b.data_ptr()),
          self.defined() ? static_cast<const T*>(self.data_ptr()) : nullptr,
          static_cast<T*>(out.data_ptr()),
          row(a),
          column(a),
          row(b),
          column(b),
          row(self),
          column(self),
          row(out),
          column(out),
          alpha,
          beta};
}

template <class T>
void batched_product(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, T beta, T alpha) {
  const Product<T> first = product_of<T>(out, self, a, b, beta, alpha);
  if (out.dim() == 2) return multiply(first);
  const int64_t n = out.sizes()[0];
  const auto one = [&](int64_t i) {
    Product<T> x = first;
    x.a += i * a.strides()[0];
    x.b += i * b.strides()[0];
    x.c += i * out.strides()[0];
    if (x.s) x.s += i * self.strides()[0];
    multiply(x);
  };
  const int64_t work = first.m * first.n * std::max<int64_t>(first.k, 1);
  if (n >= 2 * num_threads() || work < kParallelWork) {
    parallel_for(0, n, std::max<int64_t>(1, kParallelWork / 2 / work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(i);
    });
  } else {
    for (int64_t i = 0; i < n; ++i) one(i);
  }
}

template <class T>
void matmul_cpu(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                const Scalar& alpha) {
  batched_product<T>(out, self, a, b, beta.to<T>(), alpha.to<T>());
}
using Types = tenon::Floats;
TENON_REGISTER_SIMD_KERNEL(op::mm, Types, matmul_cpu);
TENON_REGISTER_SIMD_KERNEL(op::bmm, Types, matmul_cpu);
TENON_REGISTER_SIMD_KERNEL(op::addmm, Types, matmul_cpu);
TENON_REGISTER_SIMD_KERNEL(op::baddbmm, Types, matmul_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// SPDX-License-Identifier: Apache-2.0
// Attention in tiles (ops/attention.h): a block of query rows meets one block of keys after the other, and keeps only
// the running maximum and sum of each row (Milakov and Gimelshein 2018; Dao et al. 2022). Backward computes each tile of
// probabilities again from the row's logsumexp. Tiles are matrix products; 16-bit floats are converted a block at a time.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/product.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/attention.h>

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/attention.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/rows.h>

#ifndef TENON_KERNELS_CPU_ATTENTION_COMMON
#define TENON_KERNELS_CPU_ATTENTION_COMMON
namespace tenon::cpu {

inline constexpr int64_t kQueries = 128, kKeys = 512;  ///< rows and columns of a tile

/// A matrix as products read it.
template <class C>
struct Block {
  C* data;
  int64_t row, column;
};

/// The matrices of a tensor [batch..., rows, columns], one after the other.
template <class T>
struct Matrices {
  const Tensor* t;
  T* data;
  int64_t rows, columns, row, column;

  explicit Matrices(const Tensor& tensor)
      : t(&tensor),
        data(static_cast<T*>(tensor.data_ptr())),
        rows(tensor.size(-2)),
        columns(tensor.size(-1)),
        row(tensor.stride(-2)),
        column(tensor.stride(-1)) {}
  T* at(int64_t batch) const {
    int64_t offset = 0;
    for (int64_t d = t->dim() - 3; d >= 0; --d) {
      offset += batch % t->size(d) * t->stride(d);
      batch /= t->size(d);
    }
    return data + offset;
  }
};

/// Rows [from, from + count) of a matrix in the type computed in: as they lie, or converted into `memory`.
template <class C, class T>
Block<const C> load_block(const Matrices<T>& m, int64_t batch, int64_t from, int64_t count, C*& memory) {
  const T* const data = m.at(batch) + from * m.row;
  if constexpr (std::is_same_v<T, C>) {
    return {data, m.row, m.column};
  } else {
    C* const to = memory;
    for (int64_t i = 0; i < count; ++i) load_row(to + i * m.columns, data + i * m.row, m.column, m.columns);
    memory += count * m.columns;
    return {to, m.columns, 1};
  }
}
/// c [m, n] = alpha * a b (+ c)
template <class C, class A>
void tile_product(int64_t m, int64_t n, int64_t k, C alpha, Block<A> a, Block<const C> b, Block<C> c, bool add) {
  matrix_product(Product<C>{m, n, k, a.data, b.data, add ? c.data : nullptr, c.data, a.row, a.column, b.row, b.column,
                            c.row, c.column, c.row, c.column, alpha, C(1)});
}
template <class C>
Block<C> turned(Block<C> b) {
  return {b.data, b.column, b.row};
}
template <class C>
Block<const C> constant(Block<C> b) {
  return {b.data, b.row, b.column};
}

/// What is added to one row of scores.
struct Mask {
  const Tensor* t = nullptr;
  const char* data = nullptr;
  int64_t row = 0, column = 0, size = 0;
  Mask(const Tensor& mask, int64_t batch) {
    if (!mask.defined()) return;
    const Matrices<char> m(mask);
    t = &mask, size = item_size(mask.dtype()), row = m.row * size, column = m.column * size;
    data = m.data + (m.at(batch) - m.data) * size;
  }
  /// Row i, columns [j, j + n).
  template <class T, class C>
  void apply(C* s, int64_t i, int64_t j, int64_t n) const {
    if (!data) return;
    const char* p = data + i * row + j * column;
    if (t->dtype() == kBool) {
      for (int64_t c = 0; c < n; ++c, p += column)
        if (!*reinterpret_cast<const bool*>(p)) s[c] = -HUGE_VAL;
    } else {
      for (int64_t c = 0; c < n; ++c, p += column) s[c] += static_cast<C>(*reinterpret_cast<const T*>(p));
    }
  }
};

}  // namespace tenon::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class C>
C largest(const C* x, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto low = hn::Set(d, -HUGE_VAL);
  auto top = low;
  each_vector<C>(n,
                 [&](int64_t i, auto partial, auto mask) { top = hn::Max(load(d, partial, mask, x + i, low), top); });
  return hn::GetLane(hn::MaxOfLanes(d, top));
}
/// x = exp(x - shift); returns the sum.
template <class C>
C exponentials(C* x, C shift, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto vs = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    auto e = exp_of(d, hn::Sub(load(d, partial, mask, x + i, vs), vs));
    store(d, partial, mask, e, x + i);
    if constexpr (decltype(partial)::value) e = hn::IfThenElseZero(mask, e);
    sum = hn::Add(sum, e);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}
template <class C>
void scale_row(C* x, C factor, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto f = hn::Set(d, factor);
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    store(d, partial, mask, hn::Mul(load(d, partial, mask, x + i, f), f), x + i);
  });
}
template <class C>
C row_product(const C* x, const C* y, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto zero = hn::Zero(d);
  auto sum = zero;
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    sum = hn::MulAdd(load(d, partial, mask, x + i, zero), load(d, partial, mask, y + i, zero), sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}
/// ds = p * (dp - delta)
template <class C>
void score_gradients(C* dp, const C* p, C delta, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto vd = hn::Set(d, delta);
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto v = hn::Sub(load(d, partial, mask, dp + i, vd), vd);
    store(d, partial, mask, hn::Mul(v, load(d, partial, mask, p + i, vd)), dp + i);
  });
}

template <class T>
void attention_cpu(const Tensor& out, const Tensor& lse, const Tensor& query, const Tensor& key, const Tensor& value,
                   const Tensor& attn_mask, bool is_causal, double scale_given) {
  using C = compute_t<T>;
  const Matrices<T> q(query), k(key), v(value), o(out);
  const int64_t rows = q.rows, keys = k.rows, width = q.columns, columns = v.columns;
  const int64_t blocks = (rows + kQueries - 1) / kQueries, batch = lse.numel() / rows;
  const int64_t block_rows = std::min(rows, kQueries), block_keys = std::min(keys, kKeys);
  const C scale = static_cast<C>(scale_given);
  C* const sums = static_cast<C*>(lse.data_ptr());
  const bool copies = !std::is_same_v<T, C>;
  const int64_t memory_size =
      block_rows * (block_keys + 2 + (copies ? width + columns : 0)) + (copies ? block_keys * (width + columns) : 0);
  const int64_t work = std::max<int64_t>(1, block_rows * keys * (width + columns));
  parallel_for(0, batch * blocks, std::max<int64_t>(1, (int64_t{1} << 19) / work), [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(memory_size, 3);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t n = b / blocks, first = b % blocks * kQueries, count = std::min(kQueries, rows - first);
      C* free = memory.data();
      C *const s = free, *const top = s + block_rows * block_keys, *const total = top + block_rows;
      free = total + block_rows;
      T* const to = o.at(n) + first * o.row;
      Block<C> sum{nullptr, columns, 1};
      if constexpr (std::is_same_v<T, C>)
        sum.data = to;
      else
        sum.data = free, free += block_rows * columns;
      const Block<const C> qs = load_block<C>(q, n, first, count, free);
      const Mask mask(attn_mask, n);
      std::fill_n(top, count, -HUGE_VAL);
      std::fill_n(total, count, C(0));
      std::fill_n(sum.data, count * columns, C(0));
      const int64_t last = is_causal ? std::min(keys, first + count) : keys;
      for (int64_t j = 0; j < last; j += kKeys) {
        const int64_t here = std::min(kKeys, last - j);
        C* rest = free;
        const Block<const C> ks = load_block<C>(k, n, j, here, rest), vs = load_block<C>(v, n, j, here, rest);
        const Block<C> tile{s, here, 1};
        tile_product(count, here, width, scale, qs, turned(ks), tile, false);
        for (int64_t r = 0; r < count; ++r) {
          C* const row = s + r * here;
          const int64_t seen = is_causal ? std::clamp<int64_t>(first + r + 1 - j, 0, here) : here;
          mask.template apply<T>(row, first + r, j, seen);
          const C above = std::max(top[r], largest(row, seen));
          std::fill(row + seen, row + here, C(0));
          if (above == -HUGE_VAL) {  // no key yet; a NaN is none and goes on
            if (std::none_of(row, row + seen, [](C x) { return x != x; })) {
              std::fill_n(row, seen, C(0));
              continue;
            }
          }
          const C part = exponentials(row, above, seen), before = std::exp(top[r] - above);
          if (j > 0 && before != 1) scale_row(sum.data + r * columns, before, columns);
          total[r] = total[r] * (j > 0 ? before : C(0)) + part;
          top[r] = above;
        }
        tile_product(count, columns, here, C(1), tile, vs, sum, j > 0);
      }
      for (int64_t r = 0; r < count; ++r) {
        const bool none = total[r] == 0;
        sums[n * rows + first + r] = none ? -HUGE_VAL : top[r] + std::log(total[r]);
        scale_row(sum.data + r * columns, none ? C(1) : 1 / total[r], columns);
        if constexpr (!std::is_same_v<T, C>) store_row(to + r * o.row, 1, sum.data + r * columns, columns);
      }
    }
  });
}

template <class T>
void attention_backward_cpu(const Tensor& grad_query, const Tensor& grad_key, const Tensor& grad_value,
                            const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                            const Tensor& output, const Tensor& lse, const Tensor& attn_mask, bool is_causal,
                            double scale_given) {
  using C = compute_t<T>;
  const Matrices<T> q(query), k(key), v(value), o(output), g(grad), dq(grad_query), dk(grad_key), dv(grad_value);
  const int64_t rows = q.rows, keys = k.rows, width = q.columns, columns = v.columns, batch = lse.numel() / rows;
  const int64_t block_rows = std::min(rows, kQueries), block_keys = std::min(keys, kKeys);
  const C scale = static_cast<C>(scale_given);
  const C* const sums = static_cast<const C*>(lse.data_ptr());
  const bool copies = !std::is_same_v<T, C>;
  const int64_t memory_size =
      2 * block_rows * block_keys + rows +
      (copies ? rows * (2 * width + columns) + 2 * block_keys * (width + columns) : block_rows * columns);
  parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(memory_size, 3);
    for (int64_t n = begin; n < end; ++n) {
      C* free = memory.data();
      C *const p = free, *const ds = p + block_rows * block_keys, *const delta = ds + block_rows * block_keys;
      free = delta + rows;
      const Block<const C> gs = load_block<C>(g, n, 0, rows, free), qs = load_block<C>(q, n, 0, rows, free);
      for (int64_t r = 0; r < rows && keys > kKeys; ++r) {
        const T* const out_row = o.at(n) + r * o.row;
        C sum = 0;
        for (int64_t c = 0; c < columns; ++c)
          sum += gs.data[r * gs.row + c * gs.column] * static_cast<C>(out_row[c * o.column]);
        delta[r] = sum;
      }
      // Results are added up where they lie, or in float32 beside.
      const auto place = [&](T* to, int64_t count) {
        if constexpr (std::is_same_v<T, C>) {
          return to;
        } else {
          C* const here = free;
          free += count;
          return here;
        }
      };
      C* const dqs = place(dq.at(n), rows * width);
      std::fill_n(dqs, rows * width, C(0));
      const Mask mask(attn_mask, n);
      C* const kept = free;
      for (int64_t j = 0; j < keys; j += kKeys, free = kept) {
        const int64_t here = std::min(kKeys, keys - j);
        const Block<const C> ks = load_block<C>(k, n, j, here, free), vs = load_block<C>(v, n, j, here, free);
        C* const dks = place(dk.at(n) + j * width, here * width);
        C* const dvs = place(dv.at(n) + j * columns, here * columns);
        std::fill_n(dks, here * width, C(0));
        std::fill_n(dvs, here * columns, C(0));
        for (int64_t i = is_causal ? j / kQueries * kQueries : 0; i < rows; i += kQueries) {
          const int64_t count = std::min(kQueries, rows - i);
          const Block<const C> q_tile{qs.data + i * qs.row, qs.row, qs.column},
              g_tile{gs.data + i * gs.row, gs.row, gs.column};
          const Block<C> p_tile{p, here, 1}, ds_tile{ds, here, 1};
          tile_product(count, here, width, scale, q_tile, turned(ks), p_tile, false);
          tile_product(count, here, columns, C(1), g_tile, turned(vs), ds_tile, false);
          for (int64_t r = 0; r < count; ++r) {
            C *const row = p + r * here, *const d_row = ds + r * here;
            int64_t seen = is_causal ? std::clamp<int64_t>(i + r + 1 - j, 0, here) : here;
            const C sum = sums[n * rows + i + r];
            if (sum == -HUGE_VAL) seen = 0;
            mask.template apply<T>(row, i + r, j, seen);
            const C all = exponentials(row, sum, seen);  // 1, but for rounding
            // A row in one tile is summed here: the output, rounded to 16 bits, would lose digits.
            const C centre = keys <= kKeys ? row_product(row, d_row, seen) / all : delta[i + r];
            score_gradients(d_row, static_cast<const C*>(row), centre, seen);
            std::fill(row + seen, row + here, C(0));
            std::fill(d_row + seen, d_row + here, C(0));
          }
          tile_product(here, columns, count, C(1), turned(p_tile), g_tile, Block<C>{dvs, columns, 1}, true);
          tile_product(here, width, count, scale, turned(ds_tile), q_tile, Block<C>{dks, width, 1}, true);
          tile_product(count, width, here, scale, ds_tile, ks, Block<C>{dqs + i * width, width, 1}, true);
        }
        if constexpr (!std::is_same_v<T, C>) {
          store_row(dk.at(n) + j * width, 1, dks, here * width);
          store_row(dv.at(n) + j * columns, 1, dvs, here * columns);
        }
      }
      if constexpr (!std::is_same_v<T, C>) store_row(dq.at(n), 1, dqs, rows * width);
    }
  });
}
TENON_REGISTER_SIMD_KERNEL(op::scaled_dot_product_attention_forward, FloatsAndHalves, attention_cpu);
TENON_REGISTER_SIMD_KERNEL(op::scaled_dot_product_attention_backward, FloatsAndHalves, attention_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// SPDX-License-Identifier: Apache-2.0
// Interpolation by one table of weights per dimension (kernels/grid_axes.h), or by its transpose: rows that a row of the
// result is made of are added up first, in vectors, then the entries within the sum. uint8 goes dimension by dimension.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/kernels/grid_axes.h>
#include <tenon/ops/resample.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/resample.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/rows.h>

#ifndef TENON_KERNELS_CPU_RESAMPLE_COMMON
#define TENON_KERNELS_CPU_RESAMPLE_COMMON
namespace tenon::cpu {

/// What entries of one side of an axis are made of: entry i of first[i], first[i] + 1, ..., weights from begin[i] to
/// begin[i + 1].
struct TapTable {
  std::vector<int64_t> first, begin;
  std::vector<double> weights;
  int64_t most = 0;

  TapTable(const GridAxis& a, bool transposed) {
    std::vector<double> w(static_cast<std::size_t>(grid::most_taps(a)));
    begin.push_back(0);
    for (int64_t i = 0; i < a.out; ++i) {
      const grid::TapSpan span = grid::taps(a, i, w.data());
      add(span.first, w.data(), span.count);
    }
    if (transposed) *this = turned(a.in);
  }
  int64_t size() const { return static_cast<int64_t>(first.size()); }
  int64_t count(int64_t i) const { return begin[at(i) + 1] - begin[at(i)]; }
  const double* weight(int64_t i) const { return weights.data() + begin[at(i)]; }

 private:
  TapTable() : begin(1, 0) {}
  static std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }
  void add(int64_t from, const double* w, int64_t n) {
    first.push_back(from);
    weights.insert(weights.end(), w, w + n);
    begin.push_back(static_cast<int64_t>(weights.size()));
    most = std::max(most, n);
  }
  // Entries that take from j lie side by side, for the maps are monotone.
  TapTable turned(int64_t in) const {
    std::vector<int64_t> low(at(in), size()), high(at(in), 0);
    for (int64_t i = 0; i < size(); ++i)
      for (int64_t k = 0; k < count(i); ++k) {
        const std::size_t j = at(first[at(i)] + k);
        low[j] = std::min(low[j], i), high[j] = std::max(high[j], i + 1);
      }
    TapTable t;
    std::vector<double> w;
    for (int64_t j = 0; j < in; ++j) {
      w.clear();
      for (int64_t i = low[at(j)]; i < high[at(j)]; ++i) {
        const int64_t k = j - first[at(i)];
        w.push_back(k >= 0 && k < count(i) ? weight(i)[k] : 0);
      }
      t.add(w.empty() ? 0 : low[at(j)], w.data(), static_cast<int64_t>(w.size()));
    }
    return t;
  }
};

/// The table of the last axis for vectors: tap k of entry i has index[k * n + i] and the weight of the same place. Narrow
/// rows of channels are spread out. `wide`: channels are vectors of their own; `uneven`: too few of the taps are used.
template <class C>
struct RowTable {
  using Index = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  static constexpr int64_t kNarrow = 16;
  int64_t n, inner;
  bool wide, uneven;
  std::vector<Index> index;
  std::vector<C> weights;
  const TapTable& taps;

  RowTable(const TapTable& t, int64_t in_row, int64_t channels)
      : n(t.size() * channels), inner(channels), wide(channels > kNarrow), taps(t) {
    const auto total = static_cast<int64_t>(t.weights.size());
    uneven = t.most * t.size() > 2 * total + 64 || in_row > INT32_MAX;
    if (wide || uneven) return;
    index.resize(static_cast<std::size_t>(t.most * n));
    weights.resize(index.size());
    for (int64_t i = 0; i < t.size(); ++i)
      for (int64_t k = 0; k < t.most; ++k)
        for (int64_t c = 0; c < inner; ++c) {
          const bool used = k < t.count(i);
          const auto to = static_cast<std::size_t>(k * n + i * inner + c);
          index[to] = static_cast<Index>(used ? (t.first[static_cast<std::size_t>(i)] + k) * inner + c : 0);
          weights[to] = used ? static_cast<C>(t.weight(i)[k]) : C(0);
        }
  }
};

}  // namespace tenon::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sum (+)= a * x + b * y; y may be null.
template <class C>
void add_rows(C* sum, bool fresh, C a, const C* x, C b, const C* y, int64_t n) {
  const hn::ScalableTag<C> d;
  const auto va = hn::Set(d, a), vb = hn::Set(d, b);
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) HWY_ATTR {
    const auto zero = hn::Zero(d);
    auto v = hn::Mul(va, load(d, partial, mask, x + i, zero));
    if (y) v = hn::MulAdd(vb, load(d, partial, mask, y + i, zero), v);
    if (!fresh) v = hn::Add(v, load(d, partial, mask, sum + i, zero));
    store(d, partial, mask, v, sum + i);
  });
}

// Entries of a row of the result out of the sum of rows. A weight of 0 takes nothing, not even NaN.
template <class C>
void within_row(C* out, const C* sum, const RowTable<C>& t) {
  const TapTable& taps = t.taps;
  if (t.wide || t.uneven) {
    for (int64_t i = 0; i < taps.size(); ++i) {
      const int64_t first = taps.first[static_cast<std::size_t>(i)], count = taps.count(i);
      const double* const w = taps.weight(i);
      C* const to = out + i * t.inner;
      if (!t.wide) {
        for (int64_t c = 0; c < t.inner; ++c) {
          C s = 0;
          for (int64_t k = 0; k < count; ++k)
            if (w[k] != 0) s += static_cast<C>(w[k]) * sum[(first + k) * t.inner + c];
          to[c] = s;
        }
        continue;
      }
      bool fresh = true;
      for (int64_t k = 0; k < count; ++k) {
        if (w[k] == 0) continue;
        add_rows<C>(to, fresh, static_cast<C>(w[k]), sum + (first + k) * t.inner, 0, nullptr, t.inner);
        fresh = false;
      }
      if (fresh) std::fill_n(to, t.inner, C(0));
    }
    return;
  }
  const hn::ScalableTag<C> d;
  const hn::Rebind<typename RowTable<C>::Index, decltype(d)> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), most = taps.most;
  int64_t i = 0;
  for (; i + lanes <= t.n; i += lanes) {
    auto s = hn::Zero(d);
    for (int64_t k = 0; k < most; ++k) {
      const auto w = hn::LoadU(d, t.weights.data() + k * t.n + i);
      const auto x = hn::GatherIndex(d, sum, hn::LoadU(di, t.index.data() + k * t.n + i));
      s = hn::MulAdd(w, hn::IfThenZeroElse(hn::Eq(w, hn::Zero(d)), x), s);
    }
    hn::StoreU(s, d, out + i);
  }
  for (; i < t.n; ++i) {
    C s = 0;
    for (int64_t k = 0; k < most; ++k) {
      const auto at = static_cast<std::size_t>(k * t.n + i);
      if (t.weights[at] != 0) s += t.weights[at] * sum[t.index[at]];
    }
    out[i] = s;
  }
}

// One row of the result: what rows of `from` (its batch) it takes, and the entries within.
template <class T, class C>
void make_row(T* out, const T* from, int64_t z, int64_t y, const TapTable& zs, const TapTable& ys, int64_t in_y,
              int64_t in_row, const RowTable<C>& columns, C* sum, C* row, C* converted) {
  const C* total = nullptr;
  C weight = 0;  // of a row that waits for another to be added along with
  const C* waiting = nullptr;
  bool fresh = true;
  for (int64_t a = 0; a < zs.count(z); ++a) {
    for (int64_t b = 0; b < ys.count(y); ++b) {
      const C w = static_cast<C>(zs.weight(z)[a] * ys.weight(y)[b]);
      if (w == 0) continue;
      const T* const x =
          from +
          ((zs.first[static_cast<std::size_t>(z)] + a) * in_y + ys.first[static_cast<std::size_t>(y)] + b) * in_row;
      if constexpr (std::is_same_v<T, C>) {
        if (waiting) {
          add_rows<C>(sum, fresh, weight, waiting, w, x, in_row);
          waiting = nullptr, fresh = false;
        } else {
          waiting = x, weight = w;
        }
      } else {
        load_row<T, C>(converted, x, 1, in_row);
        add_rows<C>(sum, fresh, w, converted, 0, nullptr, in_row);
        fresh = false;
      }
    }
  }
  if (waiting && fresh && weight == 1) {
    total = waiting;
  } else {
    if (waiting)
      add_rows<C>(sum, fresh, weight, waiting, 0, nullptr, in_row);
    else if (fresh)
      std::fill_n(sum, in_row, C(0));
    total = sum;
  }
  if constexpr (std::is_same_v<T, C>) {
    within_row<C>(out, total, columns);
  } else {
    within_row<C>(row, total, columns);
    store_row<T, C>(out, 1, row, columns.n);
  }
}

template <class T>
void resample_cpu(const Tensor& out, const Tensor& self, const Grid& grid, bool transposed) {
  using C = compute_t<T>;
  const TapTable zs(grid.axes[0], transposed), ys(grid.axes[1], transposed), xs(grid.axes[2], transposed);
  const auto in_size = [&](int k) { return transposed ? grid.axes[k].out : grid.axes[k].in; };
  const int64_t in_z = in_size(0), in_y = in_size(1), in_row = in_size(2) * grid.inner;
  const RowTable<C> columns(xs, in_row, grid.inner);
  const T* const from = static_cast<const T*>(self.data_ptr());
  T* const to = static_cast<T*>(out.data_ptr());
  const int64_t rows = grid.outer * zs.size() * ys.size();
  const int64_t work = in_row * ys.most * zs.most + columns.n * xs.most;
  parallel_for(0, rows, (1 << 15) / work + 1, [&](int64_t begin, int64_t end) {
    const Scratch<C> sum(in_row, 0), row(std::is_same_v<T, C> ? 0 : columns.n, 1),
        converted(std::is_same_v<T, C> ? 0 : in_row, 2);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t y = i % ys.size(), rest = i / ys.size(), z = rest % zs.size(), n = rest / zs.size();
      make_row<T, C>(to + i * columns.n, from + n * in_z * in_y * in_row, z, y, zs, ys, in_y, in_row, columns,
                     sum.data(), row.data(), converted.data());
    }
  });
}
TENON_REGISTER_SIMD_KERNEL(op::resample, FloatsAndHalves, resample_cpu);

// Turns weights into whole numbers of 16 bits, with as many fractional bits as the largest allows.
inline int make_whole(TapTable& t) {
  double largest = 0;
  for (const double w : t.weights) largest = std::max(largest, w);
  int bits = 0;
  while (bits < 22 && std::floor(0.5 + largest * static_cast<double>(int64_t(1) << (bits + 1))) < 32768) ++bits;
  for (double& w : t.weights) {
    const double v = w * static_cast<double>(int64_t(1) << bits);
    w = std::trunc(v < 0 ? v - 0.5 : v + 0.5);
  }
  return bits;
}

// sum[c] = half + weights times rows of `n` bytes, n apart; rounded to bytes.
inline void add_bytes(uint8_t* out, const uint8_t* x, const double* w, int64_t taps, int64_t n, int bits) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int32_t half = bits > 0 ? 1 << (bits - 1) : 0;
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    auto s = hn::Set(d, half);
    for (int64_t k = 0; k < taps; ++k)
      s = hn::Add(s, hn::Mul(hn::Set(d, static_cast<int32_t>(w[k])), hn::PromoteTo(d, hn::LoadU(d8, x + k * n + c))));
    hn::StoreU(hn::DemoteTo(d8, hn::ShiftRightSame(s, bits)), d8, out + c);
  }
  for (; c < n; ++c) {
    int32_t s = half;
    for (int64_t k = 0; k < taps; ++k) s += static_cast<int32_t>(w[k]) * x[k * n + c];
    s >>= bits;
    out[c] = static_cast<uint8_t>(s < 0 ? 0 : s > 255 ? 255 : s);
  }
}
// Entries of a row of the result, by the table, out of a row as 32-bit numbers.
inline void gather_bytes(uint8_t* out, const int32_t* row, const RowTable<int32_t>& t, int bits) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), most = t.taps.most;
  const int32_t half = bits > 0 ? 1 << (bits - 1) : 0;
  int64_t i = 0;
  for (; i + lanes <= t.n; i += lanes) {
    auto s = hn::Set(d, half);
    for (int64_t k = 0; k < most; ++k)
      s = hn::Add(s, hn::Mul(hn::LoadU(d, t.weights.data() + k * t.n + i),
                             hn::GatherIndex(d, row, hn::LoadU(d, t.index.data() + k * t.n + i))));
    hn::StoreU(hn::DemoteTo(d8, hn::ShiftRightSame(s, bits)), d8, out + i);
  }
  for (; i < t.n; ++i) {
    int32_t s = half;
    for (int64_t k = 0; k < most; ++k) {
      const auto at = static_cast<std::size_t>(k * t.n + i);
      s += t.weights[at] * row[t.index[at]];
    }
    s >>= bits;
    out[i] = static_cast<uint8_t>(s < 0 ? 0 : s > 255 ? 255 : s);
  }
}

// [outer][length of the axis][inner] along one axis.
inline void resample_bytes(uint8_t* out, const uint8_t* in, int64_t outer, int64_t inner, const GridAxis& axis) {
  TapTable taps(axis, false);
  const int bits = make_whole(taps);
  const int64_t in_line = axis.in * inner, out_line = axis.out * inner;
  const RowTable<int32_t> table(taps, in_line, inner);
  const auto tapped = [&](int64_t n, int64_t i) {
    const int64_t first = taps.first[static_cast<std::size_t>(i)];
    add_bytes(out + n * out_line + i * inner, in + n * in_line + first * inner, taps.weight(i), taps.count(i), inner,
              bits);
  };
  if (table.wide || table.uneven) {
    parallel_for(0, outer * axis.out, (1 << 15) / (inner * taps.most) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) tapped(r / axis.out, r % axis.out);
    });
    return;
  }
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  parallel_for(0, outer, (1 << 15) / (out_line * taps.most) + 1, [&](int64_t begin, int64_t end) {
    const Scratch<int32_t> row(in_line, 0);
    for (int64_t n = begin; n < end; ++n) {
      const uint8_t* const x = in + n * in_line;
      int64_t j = 0;
      for (; j + lanes <= in_line; j += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(d8, x + j)), d, row.data() + j);
      for (; j < in_line; ++j) row.data()[j] = x[j];
      gather_bytes(out + n * out_line, row.data(), table, bits);
    }
  });
}

// The last axis first. An axis of one size is left alone.
template <class T>
void resample_uint8_cpu(const Tensor& out, const Tensor& self, const Grid& grid, bool) {
  std::vector<uint8_t> held[2];
  const uint8_t* from = static_cast<const uint8_t*>(self.data_ptr());
  int64_t sizes[3] = {grid.axes[0].in, grid.axes[1].in, grid.axes[2].in}, inner = grid.inner, left = 0;
  for (const GridAxis& a : grid.axes) left += a.in != a.out;
  if (left == 0) std::memcpy(out.data_ptr(), from, static_cast<std::size_t>(out.numel()));
  for (int k = 2; k >= 0; inner *= sizes[k--]) {
    const GridAxis& a = grid.axes[k];
    if (a.in == a.out) continue;
    sizes[k] = a.out;
    int64_t outer = grid.outer;
    for (int d = 0; d < k; ++d) outer *= sizes[d];
    std::vector<uint8_t>& to = held[left % 2];
    if (--left > 0) to.resize(static_cast<std::size_t>(outer * a.out * inner));
    uint8_t* const target = left > 0 ? to.data() : static_cast<uint8_t*>(out.data_ptr());
    resample_bytes(target, from, outer, inner, a);
    from = target;
  }
}
TENON_REGISTER_SIMD_KERNEL(op::resample, Types<uint8_t>, resample_uint8_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

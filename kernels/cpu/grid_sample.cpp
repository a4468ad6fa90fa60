// SPDX-License-Identifier: Apache-2.0
// Samples at the places of a grid (kernels/grid_sample.h). For a block of places a table of entries and weights is made
// once; then channel after channel gathers by it, in vectors. 16-bit floats go through float32.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/kernels/grid_sample.h>

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/grid_sample.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/rows.h>

#ifndef TENON_KERNELS_CPU_GRID_SAMPLE_COMMON
#define TENON_KERNELS_CPU_GRID_SAMPLE_COMMON
namespace tenon::cpu {

constexpr int64_t kPlaces = 256;  // of a block; a multiple of every vector

/// Entries, weights and slopes of a block of places: tap t of place p at [t * kPlaces + p].
template <class C, class Index>
struct PlaceTable {
  int64_t taps = 0, count = 0;
  Index* index;
  C* weight;
  C* slope[3];
};

struct SampleShape {
  int64_t batch, channels, places, plane, sizes[3];  // sizes: outermost first
  SampleShape(const Tensor& input, const Tensor& grid)
      : batch(input.size(0)), channels(input.size(1)), places(1), plane(1), sizes{} {
    for (int64_t d = 2; d < input.dim(); ++d) {
      sizes[d - 2] = input.size(d);
      plane *= input.size(d);
      places *= grid.size(d - 1);
    }
  }
};

}  // namespace tenon::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Slopes only if kSlopes. What is not there becomes entry 0 with weight 0.
template <int K, class T, int R, bool kSlopes, class C, class Index>
void fill_table(PlaceTable<C, Index>& t, const SampleMode& mode, const C* coordinates, int64_t count,
                const int64_t* sizes) {
  t.count = count;
  t.taps = R == 2 ? K * K : K * K * K;
  for (int64_t p = 0; p < count; ++p) {
    grid::Neighbours<C, K> n[R];
    for (int d = 0; d < R; ++d) n[d] = grid::neighbours<K, T>(mode, coordinates[p * R + (R - 1 - d)], sizes[d]);
    int64_t to = p;
    const auto put = [&](int64_t at, bool there, C weight, C by_first, C by_second, C by_third) {
      t.index[to] = static_cast<Index>(there ? at : 0);
      t.weight[to] = there ? weight : C(0);
      if constexpr (kSlopes) {
        const C slopes[] = {by_first, by_second, by_third};
        for (int d = 0; d < R; ++d) t.slope[d][to] = there ? slopes[d] : C(0);
      }
      to += kPlaces;
    };
    for (int a = 0; a < K; ++a)
      for (int b = 0; b < K; ++b) {
        const bool there = n[0].index[a] >= 0 && n[1].index[b] >= 0;
        const int64_t at = n[0].index[a] * sizes[1] + n[1].index[b];
        const C w = n[0].weight[a] * n[1].weight[b], wa = n[0].slope[a] * n[1].weight[b],
                wb = n[0].weight[a] * n[1].slope[b];
        if constexpr (R == 2) {
          put(at, there, w, wa, wb, 0);
        } else {
          for (int c = 0; c < K; ++c)
            put(at * sizes[2] + n[2].index[c], there && n[2].index[c] >= 0, w * n[2].weight[c], wa * n[2].weight[c],
                wb * n[2].weight[c], w * n[2].slope[c]);
        }
      }
  }
  // Vectors read on to a multiple of their length.
  const int64_t end = std::min((count + 15) / 16 * 16, kPlaces);
  for (int64_t k = 0; k < t.taps; ++k)
    for (int64_t p = count; p < end; ++p) {
      t.index[k * kPlaces + p] = 0, t.weight[k * kPlaces + p] = 0;
      for (int d = 0; kSlopes && d < R; ++d) t.slope[d][k * kPlaces + p] = 0;
    }
}

// grid::neighbours for vectors of coordinates; index holds whole numbers, -1 for what is not there.
template <int K, class D, class V = hn::Vec<D>>
struct VectorNeighbours {
  using C = hn::TFromD<D>;
  V index[K], weight[K], slope[K];

  HWY_INLINE VectorNeighbours(D d, const SampleMode& mode, V coordinate, int64_t size) {
    const V one = hn::Set(d, C(1)), zero = hn::Zero(d), last = hn::Set(d, static_cast<C>(size - 1));
    const C length = static_cast<C>(mode.align_corners ? size - 1 : size);
    V steep = hn::Set(d, length / 2);
    V x = hn::Mul(hn::Add(coordinate, one), steep);
    if (!mode.align_corners) x = hn::Sub(x, hn::Set(d, C(0.5)));
    const auto bounded = [&](V at, V& by) HWY_ATTR {
      if (mode.padding == 0) return at;
      if (mode.padding == 2) {
        const V low = hn::Set(d, mode.align_corners ? C(0) : C(-0.5)), span = hn::Set(d, length > 0 ? length : C(1));
        const V far = hn::Abs(hn::Sub(at, low)), turns = hn::Floor(hn::Div(far, span));
        const V rest = hn::Sub(far, hn::Mul(turns, span));
        const V pairs = hn::Mul(hn::Floor(hn::Mul(turns, hn::Set(d, C(0.5)))), hn::Set(d, C(2)));
        const auto turned = hn::Xor(hn::Lt(at, low), hn::Ne(turns, pairs));
        at = hn::Add(hn::IfThenElse(hn::Ne(turns, pairs), hn::Sub(span, rest), rest), low);
        by = hn::IfThenElse(turned, hn::Neg(by), by);
      }
      const auto above = hn::Gt(at, zero);
      by = hn::IfThenElseZero(hn::And(above, hn::Lt(at, last)), by);
      return hn::IfThenElseZero(above, hn::Min(at, last));
    };
    const auto entry = [&](V at) HWY_ATTR {
      return hn::IfThenElse(hn::And(hn::Ge(at, zero), hn::Le(at, last)), at, hn::Set(d, C(-1)));
    };
    if constexpr (K == 4) {
      const V floor_x = hn::Floor(x), t = hn::Sub(x, floor_x), rest = hn::Sub(one, t);
      const V far[4] = {hn::Add(t, one), t, rest, hn::Add(rest, one)};
      const auto set = [&](double v) HWY_ATTR { return hn::Set(d, static_cast<C>(v)); };
      for (int k = 0; k < 4; ++k) {
        const V u = far[k];
        const bool near = k == 1 || k == 2;
        V unused = zero;
        index[k] = entry(bounded(hn::Add(floor_x, set(k - 1)), unused));
        if (near)
          weight[k] = hn::MulAdd(hn::Mul(hn::Sub(hn::Mul(set(1.25), u), set(2.25)), u), u, one);
        else
          weight[k] = hn::MulAdd(hn::Sub(hn::Mul(hn::Sub(set(3.75), hn::Mul(set(0.75), u)), u), set(6)), u, set(3));
        const V by = near ? hn::Mul(hn::Sub(hn::Mul(set(3.75), u), set(4.5)), u)
                          : hn::Sub(hn::Mul(hn::Sub(set(7.5), hn::Mul(set(2.25), u)), u), set(6));
        slope[k] = hn::Mul(k < 2 ? steep : hn::Neg(steep), by);
      }
    } else {
      x = bounded(x, steep);
      if constexpr (K == 1) {
        index[0] = entry(hn::Round(x));
        weight[0] = one, slope[0] = zero;
      } else {
        const V floor_x = hn::Floor(x);
        index[0] = entry(floor_x), index[1] = entry(hn::Add(floor_x, one));
        weight[1] = hn::Sub(x, floor_x), weight[0] = hn::Sub(one, weight[1]);
        slope[0] = hn::Neg(steep), slope[1] = steep;
      }
    }
  }
};

// fill_table in vectors. Lanes beyond the last place hold some place that exists.
template <int K, int R, bool kSlopes, class C, class Index>
void fill_vectors(PlaceTable<C, Index>& t, const SampleMode& mode, const C* coordinates, int64_t count,
                  const int64_t* sizes) {
  const hn::ScalableTag<C> d;
  using D = hn::ScalableTag<C>;
  using V = hn::Vec<D>;
  const hn::Rebind<Index, D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  t.count = count;
  t.taps = R == 2 ? K * K : K * K * K;
  for (int64_t p = 0; p < count; p += lanes) {
    HWY_ALIGN C rest[3 * hn::MaxLanes(D())] = {};
    const C* from = coordinates + p * R;
    if (p + lanes > count) {
      std::copy_n(from, (count - p) * R, rest);
      from = rest;
    }
    V at[3];
    if constexpr (R == 2)
      hn::LoadInterleaved2(d, from, at[1], at[0]);
    else
      hn::LoadInterleaved3(d, from, at[2], at[1], at[0]);
    const VectorNeighbours<K, D> a(d, mode, at[0], sizes[0]), b(d, mode, at[1], sizes[1]),
        c(d, mode, at[R - 1], sizes[R - 1]);
    int64_t to = p;
    const V zero = hn::Zero(d);
    // Whole numbers in double are exact; float has too few digits for a plane.
    const auto whole = [&](V v) HWY_ATTR {
      if constexpr (sizeof(C) == 8)
        return v;
      else
        return hn::ConvertTo(di, v);
    };
    const auto further = [&](auto outer, int64_t size, V inner) HWY_ATTR {
      if constexpr (sizeof(C) == 8)
        return hn::MulAdd(outer, hn::Set(d, static_cast<C>(size)), inner);
      else
        return hn::Add(hn::Mul(outer, hn::Set(di, static_cast<Index>(size))), hn::ConvertTo(di, inner));
    };
    const auto put = [&](auto flat, auto there, V weight, V by_first, V by_second, V by_third) HWY_ATTR {
      if constexpr (sizeof(C) == 8)
        hn::StoreU(hn::ConvertTo(di, hn::IfThenElseZero(there, flat)), di, t.index + to);
      else
        hn::StoreU(hn::IfThenElseZero(hn::RebindMask(di, there), flat), di, t.index + to);
      hn::StoreU(hn::IfThenElseZero(there, weight), d, t.weight + to);
      if constexpr (kSlopes) {
        hn::StoreU(hn::IfThenElseZero(there, by_first), d, t.slope[0] + to);
        hn::StoreU(hn::IfThenElseZero(there, by_second), d, t.slope[1] + to);
        if constexpr (R == 3) hn::StoreU(hn::IfThenElseZero(there, by_third), d, t.slope[2] + to);
      }
      to += kPlaces;
    };
    for (int i = 0; i < K; ++i)
      for (int j = 0; j < K; ++j) {
        const auto there = hn::And(hn::Ge(a.index[i], zero), hn::Ge(b.index[j], zero));
        const auto flat = further(whole(a.index[i]), sizes[1], b.index[j]);
        const V w = hn::Mul(a.weight[i], b.weight[j]), wa = hn::Mul(a.slope[i], b.weight[j]),
                wb = hn::Mul(a.weight[i], b.slope[j]);
        if constexpr (R == 2) {
          put(flat, there, w, wa, wb, zero);
        } else {
          for (int k = 0; k < K; ++k)
            put(further(flat, sizes[2], c.index[k]), hn::And(there, hn::Ge(c.index[k], zero)), hn::Mul(w, c.weight[k]),
                hn::Mul(wa, c.weight[k]), hn::Mul(wb, c.weight[k]), hn::Mul(w, c.slope[k]));
        }
      }
  }
}

// The sum of weights times entries of a channel, for vectors of places.
template <class C, class Index>
hn::Vec<hn::ScalableTag<C>> gathered(const PlaceTable<C, Index>& t, const C* weights, const C* plane, int64_t p) {
  const hn::ScalableTag<C> d;
  const hn::Rebind<Index, decltype(d)> di;
  auto sum = hn::Zero(d);
  for (int64_t k = 0; k < t.taps; ++k) {
    const auto w = hn::LoadU(d, weights + k * kPlaces + p);
    const auto x = hn::GatherIndex(d, plane, hn::LoadU(di, t.index + k * kPlaces + p));
    sum = hn::MulAdd(w, hn::IfThenZeroElse(hn::Eq(w, hn::Zero(d)), x), sum);
  }
  return sum;
}

// One pass over the work in blocks of places: f(table, batch, first place) for every block.
template <class T, class C, class Index, int R, bool kSlopes, class F>
void each_block(const SampleShape& s, const SampleMode& mode, const C* coordinates, int64_t n, int64_t begin,
                int64_t end, F&& f) {
  const int64_t k = mode.interpolation == 0 ? 2 : mode.interpolation == 1 ? 1 : 4;
  const int64_t taps = R == 2 ? k * k : k * k * k;
  const Scratch<C> values((1 + (kSlopes ? R : 0)) * taps * kPlaces, 0);
  const Scratch<Index> index(taps * kPlaces, 1);
  PlaceTable<C, Index> t;
  t.index = index.data();
  t.weight = values.data();
  for (int d = 0; d < R; ++d) t.slope[d] = values.data() + (1 + d) * taps * kPlaces;
  for (int64_t p = begin; p < end; p += kPlaces) {
    const C* const at = coordinates + (n * s.places + p) * R;
    const int64_t count = std::min(kPlaces, end - p);
    const auto fill = [&](auto neighbours) {
      constexpr int K = decltype(neighbours)::value;
      if constexpr (std::is_same_v<T, C>)
        fill_vectors<K, R, kSlopes>(t, mode, at, count, s.sizes);
      else
        fill_table<K, T, R, kSlopes>(t, mode, at, count, s.sizes);
    };
    if (mode.interpolation == 0)
      fill(std::integral_constant<int, 2>());
    else if (mode.interpolation == 1)
      fill(std::integral_constant<int, 1>());
    else if constexpr (R == 2)
      fill(std::integral_constant<int, 4>());
    f(t, n, p);
  }
}
// All places of all batches, in ranges of blocks.
template <class T, class C, class Index, int R, bool kSlopes, class F>
void each_range(const SampleShape& s, const SampleMode& mode, const C* coordinates, F&& f) {
  const int64_t blocks = (s.places + kPlaces - 1) / kPlaces;
  parallel_for(0, s.batch * blocks, (1 << 13) / (kPlaces * s.channels) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t p = b % blocks * kPlaces;
      each_block<T, C, Index, R, kSlopes>(s, mode, coordinates, b / blocks, p, std::min(p + kPlaces, s.places), f);
    }
  });
}

template <class T, class C, class Index, int R>
void sample(C* out, const C* input, const C* coordinates, const SampleShape& s, const SampleMode& mode) {
  const hn::ScalableTag<C> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  each_range<T, C, Index, R, false>(s, mode, coordinates, [&](const PlaceTable<C, Index>& t, int64_t n, int64_t first) {
    for (int64_t c = 0; c < s.channels; ++c) {
      const C* const plane = input + (n * s.channels + c) * s.plane;
      C* const to = out + (n * s.channels + c) * s.places + first;
      int64_t p = 0;
      for (; p + lanes <= t.count; p += lanes) hn::StoreU(gathered(t, t.weight, plane, p), d, to + p);
      if (p < t.count)
        hn::BlendedStore(gathered(t, t.weight, plane, p), hn::FirstN(d, static_cast<std::size_t>(t.count - p)), d,
                         to + p);
    }
  });
}

template <class T, class C, class Index, int R>
void sample_backward(C* grad_input, C* grad_grid, const C* grad, const C* input, const C* coordinates,
                     const SampleShape& s, const SampleMode& mode) {
  if (grad_input) {  // a plane is one thread's
    const int64_t planes = s.batch * s.channels;
    parallel_for(0, planes, (1 << 13) / s.places + 1, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end;) {
        const int64_t n = first / s.channels, last = std::min(end, (n + 1) * s.channels);
        each_block<T, C, Index, R, false>(s, mode, coordinates, n, 0, s.places,
                                          [&](const PlaceTable<C, Index>& t, int64_t, int64_t p) {
                                            for (int64_t i = first; i < last; ++i) {
                                              C* const to = grad_input + i * s.plane;
                                              const C* const g = grad + i * s.places + p;
                                              for (int64_t k = 0; k < t.taps * kPlaces; k += kPlaces)
                                                for (int64_t j = 0; j < t.count; ++j)
                                                  if (t.weight[k + j] != 0)
                                                    to[t.index[k + j]] += t.weight[k + j] * g[j];
                                            }
                                          });
        first = last;
      }
    });
  }
  if (!grad_grid) return;
  const hn::ScalableTag<C> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  each_range<T, C, Index, R, true>(s, mode, coordinates, [&](const PlaceTable<C, Index>& t, int64_t n, int64_t first) {
    HWY_ALIGN C sums[3][hn::MaxLanes(hn::ScalableTag<C>())];
    for (int64_t p = 0; p < t.count; p += lanes) {
      const int64_t here = std::min(lanes, t.count - p);
      const auto mask = hn::FirstN(d, static_cast<std::size_t>(here));
      auto a = hn::Zero(d), b = a, c = a;
      for (int64_t i = n * s.channels; i < (n + 1) * s.channels; ++i) {
        const C* const plane = input + i * s.plane;
        const auto g = hn::MaskedLoad(mask, d, grad + i * s.places + first + p);
        a = hn::MulAdd(g, gathered(t, t.slope[0], plane, p), a);
        b = hn::MulAdd(g, gathered(t, t.slope[1], plane, p), b);
        if constexpr (R == 3) c = hn::MulAdd(g, gathered(t, t.slope[2], plane, p), c);
      }
      hn::Store(a, d, sums[0]), hn::Store(b, d, sums[1]), hn::Store(c, d, sums[2]);
      for (int64_t j = 0; j < here; ++j)
        for (int k = 0; k < R; ++k) grad_grid[(n * s.places + first + p + j) * R + (R - 1 - k)] = sums[k][j];
    }
  });
}

inline Tensor widened(const Tensor& t) { return t.defined() ? t.to(kFloat32) : t; }

// P: the type whose precision places are found in.
template <class T, int R, class P = T>
void grid_sampler(const Tensor& out, const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  if constexpr (!std::is_same_v<T, compute_t<T>>) {
    const Tensor wide = dispatch::make_tensor(out.sizes(), kFloat32, kCPU);
    grid_sampler<float, R, T>(wide, widened(input), widened(grid), mode);
    Tensor(out).copy_(wide);
  } else {
    const SampleShape s(input, grid);
    T* const to = static_cast<T*>(out.data_ptr());
    const T *const from = static_cast<const T*>(input.data_ptr()), *const at = static_cast<const T*>(grid.data_ptr());
    if constexpr (sizeof(T) == 4) {
      TENON_CHECK(s.plane <= INT32_MAX, ShapeError,
                  "grid_sampler: input: a channel has more than 2^31 entries: ", input.sizes());
      sample<P, T, int32_t, R>(to, from, at, s, mode);
    } else {
      sample<P, T, int64_t, R>(to, from, at, s, mode);
    }
  }
}
template <class T, int R, class P = T>
void grid_sampler_backward(const Tensor& grad_input, const Tensor& grad_grid, const Tensor& grad, const Tensor& input,
                           const Tensor& grid, const SampleMode& mode) {
  if constexpr (!std::is_same_v<T, compute_t<T>>) {
    const Tensor of_input = widened(grad_input), of_grid = widened(grad_grid);
    grid_sampler_backward<float, R, T>(of_input, of_grid, widened(grad), widened(input), widened(grid), mode);
    if (of_input.defined()) Tensor(grad_input).copy_(of_input);
    if (of_grid.defined()) Tensor(grad_grid).copy_(of_grid);
  } else {
    const SampleShape s(input, grid);
    const auto data = [](const Tensor& t) { return t.defined() ? static_cast<T*>(t.data_ptr()) : nullptr; };
    using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    TENON_CHECK(sizeof(T) == 8 || s.plane <= INT32_MAX, ShapeError,
                "grid_sampler: input: a channel has more than 2^31 entries: ", input.sizes());
    sample_backward<P, T, Index, R>(data(grad_input), data(grad_grid), data(grad), data(input), data(grid), s, mode);
  }
}

template <class T>
void grid_sampler_2d_cpu(const Tensor& out, const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  grid_sampler<T, 2>(out, input, grid, mode);
}
template <class T>
void grid_sampler_3d_cpu(const Tensor& out, const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  grid_sampler<T, 3>(out, input, grid, mode);
}
template <class T>
void grid_sampler_2d_backward_cpu(const Tensor& grad_input, const Tensor& grad_grid, const Tensor& grad,
                                  const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  grid_sampler_backward<T, 2>(grad_input, grad_grid, grad, input, grid, mode);
}
template <class T>
void grid_sampler_3d_backward_cpu(const Tensor& grad_input, const Tensor& grad_grid, const Tensor& grad,
                                  const Tensor& input, const Tensor& grid, const SampleMode& mode) {
  grid_sampler_backward<T, 3>(grad_input, grad_grid, grad, input, grid, mode);
}
TENON_REGISTER_SIMD_KERNEL(op::grid_sampler_2d, FloatsAndHalves, grid_sampler_2d_cpu);
TENON_REGISTER_SIMD_KERNEL(op::grid_sampler_3d, FloatsAndHalves, grid_sampler_3d_cpu);
TENON_REGISTER_SIMD_KERNEL(op::grid_sampler_2d_backward, FloatsAndHalves, grid_sampler_2d_backward_cpu);
TENON_REGISTER_SIMD_KERNEL(op::grid_sampler_3d_backward, FloatsAndHalves, grid_sampler_3d_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

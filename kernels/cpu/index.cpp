// SPDX-License-Identifier: Apache-2.0
// Reading and writing by index (ops/index.h). Indices are checked before anything is written. Adding kernels split the
// work so that no two threads touch one element, and add in the order of the indices: results never vary.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/index.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace tenon::cpu {
namespace {

void check_indices(const char* who, const int64_t* index, int64_t n, int64_t size, std::size_t dim) {
  const auto limit = static_cast<uint64_t>(size);
  bool wrong = false;
  for (int64_t i = 0; i < n; ++i) wrong |= static_cast<uint64_t>(index[i]) >= limit;
  if (!wrong) return;
  for (int64_t i = 0; i < n; ++i)
    TENON_CHECK(index[i] >= 0 && index[i] < size, IndexError, who, ": index: ", index[i], " at position ", i,
                " is out of range for dimension ", dim, " of size ", size, "; expected 0 to ", size - 1);
}

/// A tensor seen from one dimension: `length` slices, each made of `runs` runs of `run` contiguous elements (run is 1
/// when the elements behind the dimension are not packed).
struct Slices {
  int64_t step;  // between slices
  int64_t run = 1, runs = 1;
  int rank = 0;
  int64_t sizes[kMaxDims], strides[kMaxDims];  // of the dimensions that are not in the run, outermost first

  /// `sizes_of` gives the sizes to walk (those of the smaller tensor); `packed`: how many trailing dimensions are a run.
  Slices(const Tensor& t, const Tensor& sizes_of, std::size_t dim, std::size_t packed) : step(t.strides()[dim]) {
    const std::size_t n = t.sizes().size();
    for (std::size_t d = 0; d < n; ++d) {
      if (d == dim) continue;
      const int64_t size = sizes_of.sizes()[d];
      if (d >= n - packed) {
        run *= size;
        continue;
      }
      sizes[rank] = size;
      strides[rank++] = t.strides()[d];
      runs *= size;
    }
  }
  int64_t offset(int64_t i) const {
    int64_t o = 0;
    for (int d = rank; d-- > 0; i /= sizes[d]) o += i % sizes[d] * strides[d];
    return o;
  }
};

/// Trailing dimensions behind `dim` that are packed in both.
std::size_t packed_dims(const Tensor& a, const Tensor& b, std::size_t dim) {
  const std::size_t n = a.sizes().size();
  std::size_t packed = 0;
  int64_t expected = 1;
  for (std::size_t d = n; d-- > dim + 1;) {
    const bool same = a.sizes()[d] == b.sizes()[d] &&
                      (a.sizes()[d] == 1 || (a.strides()[d] == expected && b.strides()[d] == expected));
    if (!same) break;
    expected *= a.sizes()[d];
    ++packed;
  }
  return packed;
}

/// Copies slice from(i) of `source` to slice to(i) of `out` for i < n.
template <class W, class To, class From>
void move_slices(const Tensor& out, const Tensor& source, std::size_t dim, int64_t n, const To& to, const From& from) {
  const std::size_t packed = packed_dims(out, source, dim);
  const Tensor& smaller = out.sizes()[dim] < source.sizes()[dim] ? out : source;
  const Slices a(out, smaller, dim, packed), b(source, smaller, dim, packed);
  W* const target = static_cast<W*>(out.data_ptr());
  const W* const data = static_cast<const W*>(source.data_ptr());
  // Parallel over runs when there are enough of them, else over slices; duplicates in `to` then stay in order only
  // within a thread, so index_copy uses one run per thread.
  const auto bytes = static_cast<std::size_t>(a.run) * sizeof(W);
  const auto copy = [&](int64_t r, int64_t i0, int64_t i1) {
    W* const t = target + a.offset(r);
    const W* const s = data + b.offset(r);
    if (a.run == 1)
      for (int64_t i = i0; i < i1; ++i) t[to(i) * a.step] = s[from(i) * b.step];
    else
      for (int64_t i = i0; i < i1; ++i) std::memcpy(t + to(i) * a.step, s + from(i) * b.step, bytes);
  };
  const int64_t cost = std::max<int64_t>(1, n * a.run);
  if (a.runs > 1 || !std::is_same_v<To, std::identity>) {
    parallel_for(0, a.runs, std::max<int64_t>(1, kGrain / cost), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) copy(r, 0, n);
    });
  } else {
    parallel_for(0, n, std::max<int64_t>(1, kGrain / a.run), [&](int64_t begin, int64_t end) { copy(0, begin, end); });
  }
}

template <class W>
void index_select_cpu(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index) {
  const auto d = static_cast<std::size_t>(dim);
  const auto* const places = static_cast<const int64_t*>(index.data_ptr());
  check_indices("index_select", places, index.numel(), self.sizes()[d], d);
  move_slices<W>(out, self, d, index.numel(), std::identity(), [=](int64_t i) { return places[i]; });
}
template <class W>
void embedding_cpu(const Tensor& out, const Tensor& weight, int64_t dim, const Tensor& index) {
  const auto* const places = static_cast<const int64_t*>(index.data_ptr());
  check_indices("embedding", places, index.numel(), weight.sizes()[0], 0);
  move_slices<W>(out, weight, static_cast<std::size_t>(dim), index.numel(), std::identity(),
                 [=](int64_t i) { return places[i]; });
}
template <class W>
void index_copy_cpu(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source) {
  const auto d = static_cast<std::size_t>(dim);
  const auto* const places = static_cast<const int64_t*>(index.data_ptr());
  check_indices("index_copy", places, index.numel(), out.sizes()[d], d);
  move_slices<W>(
      out, source, d, index.numel(), [=](int64_t i) { return places[i]; }, std::identity());
}

// Sum of two elements: bool is or, integers wrap, 16-bit floats add in float32.
template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return static_cast<T>(static_cast<compute_t<T>>(a) + static_cast<compute_t<T>>(b));
}
template <class T>
T scaled(T alpha, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return alpha && b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(alpha) * static_cast<uint64_t>(b));
  else
    return static_cast<T>(static_cast<compute_t<T>>(alpha) * static_cast<compute_t<T>>(b));
}
template <class T>
void add_run(T* out, const T* source, T alpha, bool one, int64_t n) {
  if (one)
    for (int64_t j = 0; j < n; ++j) out[j] = sum_of(out[j], source[j]);
  else
    for (int64_t j = 0; j < n; ++j) out[j] = sum_of(out[j], scaled(alpha, source[j]));
}

template <class T>
void index_add_cpu(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  const auto d = static_cast<std::size_t>(dim);
  const int64_t n = index.numel();
  const auto* const places = static_cast<const int64_t*>(index.data_ptr());
  check_indices("index_add", places, n, out.sizes()[d], d);
  const std::size_t packed = packed_dims(out, source, d);
  const Slices a(out, source, d, packed), b(source, source, d, packed);
  const T factor = alpha.to<T>();
  const bool one = alpha.equal(1);
  // Threads own columns of the runs.
  const int64_t piece = std::max<int64_t>(64, a.run / (2 * num_threads())), pieces = (a.run + piece - 1) / piece;
  parallel_for(0, a.runs * pieces, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n * std::min(piece, a.run))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   const int64_t r = t / pieces, j = t % pieces * piece, width = std::min(piece, a.run - j);
                   T* const to = static_cast<T*>(out.data_ptr()) + a.offset(r) + j;
                   const T* const from = static_cast<const T*>(source.data_ptr()) + b.offset(r) + j;
                   for (int64_t i = 0; i < n; ++i)
                     add_run(to + places[i] * a.step, from + i * b.step, factor, one, width);
                 }
               });
}

template <class T>
void embedding_backward_cpu(const Tensor& grad_weight, const Tensor& grad, const Tensor& index, int64_t padding_idx,
                            bool scale_grad_by_freq) {
  const int64_t n = index.numel(), rows = grad_weight.sizes()[0], columns = grad_weight.sizes()[1];
  const auto* const places = static_cast<const int64_t*>(index.data_ptr());
  check_indices("embedding_backward", places, n, rows, 0);
  std::vector<int64_t> counts;
  if (scale_grad_by_freq) {
    counts.resize(static_cast<std::size_t>(rows), 0);
    for (int64_t i = 0; i < n; ++i) ++counts[static_cast<std::size_t>(places[i])];
  }
  const int64_t row = grad_weight.strides()[0], column = grad_weight.strides()[1];
  const T* const g = static_cast<const T*>(grad.data_ptr());
  T* const out = static_cast<T*>(grad_weight.data_ptr());
  parallel_for(0, columns, std::max<int64_t>(16, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < n; ++i) {
      if (places[i] == padding_idx) continue;
      T* const to = out + places[i] * row;
      const T* const from = g + i * columns;
      if (!scale_grad_by_freq && column == 1) {
        add_run(to + begin, from + begin, T(1), true, end - begin);
        continue;
      }
      const auto share = scale_grad_by_freq
                             ? compute_t<T>(1) / static_cast<compute_t<T>>(counts[static_cast<std::size_t>(places[i])])
                             : compute_t<T>(1);
      for (int64_t j = begin; j < end; ++j)
        to[j * column] = sum_of(to[j * column], static_cast<T>(static_cast<compute_t<T>>(from[j]) * share));
    }
  });
}

// --- one index for each element ------------------------------------------------------------------------------------
/// Walks the elements of `index`: f(offset in a, offset in b, index) with the offsets of the element's position, in `a`
/// without its part along `dim`. Threads share what differs outside `dim`, and when f only reads `a` all positions.
template <bool kReads, class F>
void each_indexed(const char* who, const Tensor& index, const Tensor& a, const Tensor& b, std::size_t dim, F&& f) {
  const std::size_t n = index.sizes().size();
  const auto* const places = static_cast<const int64_t*>(index.data_ptr());
  int64_t once = 1;  // without what repeats
  for (std::size_t d = 0; d < n; ++d) once *= index.strides()[d] == 0 ? 1 : index.sizes()[d];
  check_indices(who, places, once, a.sizes()[dim], dim);
  // Order of the walk: the other dimensions, then `dim`, then the last dimension when that is another one. The innermost
  // loop is cut in pieces.
  const std::size_t last = n - 1;
  const int64_t width = dim == last ? 1 : index.sizes()[last], length = index.sizes()[dim];
  const int64_t lines = index.numel() / (width * length), span = dim == last ? length : width;
  // Columns are few enough for what they reach in `a` to stay in a core's cache.
  int64_t piece = !kReads && dim == last ? span : std::max<int64_t>(64, span / (2 * num_threads()));
  if (dim != last) piece = std::max<int64_t>(64, std::min(piece, 65536 / a.sizes()[dim]));
  const int64_t pieces = (span + piece - 1) / piece;
  const int64_t index_step = index.strides()[dim], b_step = b.strides()[dim];
  const int64_t a_last = a.strides()[last], b_last = b.strides()[last], index_last = index.strides()[last];
  const int64_t cost = std::max<int64_t>(1, width * length / pieces);
  parallel_for(0, lines * pieces, std::max<int64_t>(1, kGrain / 4 / cost), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t rest = t / pieces, oi = 0, oa = 0, ob = 0;
      const int64_t from = t % pieces * piece, to = std::min(span, from + piece);
      for (std::size_t d = n; d-- > 0;) {
        if (d == dim || d == last) continue;
        const int64_t at = rest % index.sizes()[d];
        rest /= index.sizes()[d];
        oi += at * index.strides()[d], oa += at * a.strides()[d], ob += at * b.strides()[d];
      }
      if (dim == last) {
        for (int64_t i = from; i < to; ++i) f(oa, ob + i * b_step, places[oi + i * index_step]);
        continue;
      }
      for (int64_t i = 0; i < length; ++i, oi += index_step, ob += b_step)
        for (int64_t j = from; j < to; ++j) f(oa + j * a_last, ob + j * b_last, places[oi + j * index_last]);
    }
  });
}

template <class W>
void gather_cpu(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index) {
  const auto d = static_cast<std::size_t>(dim);
  W* const to = static_cast<W*>(out.data_ptr());
  const W* const from = static_cast<const W*>(self.data_ptr());
  const int64_t step = self.strides()[d];
  each_indexed<true>("gather", index, self, out, d,
                     [=](int64_t in_self, int64_t in_out, int64_t i) { to[in_out] = from[in_self + i * step]; });
}
/// t = f(t, v) for every element v of src and the element t of out at its place.
template <class T, class F>
void each_placed(const char* who, const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const F& f) {
  const auto d = static_cast<std::size_t>(dim);
  T* const to = static_cast<T*>(out.data_ptr());
  const T* const from = static_cast<const T*>(src.data_ptr());
  const int64_t step = out.strides()[d];
  each_indexed<false>(who, index, out, src, d, [=](int64_t in_out, int64_t in_src, int64_t i) {
    T& t = to[in_out + i * step];
    t = f(t, from[in_src]);
  });
}
template <class W>
void scatter_cpu(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const char* who) {
  each_placed<W>(who, out, dim, index, src, [](const W&, const W& v) { return v; });
}
template <class T>
void scatter_add_cpu(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const char* who) {
  each_placed<T>(who, out, dim, index, src, sum_of<T>);
}
// NaN wins over every number.
template <class T>
void scatter_reduce_cpu(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, ScatterReduction how,
                        const char* who) {
  using C = compute_t<T>;
  if (how == ScatterReduction::prod) each_placed<T>(who, out, dim, index, src, scaled<T>);
  if constexpr (!is_complex_v<T>) {
    const auto better = [](C a, C b, bool larger) { return (larger ? b > a : b < a) || b != b; };
    if (how == ScatterReduction::amax)
      each_placed<T>(who, out, dim, index, src, [=](T a, T b) { return better(C(a), C(b), true) ? b : a; });
    if (how == ScatterReduction::amin)
      each_placed<T>(who, out, dim, index, src, [=](T a, T b) { return better(C(a), C(b), false) ? b : a; });
  }
}

TENON_REGISTER_KERNEL(op::index_select, cpu, Widths, index_select_cpu);
TENON_REGISTER_KERNEL(op::embedding, cpu, Widths, embedding_cpu);
TENON_REGISTER_KERNEL(op::index_copy, cpu, Widths, index_copy_cpu);
TENON_REGISTER_KERNEL(op::gather, cpu, Widths, gather_cpu);
TENON_REGISTER_KERNEL(op::index_add, cpu, AllTypes, index_add_cpu);
TENON_REGISTER_KERNEL(op::scatter, cpu, Widths, scatter_cpu);
TENON_REGISTER_KERNEL(op::scatter_add, cpu, AllTypes, scatter_add_cpu);
TENON_REGISTER_KERNEL(op::scatter_reduce, cpu, AllTypes, scatter_reduce_cpu);
TENON_REGISTER_KERNEL(op::embedding_backward, cpu, FloatsAndHalves, embedding_backward_cpu);

}  // namespace
}  // namespace tenon::cpu

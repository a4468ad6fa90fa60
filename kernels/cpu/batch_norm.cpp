// SPDX-License-Identifier: Apache-2.0
// Batch and group norm (ops/batch_norm.h). Statistics in two passes, sums in double over short pieces. Two layouts share
// all functions: runs of one channel, whose coefficients are numbers, and rows of all channels, whose coefficients are
// vectors (channels-last, or nothing beside the channels). Results do not depend on the number of threads.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/batch_norm.h>

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/batch_norm.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/rows.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr int64_t kPiece = 4096;      // elements summed before the sum goes to a double
constexpr int64_t kNormGrain = 8192;  // elements worth a second thread

// A coefficient: one number for a run, or one per element of a row.
template <class C>
struct Same {
  C value;
  template <class D, class P, class M>
  HWY_INLINE hn::Vec<D> at(D d, P, M, int64_t) const {
    return hn::Set(d, value);
  }
};
template <class C>
struct Each {
  const C* values;
  template <class D, class P, class M>
  HWY_INLINE hn::Vec<D> at(D d, P partial, M mask, int64_t i) const {
    return load(d, partial, mask, values + i, hn::Zero(d));
  }
};

/// Elements in the compute type: the array itself, or a converted copy.
template <class T, class C>
struct Reader {
  C* buffer;
  const C* operator()(const T* p, int64_t n) const {
    if constexpr (std::is_same_v<T, C>)
      return p;
    else
      return load_row(buffer, p, 1, n), buffer;
  }
};
template <class T, class C, class F>
void write(T* to, C* buffer, int64_t n, F&& f) {  // f writes n elements
  if constexpr (std::is_same_v<T, C>) {
    f(to);
  } else {
    f(buffer);
    store_row(to, 1, static_cast<const C*>(buffer), n);
  }
}

/// y = (x - m) a + b.
template <class C, class K>
void affine(const C* x, C* y, int64_t n, K m, K a, K b) {
  const hn::ScalableTag<C> d;
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto v = hn::Sub(load(d, partial, mask, x + i, hn::Zero(d)), m.at(d, partial, mask, i));
    store(d, partial, mask, hn::MulAdd(v, a.at(d, partial, mask, i), b.at(d, partial, mask, i)), y + i);
  });
}
/// y = g a + (x - m) b + c.
template <class C, class K>
void affine2(const C* g, const C* x, C* y, int64_t n, K a, K m, K b, K c) {
  const hn::ScalableTag<C> d;
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto v = hn::Sub(load(d, partial, mask, x + i, hn::Zero(d)), m.at(d, partial, mask, i));
    const auto w = hn::MulAdd(v, b.at(d, partial, mask, i), c.at(d, partial, mask, i));
    store(d, partial, mask, hn::MulAdd(load(d, partial, mask, g + i, hn::Zero(d)), a.at(d, partial, mask, i), w),
          y + i);
  });
}
/// Adds the sums of g and of g (x - m).
template <class C>
void add_products(const C* g, const C* x, C m, int64_t n, double& sum, double& product) {
  const hn::ScalableTag<C> d;
  const auto vm = hn::Set(d, m), zero = hn::Zero(d);
  auto s = zero, p = zero;
  each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
    const auto vg = load(d, partial, mask, g + i, zero);
    s = hn::Add(s, vg);
    p = hn::MulAdd(vg, hn::Sub(load(d, partial, mask, x + i, vm), vm), p);
  });
  sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, s)));
  product += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, p)));
}

struct Runs {
  int64_t outer, channels, inner;
  explicit Runs(const Tensor& x) : outer(x.sizes()[0]), channels(x.sizes()[1]), inner(x.sizes()[2]) {}
  Runs(int64_t o, int64_t c, int64_t i) : outer(o), channels(c), inner(i) {}
  double count() const { return static_cast<double>(outer) * static_cast<double>(inner); }
  /// f(offset, elements) for the pieces of a channel.
  template <class F>
  void each(int64_t channel, F&& f) const {
    for (int64_t o = 0; o < outer; ++o) {
      const int64_t at = (o * channels + channel) * inner;
      for (int64_t i = 0; i < inner; i += kPiece) f(at + i, std::min(kPiece, inner - i));
    }
  }
  int64_t grain() const { return std::max<int64_t>(1, kNormGrain / std::max<int64_t>(1, outer * inner)); }
};

template <class T, class C>
void moments(const T* x, const Runs& r, int64_t channel, C* buffer, double& mean, double& squares) {
  const Reader<T, C> read{buffer};
  double sum = 0;
  r.each(channel, [&](int64_t at, int64_t n) { sum += static_cast<double>(row_sum(read(x + at, n), n)); });
  mean = sum / r.count();
  squares = 0;
  r.each(channel, [&](int64_t at, int64_t n) {
    squares += static_cast<double>(row_squares(read(x + at, n), static_cast<C>(mean), n));
  });
}

/// total[width] of what add(row, sums) adds for each of `rows` rows, in a fixed number of parts.
template <class C, class F>
void fold_rows(int64_t rows, int64_t width, double* total, F&& add) {
  const int64_t parts = std::clamp<int64_t>(rows / 64, 1, 16), share = (rows + parts - 1) / parts;
  std::vector<double> sums(static_cast<std::size_t>(parts * width));
  parallel_for(0, parts, rows * width < kNormGrain ? parts : 1, [&](int64_t begin, int64_t end) {
    const Scratch<C> short_sums(width, 2);
    for (int64_t p = begin; p < end; ++p) {
      double* const to = sums.data() + p * width;
      std::fill_n(to, width, 0.0);
      for (int64_t first = p * share; first < std::min(rows, (p + 1) * share); first += 32) {
        std::fill_n(short_sums.data(), width, C(0));
        for (int64_t row = first; row < std::min({rows, (p + 1) * share, first + 32}); ++row)
          add(row, short_sums.data());
        for (int64_t i = 0; i < width; ++i) to[i] += static_cast<double>(short_sums.data()[i]);
      }
    }
  });
  std::fill_n(total, width, 0.0);
  for (int64_t p = 0; p < parts; ++p)
    for (int64_t i = 0; i < width; ++i) total[i] += sums.data()[p * width + i];
}

template <class T>
T* data(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.data_ptr()) : nullptr;
}
/// Rows of `n` elements through a function with a buffer of `buffers` rows.
template <class T, class C, class F>
void each_row(int64_t rows, int64_t n, int buffers, F&& f) {
  parallel_for(0, rows, std::max<int64_t>(1, kNormGrain / n), [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(std::is_same_v<T, C> ? 0 : buffers * n, 2);
    for (int64_t row = begin; row < end; ++row) f(row * n, memory.data());
  });
}

template <class T>
void forward_runs(const T* x, T* out, const Runs& r, int64_t channel, compute_t<T>* buffer, compute_t<T> m,
                  compute_t<T> a, compute_t<T> b) {
  using C = compute_t<T>;
  const Reader<T, C> read{buffer};
  r.each(channel, [&](int64_t at, int64_t n) {
    const C* in = read(x + at, n);
    write(out + at, buffer, n, [&](C* to) { affine(in, to, n, Same<C>{m}, Same<C>{a}, Same<C>{b}); });
  });
}

/// Writes out from mean and rstd, which are there.
template <class T>
void apply_rows(const Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                const Tensor& rstd) {
  using C = compute_t<T>;
  const Runs r(x);
  const int64_t n = r.channels;
  const Scratch<C> memory(2 * n, 3);
  C *const a = memory.data(), *const b = a + n;
  for (int64_t c = 0; c < n; ++c) {
    a[c] = data<C>(rstd)[c] * (weight.defined() ? data<C>(weight)[c] : C(1));
    b[c] = bias.defined() ? data<C>(bias)[c] : C(0);
  }
  each_row<T, C>(r.outer, n, 1, [&](int64_t at, C* buffer) {
    const C* in = Reader<T, C>{buffer}(data<T>(x) + at, n);
    write(data<T>(out) + at, buffer, n,
          [&](C* to) { affine(in, to, n, Each<C>{data<C>(mean)}, Each<C>{a}, Each<C>{b}); });
  });
}

template <class T>
void batch_norm_train_cpu(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                          const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                          const Tensor& running_var, double momentum, double eps) {
  using C = compute_t<T>;
  const Runs r(x);
  const auto keep = [&](int64_t c, double m, double squares) {
    data<C>(mean)[c] = static_cast<C>(m);
    data<C>(rstd)[c] = static_cast<C>(1 / std::sqrt(squares / r.count() + eps));
    const auto move = [&](const Tensor& t, double to) {
      if (t.defined())
        data<C>(t)[c] = static_cast<C>((1 - momentum) * static_cast<double>(data<C>(t)[c]) + momentum * to);
    };
    move(running_mean, m), move(running_var, squares / (r.count() - 1));
  };
  const T* const in = data<T>(x);
  if (r.inner == 1) {
    const int64_t n = r.channels;
    std::vector<double> total(static_cast<std::size_t>(2 * n));
    std::vector<C> centre(static_cast<std::size_t>(n));
    const auto fold = [&](double* to, auto term) {
      fold_rows<C>(r.outer, n, to, [&](int64_t row, C* sums) {
        const Scratch<C> buffer(std::is_same_v<T, C> ? 0 : n, 1);
        const C* v = Reader<T, C>{buffer.data()}(in + row * n, n);
        const hn::ScalableTag<C> d;
        each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
          const auto zero = hn::Zero(d), s = load(d, partial, mask, sums + i, zero);
          store(d, partial, mask,
                term(s, load(d, partial, mask, v + i, zero), load(d, partial, mask, centre.data() + i, zero)),
                sums + i);
        });
      });
    };
    fold(total.data(), [](auto s, auto v, auto) HWY_ATTR { return hn::Add(s, v); });
    for (int64_t c = 0; c < n; ++c) total.data()[c] /= r.count(), centre.data()[c] = static_cast<C>(total.data()[c]);
    fold(total.data() + n, [](auto s, auto v, auto m) HWY_ATTR {
      const auto away = hn::Sub(v, m);
      return hn::MulAdd(away, away, s);
    });
    for (int64_t c = 0; c < n; ++c) keep(c, total.data()[c], total.data()[n + c]);
    return apply_rows<T>(out, x, weight, bias, mean, rstd);
  }
  parallel_for(0, r.channels, r.grain(), [&](int64_t begin, int64_t end) {
    const Scratch<C> buffer(std::is_same_v<T, C> ? 0 : kPiece, 2);
    for (int64_t c = begin; c < end; ++c) {
      double m = 0, squares = 0;
      moments(in, r, c, buffer.data(), m, squares);
      keep(c, m, squares);
      forward_runs(in, data<T>(out), r, c, buffer.data(), static_cast<C>(m),
                   data<C>(rstd)[c] * (weight.defined() ? data<C>(weight)[c] : C(1)),
                   bias.defined() ? data<C>(bias)[c] : C(0));
    }
  });
}

template <class T>
void batch_norm_apply_cpu(const Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Tensor& mean, const Tensor& rstd) {
  using C = compute_t<T>;
  const Runs r(x);
  if (r.inner == 1) return apply_rows<T>(out, x, weight, bias, mean, rstd);
  each_row<T, C>(r.outer * r.channels, r.inner, 1, [&](int64_t at, C* buffer) {
    const int64_t c = at / r.inner % r.channels;
    const C a = data<C>(rstd)[c] * (weight.defined() ? data<C>(weight)[c] : C(1));
    forward_runs(data<T>(x) + at, data<T>(out) + at, Runs(1, 1, r.inner), 0, buffer, data<C>(mean)[c], a,
                 bias.defined() ? data<C>(bias)[c] : C(0));
  });
}

// The coefficients of grad_input = grad a + (x - mean) b + c for one channel, from the sums of grad w and grad w (x - mean).
template <class C>
struct Slope {
  C a, b, c;
  Slope(bool train, double rstd, double weight, double sum, double product, double count)
      : a(static_cast<C>(rstd * weight)),
        b(static_cast<C>(train ? -rstd * rstd * rstd * product / count : 0)),
        c(static_cast<C>(train ? -rstd * sum / count : 0)) {}
};

template <class T>
void slope_run(const T* g, const T* x, T* dx, int64_t n, compute_t<T>* buffers, compute_t<T> m,
               const Slope<compute_t<T>>& s) {
  using C = compute_t<T>;
  const Reader<T, C> read_g{buffers}, read_x{buffers + kPiece};
  const C *const vg = read_g(g, n), *const vx = read_x(x, n);
  write(dx, buffers, n, [&](C* to) { affine2(vg, vx, to, n, Same<C>{s.a}, Same<C>{m}, Same<C>{s.b}, Same<C>{s.c}); });
}

template <class T>
void batch_norm_backward_cpu(const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias,
                             const Tensor& grad_output, const Tensor& x, const Tensor& weight, const Tensor& mean,
                             const Tensor& rstd, bool train) {
  using C = compute_t<T>;
  const Runs r(x);
  const T *const g = data<T>(grad_output), *const in = data<T>(x);
  T* const dx = data<T>(grad_input);
  const auto slope = [&](int64_t c, double sum, double product) {
    const double scale = static_cast<double>(data<C>(rstd)[c]),
                 w = weight.defined() ? static_cast<double>(data<C>(weight)[c]) : 1;
    if (grad_weight.defined()) data<C>(grad_weight)[c] = static_cast<C>(product * scale);
    if (grad_bias.defined()) data<C>(grad_bias)[c] = static_cast<C>(sum);
    return Slope<C>(train, scale, w, sum * w, product * w, r.count());
  };
  if (r.inner == 1) {
    const int64_t n = r.channels;
    const C* const centre = data<C>(mean);
    std::vector<double> total(static_cast<std::size_t>(2 * n));
    fold_rows<C>(r.outer, 2 * n, total.data(), [&](int64_t row, C* sums) {
      const Scratch<C> buffer(std::is_same_v<T, C> ? 0 : 2 * n, 1);
      const C *const vg = Reader<T, C>{buffer.data()}(g + row * n, n), *const vx = Reader<T, C>{buffer.data() + n}(
                                                                           in + row * n, n);
      const hn::ScalableTag<C> d;
      each_vector<C>(n, [&](int64_t i, auto partial, auto mask) {
        const auto zero = hn::Zero(d), one = load(d, partial, mask, vg + i, zero);
        const auto away = hn::Sub(load(d, partial, mask, vx + i, zero), load(d, partial, mask, centre + i, zero));
        store(d, partial, mask, hn::Add(load(d, partial, mask, sums + i, zero), one), sums + i);
        store(d, partial, mask, hn::MulAdd(one, away, load(d, partial, mask, sums + n + i, zero)), sums + n + i);
      });
    });
    const Scratch<C> memory(3 * n, 3);
    C *const a = memory.data(), *const b = a + n, *const c = b + n;
    for (int64_t i = 0; i < n; ++i) {
      const Slope<C> s = slope(i, total.data()[i], total.data()[n + i]);
      a[i] = s.a, b[i] = s.b, c[i] = s.c;
    }
    if (!dx) return;
    return each_row<T, C>(r.outer, n, 2, [&](int64_t at, C* buffer) {
      const C *const vg = Reader<T, C>{buffer}(g + at, n), *const vx = Reader<T, C>{buffer + n}(in + at, n);
      write(dx + at, buffer, n,
            [&](C* to) { affine2(vg, vx, to, n, Each<C>{a}, Each<C>{centre}, Each<C>{b}, Each<C>{c}); });
    });
  }
  parallel_for(0, r.channels, r.grain(), [&](int64_t begin, int64_t end) {
    const Scratch<C> buffers(std::is_same_v<T, C> ? 0 : 2 * kPiece, 2);
    const Reader<T, C> read_g{buffers.data()}, read_x{buffers.data() + kPiece};
    for (int64_t c = begin; c < end; ++c) {
      const C m = data<C>(mean)[c];
      double sum = 0, product = 0;
      r.each(c,
             [&](int64_t at, int64_t n) { add_products(read_g(g + at, n), read_x(in + at, n), m, n, sum, product); });
      const Slope<C> s = slope(c, sum, product);
      if (dx) r.each(c, [&](int64_t at, int64_t n) { slope_run(g + at, in + at, dx + at, n, buffers.data(), m, s); });
    }
  });
}

// --- groups: each is a run of its own, [n * groups] of them -----------------------------------------------------------
template <class T>
void native_group_norm_cpu(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                           const Tensor& weight, const Tensor& bias, double eps) {
  using C = compute_t<T>;
  const Runs r(x);
  const int64_t groups = mean.sizes()[1], depth = r.channels / groups, size = depth * r.inner;
  const Runs whole(1, r.outer * groups, size);
  parallel_for(0, whole.channels, whole.grain(), [&](int64_t begin, int64_t end) {
    const Scratch<C> buffer(std::is_same_v<T, C> ? 0 : kPiece, 2);
    for (int64_t k = begin; k < end; ++k) {
      double m = 0, squares = 0;
      moments(data<T>(x), whole, k, buffer.data(), m, squares);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(size) + eps);
      data<C>(mean)[k] = static_cast<C>(m), data<C>(rstd)[k] = static_cast<C>(scale);
      for (int64_t i = 0; i < depth; ++i) {
        const int64_t c = k % groups * depth + i, at = k * size + i * r.inner;
        const double w = weight.defined() ? static_cast<double>(data<C>(weight)[c]) : 1;
        forward_runs(data<T>(x) + at, data<T>(out) + at, Runs(1, 1, r.inner), 0, buffer.data(), static_cast<C>(m),
                     static_cast<C>(scale * w), bias.defined() ? data<C>(bias)[c] : C(0));
      }
    }
  });
}

template <class T>
void native_group_norm_backward_cpu(const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias,
                                    const Tensor& grad_output, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& weight) {
  using C = compute_t<T>;
  const Runs r(x);
  const int64_t groups = mean.numel() / r.outer, depth = r.channels / groups, rows = r.outer * r.channels;
  const T *const g = data<T>(grad_output), *const in = data<T>(x);
  std::vector<double> sums(
      static_cast<std::size_t>(2 * rows));  // of grad and grad (x - mean) for each channel of each entry
  const Runs single(1, rows, r.inner);
  parallel_for(
      0, r.outer * groups, std::max<int64_t>(1, kNormGrain / (depth * r.inner)), [&](int64_t begin, int64_t end) {
        const Scratch<C> buffers(std::is_same_v<T, C> ? 0 : 2 * kPiece, 2);
        const Reader<T, C> read_g{buffers.data()}, read_x{buffers.data() + kPiece};
        for (int64_t k = begin; k < end; ++k) {
          const C m = data<C>(mean)[k];
          const auto w = [&](int64_t row) {
            return weight.defined() ? static_cast<double>(data<C>(weight)[row % r.channels]) : 1;
          };
          double sum = 0, product = 0;
          for (int64_t row = k * depth; row < (k + 1) * depth; ++row) {
            double &s = sums.data()[2 * row] = 0, &p = sums.data()[2 * row + 1] = 0;
            single.each(
                row, [&](int64_t at, int64_t n) { add_products(read_g(g + at, n), read_x(in + at, n), m, n, s, p); });
            sum += s * w(row), product += p * w(row);
          }
          if (!grad_input.defined()) continue;
          for (int64_t row = k * depth; row < (k + 1) * depth; ++row) {
            const Slope<C> s(true, static_cast<double>(data<C>(rstd)[k]), w(row), sum, product,
                             static_cast<double>(depth * r.inner));
            single.each(row, [&](int64_t at, int64_t n) {
              slope_run(g + at, in + at, data<T>(grad_input) + at, n, buffers.data(), m, s);
            });
          }
        }
      });
  for (int64_t c = 0; c < r.channels && (grad_weight.defined() || grad_bias.defined()); ++c) {
    double dw = 0, db = 0;
    for (int64_t row = c; row < rows; row += r.channels) {
      db += sums.data()[2 * row];
      dw += sums.data()[2 * row + 1] * static_cast<double>(data<C>(rstd)[row / depth]);
    }
    if (grad_weight.defined()) data<C>(grad_weight)[c] = static_cast<C>(dw);
    if (grad_bias.defined()) data<C>(grad_bias)[c] = static_cast<C>(db);
  }
}

TENON_REGISTER_SIMD_KERNEL(op::batch_norm_train, FloatsAndHalves, batch_norm_train_cpu);
TENON_REGISTER_SIMD_KERNEL(op::batch_norm_apply, FloatsAndHalves, batch_norm_apply_cpu);
TENON_REGISTER_SIMD_KERNEL(op::batch_norm_backward, FloatsAndHalves, batch_norm_backward_cpu);
TENON_REGISTER_SIMD_KERNEL(op::native_group_norm, FloatsAndHalves, native_group_norm_cpu);
TENON_REGISTER_SIMD_KERNEL(op::native_group_norm_backward, FloatsAndHalves, native_group_norm_backward_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

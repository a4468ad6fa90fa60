// SPDX-License-Identifier: Apache-2.0
// References and samples of the pooling rows. They list the elements of every window, one dimension at a time, and walk the
// lists.
#pragma once

#include <tenon/ops/pool.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tenon::testing::pooling {

using Sizes = std::vector<int64_t>;
/// Of one output: the positions in one dimension that its window has, and how many it counts with the padding.
struct Line {
  Sizes places;
  double counted = 0;
};
using Lines = std::vector<Line>;

inline int64_t at(const Sizes& list, std::size_t d) { return list[list.size() == 1 ? 0 : d]; }

inline Lines regular(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode) {
  Lines lines;
  const int64_t padded = in + 2 * padding, reach = (kernel - 1) * dilation + 1;
  int64_t covered = 0;
  for (int64_t begin = 0;; begin += stride) {
    const bool fits = begin + reach <= padded;
    if (!fits && !(ceil_mode && covered < padded && begin < in + padding)) return lines;
    covered = begin + reach;
    Line line;
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t place = begin + k * dilation;
      if (place < padded) line.counted += 1;
      if (place >= padding && place < padding + in) line.places.push_back(place - padding);
    }
    lines.push_back(line);
  }
}
inline Lines adaptive(int64_t in, int64_t out) {
  Lines lines(static_cast<std::size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    const double share = static_cast<double>(in) / static_cast<double>(out), eps = 1e-9;
    const auto from = static_cast<int64_t>(std::floor(static_cast<double>(o) * share + eps));
    const auto to = static_cast<int64_t>(std::ceil(static_cast<double>(o + 1) * share - eps));
    for (int64_t i = from; i < to; ++i) lines[static_cast<std::size_t>(o)].places.push_back(i);
    lines[static_cast<std::size_t>(o)].counted = static_cast<double>(to - from);
  }
  return lines;
}

struct Pool {
  Sizes lead, in;  // the planes' dimensions, and those of one plane
  std::vector<Lines> lines;

  Pool(const Sizes& sizes, std::size_t n) : lead(sizes.begin(), sizes.end() - n), in(sizes.end() - n, sizes.end()) {}
  int64_t planes() const { return count(lead); }
  Sizes out() const {
    Sizes sizes = lead;
    for (const Lines& l : lines) sizes.push_back(static_cast<int64_t>(l.size()));
    return sizes;
  }
  /// f(output, elements of the window in order, number counted) for every output of a plane; indices are flat.
  template <class F>
  void each(const F& f) const {
    Sizes sizes = out();
    sizes.erase(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(lead.size()));
    int64_t output = 0;
    each_index(sizes, [&](const Sizes& o) {
      Sizes window = {0};
      double counted = 1;
      for (std::size_t d = 0; d < o.size(); ++d) {
        const Line& line = lines[d][static_cast<std::size_t>(o[d])];
        Sizes next;
        for (const int64_t before : window)
          for (const int64_t place : line.places) next.push_back(before * in[d] + place);
        window = next;
        counted *= line.counted;
      }
      f(output++, window, counted);
    });
  }
};

// Of (size or sizes, kernel_size, stride, padding, ...), from argument `k` on.
inline Pool regular_pool(const Args& a, const Sizes& sizes, int k, std::size_t n, const Sizes& dilation,
                         bool ceil_mode) {
  Pool p(sizes, n);
  const Sizes kernel = a.ints(k), stride = a.ints(k + 1).empty() ? kernel : a.ints(k + 1), padding = a.ints(k + 2);
  for (std::size_t d = 0; d < n; ++d)
    p.lines.push_back(regular(p.in[d], at(kernel, d), at(stride, d), at(padding, d), at(dilation, d), ceil_mode));
  return p;
}
inline Pool adaptive_pool(const Sizes& sizes, const Sizes& out, std::size_t n) {
  Pool p(sizes, n);
  for (std::size_t d = 0; d < n; ++d)
    p.lines.push_back(adaptive(p.in[d], at(out, d) == kSameSize ? p.in[d] : at(out, d)));
  return p;
}

/// include: the padding counts; divisor 0: the size of the window.
inline std::vector<Array> mean_of(const Pool& p, const Array& x, bool include, double divisor) {
  Array out = make_array(x.dtype, p.out());
  out.scale.assign(out.data.size(), 0);
  const int64_t per_plane = count(p.in), outputs = out.numel() / std::max<int64_t>(1, p.planes());
  for (int64_t plane = 0; plane < p.planes(); ++plane)
    p.each([&](int64_t o, const Sizes& window, double counted) {
      const double by = divisor != 0 ? divisor : include ? counted : static_cast<double>(window.size());
      double sum = 0, scale = 0;
      for (const int64_t i : window) {
        const double v = x.data[static_cast<std::size_t>(plane * per_plane + i)].re();
        sum += v, scale += std::abs(v);
      }
      const auto to = static_cast<std::size_t>(plane * outputs + o);
      if (x.dtype == kInt64)
        out.data[to] = Number(static_cast<int64_t>(sum / by));
      else
        out.data[to] = Number(sum / by);
      out.scale[to] = scale / std::abs(by);
    });
  return {out};
}
inline std::vector<Array> mean_gradient(const Pool& p, const Array& g, bool include, double divisor) {
  Sizes sizes = p.lead;
  sizes.insert(sizes.end(), p.in.begin(), p.in.end());
  Array out = make_array(g.dtype, sizes);
  for (Number& v : out.data) v = 0.0;
  out.scale.assign(out.data.size(), 0);
  const int64_t per_plane = count(p.in), outputs = g.numel() / std::max<int64_t>(1, p.planes());
  for (int64_t plane = 0; plane < p.planes(); ++plane)
    p.each([&](int64_t o, const Sizes& window, double counted) {
      const double by = divisor != 0 ? divisor : include ? counted : static_cast<double>(window.size());
      const double share = g.data[static_cast<std::size_t>(plane * outputs + o)].re() / by;
      for (const int64_t i : window) {
        const auto to = static_cast<std::size_t>(plane * per_plane + i);
        out.data[to] = Number(out.data[to].re() + share);
        out.scale[to] += std::abs(share);
      }
    });
  return {out};
}
inline std::vector<Array> largest_of(const Pool& p, const Array& x) {
  Array out = make_array(x.dtype, p.out()), indices = make_array(kInt64, p.out());
  const int64_t per_plane = count(p.in), outputs = out.numel() / std::max<int64_t>(1, p.planes());
  for (int64_t plane = 0; plane < p.planes(); ++plane)
    p.each([&](int64_t o, const Sizes& window, double) {
      int64_t best = window[0];
      const auto value = [&](int64_t i) { return x.data[static_cast<std::size_t>(plane * per_plane + i)]; };
      for (const int64_t i : window)
        if (value(i).re() > value(best).re() || std::isnan(value(i).re())) best = i;
      const auto to = static_cast<std::size_t>(plane * outputs + o);
      out.data[to] = value(best), indices.data[to] = best;
    });
  return {out, indices};
}
inline std::vector<Array> first_if(std::vector<Array> both, bool all) {
  if (!all) both.pop_back();
  return both;
}
// The elements of a at the positions, summed in zeros of `sizes`; or the last of them.
inline std::vector<Array> put_back(const Array& a, const Array& positions, const Sizes& sizes, std::size_t n) {
  Array out = make_array(a.dtype, sizes);
  for (Number& v : out.data) v = is_integral(a.dtype) ? Number(int64_t{0}) : Number(0.0);
  out.scale.assign(out.data.size(), 0);
  const Pool p(sizes, n);
  const int64_t per_plane = count(p.in), from = a.numel() / std::max<int64_t>(1, p.planes());
  for (int64_t i = 0; i < a.numel(); ++i) {
    const auto to = static_cast<std::size_t>(i / from * per_plane + positions.data[static_cast<std::size_t>(i)].i);
    const Number& v = a.data[static_cast<std::size_t>(i)];
    out.data[to] = is_integral(a.dtype) ? Number(out.data[to].i + v.i) : Number(out.data[to].re() + v.re());
    out.scale[to] += std::abs(v.re());
  }
  return {out};
}

inline Sizes cut(const Sizes& sizes, std::size_t n) {
  return Sizes(sizes.end() - static_cast<std::ptrdiff_t>(n), sizes.end());
}
// Sizes of a tensor with n dimensions to pool over: the last n of three.
inline Sizes shape(Sizes lead, std::size_t n, const Sizes& of = {4, 5, 7}) {
  for (const int64_t s : cut(of, n)) lead.push_back(s);
  return lead;
}
inline Tensor with_ties(Inputs& in, const Sizes& sizes) {
  std::vector<double> v(static_cast<std::size_t>(count(sizes)));
  for (double& x : v) x = static_cast<double>(in.integer(0, 2));
  if (in.is_floating())
    for (std::size_t i = 0; i < v.size(); i += 7) v[i] = std::numeric_limits<double>::quiet_NaN();
  return in.values(v, sizes);
}
// add(self, kernel_size, stride, padding, dilation, ceil_mode) for windows of every kind.
template <class F>
inline void pools(Inputs& in, std::size_t n, bool dilated, const F& add) {
  const auto list = [&](const Sizes& of) { return cut(of, n); };
  add(in.tensor(shape({2, 3}, n)), list({2, 3, 2}), Sizes(), Sizes{0}, Sizes{1}, false);
  add(in.tensor(shape({3}, n)), list({3, 2, 3}), list({1, 2, 2}), list({1, 0, 1}), Sizes{1}, true);
  add(in.tensor(shape({2, 1}, n)), Sizes{3}, Sizes{1}, Sizes{1}, Sizes{1}, false);
  add(in.tensor(shape({1, 2}, n)), Sizes{2}, Sizes{3}, Sizes{1}, Sizes{1}, true);
  add(in.tensor(shape({1, 2}, n)), list({4, 5, 7}), Sizes{1}, Sizes{0}, Sizes{1}, false);  // all of it
  add(in.tensor(shape({1, 1}, n, {2, 3, 40})), list({1, 2, 9}), list({1, 1, 3}), Sizes{0}, Sizes{1}, false);
  add(in.tensor(shape({0, 2}, n)), Sizes{2}, Sizes(), Sizes{0}, Sizes{1}, false);
  if (dilated) add(in.tensor(shape({2, 2}, n)), Sizes{2}, Sizes{1}, Sizes{1}, list({1, 2, 3}), false);
  if (dilated) add(in.tensor(shape({1, 2}, n)), list({1, 2, 3}), Sizes{2}, Sizes{0}, Sizes{2}, true);
}

}  // namespace tenon::testing::pooling

// SPDX-License-Identifier: Apache-2.0
// Inverses by Gauss and Jordan with row pivots, singular values by the one-sided method of Hestenes (1958) and Jacobi:
// columns are rotated in pairs until all are orthogonal. Both compute in double.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/math.h>
#include <tenon/ops/decomposition.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::cpu {
namespace {

double conjugate(double x) { return x; }
complex<double> conjugate(complex<double> x) { return conj(x); }
double square(double x) { return x * x; }
double square(complex<double> x) { return x.re * x.re + x.im * x.im; }
double largest(double x) { return std::fabs(x); }
double largest(complex<double> x) { return std::max(std::fabs(x.re), std::fabs(x.im)); }
bool finite(double x) { return std::isfinite(x); }
bool finite(complex<double> x) { return std::isfinite(x.re) && std::isfinite(x.im); }
template <class T>
using wide_t = std::conditional_t<is_complex_v<T>, complex<double>, double>;

// [A | 1] to [1 | inverse], rows of 2 n; false when A is singular.
template <class C>
bool invert(int64_t n, std::vector<C>& rows) {
  const auto row = [&](int64_t r) { return rows.data() + r * 2 * n; };
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; ++r)
      if (largest(row(r)[c]) > largest(row(pivot)[c])) pivot = r;
    if (largest(row(pivot)[c]) == 0) return false;
    if (pivot != c) std::swap_ranges(row(c), row(c) + 2 * n, row(pivot));
    C* const from = row(c);
    const C scale = C(1) / from[c];
    for (int64_t j = c; j < 2 * n; ++j) from[j] = from[j] * scale;
    for (int64_t r = 0; r < n; ++r) {
      if (r == c || row(r)[c] == C(0)) continue;
      const C factor = row(r)[c];
      for (int64_t j = c; j < 2 * n; ++j) row(r)[j] = row(r)[j] - factor * from[j];
    }
  }
  return true;
}

template <class T>
void inverse_cpu(const Tensor& out, const Tensor& a) {
  using C = wide_t<T>;
  const int64_t n = a.size(-1), count = a.numel() / (n * n);
  std::vector<char> singular(static_cast<std::size_t>(count), 0);
  parallel_for(0, count, std::max<int64_t>(1, 10000 / (n * n * n)), [&](int64_t begin, int64_t end) {
    std::vector<C> rows;
    for (int64_t i = begin; i < end; ++i) {
      const T* const from = static_cast<const T*>(a.data_ptr()) + i * n * n;
      T* const to = static_cast<T*>(out.data_ptr()) + i * n * n;
      rows.assign(static_cast<std::size_t>(2 * n * n), C(0));
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < n; ++c) rows[static_cast<std::size_t>(r * 2 * n + c)] = C(from[r * n + c]);
        rows[static_cast<std::size_t>(r * 2 * n + n + r)] = C(1);
      }
      singular[static_cast<std::size_t>(i)] = !invert(n, rows);
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c < n; ++c) to[r * n + c] = T(rows[static_cast<std::size_t>(r * 2 * n + n + c)]);
    }
  });
  const auto first = std::find(singular.begin(), singular.end(), 1);
  TENON_CHECK(first == singular.end(), ValueError, "linalg_inv: A: matrix ", first - singular.begin(), " of ", count,
              " is singular");
}

// Columns of w (m >= n entries each) become U S, those of v, a unit matrix, become V.
template <class C>
void orthogonalise(int64_t m, int64_t n, C* w, C* v) {
  constexpr int kMostSweeps = 60;
  constexpr double kEnough = 1e-15;  // cosine of what counts as a right angle
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < kMostSweeps; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        C *const x = w + p * m, *const y = w + q * m;
        double xx = 0, yy = 0;
        C xy(0);
        for (int64_t i = 0; i < m; ++i) xx += square(x[i]), yy += square(y[i]), xy += conjugate(x[i]) * y[i];
        const double size = std::sqrt(square(xy));
        if (size <= kEnough * std::sqrt(xx * yy) || size == 0) continue;
        rotated = true;
        const double zeta = (yy - xx) / (2 * size);
        const double tangent = (zeta < 0 ? -1 : 1) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
        const double cosine = 1 / std::sqrt(1 + tangent * tangent), sine = cosine * tangent;
        // The phase turns y so that its product with x is real, and back: small rotations move columns little.
        const C away = conjugate(xy) * C(sine / size), back = xy * C(sine / size);
        const auto rotate = [&](C* a, C* b, int64_t length) {
          for (int64_t i = 0; i < length; ++i) {
            const C left = a[i], right = b[i];
            a[i] = C(cosine) * left - away * right;
            b[i] = back * left + C(cosine) * right;
          }
        };
        rotate(x, y, m);
        rotate(v + p * n, v + q * n, n);
      }
  }
}

// Any unit column orthogonal to those listed.
template <class C>
void complete(int64_t m, C* column, const std::vector<const C*>& others) {
  for (int64_t axis = 0; axis < m; ++axis) {
    std::fill(column, column + m, C(0));
    column[axis] = C(1);
    double left = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (const C* other : others) {
        C along(0);
        for (int64_t i = 0; i < m; ++i) along += conjugate(other[i]) * column[i];
        for (int64_t i = 0; i < m; ++i) column[i] = column[i] - along * other[i];
      }
      left = 0;
      for (int64_t i = 0; i < m; ++i) left += square(column[i]);
    }
    if (left * 2 * static_cast<double>(m) < 1) continue;  // some axis keeps 1 / m of its square
    for (int64_t i = 0; i < m; ++i) column[i] = column[i] * C(1 / std::sqrt(left));
    return;
  }
}

// One matrix a, rows x columns.
template <class T>
void singular_values(int64_t rows, int64_t columns, const T* a, T* u, math::real_t<T>* s, T* vh) {
  using C = wide_t<T>;
  const bool wide = rows < columns;  // then of its adjoint
  const int64_t m = std::max(rows, columns), n = std::min(rows, columns);
  std::vector<C> w(static_cast<std::size_t>(m * n)), v(static_cast<std::size_t>(n * n), C(0));
  double most = 0;
  for (int64_t i = 0; i < rows * columns; ++i) most = std::max(most, largest(C(a[i])));
  const double scale = most > 1e-300 ? most : 1;
  for (int64_t j = 0; j < n; ++j) {
    v[static_cast<std::size_t>(j * n + j)] = C(1);
    for (int64_t i = 0; i < m; ++i)
      w[static_cast<std::size_t>(j * m + i)] =
          (wide ? conjugate(C(a[j * columns + i])) : C(a[i * columns + j])) * C(1 / scale);
  }
  orthogonalise(m, n, w.data(), v.data());
  std::vector<double> sizes(static_cast<std::size_t>(n), 0);
  for (int64_t j = 0; j < n; ++j) {
    double& size = sizes[static_cast<std::size_t>(j)];
    for (int64_t i = 0; i < m; ++i) size += square(w[static_cast<std::size_t>(j * m + i)]);
    size = std::sqrt(size);
  }
  std::vector<int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t p, int64_t q) {
    return sizes[static_cast<std::size_t>(p)] > sizes[static_cast<std::size_t>(q)];
  });
  std::vector<const C*> known;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<std::size_t>(j)];
    const double size = sizes[static_cast<std::size_t>(from)];
    C *const left = w.data() + from * m, *const right = v.data() + from * n;
    if (size > 0)
      for (int64_t i = 0; i < m; ++i) left[i] = left[i] * C(1 / size);
    else
      complete(m, left, known);
    known.push_back(left);
    s[j] = static_cast<math::real_t<T>>(size * scale);
    const C *const mine = wide ? right : left, *const other = wide ? left : right;
    for (int64_t i = 0; i < rows; ++i) u[i * n + j] = T(mine[i]);
    for (int64_t i = 0; i < columns; ++i) vh[j * columns + i] = T(conjugate(other[i]));
  }
}

template <class T>
void svd_cpu(const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& a) {
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n), count = a.numel() / (m * n);
  const T* const from = static_cast<const T*>(a.data_ptr());
  for (int64_t i = 0; i < a.numel(); ++i)
    TENON_CHECK(finite(wide_t<T>(from[i])), ValueError, "_linalg_svd: A: expected finite numbers");
  parallel_for(0, count, std::max<int64_t>(1, 10000 / (m * n * k)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      singular_values(m, n, from + i * m * n, static_cast<T*>(u.data_ptr()) + i * m * k,
                      static_cast<math::real_t<T>*>(s.data_ptr()) + i * k, static_cast<T*>(vh.data_ptr()) + i * k * n);
  });
}

using Wide = Join<Floats, Complexes>;
TENON_REGISTER_KERNEL(op::linalg_inv, cpu, Wide, inverse_cpu);
TENON_REGISTER_KERNEL(op::_linalg_svd, cpu, Wide, svd_cpu);

}  // namespace
}  // namespace tenon::cpu

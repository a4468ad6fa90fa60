// SPDX-License-Identifier: Apache-2.0
// Scans (ops/scan.h). Lines are independent; a few long ones are cut into chunks of a fixed length, whose totals are
// folded first, so results do not depend on the number of threads. Neighbouring lines are walked side by side.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/scan.h>
#include <tenon/ops/scan.h>

#include <algorithm>
#include <vector>

namespace tenon::cpu {
namespace {

constexpr int64_t kChunk = 16384;  // elements of a line one thread takes
constexpr int64_t kGrain = 16384;  // elements worth a second thread
constexpr int64_t kTile = 256;     // lines side by side

template <class T>
using compute_of =
    std::conditional_t<is_complex_v<T>, complex<double>, std::conditional_t<std::is_integral_v<T>, int64_t, double>>;

// Element k of a line in scan order.
inline int64_t at(const ScanShape& s, int64_t k) { return s.reverse ? s.length - 1 - k : k; }

template <class T>
auto element(T x) {
  if constexpr (is_complex_v<T>)
    return complex<double>(x);
  else
    return x;
}

/// `store(index, partial)` writes result number `index`.
template <class Op, class T, class Store>
void scan_lines(const T* x, const ScanShape& s, const Store& store) {
  using Partial = typename Op::Partial;
  const auto walk = [&](int64_t o, int64_t begin, int64_t end, Partial p) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t i = o * s.length + at(s, k);
      p = Op::fold(p, Op::load(element(x[i]), at(s, k)));
      store(i, p);
    }
  };
  const int64_t chunks = s.outer >= 64 ? 1 : (s.length + kChunk - 1) / kChunk;
  if (chunks <= 1) {
    parallel_for(0, s.outer, kGrain / s.length + 1, [&](int64_t b, int64_t e) {
      for (int64_t o = b; o < e; ++o) walk(o, 0, s.length, Op::identity());
    });
    return;
  }
  std::vector<Partial> before(static_cast<std::size_t>(s.outer * chunks));
  const auto end_of = [&](int64_t c) { return std::min((c + 1) * kChunk, s.length); };
  parallel_for(0, s.outer * chunks, 1, [&](int64_t b, int64_t e) {
    for (int64_t u = b; u < e; ++u) {
      const int64_t o = u / chunks, c = u % chunks;
      Partial p = Op::identity();
      for (int64_t k = c * kChunk; k < end_of(c); ++k)
        p = Op::fold(p, Op::load(element(x[o * s.length + at(s, k)]), at(s, k)));
      before[static_cast<std::size_t>(u)] = p;
    }
  });
  for (int64_t o = 0; o < s.outer; ++o) {
    Partial p = Op::identity();
    for (int64_t c = 0; c < chunks; ++c) {
      Partial& slot = before[static_cast<std::size_t>(o * chunks + c)];
      const Partial total = slot;
      slot = p;
      p = Op::fold(p, total);
    }
  }
  parallel_for(0, s.outer * chunks, 1, [&](int64_t b, int64_t e) {
    for (int64_t u = b; u < e; ++u)
      walk(u / chunks, u % chunks * kChunk, end_of(u % chunks), before[static_cast<std::size_t>(u)]);
  });
}

template <class Op, class T, class Store>
void scan_columns(const T* x, const ScanShape& s, const Store& store) {
  using Partial = typename Op::Partial;
  const int64_t tiles = (s.inner + kTile - 1) / kTile;
  parallel_for(0, s.outer * tiles, kGrain / (s.length * std::min(kTile, s.inner)) + 1, [&](int64_t b, int64_t e) {
    Partial p[kTile];
    for (int64_t u = b; u < e; ++u) {
      const int64_t first = u % tiles * kTile, n = std::min(kTile, s.inner - first);
      for (int64_t j = 0; j < n; ++j) p[j] = Op::identity();
      for (int64_t k = 0; k < s.length; ++k) {
        const int64_t row = (u / tiles * s.length + at(s, k)) * s.inner + first;
        for (int64_t j = 0; j < n; ++j) {
          p[j] = Op::fold(p[j], Op::load(element(x[row + j]), at(s, k)));
          store(row + j, p[j]);
        }
      }
    }
  });
}

template <class Op, class T, class Store>
void scan(const Tensor& self, const ScanShape& s, const Store& store) {
  const T* x = static_cast<const T*>(self.data_ptr());
  s.inner == 1 ? scan_lines<Op>(x, s, store) : scan_columns<Op>(x, s, store);
}

template <class Op, class T>
void scan_values(const Tensor& out, const Tensor& self, const ScanShape& s) {
  using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  Out* y = static_cast<Out*>(out.data_ptr());
  scan<Op, T>(self, s, [y](int64_t i, const typename Op::Partial& p) {
    if constexpr (std::is_same_v<Out, float16> || std::is_same_v<Out, bfloat16>)
      y[i] = Out(static_cast<float>(p));
    else
      y[i] = static_cast<Out>(p);
  });
}
template <class T>
void cumsum_cpu(const Tensor& out, const Tensor& self, const ScanShape& s) {
  scan_values<scan::Sum<compute_of<T>>, T>(out, self, s);
}
template <class T>
void cumprod_cpu(const Tensor& out, const Tensor& self, const ScanShape& s) {
  scan_values<scan::Product<compute_of<T>>, T>(out, self, s);
}
template <class T>
void logcumsumexp_cpu(const Tensor& out, const Tensor& self, const ScanShape& s) {
  scan_values<scan::LogSumExp<compute_of<T>>, T>(out, self, s);
}

template <bool kMax, class T>
void scan_extreme(const Tensor& values, const Tensor& indices, const Tensor& self, const ScanShape& s) {
  const T* x = static_cast<const T*>(self.data_ptr());
  T* v = static_cast<T*>(values.data_ptr());
  int64_t* index = static_cast<int64_t*>(indices.data_ptr());
  using C = compute_t<T>;
  // The value is copied from where it was: no conversion there and back.
  scan<scan::Extreme<C, kMax>, T>(self, s, [=](int64_t i, const scan::Place<C>& p) {
    index[i] = p.position;
    const int64_t line = s.length * s.inner;
    v[i] = x[i / line * line + p.position * s.inner + i % s.inner];
  });
}
template <class T>
void cummax_cpu(const Tensor& values, const Tensor& indices, const Tensor& self, const ScanShape& s) {
  scan_extreme<true, T>(values, indices, self, s);
}
template <class T>
void cummin_cpu(const Tensor& values, const Tensor& indices, const Tensor& self, const ScanShape& s) {
  scan_extreme<false, T>(values, indices, self, s);
}

using FloatsAndComplexes = Join<FloatsAndHalves, Complexes>;
using RealTypes = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::cumsum, cpu, AllTypes, cumsum_cpu);
TENON_REGISTER_KERNEL(op::cumprod, cpu, AllTypes, cumprod_cpu);
TENON_REGISTER_KERNEL(op::logcumsumexp, cpu, FloatsAndComplexes, logcumsumexp_cpu);
TENON_REGISTER_KERNEL(op::cummax, cpu, RealTypes, cummax_cpu);
TENON_REGISTER_KERNEL(op::cummin, cpu, RealTypes, cummin_cpu);

}  // namespace
}  // namespace tenon::cpu

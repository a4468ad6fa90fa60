// SPDX-License-Identifier: Apache-2.0
// Counting by place (ops/histogram.h). Threads count in tables of their own, added up in order: results never vary.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/ops/histogram.h>

#include <algorithm>
#include <vector>

namespace tenon::cpu {
namespace {

// add(table, begin, end) for pieces of n elements; tables of `size` entries are summed into out. How many pieces
// there are depends on n and size alone, so that sums of floats do not depend on the number of threads.
template <class T, class F>
void in_tables(T* out, int64_t size, int64_t n, const F& add) {
  const int64_t pieces = std::clamp<int64_t>(std::min(n / (4 * kGrain), n / (size * 4)), 1, 16);
  if (pieces == 1) {
    add(out, 0, n);
    return;
  }
  const int64_t step = (n + pieces - 1) / pieces;
  std::vector<T> tables(static_cast<std::size_t>(pieces * size));
  parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) add(tables.data() + p * size, p * step, std::min(n, (p + 1) * step));
  });
  for (int64_t p = 0; p < pieces; ++p)
    for (int64_t i = 0; i < size; ++i) out[i] += tables[static_cast<std::size_t>(p * size + i)];
}

template <class T>
void bincount_cpu(const Tensor& out, const Tensor& self, const Tensor& weights) {
  const int64_t size = out.numel();
  const int64_t* const x = static_cast<const int64_t*>(self.data_ptr());
  const T* const w = weights.defined() ? static_cast<const T*>(weights.data_ptr()) : nullptr;
  using Sum = std::conditional_t<std::is_same_v<T, float>, double, T>;
  std::vector<Sum> sums(std::is_same_v<T, Sum> ? 0 : static_cast<std::size_t>(size));
  T* const to = static_cast<T*>(out.data_ptr());
  Sum* table;
  if constexpr (std::is_same_v<T, Sum>)
    table = to;
  else
    table = sums.data();
  in_tables(table, size, self.numel(), [=](Sum* t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (static_cast<uint64_t>(x[i]) < static_cast<uint64_t>(size)) t[x[i]] += w ? static_cast<Sum>(w[i]) : Sum(1);
  });
  if constexpr (!std::is_same_v<T, Sum>)
    for (int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
}

template <class T>
void histc_cpu(const Tensor& counts, const Tensor& self, double low, double high) {
  using C = std::conditional_t<std::is_same_v<compute_t<T>, float>, float, double>;
  const int64_t bins = counts.numel();
  const T* const x = static_cast<const T*>(self.data_ptr());
  // The 16-bit floats round after every step, as their arithmetic does.
  const auto rounded = [](C v) {
    if constexpr (std::is_same_v<T, compute_t<T>>)
      return v;
    else
      return static_cast<C>(static_cast<T>(v));
  };
  const C first = rounded(static_cast<C>(low)), last = rounded(static_cast<C>(high));
  const C width = rounded(last - first), number = rounded(static_cast<C>(bins));
  in_tables(static_cast<int64_t*>(counts.data_ptr()), bins, self.numel(), [=](int64_t* t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const C v = static_cast<C>(static_cast<compute_t<T>>(x[i]));
      if (!(v >= first && v <= last)) continue;
      const C place = rounded(rounded(rounded(v - first) * number) / width);
      ++t[std::min(static_cast<int64_t>(place), bins - 1)];
    }
  });
}

using Sums = Types<int64_t, float, double>;
TENON_REGISTER_KERNEL(op::bincount, cpu, Sums, bincount_cpu);
TENON_REGISTER_KERNEL(op::histc, cpu, Numbers, histc_cpu);

}  // namespace
}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
// Order of rows and groups of equal ones (ops/unique.h).
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/order_key.h>
#include <tenon/ops/unique.h>

#include <algorithm>
#include <numeric>

namespace tenon::cpu {
namespace {

template <class T>
void order_rows_cpu(const Tensor& order, const Tensor& rows) {
  using K = OrderKey<T>;
  const int64_t n = rows.sizes()[0], m = rows.sizes()[1];
  const T* const x = static_cast<const T*>(rows.data_ptr());
  int64_t* const to = static_cast<int64_t*>(order.data_ptr());
  std::iota(to, to + n, int64_t{0});
  std::stable_sort(to, to + n, [=](int64_t a, int64_t b) {
    const T *const p = x + a * m, *const q = x + b * m;
    for (int64_t j = 0; j < m; ++j) {
      const auto left = K::of(p[j]), right = K::of(q[j]);
      if (left != right) return left < right;
    }
    return false;
  });
}

template <class T>
int64_t group_cpu(const Tensor& groups, const Tensor& starts, const Tensor& rows, const Tensor& order) {
  using C = compute_t<T>;
  const int64_t n = rows.sizes()[0], m = rows.sizes()[1];
  const T* const x = static_cast<const T*>(rows.data_ptr());
  const int64_t* const by = order.defined() ? static_cast<const int64_t*>(order.data_ptr()) : nullptr;
  int64_t* const group = static_cast<int64_t*>(groups.data_ptr());
  int64_t* const first = static_cast<int64_t*>(starts.data_ptr());
  // Whether a row begins a group, by all threads; then the numbers, in order.
  parallel_for(0, n, std::max<int64_t>(1, kGrain / m), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      bool differs = i == 0;
      if (!differs) {
        const T *const p = x + (by ? by[i] : i) * m, *const q = x + (by ? by[i - 1] : i - 1) * m;
        for (int64_t j = 0; j < m && !differs; ++j) differs = !(static_cast<C>(p[j]) == static_cast<C>(q[j]));
      }
      group[i] = differs;
    }
  });
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (group[i] != 0) first[count++] = i;
    group[i] = count - 1;
  }
  return count;
}

using Ordered = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::unique, cpu, Ordered, order_rows_cpu);
TENON_REGISTER_KERNEL(op::unique_consecutive, cpu, Ordered, group_cpu);

}  // namespace
}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
// Binary search (ops/search.h). The loop halves without branches on data: the next half is chosen by arithmetic.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/order_key.h>
#include <tenon/ops/search.h>

#include <algorithm>

namespace tenon::cpu {
namespace {

template <class T, class Out>
void search_lines(const Tensor& out, const Tensor& boundaries, const Tensor& input, const Tensor& sorter, bool right) {
  using K = OrderKey<T>;
  const int64_t n = boundaries.sizes().back();
  // A vector of boundaries is one line for all elements.
  const int64_t per_line = boundaries.dim() == 1 ? input.numel() : input.sizes().back();
  const T *const b = static_cast<const T*>(boundaries.data_ptr()), *const x = static_cast<const T*>(input.data_ptr());
  const int64_t* const order = sorter.defined() ? static_cast<const int64_t*>(sorter.data_ptr()) : nullptr;
  if (order)
    for (int64_t i = 0; i < sorter.numel(); ++i)
      TENON_CHECK(order[i] >= 0 && order[i] < n, IndexError, "searchsorted: sorter: ", order[i], " at position ", i,
                  " is out of range; expected 0 to ", n - 1);
  Out* const to = static_cast<Out*>(out.data_ptr());
  const auto passes = [right](auto boundary, auto key) { return right ? boundary <= key : boundary < key; };
  parallel_for(0, input.numel(), kGrain / 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t line = i / per_line * n;
      const auto key = K::of(x[i]);
      const auto at = [&](int64_t k) { return K::of(b[line + (order ? order[line + k] : k)]); };
      int64_t low = 0;
      for (int64_t left = n; left > 0;) {
        const int64_t half = left / 2;
        const bool pass = passes(at(low + half), key);
        low = pass ? low + half + 1 : low;
        left = pass ? left - half - 1 : half;
      }
      to[i] = static_cast<Out>(low);
    }
  });
}
template <class T>
void searchsorted_cpu(const Tensor& out, const Tensor& boundaries, const Tensor& input, const Tensor& sorter,
                      bool right) {
  if (out.dtype() == kInt32)
    search_lines<T, int32_t>(out, boundaries, input, sorter, right);
  else
    search_lines<T, int64_t>(out, boundaries, input, sorter, right);
}

using Ordered = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::searchsorted, cpu, Ordered, searchsorted_cpu);

}  // namespace
}  // namespace tenon::cpu

// SPDX-License-Identifier: Apache-2.0
// Binary search (ops/search.h). The loop halves without branches on data: the next half is chosen by arithmetic.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/order_key.h>
#include <tenon/ops/search.h>

#include <algorithm>

namespace tenon::cpu {
namespace {

constexpr int64_t kTogether = 8;

// Positions of `count` <= kTogether keys among the n keys of a line. All take the same steps, so that the loads of
// one hide behind those of the others.
template <bool kRight, class Key, class At>
void search_together(const Key* keys, int64_t count, int64_t n, const At& at, int64_t* found) {
  const auto passes = [](Key boundary, Key key) { return kRight ? boundary <= key : boundary < key; };
  for (int64_t j = 0; j < count; ++j) found[j] = 0;
  int64_t left = n;
  for (; left > 1; left -= left / 2) {
    const int64_t half = left / 2;
    for (int64_t j = 0; j < count; ++j) found[j] += passes(at(found[j] + half - 1), keys[j]) ? half : 0;
  }
  if (n > 0)
    for (int64_t j = 0; j < count; ++j) found[j] += passes(at(found[j]), keys[j]);
}

template <class T, class Out, bool kRight>
void search_lines(const Tensor& out, const Tensor& boundaries, const Tensor& input, const Tensor& sorter) {
  using K = OrderKey<T>;
  using Key = order_key_t<T>;
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
  parallel_for(0, input.numel(), kGrain / 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin, count; i < end; i += count) {
      const int64_t line = i / per_line;
      count = std::min({kTogether, end - i, (line + 1) * per_line - i});
      Key keys[kTogether];
      int64_t found[kTogether];
      for (int64_t j = 0; j < count; ++j) keys[j] = K::of(x[i + j]);
      const T* const from = b + line * n;
      if (order)
        search_together<kRight>(
            keys, count, n, [=](int64_t k) { return K::of(from[order[line * n + k]]); }, found);
      else
        search_together<kRight>(
            keys, count, n, [=](int64_t k) { return K::of(from[k]); }, found);
      for (int64_t j = 0; j < count; ++j) to[i + j] = static_cast<Out>(found[j]);
    }
  });
}
template <class T>
void searchsorted_cpu(const Tensor& out, const Tensor& boundaries, const Tensor& input, const Tensor& sorter,
                      bool right) {
  const bool narrow = out.dtype() == kInt32;
  if (narrow && right) return search_lines<T, int32_t, true>(out, boundaries, input, sorter);
  if (narrow) return search_lines<T, int32_t, false>(out, boundaries, input, sorter);
  if (right) return search_lines<T, int64_t, true>(out, boundaries, input, sorter);
  search_lines<T, int64_t, false>(out, boundaries, input, sorter);
}

using Ordered = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::searchsorted, cpu, Ordered, searchsorted_cpu);

}  // namespace
}  // namespace tenon::cpu

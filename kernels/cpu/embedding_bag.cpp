// SPDX-License-Identifier: Apache-2.0
// Sums, means and maxima of rows by index (ops/embedding_bag.h), a bag at a time, in the order of the indices. Indices and
// offsets are checked before anything is written.
#include <tenon/ops/embedding_bag.h>

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/embedding_bag.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/pool.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

/// sum = the rows that count, times their scales; a block of four vectors stays in registers.
template <class T, class C>
void add_rows(C* sum, const T* w, int64_t columns, const int64_t* index, const T* scales, int64_t begin, int64_t end,
              int64_t padding_idx) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), block = 4 * lanes;
  C memory[4 * hn::MaxLanes(hn::ScalableTag<C>())];
  int64_t c = 0;
  for (; c + block <= columns; c += block) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t i = begin; i < end; ++i) {
      if (index[i] == padding_idx) continue;
      const C* const row = row_as(w + index[i] * columns + c, memory, block);
      const auto scale = hn::Set(d, scales ? static_cast<C>(scales[i]) : C(1));
      s0 = hn::MulAdd(hn::LoadU(d, row), scale, s0);
      s1 = hn::MulAdd(hn::LoadU(d, row + lanes), scale, s1);
      s2 = hn::MulAdd(hn::LoadU(d, row + 2 * lanes), scale, s2);
      s3 = hn::MulAdd(hn::LoadU(d, row + 3 * lanes), scale, s3);
    }
    hn::StoreU(s0, d, sum + c);
    hn::StoreU(s1, d, sum + c + lanes);
    hn::StoreU(s2, d, sum + c + 2 * lanes);
    hn::StoreU(s3, d, sum + c + 3 * lanes);
  }
  std::fill(sum + c, sum + columns, C(0));
  for (int64_t i = begin; i < end && c < columns; ++i) {
    if (index[i] == padding_idx) continue;
    const C scale = scales ? static_cast<C>(scales[i]) : C(1);
    const T* const row = w + index[i] * columns;
    for (int64_t k = c; k < columns; ++k) sum[k] += static_cast<C>(row[k]) * scale;
  }
}

template <class T>
void embedding_bag_cpu(const Tensor& output, const Tensor& bag_of, const Tensor& counts, const Tensor& places,
                       const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                       const Tensor& per_sample_weights, int64_t mode, int64_t padding_idx) {
  using C = compute_t<T>;
  const int64_t n = indices.numel(), rows = weight.sizes()[0], columns = weight.sizes()[1], bags = output.sizes()[0];
  const auto* const index = static_cast<const int64_t*>(indices.data_ptr());
  const auto* const starts = static_cast<const int64_t*>(offsets.data_ptr());
  const T* const w = static_cast<const T*>(weight.data_ptr());
  const T* const scales = per_sample_weights.defined() ? static_cast<const T*>(per_sample_weights.data_ptr()) : nullptr;
  auto *const bag = static_cast<int64_t*>(bag_of.data_ptr()), *const count = static_cast<int64_t*>(counts.data_ptr());
  auto* const from = mode == kBagMax ? static_cast<int64_t*>(places.data_ptr()) : nullptr;
  T* const out = static_cast<T*>(output.data_ptr());
  for (int64_t i = 0; i < n; ++i)
    TENON_CHECK(index[i] >= 0 && index[i] < rows, IndexError, "embedding_bag: input: ", index[i], " at position ", i,
                " is out of range; expected 0 to ", rows - 1);
  for (int64_t b = 0; b < offsets.numel(); ++b)
    TENON_CHECK(starts[b] <= n && (b > 0 ? starts[b] >= starts[b - 1] : starts[b] == 0), IndexError,
                "embedding_bag: offsets: expected numbers from 0 on that do not fall, at most ", n, ", got ", starts[b],
                " at position ", b);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, columns * (n / bags + 1)));
  parallel_for(0, bags, grain, [&](int64_t begin, int64_t end) {
    const Scratch<C> memory(2 * columns, 2);
    C *const sum = memory.data(), *const memory_row = sum + columns;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t last = b + 1 < offsets.numel() ? starts[b + 1] : n;
      int64_t used = 0;
      if (from) std::fill(from + b * columns, from + (b + 1) * columns, int64_t{-1});
      for (int64_t i = starts[b]; i < last; ++i) {
        if (index[i] == padding_idx) continue;
        bag[i] = b;
        ++used;
        if (!from) continue;
        const C* const row = row_as(w + index[i] * columns, memory_row, columns);
        for (int64_t c = 0; c < columns; ++c)
          if (used == 1 || row[c] > sum[c]) sum[c] = row[c], from[b * columns + c] = index[i];
      }
      if (used == 0) std::fill(sum, sum + columns, C(0));
      if (!from) add_rows(sum, w, columns, index, scales, starts[b], last, padding_idx);
      count[b] = used;
      if (mode == kBagMean && used > 1)
        for (int64_t c = 0; c < columns; ++c) sum[c] /= static_cast<C>(used);
      put_row(out + b * columns, static_cast<const C*>(sum), columns);
    }
  });
}
TENON_REGISTER_SIMD_KERNEL(op::embedding_bag_forward, FloatsAndHalves, embedding_bag_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

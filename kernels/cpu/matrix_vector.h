// SPDX-License-Identifier: Apache-2.0
// A matrix times one column: the loops of matmul.cpp that pack nothing. Each element of the result is added up in an order
// that depends on the sizes alone. Read once per SIMD target, after targets.h.
#ifndef TENON_KERNELS_CPU_PRODUCT
#define TENON_KERNELS_CPU_PRODUCT
namespace tenon::cpu {

/// c = beta * s + alpha * a @ b; strides in elements. s may be null or c.
template <class T>
struct Product {
  int64_t m, n, k;
  const T *a, *b, *s;
  T* c;
  int64_t a_row, a_column, b_row, b_column, s_row, s_column, c_row, c_column;
  T alpha, beta;

  Product transposed() const {
    return {n, m, k, b, a, s, c, b_column, b_row, a_column, a_row, s_column, s_row, c_column, c_row, alpha, beta};
  }
};

}  // namespace tenon::cpu
#endif

#if defined(TENON_KERNELS_CPU_MATRIX_VECTOR) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_MATRIX_VECTOR
#undef TENON_KERNELS_CPU_MATRIX_VECTOR
#else
#define TENON_KERNELS_CPU_MATRIX_VECTOR
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
inline constexpr int64_t kParallelWork = 1 << 19;  ///< multiply-adds that are worth a second thread

template <class T>
T dot(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t n) {
  const hn::ScalableTag<T> d;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  constexpr int64_t kL = kLanes<T>;
  for (; i + 4 * kL <= n; i += 4 * kL) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + kL), hn::LoadU(d, b + i + kL), s1);
    s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * kL), hn::LoadU(d, b + i + 2 * kL), s2);
    s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * kL), hn::LoadU(d, b + i + 3 * kL), s3);
  }
  for (; i + kL <= n; i += kL) s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
  if (i < n) {
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
    s1 = hn::MulAdd(hn::MaskedLoad(rest, d, a + i), hn::MaskedLoad(rest, d, b + i), s1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

#if HWY_TARGET != HWY_SCALAR
/// v's lanes of the same place in all 128-bit blocks added up.
template <class D>
HWY_INLINE void store_block_sums(D d, hn::Vec<D> v, hn::TFromD<D>* to) {
  if constexpr (hn::MaxLanes(d) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    store_block_sums(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  } else {
    hn::StoreU(v, d, to);
  }
}
template <class T>
inline constexpr int64_t kShortRows = 16 / sizeof(T);  ///< rows whose sums fill a block
/// Sums of short rows [i, i + kShortRows) of a times b, of which `left` exist, added up side by side.
template <class T, std::size_t... R>
void dot_rows(const Product<T>& x, const T* b, int64_t i, int64_t left, T* sums, std::index_sequence<R...>) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const T* const a[] = {x.a + (i + std::min<int64_t>(R, left - 1)) * x.a_row...};
  V s[] = {((void)R, hn::Zero(d))...};
  int64_t p = 0;
  for (; p + kLanes<T> <= x.k; p += kLanes<T>) {
    const V factor = hn::LoadU(d, b + p);
    ((s[R] = hn::MulAdd(hn::LoadU(d, a[R] + p), factor, s[R])), ...);
  }
  if (p < x.k) {
    const auto rest = hn::FirstN(d, static_cast<std::size_t>(x.k - p));
    const V factor = hn::MaskedLoad(rest, d, b + p);
    ((s[R] = hn::MulAdd(hn::MaskedLoad(rest, d, a[R] + p), factor, s[R])), ...);
  }
  V pair = hn::Add(hn::InterleaveLower(d, s[0], s[1]), hn::InterleaveUpper(d, s[0], s[1]));
  if constexpr (sizeof(T) == 4) {
    const hn::RepartitionToWide<decltype(d)> wide;
    const auto low = hn::BitCast(wide, pair),
               high =
                   hn::BitCast(wide, hn::Add(hn::InterleaveLower(d, s[2], s[3]), hn::InterleaveUpper(d, s[2], s[3])));
    pair = hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, low, high)),
                   hn::BitCast(d, hn::InterleaveUpper(wide, low, high)));
  }
  store_block_sums(d, pair, sums);
}
#endif

/// Rows [i, i + kVectors vectors) of a times b, of which `left` exist; a's columns are contiguous. Returns how many.
template <int kVectors, class T>
int64_t sum_columns(const Product<T>& x, const T* HWY_RESTRICT b, int64_t i, int64_t left, T* HWY_RESTRICT sums) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kCount = kVectors * kLanes<T>;
  const bool partial = kVectors == 1 && left < kCount;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(left, kLanes<T>)));
  hn::Vec<decltype(d)> sum[kVectors];
  for (auto& v : sum) v = hn::Zero(d);
  for (int64_t p = 0; p < x.k; ++p) {
    const T* const a = x.a + i + p * x.a_column;
    const auto factor = hn::Set(d, b[p]);
    for (int v = 0; v < kVectors; ++v)
      sum[v] = hn::MulAdd(partial ? hn::MaskedLoad(mask, d, a) : hn::LoadU(d, a + v * kLanes<T>), factor, sum[v]);
  }
  for (int v = 0; v < kVectors; ++v) hn::Store(sum[v], d, sums + v * kLanes<T>);
  return std::min(left, kCount);
}

/// x.n is 1.
template <class T>
void matrix_vector(const Product<T>& x) {
  const T* b = x.b;
  Scratch<T> copy(x.b_row == 1 ? 0 : x.k, 0);
  if (x.b_row != 1) {
    for (int64_t p = 0; p < x.k; ++p) copy.data()[p] = x.b[p * x.b_row];
    b = copy.data();
  }
  const auto put = [&](int64_t i, T sum) {
    T& c = x.c[i * x.c_row];
    c = x.alpha * sum + (x.s ? x.beta * x.s[i * x.s_row] : T(0));
  };
  const int64_t grain = std::max<int64_t>(1, kParallelWork / 4 / std::max<int64_t>(x.k, 1));
  parallel_for(0, x.m, grain, [&](int64_t begin, int64_t end) {
#if HWY_TARGET != HWY_SCALAR
    if (x.a_column == 1 && x.k <= 8 * kLanes<T>) {
      constexpr int64_t kRowsAtOnce = kShortRows<T>;
      for (int64_t i = begin; i < end; i += kRowsAtOnce) {
        T sums[kRowsAtOnce];
        dot_rows(x, b, i, end - i, sums, std::make_index_sequence<kRowsAtOnce>());
        for (int64_t r = 0; r < std::min(kRowsAtOnce, end - i); ++r) put(i + r, sums[r]);
      }
      return;
    }
#endif
    if (x.a_row != 1 || x.a_column == 1) {
      for (int64_t i = begin; i < end; ++i) {
        const T* const a = x.a + i * x.a_row;
        if (x.a_column == 1) {
          put(i, dot(a, b, x.k));
          continue;
        }
        T sum = 0;
        for (int64_t p = 0; p < x.k; ++p) sum += a[p * x.a_column] * b[p];
        put(i, sum);
      }
      return;
    }
    // Columns of a are contiguous: up to eight vectors of sums.
    for (int64_t i = begin; i < end;) {
      HWY_ALIGN T sums[8 * kLanes<T>];
      const int64_t left = end - i;
      const int64_t count = left >= 8 * kLanes<T>   ? sum_columns<8, T>(x, b, i, left, sums)
                            : left >= 4 * kLanes<T> ? sum_columns<4, T>(x, b, i, left, sums)
                            : left >= 2 * kLanes<T> ? sum_columns<2, T>(x, b, i, left, sums)
                                                    : sum_columns<1, T>(x, b, i, left, sums);
      for (int64_t r = 0; r < count; ++r) put(i + r, sums[r]);
      i += count;
    }
  });
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

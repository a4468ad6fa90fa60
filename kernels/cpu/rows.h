// SPDX-License-Identifier: Apache-2.0
// Rows of elements for kernels that reduce and rewrite them (softmax, layer norm): loading a row of any type and stride
// into the type it is computed in, storing it, and a loop over its vectors. Read once per SIMD target, after targets.h.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/simd_math.h>

#include <cmath>

#ifndef TENON_KERNELS_CPU_ROWS_COMMON
#define TENON_KERNELS_CPU_ROWS_COMMON
namespace tenon::cpu {

template <class T, class C>
void load_row(C* to, const T* from, int64_t step, int64_t n) {
  if constexpr (!std::is_same_v<T, C>) {
    if (step == 1) return small_to_float(to, from, dtype_of<T>(), n);
  }
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(from[i * step]);
}
template <class T, class C>
void store_row(T* to, int64_t step, const C* from, int64_t n) {
  if constexpr (!std::is_same_v<T, C>) {
    if (step == 1) return float_to_small(to, dtype_of<T>(), from, n);
  }
  for (int64_t i = 0; i < n; ++i) to[i * step] = static_cast<T>(from[i]);
}

}  // namespace tenon::cpu
#endif

#if defined(TENON_KERNELS_CPU_ROWS) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_ROWS
#undef TENON_KERNELS_CPU_ROWS
#else
#define TENON_KERNELS_CPU_ROWS
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The library's float exp; double goes through the C library.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return exp(d, x);
  } else {
    HWY_ALIGN double values[hn::MaxLanes(D())];
    hn::Store(x, d, values);
    for (double& v : values) v = std::exp(v);
    return hn::Load(d, values);
  }
}

// f(vector, first index, mask of valid lanes) for every vector of n elements; the last one may be partial.
template <class C, class F>
HWY_INLINE void each_vector(int64_t n, F&& f) {
  const hn::ScalableTag<C> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(i, std::false_type(), hn::FirstN(d, static_cast<std::size_t>(lanes)));
  if (i < n) f(i, std::true_type(), hn::FirstN(d, static_cast<std::size_t>(n - i)));
}
template <class D, class M, class C, class Partial>
HWY_INLINE hn::Vec<D> load(D d, Partial, M mask, const C* p, hn::Vec<D> otherwise) {
  if constexpr (Partial::value)
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), otherwise);
  else
    return hn::LoadU(d, p);
}
template <class D, class M, class C, class Partial>
HWY_INLINE void store(D d, Partial, M mask, hn::Vec<D> v, C* p) {
  if constexpr (Partial::value)
    hn::BlendedStore(v, mask, d, p);
  else
    hn::StoreU(v, d, p);
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

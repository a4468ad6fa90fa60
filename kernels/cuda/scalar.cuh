// SPDX-License-Identifier: Apache-2.0
// Small device functions the pointwise kernels and reductions share: truth, order with NaN, conversion.
#pragma once

#include <tenon/core/dtype.h>
#include <tenon/kernels/cuda/vector.cuh>

namespace tenon::cuda {

template <class T>
inline constexpr bool is_float_v = std::is_same_v<compute_t<T>, float> || std::is_same_v<T, double>;

template <class T>
__device__ __forceinline__ bool is_nonzero(T v) {
  if constexpr (is_complex_v<T>)
    return v.re != 0 || v.im != 0;
  else
    return static_cast<compute_t<T>>(v) != compute_t<T>(0);
}

template <class T>
__device__ __forceinline__ bool is_nan(T v) {
  if constexpr (is_complex_v<T>)
    return v.re != v.re || v.im != v.im;
  else if constexpr (is_float_v<T>)
    return static_cast<compute_t<T>>(v) != static_cast<compute_t<T>>(v);
  else
    return false;
}

/// The larger; NaN if either is NaN. T is a compute type.
template <class T>
__device__ __forceinline__ T larger(T a, T b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
  }
#endif
  return a > b || is_nan(a) ? a : b;
}
template <class T>
__device__ __forceinline__ T smaller(T a, T b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    float c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
  }
#endif
  return a < b || is_nan(a) ? a : b;
}

/// PyTorch's conversions: anything nonzero is true, complex numbers lose their imaginary part, floats truncate, and
/// what does not fit a small integer wraps.
template <class To, class From>
__device__ __forceinline__ To convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (std::is_same_v<To, bool>) {
    return is_nonzero(v);
  } else if constexpr (is_complex_v<To>) {
    using V = typename To::value_type;
    if constexpr (is_complex_v<From>)
      return To(static_cast<V>(v.re), static_cast<V>(v.im));
    else
      return To(static_cast<V>(static_cast<compute_t<From>>(v)));
  } else if constexpr (is_complex_v<From>) {
    return convert<To>(v.re);
  } else if constexpr (!std::is_same_v<compute_t<To>, To>) {
    return To(static_cast<float>(static_cast<compute_t<From>>(v)));
  } else if constexpr (std::is_integral_v<To> && is_float_v<From>) {
    if constexpr (std::is_same_v<To, int32_t>)
      return static_cast<int32_t>(static_cast<compute_t<From>>(v));
    else
      return static_cast<To>(static_cast<int64_t>(static_cast<compute_t<From>>(v)));
  } else {
    return static_cast<To>(static_cast<compute_t<From>>(v));
  }
}

}  // namespace tenon::cuda

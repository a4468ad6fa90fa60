// SPDX-License-Identifier: Apache-2.0
// Moving and converting runs of elements; see convert.h.
#include <tenon/kernels/cpu/convert.h>

#include <hwy/cache_control.h>

#include <cstdlib>
#include <cstring>

#ifndef TENON_KERNELS_CPU_CONVERT_COMMON
#define TENON_KERNELS_CPU_CONVERT_COMMON
namespace tenon::cpu {
namespace {
struct Bytes16 {
  uint64_t part[2];
};
}  // namespace
}  // namespace tenon::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/convert.cpp"
#include <tenon/kernels/cpu/targets.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// F16C rounds and quiets NaN as core/half.h does; without it the scalar code runs.
void float16_to_float(float* to, const uint16_t* from, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from + i))), d, to + i);
#endif
  for (; i < n; ++i) to[i] = detail::float16_to_float(from[i]);
}
void float_to_float16(uint16_t* to, const float* from, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half, reinterpret_cast<hwy::float16_t*>(to + i));
#endif
  for (; i < n; ++i) to[i] = detail::float_to_float16(from[i]);
}
void bfloat16_to_float(float* to, const uint16_t* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = detail::bfloat16_to_float(from[i]);
}
void float_to_bfloat16(uint16_t* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {  // both sides of the choice are computed, so that the loop vectorises
    const uint32_t bits = detail::float_bits(from[i]);
    const uint32_t nan = (bits >> 16) | 0x40u, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    to[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

#if HWY_TARGET != HWY_SCALAR
// A square of N x N elements in N registers of 16 bytes: log2(N) rounds of interleaving register k with k + N / 2.
template <class T, int N = 16 / sizeof(T)>
HWY_INLINE void transpose_block(char* to, int64_t to_row, const char* from, int64_t from_column) {
  const hn::Full128<T> d;
  hn::Vec<decltype(d)> a[N], b[N];
  for (int k = 0; k < N; ++k) a[k] = hn::LoadU(d, reinterpret_cast<const T*>(from + k * from_column));
  for (int round = 1; round < N; round *= 2) {
    for (int k = 0; k < N / 2; ++k) {
      b[2 * k] = hn::InterleaveLower(d, a[k], a[k + N / 2]);
      b[2 * k + 1] = hn::InterleaveUpper(d, a[k], a[k + N / 2]);
    }
    for (int k = 0; k < N; ++k) a[k] = b[k];
  }
  for (int k = 0; k < N; ++k) hn::StoreU(a[k], d, reinterpret_cast<T*>(to + k * to_row));
}
#endif

template <class T>
void transpose(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t rows, int64_t columns) {
  constexpr int64_t kSize = sizeof(T);
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kSize < 16) {
    constexpr int64_t N = 16 / kSize;
    for (; c + N <= columns; c += N) {
      int64_t r = 0;
      for (; r + N <= rows; r += N)
        transpose_block<T>(to + r * to_row + c * kSize, to_row, from + c * from_column + r * kSize, from_column);
      for (; r < rows; ++r)
        for (int64_t k = c; k < c + N; ++k)
          *reinterpret_cast<T*>(to + r * to_row + k * kSize) =
              *reinterpret_cast<const T*>(from + k * from_column + r * kSize);
    }
  }
#endif
  for (; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r)
      *reinterpret_cast<T*>(to + r * to_row + c * kSize) =
          *reinterpret_cast<const T*>(from + c * from_column + r * kSize);
}
void stream(char* to, const char* from, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = -static_cast<int64_t>(reinterpret_cast<uintptr_t>(to)) & (lanes - 1);
  if (i > bytes) i = bytes;
  std::memcpy(to, from, static_cast<std::size_t>(i));
  for (; i + lanes <= bytes; i += lanes)
    hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from + i)), d, reinterpret_cast<uint8_t*>(to + i));
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}
void transpose8(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t rows, int64_t columns) {
  transpose<uint8_t>(to, to_row, from, from_column, rows, columns);
}
void transpose16(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t rows, int64_t columns) {
  transpose<uint16_t>(to, to_row, from, from_column, rows, columns);
}
void transpose32(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t rows, int64_t columns) {
  transpose<uint32_t>(to, to_row, from, from_column, rows, columns);
}
void transpose64(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t rows, int64_t columns) {
  transpose<uint64_t>(to, to_row, from, from_column, rows, columns);
}
void transpose128(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t rows, int64_t columns) {
  transpose<Bytes16>(to, to_row, from, from_column, rows, columns);
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
HWY_EXPORT(float16_to_float);
HWY_EXPORT(float_to_float16);
HWY_EXPORT(bfloat16_to_float);
HWY_EXPORT(float_to_bfloat16);
HWY_EXPORT(stream);
HWY_EXPORT(transpose8);
HWY_EXPORT(transpose16);
HWY_EXPORT(transpose32);
HWY_EXPORT(transpose64);
HWY_EXPORT(transpose128);

namespace {
template <class T>
void widen(float* to, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<const T*>(from)[i];
}
template <class T>
void narrow(void* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = from[i];
}
}  // namespace

void small_to_float(float* to, const void* from, DType from_dtype, int64_t n) {
  const auto* bits = static_cast<const uint16_t*>(from);
  switch (from_dtype) {
    case kFloat16:
      return n == 1 ? widen<float16>(to, from, 1) : HWY_DYNAMIC_DISPATCH(float16_to_float)(to, bits, n);
    case kBFloat16:
      return n == 1 ? widen<bfloat16>(to, from, 1) : HWY_DYNAMIC_DISPATCH(bfloat16_to_float)(to, bits, n);
    case kFloat8_e4m3fn:
      return widen<float8_e4m3fn>(to, from, n);
    default:
      return widen<float8_e5m2>(to, from, n);
  }
}
void float_to_small(void* to, DType to_dtype, const float* from, int64_t n) {
  auto* bits = static_cast<uint16_t*>(to);
  switch (to_dtype) {
    case kFloat16:
      return n == 1 ? narrow<float16>(to, from, 1) : HWY_DYNAMIC_DISPATCH(float_to_float16)(bits, from, n);
    case kBFloat16:
      return n == 1 ? narrow<bfloat16>(to, from, 1) : HWY_DYNAMIC_DISPATCH(float_to_bfloat16)(bits, from, n);
    case kFloat8_e4m3fn:
      return narrow<float8_e4m3fn>(to, from, n);
    default:
      return narrow<float8_e5m2>(to, from, n);
  }
}

// TENON_CPU_CAPABILITY=baseline or avx2 holds the kernels back, for tests and comparisons.
int target_rank(int64_t target) {
  static const int64_t supported = [] {
    if (const char* most = std::getenv("TENON_CPU_CAPABILITY")) {
      if (std::strcmp(most, "avx2") == 0) hwy::DisableTargets(HWY_AVX2 - 1);
      if (std::strcmp(most, "baseline") == 0) hwy::DisableTargets(HWY_STATIC_TARGET - 1);
    }
    return hwy::SupportedTargets() | HWY_STATIC_TARGET;
  }();
  return supported & target ? 63 - __builtin_ctzll(static_cast<uint64_t>(target)) : -1;
}

namespace {
template <class T>
void move_as(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
  if (from_stride == 0 && to_stride == static_cast<int64_t>(sizeof(T))) {
    T v;
    std::memcpy(&v, from, sizeof v);
    T* out = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) out[i] = v;
    return;
  }
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if (from_stride == -kSize && to_stride == kSize) {  // flipped: known steps make vectors of it
    T* __restrict out = reinterpret_cast<T*>(to);
    const T* __restrict in = reinterpret_cast<const T*>(from) - (n - 1);
    for (int64_t i = 0; i < n; ++i) out[i] = in[n - 1 - i];
    return;
  }
  for (int64_t i = 0; i < n; ++i, to += to_stride, from += from_stride)
    *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
}
}  // namespace

void move_strided(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t size, int64_t n) {
  if (to_stride == size && from_stride == size && n > 8) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size));
    return;
  }
  switch (size) {
    case 1:
      return move_as<uint8_t>(to, to_stride, from, from_stride, n);
    case 2:
      return move_as<uint16_t>(to, to_stride, from, from_stride, n);
    case 4:
      return move_as<uint32_t>(to, to_stride, from, from_stride, n);
    case 8:
      return move_as<uint64_t>(to, to_stride, from, from_stride, n);
    default:
      return move_as<Bytes16>(to, to_stride, from, from_stride, n);
  }
}

void stream_bytes(char* to, const char* from, int64_t bytes) {
  // Asking Highway executes CPUID, which a virtual machine makes cost tens of microseconds: once.
  static const bool scalar = HWY_STATIC_TARGET == HWY_SCALAR && hwy::SupportedTargets() == HWY_SCALAR;
  if (scalar)  // a byte at a time would be no stream
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  else
    HWY_DYNAMIC_DISPATCH(stream)(to, from, bytes);
}
void end_stream() { hwy::FlushStream(); }

void move_transposed(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t size, int64_t rows,
                     int64_t columns) {
  switch (size) {
    case 1:
      return HWY_DYNAMIC_DISPATCH(transpose8)(to, to_row, from, from_column, rows, columns);
    case 2:
      return HWY_DYNAMIC_DISPATCH(transpose16)(to, to_row, from, from_column, rows, columns);
    case 4:
      return HWY_DYNAMIC_DISPATCH(transpose32)(to, to_row, from, from_column, rows, columns);
    case 8:
      return HWY_DYNAMIC_DISPATCH(transpose64)(to, to_row, from, from_column, rows, columns);
    default:
      return HWY_DYNAMIC_DISPATCH(transpose128)(to, to_row, from, from_column, rows, columns);
  }
}
}  // namespace tenon::cpu
#endif

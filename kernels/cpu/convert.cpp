// SPDX-License-Identifier: Apache-2.0
// Moving and converting runs of elements; see convert.h.
#include <tenon/kernels/cpu/convert.h>

#include <cstring>

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

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
HWY_EXPORT(float16_to_float);
HWY_EXPORT(float_to_float16);
HWY_EXPORT(bfloat16_to_float);
HWY_EXPORT(float_to_bfloat16);

void half_to_float(float* to, const void* from, DType from_dtype, int64_t n) {
  const auto* bits = static_cast<const uint16_t*>(from);
  if (n == 1)
    to[0] = from_dtype == kFloat16 ? detail::float16_to_float(bits[0]) : detail::bfloat16_to_float(bits[0]);
  else if (from_dtype == kFloat16)
    HWY_DYNAMIC_DISPATCH(float16_to_float)(to, bits, n);
  else
    HWY_DYNAMIC_DISPATCH(bfloat16_to_float)(to, bits, n);
}
void float_to_half(void* to, DType to_dtype, const float* from, int64_t n) {
  auto* bits = static_cast<uint16_t*>(to);
  if (n == 1)
    bits[0] = to_dtype == kFloat16 ? detail::float_to_float16(from[0]) : detail::float_to_bfloat16(from[0]);
  else if (to_dtype == kFloat16)
    HWY_DYNAMIC_DISPATCH(float_to_float16)(bits, from, n);
  else
    HWY_DYNAMIC_DISPATCH(float_to_bfloat16)(bits, from, n);
}

int target_rank(int64_t target) {
  return (hwy::SupportedTargets() | HWY_STATIC_TARGET) & target ? 63 - __builtin_ctzll(static_cast<uint64_t>(target)) : -1;
}

namespace {
struct Bytes16 { uint64_t part[2]; };

template <class T>
void move_as(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
  if (from_stride == 0 && to_stride == static_cast<int64_t>(sizeof(T))) {
    T v;
    std::memcpy(&v, from, sizeof v);
    T* out = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) out[i] = v;
    return;
  }
  for (int64_t i = 0; i < n; ++i, to += to_stride, from += from_stride)
    *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
}
template <class T>
void transpose_as(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) {
    const T* in = reinterpret_cast<const T*>(from + c * from_column);
    char* out = to + c * static_cast<int64_t>(sizeof(T));
    for (int64_t r = 0; r < rows; ++r, out += to_row) *reinterpret_cast<T*>(out) = in[r];
  }
}
}  // namespace

void move_strided(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t size, int64_t n) {
  if (to_stride == size && from_stride == size && n > 8) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size));
    return;
  }
  switch (size) {
    case 1: return move_as<uint8_t>(to, to_stride, from, from_stride, n);
    case 2: return move_as<uint16_t>(to, to_stride, from, from_stride, n);
    case 4: return move_as<uint32_t>(to, to_stride, from, from_stride, n);
    case 8: return move_as<uint64_t>(to, to_stride, from, from_stride, n);
    default: return move_as<Bytes16>(to, to_stride, from, from_stride, n);
  }
}

void move_transposed(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t size, int64_t rows,
                     int64_t columns) {
  switch (size) {
    case 1: return transpose_as<uint8_t>(to, to_row, from, from_column, rows, columns);
    case 2: return transpose_as<uint16_t>(to, to_row, from, from_column, rows, columns);
    case 4: return transpose_as<uint32_t>(to, to_row, from, from_column, rows, columns);
    case 8: return transpose_as<uint64_t>(to, to_row, from, from_column, rows, columns);
    default: return transpose_as<Bytes16>(to, to_row, from, from_column, rows, columns);
  }
}
}  // namespace tenon::cpu
#endif

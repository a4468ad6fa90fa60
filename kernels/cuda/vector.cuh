// SPDX-License-Identifier: Apache-2.0
// Vector: neighbouring elements that one thread reads and writes together, in accesses of up to 16 bytes.
#pragma once

#include <tenon/core/complex.h>
#include <tenon/core/half.h>

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace tenon::cuda {

template <class T, int W>
struct alignas(sizeof(T) * W < 16 ? sizeof(T) * W : 16) Vector {
  T v[W];
};

namespace detail {
template <int Bytes>
struct Word;
template <>
struct Word<1> {
  using type = uint8_t;
};
template <>
struct Word<2> {
  using type = uint16_t;
};
template <>
struct Word<4> {
  using type = uint32_t;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};
}  // namespace detail

/// An integer word of as many bytes as T, to move values without looking at them.
template <int Bytes>
using word_t = typename detail::Word<Bytes>::type;

/// Reads W elements at p, aligned to min(16, W * sizeof(T)) bytes. An ordinary (coherent) load: operands may be
/// written in place.
template <class T, int W>
__device__ __forceinline__ Vector<T, W> load_vector(const void* p) {
  constexpr int kBytes = sizeof(T) * W, kStep = kBytes < 16 ? kBytes : 16;
  using W_t = word_t<kStep>;
  W_t words[kBytes / kStep];
#pragma unroll
  for (int i = 0; i < kBytes / kStep; ++i) words[i] = static_cast<const W_t*>(p)[i];
  Vector<T, W> x;
  memcpy(&x, words, kBytes);
  return x;
}

template <class T, int W>
__device__ __forceinline__ void store_vector(void* p, const Vector<T, W>& x) {
  constexpr int kBytes = sizeof(T) * W, kStep = kBytes < 16 ? kBytes : 16;
  using W_t = word_t<kStep>;
  W_t words[kBytes / kStep];
  memcpy(words, &x, kBytes);
#pragma unroll
  for (int i = 0; i < kBytes / kStep; ++i) static_cast<W_t*>(p)[i] = words[i];
}

/// What arithmetic on T is done in: float for the small floats, T for the rest.
template <class T>
struct Compute {
  using type = T;
};
template <>
struct Compute<float16> {
  using type = float;
};
template <>
struct Compute<bfloat16> {
  using type = float;
};
template <>
struct Compute<float8_e4m3fn> {
  using type = float;
};
template <>
struct Compute<float8_e5m2> {
  using type = float;
};
template <class T>
using compute_t = typename Compute<T>::type;

}  // namespace tenon::cuda

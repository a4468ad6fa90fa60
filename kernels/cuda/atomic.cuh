// SPDX-License-Identifier: Apache-2.0
// atomic_add for every element type, in device memory and without a result, and atomic_update by any function for those of
// up to 8 bytes. Sums and products of floats depend on the order in which threads come.
#pragma once

#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon::cuda {

/// *p = f(*p), and nobody in between.
template <class T, class F>
__device__ __forceinline__ void atomic_update(T* p, const F& f) {
  static_assert(sizeof(T) <= 8);
  using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  const auto address = reinterpret_cast<uintptr_t>(p);
  auto* word = reinterpret_cast<Word*>(address & ~uintptr_t(sizeof(Word) - 1));
  const unsigned shift = static_cast<unsigned>(address & (sizeof(Word) - 1)) * 8;
  const Word mask = static_cast<Word>(~Word(0) >> (8 * (sizeof(Word) - sizeof(T)))) << shift;
  Word old = *reinterpret_cast<volatile Word*>(word);
  for (;;) {
    Word bits = (old & mask) >> shift;
    T value;
    memcpy(&value, &bits, sizeof(T));
    value = f(value);
    memcpy(&bits, &value, sizeof(T));  // the low bytes
    const Word next = (old & ~mask) | (bits << shift);
    if (next == old) return;
    const Word seen = atomicCAS(word, old, next);
    if (seen == old) return;
    old = seen;
  }
}

template <class T>
__device__ __forceinline__ void atomic_add(T* p, T v) {
  if constexpr (is_complex_v<T>) {
    auto* parts = reinterpret_cast<typename T::value_type*>(p);
    atomicAdd(parts, v.re);
    atomicAdd(parts + 1, v.im);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (v) *p = true;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v));
  } else if constexpr (std::is_same_v<T, float16>) {
    asm volatile("red.relaxed.gpu.add.noftz.f16 [%0], %1;" ::"l"(p), "h"(v.bits) : "memory");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    asm volatile("red.relaxed.gpu.add.noftz.bf16 [%0], %1;" ::"l"(p), "h"(v.bits) : "memory");
#endif
  } else if constexpr (sizeof(T) < 4) {
    using C = compute_t<T>;
    atomic_update(p, [v](T old) { return static_cast<T>(static_cast<C>(old) + static_cast<C>(v)); });
  } else {
    atomicAdd(p, v);
  }
}

}  // namespace tenon::cuda

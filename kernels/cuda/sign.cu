// SPDX-License-Identifier: Apache-2.0
// Signs.
#include <tenon/ops/sign.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using Reals = Join<Numbers, Bools>;

template <class T>
struct Sign {
  __device__ T operator()(T v) const {
    const cuda::compute_t<T> x = v;
    return static_cast<T>(static_cast<cuda::compute_t<T>>(static_cast<int>(x > 0) - static_cast<int>(x < 0)));
  }
};
template <class T>
void sign_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Sign<T>{});
}
TENON_REGISTER_KERNEL(op::sign, cuda, Reals, sign_cuda);

template <class T>
struct SignBit {
  __device__ bool operator()(T v) const {
    if constexpr (cuda::is_float_v<T>) {  // from the bits: conversion drops the sign of a NaN
      uint8_t bytes[sizeof(T)];
      memcpy(bytes, &v, sizeof(T));
      return (bytes[sizeof(T) - 1] & 0x80u) != 0;
    } else {
      return v < T(0);
    }
  }
};
template <class T>
void signbit_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, SignBit<T>{});
}
TENON_REGISTER_KERNEL(op::signbit, cuda, Reals, signbit_cuda);

template <class T>
struct CopySign {
  __device__ T operator()(T a, T b) const {
    const cuda::compute_t<T> x = a, y = b;
    return static_cast<T>(::copysign(x, y));
  }
};
template <class T>
void copysign_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, CopySign<T>{});
}
TENON_REGISTER_KERNEL(op::copysign, cuda, FloatsAndHalves, copysign_cuda);

template <class T>
struct Heaviside {
  __device__ T operator()(T a, T at_zero) const {
    const cuda::compute_t<T> x = a;
    return x == 0 ? at_zero : static_cast<T>(static_cast<cuda::compute_t<T>>(x > 0));
  }
};
template <class T>
void heaviside_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Heaviside<T>{});
}
TENON_REGISTER_KERNEL(op::heaviside, cuda, Reals, heaviside_cuda);

}  // namespace
}  // namespace tenon

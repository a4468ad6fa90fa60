// SPDX-License-Identifier: Apache-2.0
// The function objects of kernels/activation.h as elementwise kernels: the halves compute in float.
#pragma once

#include <tenon/kernels/activation.h>
#include <tenon/kernels/cuda/loops.cuh>

namespace tenon::cuda {

template <class T, class>
using Same = T;

/// F over its compute type, as a function of elements of T.
template <class T, class F, class Call>
struct Activation;
template <class T, class F, class C, class... As>
struct Activation<T, F, C (F::*)(As...) const> {
  static constexpr int kUnroll = sizeof(C) == 4 ? 2 : 1;
  F f;
  __device__ T operator()(Same<T, As>... x) const { return static_cast<T>(f(static_cast<As>(x)...)); }
};
template <class T, class F>
void activate(const LoopPlan& plan, const ActivationNumbers& n) {
  elementwise(plan, Activation<T, F, decltype(&F::operator())>{F(n)});
}

}  // namespace tenon::cuda

#define TENON_CUDA_ACTIVATION(name, Function)                             \
  template <class T>                                                      \
  void name##_cuda(const LoopPlan& plan, const ActivationNumbers& n) {    \
    cuda::activate<T, activation::Function<cuda::compute_t<T>>>(plan, n); \
  }                                                                       \
  TENON_REGISTER_KERNEL(op::name, cuda, FloatsAndHalves, name##_cuda);

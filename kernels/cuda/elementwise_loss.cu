// SPDX-License-Identifier: Apache-2.0
// Elementwise losses (ops/elementwise_loss.h): the halves compute in float.
#include <tenon/kernels/elementwise_loss.h>
#include <tenon/kernels/cuda/loops.cuh>

namespace tenon {
namespace {

template <class T, class F>
struct Two {
  static constexpr int kUnroll = sizeof(cuda::compute_t<T>) == 4 ? 2 : 1;
  F f;
  __device__ T operator()(T x, T t) const {
    using C = cuda::compute_t<T>;
    return static_cast<T>(f(static_cast<C>(x), static_cast<C>(t)));
  }
};
template <class T, class F>
struct Three {
  static constexpr int kUnroll = 1;
  F f;
  __device__ T operator()(T grad, T x, T t) const {
    using C = cuda::compute_t<T>;
    return static_cast<T>(f(static_cast<C>(grad), static_cast<C>(x), static_cast<C>(t)));
  }
};

template <class T>
void elementwise_loss_cuda(const LoopPlan& plan, ElementLoss kind, double number) {
  losses::with_loss<losses::Loss, cuda::compute_t<T>>(
      kind, number, [&](const auto& loss) { cuda::elementwise(plan, Two<T, std::decay_t<decltype(loss)>>{loss}); });
}
template <class T>
void elementwise_loss_backward_cuda(const LoopPlan& plan, ElementLoss kind, double number) {
  losses::with_loss<losses::Slope, cuda::compute_t<T>>(kind, number, [&](const auto& slope) {
    cuda::elementwise(plan, Three<T, std::decay_t<decltype(slope)>>{slope});
  });
}
TENON_REGISTER_KERNEL(op::elementwise_loss, cuda, FloatsAndHalves, elementwise_loss_cuda);
TENON_REGISTER_KERNEL(op::elementwise_loss_backward, cuda, FloatsAndHalves, elementwise_loss_backward_cuda);

}  // namespace
}  // namespace tenon

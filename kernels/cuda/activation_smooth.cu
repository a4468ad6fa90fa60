// SPDX-License-Identifier: Apache-2.0
// Activations with exponentials (ops/activation.h).
#include <tenon/kernels/cuda/activation.cuh>

namespace tenon {
namespace {

TENON_CUDA_ACTIVATION(elu, Elu)
TENON_CUDA_ACTIVATION(elu_backward, EluBackward)
TENON_CUDA_ACTIVATION(log_sigmoid, LogSigmoid)
TENON_CUDA_ACTIVATION(log_sigmoid_backward, LogSigmoidBackward)
TENON_CUDA_ACTIVATION(mish, Mish)
TENON_CUDA_ACTIVATION(mish_backward, MishBackward)
TENON_CUDA_ACTIVATION(silu, Silu)
TENON_CUDA_ACTIVATION(silu_backward, SiluBackward)
TENON_CUDA_ACTIVATION(softplus, Softplus)
TENON_CUDA_ACTIVATION(softplus_backward, SoftplusBackward)
TENON_CUDA_ACTIVATION(glu, Glu)
TENON_CUDA_ACTIVATION(glu_backward, GluBackward)

template <class T>
struct ComplexSilu {
  static constexpr int kWidth = 1, kUnroll = 1;
  __device__ T operator()(T x) const { return x * activation::sigmoid(x); }
};
template <class T>
void silu_complex_cuda(const LoopPlan& plan, const ActivationNumbers&) {
  cuda::elementwise(plan, ComplexSilu<T>{});
}
template <class T>
struct ComplexSiluBackward {
  static constexpr int kWidth = 1, kUnroll = 1;
  __device__ T operator()(T grad, T x) const {
    const T s = activation::sigmoid(x);
    return grad * conj(s * (T(1) + x * (T(1) - s)));
  }
};
template <class T>
void silu_backward_complex_cuda(const LoopPlan& plan, const ActivationNumbers&) {
  cuda::elementwise(plan, ComplexSiluBackward<T>{});
}
TENON_REGISTER_KERNEL(op::silu, cuda, Complexes, silu_complex_cuda);
TENON_REGISTER_KERNEL(op::silu_backward, cuda, Complexes, silu_backward_complex_cuda);

}  // namespace
}  // namespace tenon

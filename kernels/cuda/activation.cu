// SPDX-License-Identifier: Apache-2.0
// Activations made of pieces of lines (ops/activation.h); the others are in activation_smooth.cu.
#include <tenon/kernels/cuda/activation.cuh>

namespace tenon {
namespace {

TENON_CUDA_ACTIVATION(hardshrink, Hardshrink)
TENON_CUDA_ACTIVATION(hardshrink_backward, ShrinkBackward)
TENON_CUDA_ACTIVATION(softshrink, Softshrink)
TENON_CUDA_ACTIVATION(hardsigmoid, Hardsigmoid)
TENON_CUDA_ACTIVATION(hardsigmoid_backward, HardsigmoidBackward)
TENON_CUDA_ACTIVATION(hardswish, Hardswish)
TENON_CUDA_ACTIVATION(hardswish_backward, HardswishBackward)
TENON_CUDA_ACTIVATION(hardtanh_backward, HardtanhBackward)
TENON_CUDA_ACTIVATION(leaky_relu, LeakyRelu)
TENON_CUDA_ACTIVATION(leaky_relu_backward, LeakyReluBackward)
TENON_CUDA_ACTIVATION(prelu_kernel, Prelu)
TENON_CUDA_ACTIVATION(prelu_backward, PreluBackward)
TENON_CUDA_ACTIVATION(threshold, Threshold)
TENON_REGISTER_KERNEL(op::softshrink_backward, cuda, FloatsAndHalves, hardshrink_backward_cuda);

template <class T>
struct IntegerThreshold {
  T bound, value;
  __device__ T operator()(T x) const { return x <= bound ? value : x; }
};
template <class T>
void threshold_integer_cuda(const LoopPlan& plan, const ActivationNumbers& n) {
  const auto whole = [](double v) { return static_cast<T>(static_cast<int64_t>(v)); };
  cuda::elementwise(plan, IntegerThreshold<T>{whole(n.a), whole(n.b)});
}
TENON_REGISTER_KERNEL(op::threshold, cuda, Integers, threshold_integer_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// The CUDA kernel of my::softplus: the same loop over the same plan.
#include "softplus.h"

#include <tenon/kernels/cuda/loops.cuh>

namespace my {

template <class T>
void softplus_cuda(const LoopPlan& plan, double beta) {
  using C = cuda::compute_t<T>;  // float for the halves
  const C b = static_cast<C>(beta);
  cuda::elementwise<T(T)>(plan, [b] __device__(T v) -> T {
    const C x = static_cast<C>(v);
    return static_cast<T>((x > 0 ? x : C(0)) + ::log1p(::exp(-::fabs(b * x))) / b);
  });
}
TENON_REGISTER_KERNEL(op::softplus, cuda, FloatsAndHalves, softplus_cuda);

}  // namespace my

// SPDX-License-Identifier: Apache-2.0
// Complex numbers from their parts, and angles of real ones.
#include <tenon/ops/complex.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

template <class T>
struct MakeComplex {
  __device__ complex<T> operator()(T re, T im) const { return {re, im}; }
};
template <class T>
void make_complex_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, MakeComplex<T>{});
}
TENON_REGISTER_KERNEL(op::make_complex, cuda, Floats, make_complex_cuda);

template <class T>
struct Angle {
  __device__ T operator()(T v) const {
    const cuda::compute_t<T> x = v;
    return static_cast<T>(x < 0 ? static_cast<cuda::compute_t<T>>(3.14159265358979324) : x != x ? x : 0);
  }
};
template <class T>
void angle_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Angle<T>{});
}
TENON_REGISTER_KERNEL(op::angle, cuda, FloatsAndHalves, angle_cuda);

}  // namespace
}  // namespace tenon

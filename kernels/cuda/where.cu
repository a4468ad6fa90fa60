// SPDX-License-Identifier: Apache-2.0
// where moves elements by width; the clamps compare.
#include <tenon/ops/where.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using Ordered = Join<Numbers, Bools>;

template <class T>
struct Where {
  using Word = cuda::word_t<sizeof(T)>;
  __device__ Word operator()(bool condition, Word a, Word b) const { return condition ? a : b; }
};
template <class T>
void where_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Where<T>{});
}

template <class T>
struct ClampMin {
  using C = cuda::compute_t<T>;
  __device__ T operator()(T x, T low) const { return static_cast<T>(cuda::larger<C>(x, low)); }
};
template <class T>
struct ClampMax {
  using C = cuda::compute_t<T>;
  __device__ T operator()(T x, T high) const { return static_cast<T>(cuda::smaller<C>(x, high)); }
};
template <class T>
struct Clamp {
  using C = cuda::compute_t<T>;
  __device__ T operator()(T x, T low, T high) const {
    return static_cast<T>(cuda::smaller<C>(cuda::larger<C>(x, low), high));
  }
};
template <class T>
void clamp_min_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, ClampMin<T>{});
}
template <class T>
void clamp_max_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, ClampMax<T>{});
}
template <class T>
void clamp_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Clamp<T>{});
}

TENON_REGISTER_KERNEL(op::where, cuda, Widths, where_cuda);
TENON_REGISTER_KERNEL(op::clamp_min, cuda, Ordered, clamp_min_cuda);
TENON_REGISTER_KERNEL(op::clamp_max, cuda, Ordered, clamp_max_cuda);
TENON_REGISTER_KERNEL(op::clamp, cuda, Ordered, clamp_cuda);

}  // namespace
}  // namespace tenon

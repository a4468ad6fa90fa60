// SPDX-License-Identifier: Apache-2.0
// Special functions. All but erf compute in double, whatever the dtype: CUDA documents up to 6 ULP for its float versions.
#include <tenon/kernels/special.h>
#include <tenon/ops/special.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

template <class T>
struct Erf {
  static constexpr int kUnroll = 1;
  __device__ T operator()(T v) const {
    const cuda::compute_t<T> x = v;
    return static_cast<T>(::erf(x));
  }
};
template <class T>
void erf_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Erf<T>{});
}
TENON_REGISTER_KERNEL(op::erf, cuda, FloatsAndHalves, erf_cuda);

// One element at a time: the functions are long, and their code is the same for every dtype.
#define TENON_SPECIAL_FUNCTION(Name, name, function)                           \
  template <class T>                                                           \
  struct Name {                                                                \
    static constexpr int kWidth = 1, kUnroll = 1;                              \
    __device__ T operator()(T v) const {                                       \
      using C = cuda::compute_t<T>;                                            \
      const C x = v;                                                           \
      return static_cast<T>(static_cast<C>(function(static_cast<double>(x)))); \
    }                                                                          \
  };                                                                           \
  template <class T>                                                           \
  void name##_cuda(const LoopPlan& plan) {                                     \
    cuda::elementwise(plan, Name<T>{});                                        \
  }                                                                            \
  TENON_REGISTER_KERNEL(op::name, cuda, FloatsAndHalves, name##_cuda);

TENON_SPECIAL_FUNCTION(Erfc, erfc, ::erfc)
TENON_SPECIAL_FUNCTION(Lgamma, lgamma, math::lgamma)
TENON_SPECIAL_FUNCTION(Digamma, digamma, math::digamma)
TENON_SPECIAL_FUNCTION(Erfinv, erfinv, math::erfinv)
TENON_SPECIAL_FUNCTION(Erfcx, special_erfcx, math::erfcx)
TENON_SPECIAL_FUNCTION(Ndtr, special_ndtr, math::ndtr)
TENON_SPECIAL_FUNCTION(LogNdtr, special_log_ndtr, math::log_ndtr)
TENON_SPECIAL_FUNCTION(Ndtri, special_ndtri, math::ndtri)
TENON_SPECIAL_FUNCTION(I0, i0, math::i0)
TENON_SPECIAL_FUNCTION(I0e, special_i0e, math::i0e)
TENON_SPECIAL_FUNCTION(I1, special_i1, math::i1)
TENON_SPECIAL_FUNCTION(I1e, special_i1e, math::i1e)
#undef TENON_SPECIAL_FUNCTION

template <class T>
struct Polygamma {
  static constexpr int kWidth = 1, kUnroll = 1;
  int64_t n;
  __device__ T operator()(T v) const {
    using C = cuda::compute_t<T>;
    const C x = v;
    return static_cast<T>(static_cast<C>(math::polygamma(n, static_cast<double>(x))));
  }
};
template <class T>
void polygamma_cuda(const LoopPlan& plan, const int64_t& n) {
  cuda::elementwise(plan, Polygamma<T>{n});
}
TENON_REGISTER_KERNEL(op::polygamma, cuda, FloatsAndHalves, polygamma_cuda);

}  // namespace
}  // namespace tenon

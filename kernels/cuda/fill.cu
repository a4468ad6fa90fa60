// SPDX-License-Identifier: Apache-2.0
// Fills: one value, arithmetic sequences (ops/factory.h). Sequences are computed from the position, integers in int64,
// floats in float64 without fused operations, so that the CPU's results are the same.
#include <tenon/ops/factory.h>
#include <tenon/kernels/cuda/loops.cuh>

namespace tenon {
namespace {

template <class T>
void fill_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, cuda::Identity<cuda::word_t<sizeof(T)>>{});
}

template <class T>
constexpr int kPerThread = sizeof(T) < 16 ? static_cast<int>(16 / sizeof(T)) : 1;

template <class T, class F>
__global__ void __launch_bounds__(cuda::kLoopThreads) generate_kernel(T* out, const int64_t n, const F value) {
  constexpr int W = kPerThread<T>;
  const int64_t first = (int64_t(blockIdx.x) * cuda::kLoopThreads + threadIdx.x) * W;
  cuda::Vector<T, W> v;
#pragma unroll
  for (int w = 0; w < W; ++w) v.v[w] = value(first + w);
  if (first + W <= n && reinterpret_cast<uintptr_t>(out) % 16 == 0) {
    cuda::store_vector<T, W>(out + first, v);
  } else {
#pragma unroll
    for (int w = 0; w < W; ++w)
      if (first + w < n) out[first + w] = v.v[w];
  }
}
template <class T, class F>
void generate(const Tensor& out, const F& value) {
  const int64_t n = out.numel();
  const auto blocks = static_cast<unsigned>(cuda::ceil_div(n, int64_t(cuda::kLoopThreads) * kPerThread<T>));
  cuda::launch(generate_kernel<T, F>, blocks, cuda::kLoopThreads, 0, static_cast<T*>(out.data_ptr()), n, value);
}

template <class T>
__device__ T rounded(double v) {
  if constexpr (std::is_same_v<T, double> || std::is_integral_v<T>)
    return static_cast<T>(v);
  else
    return T(static_cast<float>(v));
}
__device__ double step_from(double start, double step, int64_t i) {
  return __dadd_rn(start, __dmul_rn(step, static_cast<double>(i)));
}

template <class T>
struct IntegerSequence {
  uint64_t start, step;
  __device__ T operator()(int64_t i) const {
    const auto v = static_cast<int64_t>(start + step * static_cast<uint64_t>(i));
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(v);
    else
      return rounded<T>(static_cast<double>(v));
  }
};
template <class T>
struct FloatSequence {
  double start, step;
  __device__ T operator()(int64_t i) const { return rounded<T>(step_from(start, step, i)); }
};
template <class T>
void arange_cuda(const Tensor& out, const Scalar& start, const Scalar& step) {
  if (!start.is_floating_point() && !step.is_floating_point()) {
    generate<T>(out, IntegerSequence<T>{static_cast<uint64_t>(start.integer()), static_cast<uint64_t>(step.integer())});
  } else {
    generate<T>(out, FloatSequence<T>{start.real(), step.real()});
  }
}

// The second half is computed back from the end.
template <class T>
struct Linspace {
  double start, end, step;
  int64_t n;
  __device__ T operator()(int64_t i) const {
    return rounded<T>(i < n / 2 || n == 1 ? step_from(start, step, i) : step_from(end, -step, n - 1 - i));
  }
};
template <class T>
struct Linspace<complex<T>> {
  Linspace<T> re, im;
  __device__ complex<T> operator()(int64_t i) const { return {re(i), im(i)}; }
};
template <class T>
Linspace<T> make_linspace(double start, double end, int64_t n) {
  return {start, end, n > 1 ? (end - start) / static_cast<double>(n - 1) : 0, n};
}
template <class T>
void linspace_cuda(const Tensor& out, const Scalar& start, const Scalar& end) {
  const int64_t n = out.numel();
  if constexpr (is_complex_v<T>) {
    using V = typename T::value_type;
    generate<T>(
        out, Linspace<T>{make_linspace<V>(start.real(), end.real(), n), make_linspace<V>(start.imag(), end.imag(), n)});
  } else {
    generate<T>(out, make_linspace<T>(start.real(), end.real(), n));
  }
}

using LinspaceTypes = Join<Numbers, Complexes>;
TENON_REGISTER_KERNEL(op::fill, cuda, Widths, fill_cuda);
TENON_REGISTER_KERNEL(op::arange_step, cuda, Numbers, arange_cuda);
TENON_REGISTER_KERNEL(op::linspace, cuda, LinspaceTypes, linspace_cuda);

}  // namespace
}  // namespace tenon

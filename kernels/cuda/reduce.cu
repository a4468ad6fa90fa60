// SPDX-License-Identifier: Apache-2.0
// Sum and mean, variance, and whether all or any elements are true. Largest and smallest elements: reduce_extreme.cu.
#include <tenon/ops/reduce.h>
#include <tenon/kernels/cuda/reduce.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using FloatsAndComplexes = Join<FloatsAndHalves, Complexes>;

template <int N, class A>
__device__ __forceinline__ A tree_sum(const A* a) {
  if constexpr (N == 1)
    return a[0];
  else
    return tree_sum<N / 2>(a) + tree_sum<N - N / 2>(a + N / 2);
}

// Adds in float for the halves and int64 for integers, as a tree over what a thread has loaded: the error grows with
// the logarithm of the count.
template <class T>
struct Sum {
  using Input = T;
  using Acc = std::conditional_t<std::is_integral_v<T>, int64_t, cuda::compute_t<T>>;
  using Output = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  bool mean;

  __device__ Acc identity() const { return Acc(0); }
  template <int N, int W>
  __device__ void add(Acc& acc, const T (&v)[N], cuda::Positions<W>) const {
    Acc a[N];
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] = static_cast<Acc>(v[i]);
    acc = acc + tree_sum<N>(a);
  }
  __device__ void merge(Acc& a, const Acc& b) const { a = a + b; }
  __device__ void store(const Acc& acc, char* out, char*, int64_t count) const {
    Acc result = acc;
    if constexpr (!std::is_integral_v<T>) {
      if (mean) {
        if constexpr (is_complex_v<T>) {
          using V = typename T::value_type;
          result = {acc.re / static_cast<V>(count), acc.im / static_cast<V>(count)};
        } else {
          result = acc / static_cast<Acc>(count);
        }
      }
    }
    *reinterpret_cast<Output*>(out) = static_cast<Output>(result);
  }
};
template <class T>
void sum_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, Sum<T>{false});
}
template <class T>
void mean_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, Sum<T>{true});
}

// Mean and squared deviations. What a thread has loaded is taken in two exact passes, then joined to the rest by the
// pairwise update (Chan, Golub and LeVeque 1983): one division for many elements.
template <class T>
struct Variance {
  using Input = T;
  using C = cuda::compute_t<T>;
  struct Acc {
    C count, mean, squares;
  };
  double correction;

  __device__ Acc identity() const { return {C(0), C(0), C(0)}; }
  template <int N, int W>
  __device__ void add(Acc& acc, const T (&v)[N], cuda::Positions<W>) const {
    C a[N];
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] = static_cast<C>(v[i]);
    const C mean = tree_sum<N>(a) * (C(1) / N);
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] = (a[i] - mean) * (a[i] - mean);
    merge(acc, Acc{C(N), mean, tree_sum<N>(a)});
  }
  __device__ void merge(Acc& a, const Acc& b) const {
    const C count = a.count + b.count;
    if (b.count == 0) return;
    const C share = b.count / count, delta = b.mean - a.mean;
    a.squares += b.squares + delta * delta * a.count * share;
    a.mean += delta * share;
    a.count = count;
  }
  __device__ void store(const Acc& acc, char* out, char*, int64_t count) const {
    const double rest = static_cast<double>(count) - correction;
    *reinterpret_cast<T*>(out) = static_cast<T>(acc.squares / static_cast<C>(rest > 0 ? rest : 0));
  }
};
// Var of a complex number is that of its parts, summed.
template <class T>
struct Variance<complex<T>> {
  using Input = complex<T>;
  struct Acc {
    typename Variance<T>::Acc re, im;
  };
  Variance<T> part;

  __device__ Acc identity() const { return {part.identity(), part.identity()}; }
  template <int N, int W>
  __device__ void add(Acc& acc, const complex<T> (&v)[N], cuda::Positions<W> at) const {
    T re[N], im[N];
#pragma unroll
    for (int i = 0; i < N; ++i) re[i] = v[i].re, im[i] = v[i].im;
    part.add(acc.re, re, at);
    part.add(acc.im, im, at);
  }
  __device__ void merge(Acc& a, const Acc& b) const {
    part.merge(a.re, b.re);
    part.merge(a.im, b.im);
  }
  __device__ void store(const Acc& acc, char* out, char*, int64_t count) const {
    auto both = acc.re;
    both.squares += acc.im.squares;
    part.store(both, out, nullptr, count);
  }
};
template <class T>
void var_cuda(const ReducePlan& plan, const double& correction) {
  cuda::reduce(plan, Variance<T>{correction});
}

// Any element true, or, with both ends negated, all.
template <class T>
struct Any {
  using Input = T;
  using Acc = uint32_t;
  using Output = std::conditional_t<std::is_same_v<T, uint8_t>, uint8_t, bool>;
  bool all;

  __device__ Acc identity() const { return 0; }
  template <int N, int W>
  __device__ void add(Acc& acc, const T (&v)[N], cuda::Positions<W>) const {
    uint32_t nonzero = 0, zero = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      nonzero |= static_cast<uint32_t>(cuda::is_nonzero(v[i]));
      zero |= static_cast<uint32_t>(!cuda::is_nonzero(v[i]));
    }
    acc |= all ? zero : nonzero;
  }
  __device__ void merge(Acc& a, const Acc& b) const { a |= b; }
  __device__ void store(const Acc& acc, char* out, char*, int64_t) const {
    *reinterpret_cast<Output*>(out) = static_cast<Output>((acc != 0) != all);
  }
};
template <class T>
void any_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, Any<T>{false});
}
template <class T>
void all_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, Any<T>{true});
}

TENON_REGISTER_KERNEL(op::sum, cuda, AllTypes, sum_cuda);
TENON_REGISTER_KERNEL(op::mean, cuda, FloatsAndComplexes, mean_cuda);
TENON_REGISTER_KERNEL(op::var, cuda, FloatsAndComplexes, var_cuda);
TENON_REGISTER_KERNEL(op::any, cuda, AllTypes, any_cuda);
TENON_REGISTER_KERNEL(op::all, cuda, AllTypes, all_cuda);

}  // namespace
}  // namespace tenon

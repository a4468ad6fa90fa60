// SPDX-License-Identifier: Apache-2.0
// Largest and smallest elements, and where they are. NaN beats every number; among equals the first position wins.
#include <tenon/ops/reduce.h>
#include <tenon/kernels/cuda/reduce.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using Ordered = Join<Numbers, Bools>;

template <class C, bool kMin>
__device__ constexpr C worst() {
  if constexpr (std::is_same_v<C, float> || std::is_same_v<C, double>)
    return static_cast<C>(kMin ? __builtin_huge_val() : -__builtin_huge_val());
  else if constexpr (std::is_signed_v<C>)
    return static_cast<C>(kMin ? ~(uint64_t(1) << (8 * sizeof(C) - 1)) : uint64_t(1) << (8 * sizeof(C) - 1));
  else
    return static_cast<C>(kMin ? ~uint64_t(0) : 0);
}

template <class T, bool kMin>
struct Extreme {
  using Input = T;
  using Acc = cuda::compute_t<T>;

  __device__ static Acc choose(Acc a, Acc b) {
    if constexpr (kMin)
      return cuda::smaller<Acc>(a, b);
    else
      return cuda::larger<Acc>(a, b);
  }
  __device__ Acc identity() const { return worst<Acc, kMin>(); }
  template <int N, int W>
  __device__ void add(Acc& acc, const T (&v)[N], cuda::Positions<W>) const {
    Acc best = v[0];
#pragma unroll
    for (int i = 1; i < N; ++i) best = choose(best, static_cast<Acc>(v[i]));
    acc = choose(acc, best);
  }
  __device__ void merge(Acc& a, const Acc& b) const { a = choose(a, b); }
  __device__ void store(const Acc& acc, char* out, char*, int64_t) const {
    *reinterpret_cast<T*>(out) = static_cast<T>(acc);
  }
};

// Positions within what a thread has loaded are compile-time numbers; the 64-bit one is made once for all of them.
template <class T, bool kMin>
struct ExtremeAt {
  using Input = T;
  using C = cuda::compute_t<T>;
  struct Acc {
    int64_t position;  // negative: nothing seen yet
    C value;
  };
  bool position_only;

  __device__ static bool better(C a, C b) {
    if constexpr (cuda::is_float_v<C>)
      return !(kMin ? a >= b : a <= b) && b == b;  // NaN is better than any number
    else
      return kMin ? a < b : a > b;
  }
  __device__ Acc identity() const { return {-1, C(0)}; }
  template <int N, int W>
  __device__ void add(Acc& acc, const T (&v)[N], cuda::Positions<W> at) const {
    C best = v[0];
    int which = 0;
#pragma unroll
    for (int i = 1; i < N; ++i) {
      const C value = v[i];
      if (better(value, best)) best = value, which = i;
    }
    if (acc.position < 0 || better(best, acc.value)) acc = {at(which), best};
  }
  __device__ void merge(Acc& a, const Acc& b) const {
    if (b.position < 0) return;
    const bool take =
        a.position < 0 || better(b.value, a.value) || (!better(a.value, b.value) && b.position < a.position);
    if (take) a = b;
  }
  __device__ void store(const Acc& acc, char* first, char* second, int64_t) const {
    if (position_only) {
      *reinterpret_cast<int64_t*>(first) = acc.position;
      return;
    }
    *reinterpret_cast<T*>(first) = static_cast<T>(acc.value);
    *reinterpret_cast<int64_t*>(second) = acc.position;
  }
};

template <class T>
void amax_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, Extreme<T, false>{});
}
template <class T>
void amin_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, Extreme<T, true>{});
}
template <class T>
void max_dim_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, ExtremeAt<T, false>{false});
}
template <class T>
void min_dim_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, ExtremeAt<T, true>{false});
}
template <class T>
void argmax_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, ExtremeAt<T, false>{true});
}
template <class T>
void argmin_cuda(const ReducePlan& plan) {
  cuda::reduce(plan, ExtremeAt<T, true>{true});
}

TENON_REGISTER_KERNEL(op::amax, cuda, Ordered, amax_cuda);
TENON_REGISTER_KERNEL(op::amin, cuda, Ordered, amin_cuda);
TENON_REGISTER_KERNEL(op::max, cuda, Ordered, amax_cuda);
TENON_REGISTER_KERNEL(op::min, cuda, Ordered, amin_cuda);
TENON_REGISTER_KERNEL(op::max_dim, cuda, Ordered, max_dim_cuda);
TENON_REGISTER_KERNEL(op::min_dim, cuda, Ordered, min_dim_cuda);
TENON_REGISTER_KERNEL(op::argmax, cuda, Numbers, argmax_cuda);
TENON_REGISTER_KERNEL(op::argmin, cuda, Numbers, argmin_cuda);

}  // namespace
}  // namespace tenon

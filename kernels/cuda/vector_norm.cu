// SPDX-License-Identifier: Apache-2.0
// Vector norms. One kernel a dtype for all orders: a uniform branch chooses what is added up.
#include <tenon/kernels/math.h>
#include <tenon/ops/vector_norm.h>
#include <tenon/kernels/cuda/reduce.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using FloatsAndComplexes = Join<FloatsAndHalves, Complexes>;

enum class Norm : uint8_t { count, sum, squares, largest, smallest, power };

template <class T>
struct VectorNorm {
  using Input = T;
  using Output = math::real_t<T>;
  using Acc = cuda::compute_t<Output>;
  Norm norm;
  Acc p;

  __device__ Acc identity() const { return norm == Norm::smallest ? math::infinity<Acc>() : Acc(0); }
  __device__ Acc magnitude(const T& v) const {
    if constexpr (is_complex_v<T>)
      return math::abs(v);
    else
      return math::fabs(static_cast<Acc>(v));
  }
  __device__ Acc term(const T& v) const {
    switch (norm) {
      case Norm::count:
        return cuda::is_nonzero(v) ? Acc(1) : Acc(0);
      case Norm::squares:
        if constexpr (is_complex_v<T>) return v.re * v.re + v.im * v.im;
        return magnitude(v) * magnitude(v);
      case Norm::power:
        return math::pow(magnitude(v), p);
      default:
        return magnitude(v);
    }
  }
  template <int N, int W>
  __device__ void add(Acc& acc, const T (&v)[N], cuda::Positions<W>) const {
    Acc sum = term(v[0]);
#pragma unroll
    for (int i = 1; i < N; ++i) merge(sum, term(v[i]));
    merge(acc, sum);
  }
  __device__ void merge(Acc& a, const Acc& b) const {
    if (norm == Norm::largest)
      a = cuda::larger(a, b);
    else if (norm == Norm::smallest)
      a = cuda::smaller(a, b);
    else
      a = a + b;
  }
  __device__ void store(const Acc& acc, char* out, char*, int64_t) const {
    const Acc r = norm == Norm::squares ? math::sqrt(acc) : norm == Norm::power ? math::pow(acc, 1 / p) : acc;
    *reinterpret_cast<Output*>(out) = static_cast<Output>(r);
  }
};
template <class T>
void vector_norm_cuda(const ReducePlan& plan, const double& ord) {
  const Norm norm = ord == 0       ? Norm::count
                    : ord == 1     ? Norm::sum
                    : ord == 2     ? Norm::squares
                    : ord > 1e300  ? Norm::largest
                    : ord < -1e300 ? Norm::smallest
                                   : Norm::power;
  cuda::reduce(plan, VectorNorm<T>{norm, static_cast<typename VectorNorm<T>::Acc>(ord)});
}
TENON_REGISTER_KERNEL(op::linalg_vector_norm, cuda, FloatsAndComplexes, vector_norm_cuda);

}  // namespace
}  // namespace tenon

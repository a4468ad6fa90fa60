// SPDX-License-Identifier: Apache-2.0
// Counting by place. Blocks count in shared memory where the table fits, and add their counts to the result's by
// atomics. Counts are integers, so the order does not matter to them; sums of floating weights may differ in the last
// bits.
#include <tenon/kernels/cuda/launch.h>
#include <tenon/ops/histogram.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/scalar.cuh>

#include <algorithm>

namespace tenon {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kSharedBins = 4096;

__device__ void add_to(int64_t* p, int64_t v) {
  atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v));
}
__device__ void add_to(float* p, float v) { atomicAdd(p, v); }
__device__ void add_to(double* p, double v) { atomicAdd(p, v); }

// Place: the bin of element i, or a negative number.
template <class Place>
__global__ void __launch_bounds__(kThreads)
    count_kernel(const Place place, int64_t n, int bins, bool shared, int64_t* out) {
  extern __shared__ unsigned histogram_counts[];
  if (shared) {
    for (int b = threadIdx.x; b < bins; b += kThreads) histogram_counts[b] = 0;
    __syncthreads();
  }
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < n; i += int64_t(gridDim.x) * kThreads) {
    const int64_t b = place(i);
    if (b < 0) continue;
    if (shared)
      atomicAdd(&histogram_counts[b], 1u);
    else
      add_to(out + b, int64_t(1));
  }
  if (!shared) return;
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += kThreads)
    if (histogram_counts[b] != 0) add_to(out + b, int64_t(histogram_counts[b]));
}

unsigned blocks_for(int64_t n) {
  return static_cast<unsigned>(
      std::min(cuda::ceil_div(n, kThreads * 8), int64_t(cuda::device_limits().multiprocessors) * 8));
}

template <class Place>
void count(const Place& place, int64_t n, int64_t bins, int64_t* out) {
  // A block counts fewer than 2^32 elements as long as there are fewer than 2^42.
  const bool shared = bins <= kSharedBins;
  cuda::launch(count_kernel<Place>, blocks_for(n), kThreads, shared ? static_cast<std::size_t>(bins) * 4 : 0, place, n,
               shared ? static_cast<int>(bins) : 0, shared, out);
}

struct IntegerPlace {
  const int64_t* x;
  int64_t size;
  __device__ int64_t operator()(int64_t i) const {
    const int64_t v = x[i];
    return static_cast<uint64_t>(v) < static_cast<uint64_t>(size) ? v : -1;
  }
};
template <class T>
struct BinPlace {
  using C = std::conditional_t<std::is_same_v<cuda::compute_t<T>, float>, float, double>;
  const T* x;
  C first, last, width, number;
  int64_t bins;
  // The 16-bit floats round after every step, as their arithmetic does.
  __host__ __device__ static C rounded(C v) {
    if constexpr (std::is_same_v<T, cuda::compute_t<T>>)
      return v;
    else
      return static_cast<C>(static_cast<T>(v));
  }
  BinPlace(const T* data, double low, double high, int64_t count)
      : x(data),
        first(rounded(static_cast<C>(low))),
        last(rounded(static_cast<C>(high))),
        width(rounded(last - first)),
        number(rounded(static_cast<C>(count))),
        bins(count) {}
  __device__ int64_t operator()(int64_t i) const {
    const C v = static_cast<C>(static_cast<cuda::compute_t<T>>(x[i]));
    if (!(v >= first && v <= last)) return -1;
    const auto bin = static_cast<int64_t>(rounded(rounded(rounded(v - first) * number) / width));
    return bin < bins - 1 ? bin : bins - 1;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    weigh_kernel(const int64_t* x, const T* weights, int64_t n, int64_t size, T* out) {
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < n; i += int64_t(gridDim.x) * kThreads) {
    const int64_t v = x[i];
    if (static_cast<uint64_t>(v) < static_cast<uint64_t>(size)) add_to(out + v, weights ? weights[i] : T(1));
  }
}

template <class T>
void bincount_cuda(const Tensor& out, const Tensor& self, const Tensor& weights) {
  const DeviceGuard guard(out.device());
  const int64_t n = self.numel(), size = out.numel();
  const auto* x = static_cast<const int64_t*>(self.data_ptr());
  auto* to = static_cast<T*>(out.data_ptr());
  if constexpr (std::is_same_v<T, int64_t>) {
    if (!weights.defined()) {
      count(IntegerPlace{x, size}, n, size, to);
      return;
    }
  }
  cuda::launch(weigh_kernel<T>, blocks_for(n), kThreads, 0, x,
               weights.defined() ? static_cast<const T*>(weights.data_ptr()) : nullptr, n, size, to);
}

template <class T>
void histc_cuda(const Tensor& counts, const Tensor& self, double low, double high) {
  const DeviceGuard guard(self.device());
  const int64_t bins = counts.numel();
  count(BinPlace<T>(static_cast<const T*>(self.data_ptr()), low, high, bins), self.numel(), bins,
        static_cast<int64_t*>(counts.data_ptr()));
}

using Sums = Types<int64_t, float, double>;
TENON_REGISTER_KERNEL(op::bincount, cuda, Sums, bincount_cuda);
TENON_REGISTER_KERNEL(op::histc, cuda, Numbers, histc_cuda);

}  // namespace
}  // namespace tenon

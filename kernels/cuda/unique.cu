// SPDX-License-Identifier: Apache-2.0
// Order of rows by CUB's merge sort of row numbers, groups of equal rows by a running sum of where they begin. Rows are
// compared by order keys of 64 bits, so that CUB is instantiated once for all element types.
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/kernels/order_key.h>
#include <tenon/ops/unique.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/scalar.cuh>

#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace tenon {
namespace {

using Ordered = Join<Numbers, Bools>;
constexpr int kThreads = 256;

unsigned blocks_for(int64_t n) { return static_cast<unsigned>(cuda::ceil_div(n, kThreads)); }

template <class T>
__global__ void __launch_bounds__(kThreads) keys_kernel(const T* x, int64_t n, uint64_t* keys) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) keys[i] = OrderKey<T>::of(x[i]);
}
__global__ void __launch_bounds__(kThreads) positions_kernel(int64_t* to, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) to[i] = i;
}

struct RowLess {
  const uint64_t* keys;
  int64_t m;
  __device__ bool operator()(int64_t a, int64_t b) const {
    const uint64_t *p = keys + a * m, *q = keys + b * m;
    for (int64_t j = 0; j < m; ++j)
      if (p[j] != q[j]) return p[j] < q[j];
    return false;
  }
};

void sort_rows(int64_t* order, int64_t n, const RowLess& less) {
  const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA)).handle());
  std::size_t bytes = 0;
  TENON_CUDA(cub::DeviceMergeSort::StableSortKeys(nullptr, bytes, order, n, less, stream));
  const cuda::Workspace temporary(static_cast<int64_t>(bytes) + 1);
  TENON_CUDA(cub::DeviceMergeSort::StableSortKeys(temporary.data(), bytes, order, n, less, stream));
}

template <class T>
void order_rows_cuda(const Tensor& order, const Tensor& rows) {
  const DeviceGuard guard(rows.device());
  const int64_t n = rows.size(0), m = rows.size(1);
  const cuda::Workspace memory(n * m * 8);
  auto* keys = reinterpret_cast<uint64_t*>(memory.data());
  auto* to = static_cast<int64_t*>(order.data_ptr());
  cuda::launch(keys_kernel<T>, blocks_for(n * m), kThreads, 0, static_cast<const T*>(rows.data_ptr()), n * m, keys);
  cuda::launch(positions_kernel, blocks_for(n), kThreads, 0, to, n);
  sort_rows(to, n, {keys, m});
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    begins_kernel(const T* x, const int64_t* order, int64_t n, int64_t m, int64_t* begins) {
  using C = cuda::compute_t<T>;
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  bool differs = i == 0;
  if (!differs) {
    const T *p = x + (order ? order[i] : i) * m, *q = x + (order ? order[i - 1] : i - 1) * m;
    for (int64_t j = 0; j < m && !differs; ++j) differs = !(static_cast<C>(p[j]) == static_cast<C>(q[j]));
  }
  begins[i] = differs ? 1 : 0;
}
// sums: how many groups have begun up to each row.
__global__ void __launch_bounds__(kThreads)
    groups_kernel(const int64_t* sums, int64_t n, int64_t* groups, int64_t* starts) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t group = sums[i] - 1;
  groups[i] = group;
  if (i == 0 || sums[i - 1] == group) starts[group] = i;
}

int64_t number_groups(int64_t* sums, int64_t n, int64_t* groups, int64_t* starts) {
  const Stream current = current_stream(Device(kCUDA));
  const auto stream = static_cast<cudaStream_t>(current.handle());
  std::size_t bytes = 0;
  TENON_CUDA(cub::DeviceScan::InclusiveSum(nullptr, bytes, sums, sums, n, stream));
  const cuda::Workspace temporary(static_cast<int64_t>(bytes) + 1);
  TENON_CUDA(cub::DeviceScan::InclusiveSum(temporary.data(), bytes, sums, sums, n, stream));
  cuda::launch(groups_kernel, blocks_for(n), kThreads, 0, sums, n, groups, starts);
  int64_t count = 0;
  TENON_CUDA(cudaMemcpyAsync(&count, sums + n - 1, sizeof count, cudaMemcpyDeviceToHost, stream));
  current.synchronize();
  return count;
}

template <class T>
int64_t group_cuda(const Tensor& groups, const Tensor& starts, const Tensor& rows, const Tensor& order) {
  const DeviceGuard guard(rows.device());
  const int64_t n = rows.size(0), m = rows.size(1);
  const cuda::Workspace memory(n * 8);
  auto* sums = reinterpret_cast<int64_t*>(memory.data());
  cuda::launch(begins_kernel<T>, blocks_for(n), kThreads, 0, static_cast<const T*>(rows.data_ptr()),
               order.defined() ? static_cast<const int64_t*>(order.data_ptr()) : nullptr, n, m, sums);
  return number_groups(sums, n, static_cast<int64_t*>(groups.data_ptr()), static_cast<int64_t*>(starts.data_ptr()));
}

TENON_REGISTER_KERNEL(op::unique, cuda, Ordered, order_rows_cuda);
TENON_REGISTER_KERNEL(op::unique_consecutive, cuda, Ordered, group_cuda);

}  // namespace
}  // namespace tenon

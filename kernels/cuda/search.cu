// SPDX-License-Identifier: Apache-2.0
// Binary search, a thread for each element.
#include <tenon/kernels/cuda/device_error.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/order_key.h>
#include <tenon/ops/search.h>
#include <tenon/streams/guard.h>

namespace tenon {
namespace {

constexpr int kThreads = 256;

template <class T, class Out>
__global__ void __launch_bounds__(kThreads)
    search_kernel(const T* boundaries, int64_t n, const T* x, int64_t count, int64_t per_line, const int64_t* order,
                  bool right, cuda::IndexCheck check, Out* out) {
  using K = OrderKey<T>;
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t line = i / per_line * n;
  const auto key = K::of(x[i]);
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int64_t at = middle;
    if (order) {
      at = order[line + middle];
      if (!check(at, line + middle)) break;
    }
    const auto boundary = K::of(boundaries[line + at]);
    if (right ? boundary <= key : boundary < key)
      low = middle + 1;
    else
      high = middle;
  }
  out[i] = static_cast<Out>(low);
}

template <class T>
void searchsorted_cuda(const Tensor& out, const Tensor& boundaries, const Tensor& input, const Tensor& sorter,
                       bool right) {
  const DeviceGuard guard(out.device());
  const int64_t n = boundaries.sizes().back(), count = input.numel();
  const int64_t per_line = boundaries.dim() == 1 ? count : input.sizes().back();
  const auto* order = sorter.defined() ? static_cast<const int64_t*>(sorter.data_ptr()) : nullptr;
  const auto* b = static_cast<const T*>(boundaries.data_ptr());
  const auto* x = static_cast<const T*>(input.data_ptr());
  const auto blocks = static_cast<unsigned>(cuda::ceil_div(count, kThreads));
  const cuda::IndexCheck check = cuda::index_check("searchsorted", "sorter", n, -1);
  if (out.dtype() == kInt32)
    cuda::launch(search_kernel<T, int32_t>, blocks, kThreads, 0, b, n, x, count, per_line, order, right, check,
                 static_cast<int32_t*>(out.data_ptr()));
  else
    cuda::launch(search_kernel<T, int64_t>, blocks, kThreads, 0, b, n, x, count, per_line, order, right, check,
                 static_cast<int64_t*>(out.data_ptr()));
}

using Ordered = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::searchsorted, cuda, Ordered, searchsorted_cuda);

}  // namespace
}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Positions of true elements: the running count says where each of them goes.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/ops/nonzero.h>
#include <tenon/ops/scan.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/vector.cuh>

namespace tenon {
namespace {

constexpr int kThreads = 256;

struct MaskShape {
  int dims;
  int64_t sizes[kMaxDims];
};

__global__ void __launch_bounds__(kThreads) places_kernel(const __grid_constant__ MaskShape shape, const bool* mask,
                                                          const int64_t* counts, int64_t n, int64_t* to) {
  int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n || !mask[i]) return;
  to += (counts[i] - 1) * shape.dims;
  for (int d = shape.dims - 1; d > 0; --d) {
    const int64_t rest = i / shape.sizes[d];
    to[d] = i - rest * shape.sizes[d];
    i = rest;
  }
  to[0] = i;
}

template <class T>
void nonzero_cuda(const Tensor& places, const Tensor& mask) {
  const DeviceGuard guard(mask.device());
  const int64_t n = mask.numel();
  const Tensor counts = dispatch::make_tensor(n, kInt64, mask.device());
  op::cumsum.kernel(Backend::cuda, dispatch::key_of(kBool))(counts, mask, ScanShape{1, n, 1, false});
  MaskShape shape{static_cast<int>(mask.dim()), {}};
  for (int d = 0; d < shape.dims; ++d) shape.sizes[d] = mask.size(d);
  cuda::launch(places_kernel, static_cast<unsigned>(cuda::ceil_div(n, kThreads)), kThreads, 0, shape,
               static_cast<const bool*>(mask.data_ptr()), static_cast<const int64_t*>(counts.data_ptr()), n,
               static_cast<int64_t*>(places.data_ptr()));
}

TENON_REGISTER_KERNEL(op::nonzero, cuda, Bools, nonzero_cuda);

}  // namespace
}  // namespace tenon

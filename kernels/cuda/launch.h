// SPDX-License-Identifier: Apache-2.0
// The only place kernels are launched from: always on the current stream of the current device, always checked.
// launch(kernel, grid, block, shared, args...) converts the arguments to the kernel's parameter types. Operators
// make the tensors' device current before they call a kernel function.
#pragma once

#include <tenon/core/error.h>
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/stream.h>

#include <cuda_runtime.h>

#include <type_traits>

namespace tenon::cuda {

/// What launch shapes depend on, read once per device.
struct DeviceLimits {
  int multiprocessors;
  int shared_per_block;  ///< bytes, with opt-in
  int l2_bytes;
};
/// Limits of the current device.
TENON_API const DeviceLimits& device_limits();

namespace detail {
/// Out of line: cold parts of a launch, and one call into the runtime.
TENON_API void launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared, void** args);

template <class... Params>
void launch_converted(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared,
                      const std::remove_cv_t<Params>&... params) {
  void* args[] = {const_cast<void*>(static_cast<const void*>(&params))..., nullptr};
  launch(reinterpret_cast<const void*>(kernel), grid, block, shared, args);
}
}  // namespace detail

/// Queues `kernel` on the current stream of the current device. `shared`: dynamic shared memory in bytes; more
/// than 48 KiB is allowed up to the device's limit. A grid of no blocks is no launch. Throws CudaError.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared, const Args&... args) {
  detail::launch_converted(kernel, grid, block, shared, args...);
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tenon::cuda

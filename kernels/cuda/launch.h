// SPDX-License-Identifier: Apache-2.0
// The only place kernels are launched from: always on the current stream of the current device, always checked.
// launch(kernel, grid, block, shared, args...) converts the arguments to the kernel's parameter types. Operators
// make the tensors' device current before they call a kernel function.
//
// Note [One runtime per library]. Each library links its own copy of the CUDA runtime, and a kernel is known only to
// the copy of the library it was compiled into. So the launch itself is compiled into the caller, hidden.
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
// Raising the limit is a driver call: the last kernel this thread raised it for is remembered.
[[gnu::visibility("hidden"), gnu::noinline]] inline void allow_shared(const void* kernel, std::size_t shared) {
  struct Last {
    const void* kernel;
    std::size_t shared;
    int device;
  };
  static thread_local Last last{};
  const int device = current_device(kCUDA);
  if (last.kernel == kernel && last.device == device && last.shared >= shared) return;
  TENON_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  last = {kernel, shared, device};
}

[[gnu::visibility("hidden")]] inline void launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared,
                                                 void** args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared > 48 * 1024) [[unlikely]]
    allow_shared(kernel, shared);
  const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA)).handle());
  TENON_CUDA(cudaLaunchKernel(kernel, grid, block, args, shared, stream));
  if (launch_blocking()) [[unlikely]]
    TENON_CUDA(cudaStreamSynchronize(stream));
}

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

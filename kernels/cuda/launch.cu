// SPDX-License-Identifier: Apache-2.0
#include <tenon/kernels/cuda/launch.h>

namespace tenon::cuda {
namespace {

constexpr std::size_t kSharedWithoutOptIn = 48 * 1024;

// Raising the limit is a driver call: remember the last kernel this thread raised it for.
void allow_shared(const void* kernel, std::size_t shared) {
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

}  // namespace

const DeviceLimits& device_limits() {
  // Two threads may fill an entry at once; they write the same values, and `ready` is set last.
  static DeviceLimits limits[kMaxDevices];
  static bool ready[kMaxDevices];
  const int device = current_device(kCUDA);
  TENON_ASSERT(device >= 0 && device < kMaxDevices);
  if (!__atomic_load_n(&ready[device], __ATOMIC_ACQUIRE)) [[unlikely]] {
    int sms = 0, shared = 0, l2 = 0;
    TENON_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    TENON_CUDA(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    TENON_CUDA(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device));
    __atomic_store_n(&limits[device].multiprocessors, sms, __ATOMIC_RELAXED);
    __atomic_store_n(&limits[device].shared_per_block, shared, __ATOMIC_RELAXED);
    __atomic_store_n(&limits[device].l2_bytes, l2, __ATOMIC_RELAXED);
    __atomic_store_n(&ready[device], true, __ATOMIC_RELEASE);
  }
  return limits[device];
}

namespace detail {

void launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared, void** args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared > kSharedWithoutOptIn) [[unlikely]] allow_shared(kernel, shared);
  const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA)).handle());
  TENON_CUDA(cudaLaunchKernel(kernel, grid, block, args, shared, stream));
  if (launch_blocking()) [[unlikely]] TENON_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace detail
}  // namespace tenon::cuda

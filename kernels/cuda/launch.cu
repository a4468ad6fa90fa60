// SPDX-License-Identifier: Apache-2.0
#include <tenon/kernels/cuda/launch.h>

namespace tenon::cuda {

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

}  // namespace tenon::cuda

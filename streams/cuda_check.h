// SPDX-License-Identifier: Apache-2.0
// TENON_CUDA: checks a call of the CUDA runtime. For sources only, as it needs CUDA's headers.
//
// Note [CUDA errors]. The text has the operator, the call, the error, the place and the device, and in its third
// line what to do about it where that is known. Missing machine code becomes ArchError, trouble with a capture
// CaptureError, a missing device, a fork or a call from a host callback DeviceError, everything else CudaError.
// Running out of memory is decided by the allocator, which asks for cudaErrorMemoryAllocation itself.
#pragma once

#include <tenon/core/error.h>
#include <tenon/streams/devices.h>  // launch_blocking, for whoever launches

#include <cuda_runtime_api.h>

namespace tenon::detail {
[[noreturn, gnu::cold]] TENON_API void fail_cuda(cudaError_t error, const char* call, const char* file, int line);
}

/// TENON_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
// cudaGetLastError belongs here: it must clear the error in the copy of the runtime that reported it.
#define TENON_CUDA(call)                                                        \
  do {                                                                          \
    const cudaError_t tenon_cuda_error_ = (call);                               \
    if (tenon_cuda_error_ != cudaSuccess) [[unlikely]] {                        \
      (void)cudaGetLastError();                                                 \
      ::tenon::detail::fail_cuda(tenon_cuda_error_, #call, __FILE__, __LINE__); \
    }                                                                           \
  } while (false)

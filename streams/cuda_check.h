// SPDX-License-Identifier: Apache-2.0
// TENON_CUDA: checks a call of the CUDA runtime. For sources only, as it needs CUDA's headers. What it throws:
// Note [CUDA errors] in streams/failure.h.
#pragma once

#include <tenon/core/error.h>
#include <tenon/streams/devices.h>  // launch_blocking, for whoever launches
#include <tenon/streams/failure.h>

#include <cuda_runtime_api.h>

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

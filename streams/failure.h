// SPDX-License-Identifier: Apache-2.0
// What a failing CUDA call throws (TENON_CUDA in streams/cuda_check.h). It needs no CUDA header and lives in the
// CPU library, so that any library with CUDA code can use it.
//
// Note [CUDA errors]. The text has the operator, the call, the error, the place and the device, and in its third
// line what to do about it where that is known. Missing machine code becomes ArchError, trouble with a capture
// CaptureError, a missing device, a fork or a call from a host callback DeviceError, everything else CudaError.
// Running out of memory is decided by the allocator, which looks for cudaErrorMemoryAllocation itself.
#pragma once

#include <tenon/core/api.h>

namespace tenon::detail {
/// `error` is a cudaError_t, `call` the text of the call.
[[noreturn, gnu::cold]] TENON_API void fail_cuda(int error, const char* call, const char* file, int line);
}  // namespace tenon::detail

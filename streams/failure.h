// SPDX-License-Identifier: Apache-2.0
// What a failing CUDA call throws (TENON_CUDA in streams/cuda_check.h). It needs no CUDA header and lives in the
// CPU library, so that any library with CUDA code can use it.
//
// Note [CUDA errors]. The text has the operator, the call, the error, the place and the device, and in its third
// line what to do about it where that is known; detail() adds suspects, the last launches and memory. Missing machine
// code becomes ArchError, trouble with a capture CaptureError, a missing device, a fork or a call from a host callback
// DeviceError, everything else CudaError. Running out of memory is decided by the allocator, which looks for
// cudaErrorMemoryAllocation itself.
// Note [Broken devices]. A fault inside a kernel leaves a device unusable, and whatever call comes next is told of it.
// That call's error is kept as the first cause, with the operator at fault if blame mode knows it (streams/blame.h);
// every later one fails at once and quotes it. CUDA's devices stay broken until the process ends, simulated ones until
// sim::configure or reset.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>
#include <string>

namespace tenon {

struct MemoryNumbers;  // core/error.h

/// What broke the device, in one line; empty while it works.
TENON_API std::string device_failure(Device device);

namespace detail {
/// `error` is a cudaError_t, `call` the text of the call.
[[noreturn, gnu::cold]] TENON_API void fail_cuda(int error, const char* call, const char* file, int line);

/// How a call heard that an earlier kernel has broken its device.
struct Fault {
  Device device;
  int code;
  const char* name;  ///< "cudaErrorIllegalAddress"
  const char* text;
  const char* call;
  const char* file;  ///< null: not known
  int line;
};
[[noreturn, gnu::cold]] TENON_API void fail_fault(const Fault& fault);
/// For calls that need not be tried: quotes the first cause.
[[noreturn, gnu::cold]] TENON_API void fail_broken(Device device, const char* call);
/// Bit per slot (streams/state.h) of a device that is broken; read it relaxed.
extern TENON_API constinit uint64_t failed_devices;
/// The devices of the type work again.
TENON_API void clear_failures(DeviceType type) noexcept;
/// What detail() adds to an error of `device` (the CPU: of all): the last launches, newest first; empty without any.
TENON_API std::string launches_text(Device device);

/// Fills in what the allocator of a CUDA device has; must not call the device.
TENON_API void set_memory_numbers(void (*numbers)(Device device, MemoryNumbers& out)) noexcept;
/// What kernels have written about themselves before they trapped (kernels/cuda/device_error.h); empty: nothing.
TENON_API void set_fault_notes(std::string (*notes)(int device)) noexcept;
}  // namespace detail

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// What a failing CUDA call throws.
#include <tenon/streams/availability.h>
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/devices.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/raw_streams.h>

#include <string>
#include <string_view>

namespace tenon::detail {

namespace {

// The last three parts tell files apart; build folders only make lines long.
std::string_view short_path(std::string_view path) {
  size_t cut = path.size();
  for (int parts = 0; parts < 3; ++parts) {
    cut = cut == 0 ? std::string_view::npos : path.rfind('/', cut - 1);
    if (cut == std::string_view::npos) return path;
  }
  return path.substr(cut + 1);
}

// Faults inside kernels. They are reported by whatever call comes next and leave the context unusable.
bool is_kernel_fault(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

bool is_arch_error(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion ||
         error == cudaErrorInvalidDeviceFunction || error == cudaErrorJitCompilerNotFound;
}

bool is_capture_error(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorCapturedEvent;
}

std::string hint(cudaError_t error) {
  if (is_kernel_fault(error)) {
    return cuda::launch_blocking()
               ? "\n  The process must be restarted before it can use this device again."
               : "\n  An earlier kernel may be the cause; run with CUDA_LAUNCH_BLOCKING=1 to see which.";
  }
  if (error == cudaErrorInvalidDevice) return concat("\n  ", cuda::device_count(), " devices are visible.");
  if (error == cudaErrorLaunchOutOfResources)
    return "\n  The kernel needs more registers or shared memory than a block may use.";
  return {};
}

[[noreturn]] void fail_arch(const std::string& where, const std::string& head, int index) {
  cuda::DeviceProperties properties;
  RawStreams* streams = find_raw_streams(kCUDA);
  if (!streams || !streams->device_properties(index, properties)) fail<ArchError>(head);
  const std::string list = streams->arch_list();
  if (!cuda::arch_list_covers(list, properties.major, properties.minor)) {
    fail<ArchError>(where, cuda::arch_message(list, index, properties.name, properties.major, properties.minor));
  }
  // tenon's own kernels would run: this one comes from a library built for other cards.
  fail<ArchError>(head, "\n  The library with this kernel has no code for compute capability ", properties.major, ".",
                  properties.minor, ": rebuild it with -DCMAKE_CUDA_ARCHITECTURES=", properties.major, properties.minor,
                  ".");
}

}  // namespace

void fail_cuda(cudaError_t error, const char* call, const char* file, int line) {
  const std::string where = current_operator ? concat(current_operator, ": ") : std::string();
  if (forked_after_cuda() || error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    const cuda::CudaAvailability a = cuda::availability();
    if (a.status != cuda::CudaStatus::available)
      fail<DeviceError>(where, "cuda is unavailable: ", a.reason, "\n  ", a.remedy);
  }
  int index = 0;
  if (cudaGetDevice(&index) != cudaSuccess) index = 0;
  const std::string head = concat(where, call, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error),
                                  ")\n  at ", short_path(file), ":", line, " on ", Device(kCUDA, index));
  if (error == cudaErrorNotPermitted && in_host_callback()) {
    fail<DeviceError>(head, "\n  A host callback of a stream must not call CUDA.");
  }
  if (is_arch_error(error)) fail_arch(where, head, index);
  if (is_capture_error(error)) fail<CaptureError>(head);
  fail<CudaError>(head, hint(error));
}

}  // namespace tenon::detail

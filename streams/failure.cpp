// SPDX-License-Identifier: Apache-2.0
#include <tenon/streams/availability.h>
#include <tenon/streams/devices.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/state.h>

#include <string>
#include <string_view>

namespace tenon::detail {

namespace {

// cudaError_t, of which the CPU library has no header. The numbers are part of CUDA's interface.
enum : int {
  kInsufficientDriver = 35,
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kNoKernelImage = 209,
  kInvalidPtx = 218,
  kJitCompilerNotFound = 221,
  kUnsupportedPtx = 222,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kAssert = 710,
  kHardwareStack = 714,
  kLaunchFailure = 719,
  kNotPermitted = 800,
  kFirstCaptureError = 900,
  kLastCaptureError = 908,
};

// Faults inside kernels. They are reported by whatever call comes next and leave the context unusable.
bool is_kernel_fault(int error) {
  return error == kIllegalAddress || error == kLaunchTimeout || error == kAssert ||
         (error >= kHardwareStack && error <= kLaunchFailure);
}

bool is_arch_error(int error) {
  return error == kNoKernelImage || error == kInvalidDeviceFunction || error == kInvalidPtx ||
         error == kUnsupportedPtx || error == kJitCompilerNotFound;
}

std::string hint(int error) {
  if (is_kernel_fault(error)) {
    return cuda::launch_blocking()
               ? "\n  The process must be restarted before it can use this device again."
               : "\n  An earlier kernel may be the cause; run with CUDA_LAUNCH_BLOCKING=1 to see which.";
  }
  if (error == kInvalidDevice) return concat("\n  Devices visible: ", cuda::device_count(), ".");
  if (error == kLaunchOutOfResources) {
    return "\n  The kernel needs more registers or shared memory than a block may have.";
  }
  return {};
}

// The last three parts tell files apart; build folders only make lines long.
std::string_view short_path(std::string_view path) {
  size_t cut = path.size();
  for (int parts = 0; parts < 3; ++parts) {
    cut = cut == 0 ? std::string_view::npos : path.rfind('/', cut - 1);
    if (cut == std::string_view::npos) return path;
  }
  return path.substr(cut + 1);
}

[[noreturn]] void fail_arch(const std::string& where, const std::string& head, int index) {
  cuda::DeviceProperties properties;
  RawStreams* streams = registered_raw_streams(kCUDA);
  if (!streams || !streams->device_properties(index, properties)) fail<ArchError>(head);
  const std::string list = streams->arch_list();
  if (!cuda::arch_list_covers(list, properties.major, properties.minor)) {
    fail<ArchError>(where, cuda::arch_message(list, index, properties.name, properties.major, properties.minor));
  }
  // tenon's own kernels would run: this one comes from a library built for other cards.
  fail<ArchError>(head, "\n  The library with this kernel has no code for compute capability ", properties.major, ".",
                  properties.minor, "; rebuild it with -DCMAKE_CUDA_ARCHITECTURES=", properties.major, properties.minor,
                  ".");
}

}  // namespace

void fail_cuda(int error, const char* call, const char* file, int line) {
  std::string where = current_operator ? current_operator : "";
  where = where.substr(0, where.find('('));
  if (!where.empty()) where += ": ";
  if (forked_after_cuda() || error == kNoDevice || error == kInsufficientDriver) {
    const cuda::CudaAvailability a = cuda::availability();
    if (a.status != cuda::CudaStatus::available) {
      fail<DeviceError>(where, "cuda is unavailable: ", a.reason, "\n  ", a.remedy);
    }
  }
  const char* name = "cudaError";
  const char* text = "no further information";
  if (RawStreams* streams = registered_raw_streams(kCUDA)) streams->describe_error(error, name, text);
  // As this thread last set or asked for it; asking now might fail again.
  const int index = thread_state.device[static_cast<int>(kCUDA)] - 1;
  const std::string head = concat(where, call, ": ", name, " ", error, " (", text, ")\n  at ", short_path(file), ":",
                                  line, " on ", Device(kCUDA, index));
  if (error == kNotPermitted && thread_state.in_callback) {
    fail<DeviceError>(head, "\n  A host callback of a stream must not call CUDA.");
  }
  if (is_arch_error(error)) fail_arch(where, head, index < 0 ? 0 : index);
  if (error >= kFirstCaptureError && error <= kLastCaptureError) fail<CaptureError>(head);
  fail<CudaError>(head, hint(error));
}

}  // namespace tenon::detail

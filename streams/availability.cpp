// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <tenon/core/error.h>
#include <tenon/streams/availability.h>
#include <tenon/streams/devices.h>
#include <tenon/streams/raw_streams.h>

#include <cstdlib>
#include <filesystem>

namespace tenon::cuda {

namespace {

constexpr int kSuccess = 0, kStubLibrary = 34, kNoDevice = 100, kNotReady = 802, kMismatch = 803, kCompat = 804;
constexpr int kAttributeMajor = 75, kAttributeMinor = 76;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The few driver entry points needed, by name: the driver library must not be a link-time dependency, and
// none of these makes a context.
void probe_driver(CudaProbe& p) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) {
    p.driver_error = dlerror();
    return;
  }
  p.driver = true;
  const auto find = [driver]<class F>(F*& f, const char* symbol) { f = reinterpret_cast<F*>(dlsym(driver, symbol)); };
  int (*version)(int*) = nullptr;
  int (*init)(unsigned) = nullptr;
  int (*count)(int*) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  find(version, "cuDriverGetVersion");
  find(init, "cuInit");
  find(count, "cuDeviceGetCount");
  find(get, "cuDeviceGet");
  find(attribute, "cuDeviceGetAttribute");
  if (!version || !init || !count || !get || !attribute) {
    p.driver = false;
    p.driver_error = "libcuda.so.1 lacks the entry points of a CUDA driver";
    return;
  }
  version(&p.driver_version);
  // An old driver need not be initialised to be told apart.
  if (p.runtime_version > 0 && p.driver_version > 0 && p.driver_version / 1000 < p.runtime_version / 1000) return;
  detail::note_cuda_used();
  p.driver_status = init(0);
  if (p.driver_status == kSuccess) p.driver_status = count(&p.device_count);
  if (p.driver_status != kSuccess) p.device_count = 0;
  for (int i = 0; i < p.device_count; ++i) {
    int device = 0, major = 0, minor = 0;
    if (get(&device, i) == kSuccess && attribute(&major, kAttributeMajor, device) == kSuccess &&
        attribute(&minor, kAttributeMinor, device) == kSuccess) {
      p.capabilities.emplace_back(major, minor);
    }
  }
}

// The kernel module lists the cards of the machine, whatever a process is allowed to see.
int physical_devices() {
  std::error_code error;
  int n = 0;
  std::filesystem::directory_iterator it("/proc/driver/nvidia/gpus", error);
  if (error) return -1;
  for (; it != std::filesystem::directory_iterator(); it.increment(error)) {
    if (error) return -1;
    ++n;
  }
  return n;
}

CudaAvailability no_device(const CudaProbe& p) {
  if (p.has_visible_devices) {
    return {CudaStatus::no_device, "CUDA_VISIBLE_DEVICES=\"" + p.visible_devices + "\" hides every CUDA device",
            "Unset CUDA_VISIBLE_DEVICES or list the ordinals to use, as in CUDA_VISIBLE_DEVICES=0, before the program "
            "starts."};
  }
  if (p.physical_devices > 0) {
    return {CudaStatus::no_device,
            "the machine has " + std::to_string(p.physical_devices) + " CUDA device(s), this process may use none",
            "Give the process access to /dev/nvidia*; in a container, start it with --gpus all."};
  }
  return {CudaStatus::no_device, "the driver is installed but finds no CUDA device",
          "Check that nvidia-smi lists a card; in a container, start it with --gpus all."};
}

CudaAvailability driver_failure(int status) {
  if (status == kStubLibrary) {
    return {CudaStatus::no_driver, "libcuda.so.1 is the toolkit's stub, not a driver",
            "Take the toolkit's stubs folder off LD_LIBRARY_PATH and install the NVIDIA driver."};
  }
  if (status == kNotReady) {
    return {CudaStatus::error, "the driver says that the system is not yet ready (error 802)",
            "Start nvidia-fabricmanager of the same version as the driver, or wait until it has started."};
  }
  if (status == kMismatch) {
    return {CudaStatus::error, "the driver's kernel module and its libcuda.so.1 have different versions (error 803)",
            "Reboot, or reload the nvidia kernel modules, after a driver update."};
  }
  if (status == kCompat) {
    return {CudaStatus::driver_too_old, "the forward compatibility package does not support this card (error 804)",
            "Take the cuda-compat folder off LD_LIBRARY_PATH and update the driver itself."};
  }
  return {CudaStatus::error, "the CUDA driver failed to start (error " + std::to_string(status) + ")",
          "See whether nvidia-smi works and what dmesg says about NVRM; a reboot often helps."};
}

}  // namespace

const char* name(CudaStatus status) {
  switch (status) {
    case CudaStatus::available:
      return "available";
    case CudaStatus::no_library:
      return "no_library";
    case CudaStatus::no_driver:
      return "no_driver";
    case CudaStatus::driver_too_old:
      return "driver_too_old";
    case CudaStatus::no_device:
      return "no_device";
    case CudaStatus::arch_mismatch:
      return "arch_mismatch";
    case CudaStatus::error:
      return "error";
  }
  return "?";
}

int minimum_driver(int runtime_version) {
  // Any runtime of a major version runs on the first driver branch of that major version.
  switch (runtime_version / 1000) {
    case 11:
      return 450;
    case 12:
      return 525;
    case 13:
      return 580;
  }
  return 0;
}

CudaProbe probe() {
  CudaProbe p;
  p.forked = detail::forked_after_cuda();
  if (p.forked) return p;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    p.has_visible_devices = true;
    p.visible_devices = visible;
  }
  RawStreams* streams = find_raw_streams(kCUDA);
  p.library = streams != nullptr;
  p.library_error = detail::cuda_library_error();
  if (streams) {
    p.runtime_version = streams->runtime_version();
    p.arch_list = streams->arch_list();
  }
  probe_driver(p);
  p.physical_devices = physical_devices();
  return p;
}

CudaAvailability diagnose(const CudaProbe& p) {
  if (p.forked) {
    return {CudaStatus::error, "this process was forked after its parent had used CUDA, which does not survive a fork",
            "Use CUDA only after the fork, or start the process with exec (spawn) instead."};
  }
  if (!p.library) {
    return {
        CudaStatus::no_library,
        "tenon's CUDA library is not there (" + p.library_error + ")" + (p.driver ? "" : ", and neither is a driver"),
        "Build tenon with -DTENON_CUDA=ON, or put libtenon_cuda.so beside libtenon.so."};
  }
  if (!p.driver) {
    return {CudaStatus::no_driver, "there is no NVIDIA driver (" + p.driver_error + ")",
            "Install an NVIDIA driver of branch " + std::to_string(minimum_driver(p.runtime_version)) +
                " or newer; in a container, start it with --gpus all."};
  }
  if (p.driver_version > 0 && p.driver_version / 1000 < p.runtime_version / 1000) {
    return {CudaStatus::driver_too_old,
            "the driver supports CUDA " + version_text(p.driver_version) + ", tenon was built for CUDA " +
                version_text(p.runtime_version),
            "Update the NVIDIA driver to branch " + std::to_string(minimum_driver(p.runtime_version)) + " or newer."};
  }
  if (p.driver_status != kSuccess && p.driver_status != kNoDevice) return driver_failure(p.driver_status);
  if (p.device_count == 0) return no_device(p);
  for (const auto& [major, minor] : p.capabilities) {
    if (arch_list_covers(p.arch_list, major, minor)) return {CudaStatus::available, {}, {}};
  }
  if (p.capabilities.empty()) return {CudaStatus::available, {}, {}};
  const auto& [major, minor] = p.capabilities.front();
  const std::string text = arch_message(p.arch_list, 0, "", major, minor);
  const auto line = text.find('\n');
  return {CudaStatus::arch_mismatch, text.substr(0, line),
          line == std::string::npos ? "" : text.substr(text.find_first_not_of(" \n", line))};
}

CudaAvailability availability() {
  if (detail::forked_after_cuda()) return diagnose(probe());
  static const CudaAvailability* const found = new CudaAvailability(diagnose(probe()));
  return *found;
}

bool is_available() { return availability().status == CudaStatus::available; }

}  // namespace tenon::cuda

// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/error.h>
#include <tenon/streams/nvml.h>

#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <mutex>

namespace tenon::cuda {
namespace {

// The parts of NVML's interface that are used; numbers and layouts are the documented ones of version 2 and later.
using Handle = void*;
struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct Pci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
constexpr int kSuccess = 0, kTemperatureGpu = 0, kClockSm = 1, kClockMemory = 2;

struct Reason {
  unsigned long long bit;
  const char* text;
};
constexpr Reason kReasons[] = {{0x1, "idle"},
                               {0x2, "application clocks"},
                               {0x4, "software power cap"},
                               {0x8, "hardware slowdown"},
                               {0x10, "sync boost"},
                               {0x20, "software thermal slowdown"},
                               {0x40, "hardware thermal slowdown"},
                               {0x80, "hardware power brake"},
                               {0x100, "display clocks"}};

struct Library {
  void* file = nullptr;
  std::string error;

  Library() {
    const char* chosen = std::getenv("TENON_NVML");
    const char* name = chosen && *chosen ? chosen : "libnvidia-ml.so.1";
    file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
      const char* why = dlerror();
      error = why ? why : name;
      return;
    }
    int status = -1;
    if (!call(status, "nvmlInit_v2") || status != kSuccess) error = detail::concat("nvmlInit_v2 failed: ", status);
  }

  // False when the library has no such function, else its result in `status`.
  template <class... Args>
  bool call(int& status, const char* function, Args... args) const {
    void* const p = dlsym(file, function);
    if (!p) return false;
    status = reinterpret_cast<int (*)(Args...)>(p)(args...);
    return true;
  }
  template <class... Args>
  bool ask(const char* function, Args... args) const {
    int status = -1;
    return call(status, function, args...) && status == kSuccess;
  }
};

const Library& library() {
  static const auto* opened = new Library;  // stays open: the driver's tools may be at work while the process ends
  return *opened;
}

NvmlDevice read(const Library& nvml, Handle device) {
  NvmlDevice d;
  char text[96] = "";
  if (nvml.ask("nvmlDeviceGetName", device, static_cast<char*>(text), 96u)) d.name = text;
  Pci pci{};
  if (nvml.ask("nvmlDeviceGetPciInfo_v3", device, &pci)) d.pci_bus_id = pci.bus_id;
  Utilization busy{};
  if (nvml.ask("nvmlDeviceGetUtilizationRates", device, &busy)) {
    d.gpu_percent = static_cast<int>(busy.gpu);
    d.memory_percent = static_cast<int>(busy.memory);
  }
  unsigned value = 0;
  if (nvml.ask("nvmlDeviceGetTemperature", device, kTemperatureGpu, &value)) d.temperature = static_cast<int>(value);
  Memory memory{};
  if (nvml.ask("nvmlDeviceGetMemoryInfo", device, &memory)) {
    d.memory_used = static_cast<int64_t>(memory.used);
    d.memory_total = static_cast<int64_t>(memory.total);
  }
  if (nvml.ask("nvmlDeviceGetPowerUsage", device, &value)) d.power_watts = value * 1e-3;
  if (nvml.ask("nvmlDeviceGetEnforcedPowerLimit", device, &value)) d.power_limit_watts = value * 1e-3;
  if (nvml.ask("nvmlDeviceGetClockInfo", device, kClockSm, &value)) d.sm_clock_mhz = static_cast<int>(value);
  if (nvml.ask("nvmlDeviceGetMaxClockInfo", device, kClockSm, &value)) d.sm_clock_max_mhz = static_cast<int>(value);
  if (nvml.ask("nvmlDeviceGetClockInfo", device, kClockMemory, &value)) d.memory_clock_mhz = static_cast<int>(value);
  unsigned long long reasons = 0;
  if (nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", device, &reasons) ||
      nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons)) {
    d.throttle_reasons = static_cast<int64_t>(reasons);
    for (const Reason& r : kReasons) {
      if (reasons & r.bit) d.throttling += (d.throttling.empty() ? "" : ", ") + std::string(r.text);
    }
    if (d.throttling.empty()) d.throttling = "none";
  }
  return d;
}

}  // namespace

NvmlSnapshot nvml_snapshot() {
  static std::mutex mutex;  // a sample at a time
  const std::lock_guard lock(mutex);
  NvmlSnapshot snapshot;
  const Library& nvml = library();
  snapshot.reason = nvml.error;
  if (!nvml.error.empty()) return snapshot;
  char text[96] = "";
  if (nvml.ask("nvmlSystemGetDriverVersion", static_cast<char*>(text), 96u)) snapshot.driver = text;
  unsigned count = 0;
  if (!nvml.ask("nvmlDeviceGetCount_v2", &count)) {
    snapshot.reason = "nvmlDeviceGetCount_v2 failed";
    return snapshot;
  }
  snapshot.available = true;
  for (unsigned i = 0; i < count; ++i) {
    Handle device = nullptr;
    if (nvml.ask("nvmlDeviceGetHandleByIndex_v2", i, &device)) snapshot.devices.push_back(read(nvml, device));
  }
  return snapshot;
}

std::string nvml_line(const NvmlDevice& d) {
  const auto known = [](double value) { return value < 0 ? std::string("?") : std::to_string(std::llround(value)); };
  const auto mib = [&](int64_t bytes) { return known(bytes < 0 ? -1.0 : static_cast<double>(bytes >> 20)); };
  return known(d.gpu_percent) + " %, " + known(d.temperature) + " C, " + mib(d.memory_used) + " of " +
         mib(d.memory_total) + " MiB, " + known(d.power_watts) + " of " + known(d.power_limit_watts) + " W, " +
         known(d.sm_clock_mhz) + " of " + known(d.sm_clock_max_mhz) +
         " MHz, throttled by: " + (d.throttling.empty() ? "?" : d.throttling);
}

}  // namespace tenon::cuda

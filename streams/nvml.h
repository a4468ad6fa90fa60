// SPDX-License-Identifier: Apache-2.0
// What the management library of NVIDIA's driver (libnvidia-ml) knows of the cards: how busy, how warm, how fast. It is
// opened when first asked for and creates no context, so that it may be asked before and after a fork. Without it, and
// where a card does not tell, values are unknown: -1, or empty.
// Thread safety: all may be called from any thread.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::cuda {

struct NvmlDevice {
  std::string name, pci_bus_id;   ///< "00000000:3B:00.0": as the driver's tools write it
  int gpu_percent = -1;           ///< of the last sample, in which a kernel ran
  int memory_percent = -1;        ///< likewise, in which memory was read or written
  int temperature = -1;           ///< degrees Celsius
  int64_t memory_used = -1;       ///< bytes, by all processes
  int64_t memory_total = -1;      ///< bytes
  double power_watts = -1;        ///< drawn now
  double power_limit_watts = -1;  ///< enforced
  int sm_clock_mhz = -1, sm_clock_max_mhz = -1;
  int memory_clock_mhz = -1;
  int64_t throttle_reasons = -1;  ///< bits as nvmlClocksEventReasons has them
  std::string throttling;         ///< the same in words; "none"
};
struct NvmlSnapshot {
  bool available = false;
  std::string reason;               ///< why not; empty when available
  std::string driver;               ///< "580.65.06"
  std::vector<NvmlDevice> devices;  ///< of the machine, in the driver's order; CUDA_VISIBLE_DEVICES does not matter
};

/// Asks all cards now. Never throws for what is not there. TENON_NVML names another file to open.
TENON_API NvmlSnapshot nvml_snapshot();
/// One line: "62 %, 41 C, 10240 of 81559 MiB, 312 of 700 W, 1980 of 1980 MHz, throttled by: none".
TENON_API std::string nvml_line(const NvmlDevice& device);

}  // namespace tenon::cuda

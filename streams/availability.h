// SPDX-License-Identifier: Apache-2.0
// Why CUDA is or is not there. The question itself creates no context: it looks for libtenon_cuda, asks the
// driver library for its version and its devices, and compares their compute capability with what was built.
// (It does initialise the driver, which a child made by fork does not get over; ask in the child instead.)
// Thread safety: all may be called from any thread.
#pragma once

#include <tenon/core/api.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon::cuda {

enum class CudaStatus { available, no_library, no_driver, driver_too_old, no_device, arch_mismatch, error };

struct CudaAvailability {
  CudaStatus status = CudaStatus::error;
  std::string reason;  ///< one sentence; empty when available
  std::string remedy;  ///< one sentence; empty when available
};

/// What diagnose() decides on. probe() fills it in; tests make their own.
struct CudaProbe {
  bool forked = false;                            ///< the parent of this process has used CUDA
  bool library = false;                           ///< libtenon_cuda is loaded
  std::string library_error;                      ///< why not
  int runtime_version = 0;                        ///< of the CUDA runtime in it, 13000 for 13.0
  std::string arch_list;                          ///< what it was compiled for, as CMake spells it
  bool driver = false;                            ///< libcuda.so.1 is there
  std::string driver_error;                       ///< why not
  int driver_version = 0;                         ///< CUDA version the driver supports, 13000 for 13.0
  int driver_status = 0;                          ///< result of cuInit and cuDeviceGetCount
  int device_count = 0;                           ///< visible ones
  int physical_devices = -1;                      ///< devices of this machine; -1 when unknown
  bool has_visible_devices = false;               ///< CUDA_VISIBLE_DEVICES is set ...
  std::string visible_devices;                    ///< ... to this
  std::vector<std::pair<int, int>> capabilities;  ///< of the visible devices
};

TENON_API const char* name(CudaStatus status);
/// The oldest driver branch that serves a CUDA runtime version: 580 for 13000; 0 when unknown.
TENON_API int minimum_driver(int runtime_version);
TENON_API CudaProbe probe();
TENON_API CudaAvailability diagnose(const CudaProbe& probe);
/// diagnose(probe()), found out once per process.
TENON_API CudaAvailability availability();
TENON_API bool is_available();

}  // namespace tenon::cuda

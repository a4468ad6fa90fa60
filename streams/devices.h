// SPDX-License-Identifier: Apache-2.0
// Questions about CUDA devices. They live in the CPU library and are answered by libtenon_cuda once it is
// loaded, so that a program needs neither CUDA nor its headers to ask. None of them creates a context but
// mem_get_info. For "why is there none", see streams/availability.h.
// Thread safety: all may be called from any thread.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>
#include <string>
#include <utility>

namespace tenon::cuda {

struct DeviceProperties {
  std::string name;
  std::string pci_bus_id;    ///< "0000:3b:00.0": which card of the machine an ordinal is
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  int warp_size = 0;
  int max_threads_per_multiprocessor = 0;
  int64_t memory = 0;                   ///< bytes of global memory
  int64_t l2_cache = 0;                 ///< bytes
  int64_t shared_memory_per_block = 0;  ///< bytes a kernel may ask for after opting in
};

/// Devices this process may use; 0 when CUDA is unavailable. Never throws.
TENON_API int device_count() noexcept;
/// DeviceError when `index` is not a visible device; CUDA's own errors as CudaError. Likewise below.
TENON_API DeviceProperties device_properties(int index);
TENON_API std::string device_name(int index);
/// {9, 0} for compute capability 9.0.
TENON_API std::pair<int, int> compute_capability(int index);
/// {free, total} bytes as the driver counts them.
TENON_API std::pair<int64_t, int64_t> mem_get_info(int index = -1);
/// The architectures kernels were compiled for, as CMake spells them ("75-real;90"); empty without CUDA.
TENON_API std::string arch_list();
/// 13000 for 13.0; 0 when unknown.
TENON_API int runtime_version();
TENON_API int driver_version();

/// True when machine code or PTX in `arch_list` runs on a device of that compute capability.
TENON_API bool arch_list_covers(const std::string& arch_list, int major, int minor);
/// The text of an ArchError: the card, what was built, and the CMake flag that mends it.
TENON_API std::string arch_message(const std::string& arch_list, int index, const std::string& name, int major,
                                   int minor);

/// Whether each kernel launch waits for its kernel, so that a fault is thrown where it was launched. At first
/// what CUDA_LAUNCH_BLOCKING=1 says.
TENON_API bool launch_blocking() noexcept;
TENON_API void set_launch_blocking(bool on) noexcept;

}  // namespace tenon::cuda

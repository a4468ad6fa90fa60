// SPDX-License-Identifier: Apache-2.0
// The launch ring: the last launches of the process, on all devices and threads, for whoever has to explain a fault.
// CUDA kernels are noted where they are launched (kernels/cuda/launch.h), work of the simulated device where it is
// queued. detail() of every CudaError lists the last ones, newest first.
//
// Note [Ring entries]. Writing one takes no lock and some 10 ns: a counter, a claim on the entry, a copy of the operator's
// name (whose text may go with a plugin), and stores of words, the number last. A reader drops an entry whose number
// changed under it. A writer that finds the entry claimed, by a thread that sleeps since a whole ring of launches, leaves
// its own out.
// Thread safety: everything, from any thread.
#pragma once

#include <tenon/streams/stream.h>

#include <string>
#include <vector>

namespace tenon {

/// A launch as the ring keeps it.
struct Launch {
  uint64_t sequence = 0;  ///< launches of the process are counted from 1
  std::string op;         ///< its first 31 letters; empty outside of operators
  std::string kernel;     ///< without arguments; empty when unknown
  Device device;
  int32_t stream = -1;  ///< Stream::id()
  uint32_t grid[3] = {};
  uint32_t threads = 0;  ///< of a block
  std::string site;      ///< the caller's functions, with record_launch_sites
  /// "#42 relu on cuda:0 stream 5: elementwise_kernel, 12 blocks of 256"
  TENON_API std::string str() const;
};

/// The last launches, newest first.
TENON_API std::vector<Launch> last_launches(int count = INT32_MAX);
/// How many there were in all, and on which devices.
TENON_API uint64_t launch_count() noexcept;
TENON_API std::vector<Device> launched_devices();
/// How many are kept: 0 to 4096, rounded up to a power of two; at first what TENON_LAUNCH_RING says, else 64. ValueError.
TENON_API void set_launch_ring_size(int launches);
TENON_API int launch_ring_size();
/// Keep where launches were called from: a call stack each, about a microsecond.
TENON_API void record_launch_sites(bool on) noexcept;

namespace detail {
/// To be called before a launch on `stream`; throws when its device has broken down. `kernel` is the address that stands
/// for the kernel, `name_of` is asked once for its name. Returns the launch's number in blame mode, for fence_launch
/// (streams/blame.h) once it is launched, else 0.
TENON_API uint64_t note_launch(const Stream& stream, const void* kernel, const char* (*name_of)(const void*),
                               uint32_t grid_x = 0, uint32_t grid_y = 0, uint32_t grid_z = 0, uint32_t threads = 0);
/// A name_of for kernels that are named by a literal.
inline const char* literal_name(const void* kernel) { return static_cast<const char*>(kernel); }
/// Bit per slot of a device (streams/state.h) on which something was launched.
TENON_API uint64_t launched_mask() noexcept;
}  // namespace detail

}  // namespace tenon

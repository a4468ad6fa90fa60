// SPDX-License-Identifier: Apache-2.0
// Which tensors are alive, and where they were made: for leaks, and for the question what fills the memory. Off by
// default and free then; while on, making a tensor costs a few microseconds more.
// Thread safety: all functions from any thread; while live_tensors() runs, no thread may change the shape or the
// storage of a listed tensor in place (resize_, set_data).
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/dtype.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::memory {

struct LiveTensor {
  std::vector<int64_t> sizes;
  DType dtype = DType::undefined;
  Device device;
  int64_t bytes = 0;  ///< of its storage, which views share
  const void* storage = nullptr;
  bool shares_storage = false;  ///< an earlier entry of the list has the same storage: count its bytes once
  bool requires_grad = false;   ///< its own; a view of a tensor that requires grad may say no
  bool pinned = false;          ///< page-locked host memory
  int64_t number = 0;           ///< order of creation since recording began
  std::string op;               ///< operator that made it, empty outside of operators
  std::vector<void*> stack;     ///< where, innermost first (core/stack_trace.h)
  /// The innermost functions outside the library, as core/stack_trace.h writes them; made when asked for.
  TENON_API std::string site() const;
  /// "float32[64, 128] 32768 bytes on cpu, made by add at main+0x1c (train+0x4a1c)".
  TENON_API std::string str() const;
};

/// Starts or ends recording. Only tensors made while it is on are known; ending forgets them.
TENON_API void record_live_tensors(bool on);
TENON_API bool recording_live_tensors();
/// The recorded tensors that are still alive and have memory, oldest first.
TENON_API std::vector<LiveTensor> live_tensors();
/// The same as text, grouped by site, most bytes first, for people.
TENON_API std::string live_tensors_report(int max_sites = 20);

}  // namespace tenon::memory

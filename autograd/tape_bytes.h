// SPDX-License-Identifier: Apache-2.0
// How much memory graphs keep for backward: what an out-of-memory error and the summaries name. Every thread counts for
// itself, without atomic operations; the sum over threads is right whoever frees what another one has saved. A tensor
// saved by two nodes counts twice. Internal.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>

namespace tenon::autograd {

struct TapeBytes {
  static constexpr int kSlots = 2 + 2 * kMaxDevices;
  int64_t of[kSlots];  ///< by device; may be negative in a thread that frees more than it saves
  TapeBytes* next;
  bool in_use;
};
extern constinit thread_local TapeBytes* thread_tape TENON_INITIAL_EXEC;
/// The calling thread's counts; a thread that ends leaves them to the next one.
TapeBytes* join_tape();

inline int tape_slot(Device d) {
  return d.is_cpu() ? 0 : d.is_cuda() ? 2 + d.index() : d.is_sim() ? 2 + kMaxDevices + d.index() : 1;
}
/// Adds to what graphs keep on `device` (bytes; negative when something is given back).
inline void count_tape(Device device, int64_t bytes) {
  TapeBytes* tape = thread_tape;
  if (!tape) [[unlikely]]
    tape = join_tape();
  int64_t& slot = tape->of[tape_slot(device)];
  __atomic_store_n(&slot, __atomic_load_n(&slot, __ATOMIC_RELAXED) + bytes, __ATOMIC_RELAXED);
}
/// Over all threads.
TENON_API int64_t tape_bytes(Device device);

}  // namespace tenon::autograd

// SPDX-License-Identifier: Apache-2.0
// Errors that only a kernel can see, an index out of range above all. The kernel leaves a note in a mailbox of its
// device, skips the element and goes on: no trap, the context survives. The next wait for a stream of the device
// (Stream::synchronize, item(), a copy to the host) finds the note and throws IndexError.
//
// Note [Mailbox]. One per device: the note in page-locked host memory, so that looking costs the host one load; the
// word by which one thread of the device wins the right to write it in device memory, because atomics on host memory
// are not atomic towards the host. The first fault since the last look is kept, later ones are dropped. Texts travel as
// host addresses of literals. Thread safety: any thread.
#pragma once

#include <tenon/core/error.h>

#include <cstdint>
#include <string>

namespace tenon::cuda {

/// A note: `argument` of `op` held `index` at element `position`, where 0 to size - 1 was allowed.
struct Fault {
  const char* op;
  const char* argument;
  int64_t index, size, position;
  int32_t dim;     ///< of the indexed tensor, or -1
  uint32_t ready;  ///< set last
};

/// For a kernel parameter: tests indices.
struct IndexCheck {
  Fault* note;
  unsigned* claim;
  const char* op;
  const char* argument;
  int64_t size;
  int32_t dim;

#if defined(__CUDACC__)
  /// False, and noted, unless 0 <= index < size. `position` is told to the user.
  __device__ __forceinline__ bool operator()(int64_t index, int64_t position) const {
    if (static_cast<uint64_t>(index) < static_cast<uint64_t>(size)) [[likely]]
      return true;
    if (atomicCAS(claim, 0u, 1u) == 0u) {
      volatile Fault* f = note;
      f->op = op;
      f->argument = argument;
      f->index = index;
      f->size = size;
      f->position = position;
      f->dim = dim;
      __threadfence_system();
      f->ready = 1;
    }
    return false;
  }
#endif
};

/// The check for kernels on the current device. `op` and `argument` must be literals of this library.
TENON_API IndexCheck index_check(const char* op, const char* argument, int64_t size, int64_t dim);

/// What the user is told.
inline std::string fault_text(const Fault& f, int device) {
  Message m;
  m << f.op << ": " << f.argument << ": expected 0 to " << f.size - 1;
  if (f.dim >= 0) m << " for dimension " << f.dim;
  m << ", got " << f.index << " at element " << f.position << "\n  A kernel on cuda:" << device
    << " found it; it left out that element, and what the operator returned must not be used.";
  return m.take();
}
/// Takes a note that is ready out of its mailbox; false when there is none, or another thread was faster.
inline bool take_fault(Fault& box, Fault& fault) {
  if (__atomic_load_n(&box.ready, __ATOMIC_ACQUIRE) == 0) return false;
  if (__atomic_exchange_n(&box.ready, 0u, __ATOMIC_ACQ_REL) == 0) return false;
  fault = box;  // the device writes the next note only after its claim was given back
  return true;
}

}  // namespace tenon::cuda

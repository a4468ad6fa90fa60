// SPDX-License-Identifier: Apache-2.0
// The allocators of the process, and what they share when memory runs out.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/caching_allocator.h>

namespace tenon::memory {

/// An allocator of the process; `pinned`: of page-locked host memory.
struct AllocatorEntry {
  CachingAllocator* allocator;
  bool pinned;
};
/// All that exist so far, by device.
std::vector<AllocatorEntry> existing_allocators();

/// Called when memory has run out, without locks, before the error is thrown; what it returns ends the error's text.
using AtOutOfMemory = std::string (*)(CachingAllocator& allocator);
void set_at_out_of_memory(AtOutOfMemory look);
/// What set_tape_bytes_source's function says; 0 without one.
int64_t tape_bytes(Device device);
/// Runs the registered callbacks (allocator.h); false when there are none. No lock may be held.
bool run_out_of_memory_callbacks(Device device, int64_t bytes);

}  // namespace tenon::memory

// SPDX-License-Identifier: Apache-2.0
// A recorded history (memory/snapshot.h) run again through the real allocator, over a device that has addresses and a
// size but no memory: what would this program have reserved with other settings, or on a smaller card? A history of
// 10^5 events takes tens of milliseconds on any machine.
//
// Note [Replay]. Allocations and frees are repeated in their order on their streams; a block that other streams still
// used is freed when it was really reusable. What was alive before the first event is allocated first, by address, and
// cached memory of that time is not: begin recording at the start of the program, or after empty_cache(), when exact
// figures matter. empty_cache() leaves no event and is not repeated. A failed allocation is counted and left out.
// Thread safety: all functions from any thread.
#pragma once

#include <tenon/memory/snapshot.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::memory {

/// Bytes unless the name says otherwise.
struct ReplayResult {
  std::string settings;
  int64_t allocations = 0, failed = 0;  ///< counts; failed ones ran out of memory
  int64_t segments_allocated = 0;       ///< calls to the device
  int64_t segments_released = 0, peak_segments = 0;
  int64_t allocated = 0, reserved = 0;  ///< at the end
  int64_t peak_allocated = 0, peak_requested = 0, peak_reserved = 0;
  int64_t allocated_at_peak = 0;  ///< in use when the reserved bytes had their peak
  /// Share of the reserved bytes at their peak that no block in use covered.
  double fragmentation() const {
    return peak_reserved > 0 ? 1.0 - static_cast<double>(allocated_at_peak) / static_cast<double>(peak_reserved) : 0.0;
  }
};

/// What the history says it was: the same figures, from its own segment and block events.
TENON_API ReplayResult recorded_usage(const MemorySnapshot& snapshot, int allocator);
/// Repeats the events of snapshot.allocators[allocator] under `settings` (as in set_allocator_settings) on a device of
/// `capacity` bytes; 0: as large as the recorded one.
TENON_API ReplayResult replay(const MemorySnapshot& snapshot, int allocator, const std::string& settings,
                              int64_t capacity = 0);
/// Replays the recorded settings, the defaults and tune_candidates(), then the best values together; best first: fewest
/// failures, then the lowest peak of reserved bytes, then (within 0.5 %) fewest calls to the device.
TENON_API std::vector<ReplayResult> tune(const MemorySnapshot& snapshot, int allocator, int64_t capacity = 0);
/// The single settings that tune() tries, one "key:value" each; keys that this version lacks are left out, and so is
/// expandable_segments where the recorded source has no virtual memory.
TENON_API std::vector<std::string> tune_candidates();

}  // namespace tenon::memory

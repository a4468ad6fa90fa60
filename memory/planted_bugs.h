// SPDX-License-Identifier: Apache-2.0
// Bugs to choose from, for the test that shows the property tests would notice them (docs/simulated_device.md). They
// exist only in that test's own copy of the allocator, which defines TENON_PLANTED_BUGS; nowhere else is any of it
// compiled. Internal: not for users' files.
#pragma once

#if defined(TENON_PLANTED_BUGS)
namespace tenon::memory {

enum class Bug {
  none,
  record_stream_ignored,    // uses on other streams are forgotten
  event_recorded_early,     // when the use is announced, not when the block is freed
  first_event_suffices,     // of several streams, the first to pass frees the block
  pool_by_handle,           // two streams with one handle, one after the other, share a pool
  other_streams_pool,       // free memory of any stream serves a request
  split_loses_rest,         // what remains of a split block is in no list
  merge_across_segments,    // neighbours in memory merge although they are different segments
  merge_with_pending,       // a free block merges with one that still waits for an event
  statistics_drift,         // bytes asked for are not taken off when a pending block is freed
  callbacks_skipped,        // the ladder begins without them
  segment_in_use_released,  // a segment whose first block is free counts as idle
  oversize_skipped,         // everything cached is given up although one segment would do
  idle_kept,                // out of memory is raised with idle segments in the cache
  pending_not_awaited,      // out of memory is raised with blocks that only wait for events
  cross_thread_free_lost,   // a block freed by another thread than the first goes nowhere
  fault_leaks_block,        // an event that cannot be recorded ends the free
  rounded_down,             // a block smaller than asked for
};

inline Bug planted_bug = Bug::none;

}  // namespace tenon::memory
#define TENON_PLANTED(bug) (::tenon::memory::planted_bug == ::tenon::memory::Bug::bug)
#else
#define TENON_PLANTED(bug) false
#endif

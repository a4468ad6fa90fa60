// SPDX-License-Identifier: Apache-2.0
// A picture of all memory: segments, blocks, and, while history is recorded, what happened and from where. Saved as
// JSON it is read by tenon-memviz (a page to look at) and tenon-memreplay (the same history under other settings).
//
// Note [History]. The last `max_entries` events are kept in a ring. What was alive before the oldest of them follows
// from the snapshot itself: it holds the blocks alive at its end, and a free tells the size of what it frees. So a
// history may begin and lose its beginning at any time. Recording costs about a microsecond per event with stacks;
// off, it costs nothing. In a forked child it is off.
// Thread safety: all functions from any thread. Events of one device are in their true order; a snapshot taken while
// other threads allocate shows each device at a slightly different time.
#pragma once

#include <tenon/core/stack_trace.h>
#include <tenon/memory/allocator.h>
#include <tenon/memory/observer.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::memory {

enum class SnapshotBlockState : uint8_t {
  in_use,
  free,     ///< cached: the next allocation may take it
  pending,  ///< freed, but other streams still use it
};
TENON_API const char* name(SnapshotBlockState state);
TENON_API const char* name(AllocatorEventKind kind);

/// `stack` and `op` are indices into the snapshot's lists, -1 for unknown.
struct SnapshotBlock {
  uint64_t address = 0;
  int64_t size = 0, requested = 0;  ///< bytes; requested is 0 unless in use
  SnapshotBlockState state = SnapshotBlockState::free;
  int32_t stack = -1, op = -1;
};
struct SnapshotSegment {
  uint64_t address = 0;
  int64_t size = 0;
  int32_t stream = 0;
  bool small = false;                 ///< of the small pool
  std::vector<SnapshotBlock> blocks;  ///< in address order, without gaps
};
struct SnapshotAllocator {
  std::string name;    ///< "cpu", "pinned", "cuda:0"
  std::string source;  ///< who gives the memory, as AllocatorEvent::memory
  std::string settings;
  int64_t total = 0;       ///< bytes the device has
  int64_t tape_bytes = 0;  ///< of the live ones, kept for backward
  /// Whether the source can expand segments; elsewhere expandable_segments has no effect.
  bool virtual_memory = false;
  MemoryStats stats;
  std::vector<SnapshotSegment> segments;
};
struct SnapshotEvent {
  AllocatorEventKind kind{};
  int32_t allocator = 0;  ///< index into MemorySnapshot::allocators
  int32_t stream = 0, stack = -1, op = -1;
  uint64_t address = 0;
  int64_t size = 0, requested = 0;
  int64_t microseconds = 0;  ///< since recording began
};
struct MemorySnapshot {
  std::vector<SnapshotAllocator> allocators;
  std::vector<SnapshotEvent> events;  ///< oldest first
  int64_t dropped_events = 0;         ///< older ones that the ring has lost
  std::vector<std::string> operators;
  std::vector<StackFrame> frames;
  std::vector<std::vector<int32_t>> stacks;  ///< indices into frames, innermost first
};

/// `stacks` false: operator names only. Turning it off, or on again, forgets what was recorded: take the snapshot first,
/// since a history only makes sense up to the state that is saved with it.
TENON_API void record_memory_history(bool enabled, int64_t max_entries = 100'000, bool stacks = true);
TENON_API MemorySnapshot memory_snapshot();
TENON_API std::string to_json(const MemorySnapshot& snapshot);
/// Error with the reason when the file cannot be written.
TENON_API void save_memory_snapshot(const std::string& path);
/// From now on every OutOfMemoryError saves a snapshot to `path` before it is thrown, while everything that fills the
/// memory is still there (the catch clause comes after the destructors); the next one overwrites it. The error's text
/// ends with the path, or with why it could not be written. An empty path ends it.
TENON_API void snapshot_on_out_of_memory(const std::string& path);

}  // namespace tenon::memory

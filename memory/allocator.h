// SPDX-License-Identifier: Apache-2.0
// Where tensors get their memory: one caching allocator per device, found by device.
#pragma once

#include <tenon/core/function.h>
#include <tenon/core/storage.h>
#include <tenon/streams/stream.h>

#include <cstdint>
#include <string>

namespace tenon::memory {

struct AllocatorSettings;  // memory/settings.h

/// Memory on `device` for work on its current stream; 0 bytes give a null pointer. Throws OutOfMemoryError
/// with its numbers when the ladder (memory/caching_allocator.h) is exhausted. A DataPtr owns nothing: whoever does not
/// give it to a storage gives it back, from any thread, by its deleter:
///
///   const DataPtr scratch = memory::allocate(device, 4096);
///   ...  // work on the current stream
///   if (scratch.deleter) scratch.deleter(scratch.context);
[[nodiscard]] TENON_API DataPtr allocate(Device device, int64_t bytes);
/// The same of page-locked host memory.
[[nodiscard]] TENON_API DataPtr allocate_pinned(int64_t bytes);
/// A new storage with memory from allocate(); meta devices get none.
TENON_API Storage make_storage(Device device, int64_t bytes, bool pinned = false);
/// The block of `storage` is not reused before `stream` has passed the work it has when the block is freed. DeviceError
/// for a stream of another device type; pinned memory may be used by streams of any device.
TENON_API void record_stream(const Storage& storage, const Stream& stream);

/// One of an allocator's two pools (Note [Size classes] in memory/caching_allocator.h). Bytes, except the counts.
struct MemoryPoolStats {
  int64_t allocated = 0, reserved = 0;
  int64_t allocations = 0, frees = 0, segments = 0;
};
/// Bytes unless the name says otherwise. "allocated" counts blocks in use, "active" also freed ones that other streams
/// still use, "requested" what was asked for before rounding, "reserved" what the device gave.
struct MemoryStats {
  int64_t allocated = 0, peak_allocated = 0, reserved = 0, peak_reserved = 0;
  int64_t active = 0, peak_active = 0, requested = 0, peak_requested = 0;
  int64_t live_blocks = 0, cached_blocks = 0, segments = 0, largest_free_block = 0;
  MemoryPoolStats small, large;
  // Accumulated since the start or reset_accumulated_memory_stats; the last four in bytes.
  int64_t allocations = 0, frees = 0, segments_allocated = 0, segments_released = 0, splits = 0, merges = 0;
  int64_t out_of_memory = 0, retries = 0;
  int64_t total_allocated = 0, total_freed = 0, total_reserved = 0, total_released = 0;
};
TENON_API MemoryStats memory_stats(Device device);
/// Every peak becomes what is current. Peaks are exact until threads contend for the allocator (docs/memory.md).
TENON_API void reset_peak_memory_stats(Device device);
/// Every accumulated count and total becomes 0.
TENON_API void reset_accumulated_memory_stats(Device device);
TENON_API int64_t memory_allocated(Device device);
TENON_API int64_t max_memory_allocated(Device device);
TENON_API int64_t memory_reserved(Device device);
TENON_API int64_t max_memory_reserved(Device device);
/// Gives every unused cached segment back to the device (its frees synchronise).
TENON_API void empty_cache(Device device);
/// The numbers of the page-locked host memory behind allocate_pinned(); its cache goes with empty_pinned_cache().
TENON_API MemoryStats pinned_memory_stats();
TENON_API void empty_pinned_cache();
/// Settings in PyTorch's syntax ("max_split_size_mb:128,backend:direct"; memory/settings.h has the keys). The
/// text is the whole configuration: keys it does not name get their defaults. ValueError, listing the valid
/// keys, when one is unknown. TENON_ALLOC_CONF is read once, at first use.
TENON_API void set_allocator_settings(const std::string& conf);
/// The same from the struct; ValueError when a member has a value that the text form cannot say.
TENON_API void set_allocator_settings(const AllocatorSettings& settings);
/// The settings in force, in the same syntax.
TENON_API std::string allocator_settings();
/// `f(device, bytes)` runs, in the thread that asks and without locks held, when a device refuses `bytes` and
/// before any cached memory is given up: the place to drop what can be made again. It may allocate (running out of
/// memory in it raises at once, callbacks are not nested) and may throw: that ends the allocation with its exception.
/// Returns an id for removal. ValueError for an empty function.
TENON_API int64_t add_out_of_memory_callback(Function<void(Device, int64_t)> f);
TENON_API void remove_out_of_memory_callback(int64_t id);
/// Where the error asks how many bytes of the device are kept for backward. Called when memory has run out, with
/// internal locks held: it must not allocate tensors. Null: unknown.
TENON_API void set_tape_bytes_source(int64_t (*source)(Device));

}  // namespace tenon::memory

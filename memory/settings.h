// SPDX-License-Identifier: Apache-2.0
// The allocator's settings as a struct, and their text form: PyTorch's "key:value,key:value".
#pragma once

#include <tenon/core/api.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::memory {

enum class AllocatorBackend : uint8_t {
  caching,  ///< the caching allocator ("native" in PyTorch)
  direct,   ///< every block exact, from and to the device at once: for sanitizers
};

/// docs/memory.md says more about each. Sizes in bytes; keys that end in _mb take MiB.
struct TENON_API AllocatorSettings {
  AllocatorBackend backend = AllocatorBackend::caching;
  /// Blocks of this many bytes and more are never split (key `max_split_size_mb`, at least 20).
  int64_t max_split_size = INT64_MAX;
  /// How much larger than an oversize request the block may be that serves it whole (`max_non_split_rounding_mb`).
  int64_t max_non_split_rounding = 20 << 20;
  /// Entry i holds for sizes from 2^i MiB (entry 0: and below) to the next: requests are rounded up to a power of two
  /// divided in this many steps (2, 4 ... 64; 0 and 1: only to 512 bytes). One number, or "[256:1,512:2,>:8]".
  std::array<uint8_t, 16> roundup_power2_divisions{};
  /// Requests above the small limit and up to half of this share segments of this size (`large_segment_size_mb`).
  int64_t large_segment_size = 20 << 20;
  /// Requests up to this many bytes come from the small pool (key in KiB, 1 to 2048).
  int64_t small_pool_limit = 1 << 20;
  /// Before the device is asked while more than this share of its limit is reserved, idle segments go back, the least
  /// recently used first (0: never).
  double garbage_collection_threshold = 0;
  /// Share of a device's memory that may be reserved (0 < x <= 1; not for host memory).
  double per_process_memory_fraction = 1.0;
  /// Segments grow in place, where the device has virtual memory.
  bool expandable_segments = false;
  /// The first refusal of the device raises: nothing cached is given up for the request.
  bool throw_on_cudamalloc_oom = false;
  /// Always so: no lock that other allocations need is held while the device is asked.
  bool release_lock_on_cudamalloc = true;
  /// Pinned memory comes from mmap with huge pages and cudaHostRegister instead of cudaHostAlloc.
  bool pinned_use_cuda_host_register = false;
  /// large_segment_size of pinned memory (`pinned_reserve_segment_size_mb`; 0: the same).
  int64_t pinned_reserve_segment_size = 0;
  /// Larger pinned requests are exact, rounded to pages (`pinned_max_round_threshold_mb`).
  int64_t pinned_max_round_threshold = 64 << 20;
  /// Larger pinned blocks are not cached (`pinned_max_cached_size_mb`).
  int64_t pinned_max_cached_size = INT64_MAX;
  /// Every so many milliseconds a worker gives back what was idle for as long (0: no worker).
  int64_t background_trim_ms = 0;
  /// Free blocks are made unreadable under AddressSanitizer, overwritten elsewhere (host-accessible memory).
  bool poison_free = false;

  bool operator==(const AllocatorSettings&) const = default;
  /// Keys that `conf` does not name have their defaults. ValueError, listing the valid ones, for unknown keys and bad
  /// values, and with the reason for what PyTorch has and tenon cannot honour.
  static AllocatorSettings parse(std::string_view conf);
  /// ValueError for a member whose value the text form cannot say, such as a size that is not whole MiB: then parse()
  /// would not give it back.
  void check() const;
  /// The form that parse() reads; only what differs from the defaults, after the backend. Errors as check().
  std::string str() const;
  /// Every key that parse() knows, in order.
  static std::vector<std::string_view> keys();
};

}  // namespace tenon::memory

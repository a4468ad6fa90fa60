// SPDX-License-Identifier: Apache-2.0
// The allocator's settings as a struct, and their text form: PyTorch's "key:value,key:value".
#pragma once

#include <tenon/core/api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::memory {

enum class AllocatorBackend : uint8_t {
  caching,  ///< the caching allocator ("native" in PyTorch)
  direct,   ///< every block exact, from and to the device at once: for sanitizers
};

struct TENON_API AllocatorSettings {
  AllocatorBackend backend = AllocatorBackend::caching;
  /// Blocks of this many bytes and more are never split (key `max_split_size_mb`, MiB, at least 20).
  int64_t max_split_size = INT64_MAX;
  /// Requests are rounded up to a power of two divided in this many steps (1, 2, 4 ... 64; 0: only to 512 bytes).
  int roundup_power2_divisions = 0;
  /// Requests up to this many bytes come from the small pool (key in KiB, 1 to 2048).
  int64_t small_pool_limit = 1 << 20;
  /// Share of a device's memory that may be reserved (0 < x <= 1; not for host memory).
  double per_process_memory_fraction = 1.0;
  /// Free blocks are made unreadable under AddressSanitizer, overwritten elsewhere (host-accessible memory).
  bool poison_free = false;

  bool operator==(const AllocatorSettings&) const = default;
  /// Keys that `conf` does not name have their defaults. ValueError, listing the valid ones, for unknown keys
  /// and bad values; another text for keys that PyTorch has and tenon does not have yet.
  static AllocatorSettings parse(std::string_view conf);
  /// The form that parse() reads; only what differs from the defaults, after the backend.
  std::string str() const;
};

}  // namespace tenon::memory

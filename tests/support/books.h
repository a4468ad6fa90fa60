// SPDX-License-Identifier: Apache-2.0
// The invariants of an allocator's books, checked against its list of blocks and the fake device beneath it.
#pragma once

#include <tenon/memory/caching_allocator.h>
#include <tenon/testing/fake_memory.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace tenon::testing {

/// Tiling, merging and statistics agree with the list of blocks. Returns the first thing that does not, or nothing.
inline std::string broken(memory::CachingAllocator& allocator, FakeMemory& fake) {
  using namespace memory;
  const MemoryStats s = allocator.stats();
  const std::vector<BlockInfo> blocks = allocator.blocks();
  int64_t allocated = 0, requested = 0, pending = 0, cached = 0, largest = 0, reserved = 0;
  std::map<const void*, int64_t> segments;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BlockInfo& b = blocks[i];
    const bool first = i == 0 || blocks[i - 1].segment != b.segment;
    const char* expected =
        first ? static_cast<const char*>(b.segment) : static_cast<const char*>(blocks[i - 1].ptr) + blocks[i - 1].size;
    if (b.ptr != expected) return "a gap or an overlap in a segment";
    if (!first && b.state == BlockState::free && blocks[i - 1].state == BlockState::free) return "unmerged neighbours";
    if (!fake.contains(b.ptr, b.size)) return "a block outside the device's memory";
    if (b.state != BlockState::direct && b.size % kMinBlock != 0) return "a block of odd size";
    if (segments.emplace(b.segment, b.segment_size).second) reserved += b.segment_size;
    segments[b.segment] -= b.size;
    if (b.state == BlockState::in_use || b.state == BlockState::direct) {
      allocated += b.size;
      requested += b.requested;
      if (b.requested > b.size) return "a block smaller than the request";
    } else if (b.state == BlockState::pending) {
      pending += b.size;
    } else if (b.state == BlockState::free) {
      ++cached;
      largest = std::max(largest, b.size);
    } else {
      return "a block left in a front";
    }
  }
  for (const auto& [p, rest] : segments) {
    if (rest != 0) return "blocks do not add up to their segment";
  }
  if (s.allocated != allocated) return "allocated";
  if (s.requested != requested) return "requested";
  if (s.active != allocated + pending) return "active";
  if (s.reserved != reserved || fake.used() != reserved) return "reserved";
  if (s.cached_blocks != cached) return "cached_blocks";
  if (s.largest_free_block != largest) return "largest_free_block";
  // Ranges of addresses count as segments, whatever part of them has memory.
  const bool ranges = fake.virtual_memory() != nullptr;
  if (!ranges && s.segments != static_cast<int64_t>(segments.size())) return "segments";
  if (fake.errors() != 0) return "misuse of the device's memory";
  return {};
}

}  // namespace tenon::testing

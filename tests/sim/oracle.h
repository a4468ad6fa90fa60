// SPDX-License-Identifier: Apache-2.0
// What an allocator must have done, computed without it: every live allocation, who uses freed ones still, all sums.
// Throws Violation.
#pragma once

#include <tenon/memory/caching_allocator.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/oracle_memory.h"
#include "tests/sim/violation.h"

namespace tenon::testing {

/// An allocation the program holds, or held and some stream still uses.
struct Held {
  memory::Block* block;
  char* ptr;
  int64_t bytes, size;
  Stream owner;
  std::vector<Stream> recorded;
  std::shared_ptr<std::map<int32_t, int>> queued =
      std::make_shared<std::map<int32_t, int>>();  // uses not run, by stream
  bool droppable = false;

  bool used_elsewhere(int32_t stream) const {
    return std::any_of(queued->begin(), queued->end(), [&](auto& q) { return q.second > 0 && q.first != stream; });
  }
  bool used() const { return used_elsewhere(-1); }
};

class Oracle {
 public:
  explicit Oracle(OracleMemory& memory) : memory_(memory) {
    memory.check_release = [this](char* p, int64_t bytes) {
      for (const auto& [at, held] : live) {
        if (at < p + bytes && p < at + held.size) memory_.wrong = "gave memory in use back to the device";
      }
    };
  }

  Held& add(memory::Block* block, int64_t bytes, const Stream& stream) {
    Held h{block, block->ptr, bytes, block->size, stream, {}};
    require(reinterpret_cast<uintptr_t>(h.ptr) % 512 == 0 && h.size >= bytes, "misaligned or too small");
    require(memory_.covers(h.ptr, h.size), "a block outside of the memory the device gave");
    require(block->pool->stream.id() == stream.id(), "a block of another stream's pool: wanted ", stream.id(), ", got ",
            block->pool->stream.id());
    const auto after = live.lower_bound(h.ptr);
    require(after == live.end() || h.ptr + h.size <= after->first, "overlaps the next live block");
    require(after == live.begin() || std::prev(after)->first + std::prev(after)->second.size <= h.ptr,
            "overlaps the previous live block");
    std::erase_if(dead_, [](const Held& d) { return !d.used(); });
    for (const Held& d : dead_) {
      if (d.ptr >= h.ptr + h.size || h.ptr >= d.ptr + d.size) continue;
      require(!d.used_elsewhere(stream.id()), "reused while another stream's work is still queued");
    }
    allocated += h.size;
    requested += bytes;
    peak = std::max(peak, allocated);
    ++allocations;
    return live.emplace(h.ptr, std::move(h)).first->second;
  }
  /// To be called before the block is freed.
  void remove(char* ptr) {
    const auto at = live.find(ptr);
    allocated -= at->second.size;
    requested -= at->second.bytes;
    ++frees;
    if (at->second.used()) dead_.push_back(std::move(at->second));
    live.erase(at);
  }
  /// The allocator's books against ours.
  void check(memory::CachingAllocator& allocator) {
    require(memory_.wrong.empty(), memory_.wrong);
    const memory::MemoryStats s = allocator.stats();
    const auto same = [](const char* what, int64_t got, int64_t expected) {
      require(got == expected, "statistics: ", what, " is ", got, ", should be ", expected);
    };
    same("allocated", s.allocated, allocated);
    same("requested", s.requested, requested);
    same("peak_allocated", s.peak_allocated, peak);
    same("reserved", s.reserved, memory_.used);
    same("allocations", s.allocations, allocations);
    same("frees", s.frees, frees);
    if (memory_.reserved == 0) {  // expandable segments count as one each
      same("segments_allocated", s.segments_allocated, memory_.given);
      same("segments_released", s.segments_released, memory_.taken);
    }
    int64_t in_use = 0, pending = 0, free_blocks = 0, largest = 0;
    const char* at = nullptr;
    const void* segment = nullptr;
    int64_t left = 0, total = 0;
    for (const memory::BlockInfo& b : allocator.blocks()) {
      const char* const ptr = static_cast<const char*>(b.ptr);
      if (b.segment != segment) {
        require(left == 0, "a segment is not covered by its blocks");
        char* const begin = static_cast<char*>(const_cast<void*>(b.segment));
        require(memory_.covers(begin, b.segment_size), "a segment the device did not give");
        total += b.segment_size;
        segment = b.segment;
        at = static_cast<const char*>(segment);
        left = b.segment_size;
      }
      require(ptr == at && b.size <= left, "blocks do not tile their segment");
      at += b.size;
      left -= b.size;
      const auto held = live.find(const_cast<char*>(ptr));
      const bool used = b.state == memory::BlockState::in_use || b.state == memory::BlockState::direct;
      require(used == (held != live.end()),
              used ? "a block is lost: in use without a holder" : "a held block is not in use");
      if (used)
        require(held->second.size == b.size && held->second.bytes == b.requested, "a held block has other sizes");
      if (used) require(held->second.owner.id() == b.stream, "a block changed its stream");
      in_use += used;
      pending += b.state == memory::BlockState::pending ? b.size : 0;
      if (b.state == memory::BlockState::free || b.state == memory::BlockState::front) {
        ++free_blocks;
        largest = std::max(largest, b.size);
      }
    }
    require(left == 0, "a segment is not covered by its blocks");
    same("bytes of all segments", total, memory_.used);
    same("blocks in use", in_use, static_cast<int64_t>(live.size()));
    same("active", s.active, allocated + pending);
    same("cached_blocks", s.cached_blocks, free_blocks);
    same("largest_free_block", s.largest_free_block, largest);
  }

  /// The largest idle segment of the large pool.
  static int64_t largest_idle(memory::CachingAllocator& allocator) {
    int64_t largest = 0;
    for (const memory::BlockInfo& b : allocator.blocks())
      if (b.state == memory::BlockState::free && b.size == b.segment_size && !b.small && !b.expandable)
        largest = std::max(largest, b.size);
    return largest;
  }
  /// What the device was asked in one allocation: it refused, the callbacks had their chance, then memory went back, and
  /// no more than one segment where one was `idle` that suffices.
  void check_order(int64_t bytes, int64_t idle) const {
    const std::string& log = memory_.log;
    const std::size_t refused = log.find_first_of("xf"), back = log.find('r');
    if (back == std::string::npos) return;
    require(refused < back, "memory went back before the device refused: ", log);
    require(log.find('c') < back, "memory went back before the callbacks ran: ", log);
    const bool suffices = idle >= bytes + bytes / 4 + (2 << 20) && log.find('f') == std::string::npos;
    require(!suffices || std::count(log.begin(), log.end(), 'r') == 1, "one segment would have done: ", log);
  }
  /// After an out-of-memory error nothing idle may be left, and no events to wait for.
  void check_exhausted(memory::CachingAllocator& allocator) const {
    require(memory_.log.find('c') != std::string::npos, "out of memory, and no callback ran");
    std::map<const void*, int> busy;
    for (const memory::BlockInfo& b : allocator.blocks()) {
      require(b.state != memory::BlockState::pending, "out of memory, and a block still waits for an event");
      busy[b.segment] += b.state != memory::BlockState::free;
    }
    for (const auto& [segment, n] : busy) require(n > 0, "out of memory, and an idle segment was kept");
  }

  std::map<char*, Held> live;
  int64_t allocated = 0, requested = 0, peak = 0, allocations = 0, frees = 0;

 private:
  OracleMemory& memory_;
  std::vector<Held> dead_;
};

}  // namespace tenon::testing

// SPDX-License-Identifier: Apache-2.0
// What the caching allocator keeps its books in: a Segment is one piece of raw memory, cut into Blocks that
// tile it without gaps; a StreamUse says that another stream works on a block. The books live outside the
// memory they describe, so device memory needs no header and a poisoned block is never touched.
// Internal: not for users' files.
#pragma once

#include <tenon/streams/event.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace tenon::memory {

struct Block;
struct StreamPool;

/// One piece of memory obtained from RawMemory, or (expandable) a range of addresses with memory behind part of it.
struct Segment {
  StreamPool* pool;
  char* ptr;
  int64_t size;     ///< bytes of memory
  int64_t range;    ///< bytes of addresses; more than `size` only when expandable
  Block* first;     ///< the block at its start; the others follow by Block::next and tile the range
  Block* unmapped;  ///< blocks without memory, by Block::list_next
  Segment* prev;    ///< the segments of the pool
  Segment* next;
  int32_t stream;  ///< id of its pool's
  bool small;      ///< serves the small pool
  bool direct;     ///< one exact block, given back when freed
  bool expandable;
};

/// A stream other than the block's own that uses it. While the block is in use only `stream` counts; when it
/// is freed, `event` marks the work to wait for.
struct StreamUse {
  Stream stream;
  Event event;
  Block* block = nullptr;
  StreamUse* next = nullptr;
};

enum class BlockState : uint8_t {
  in_use,
  direct,    ///< in use, from backend:direct: a segment of its own, given back at once
  front,     ///< freed, in the front of its pool, not yet merged
  free,      ///< in a free list
  pending,   ///< freed, but other streams' events are outstanding
  unmapped,  ///< addresses of an expandable segment, without memory
  mapping,   ///< its pages are just being mapped or unmapped
  held,      ///< free, but reserved for the thread that maps the pages beside it
};

/// The first cache line is all that the hot path touches.
struct alignas(64) Block {
  StreamPool* pool;
  char* ptr;
  int64_t size;
  int64_t requested;  ///< what the caller asked for, while in use
  Block* list_next;   ///< free list or front
  StreamUse* uses;
  int32_t pending;  ///< outstanding events
  BlockState state;
  bool small;  ///< its segment's

  Block* list_prev;
  Block* prev;  ///< neighbours in the segment
  Block* next;
  Segment* segment;
  Block* left;  ///< tree of sizes
  Block* right;
  uint32_t priority;
  int32_t freed_at;  ///< the allocator's epoch when it became free
};

/// Descriptors of one type, carved from chunks and recycled; a take costs a malloc once in 64 times.
template <class T>
class Slab {
  union Cell {
    Cell* next;
    alignas(T) unsigned char bytes[sizeof(T)];
  };
  static constexpr int kCells = 64;

 public:
  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() {
    for (Cell* chunk : chunks_) delete[] chunk;
  }
  /// A zeroed T.
  T* take() {
    if (!free_) refill();
    Cell* cell = free_;
    free_ = cell->next;
    return ::new (static_cast<void*>(cell)) T{};
  }
  void give(T* p) noexcept {
    Cell* cell = ::new (static_cast<void*>(p)) Cell;
    cell->next = free_;
    free_ = cell;
  }

 private:
  void refill() {
    chunks_.reserve(chunks_.size() + 1);
    Cell* chunk = new Cell[kCells];
    chunks_.push_back(chunk);
    for (int i = kCells - 1; i >= 0; --i) {
      chunk[i].next = free_;
      free_ = &chunk[i];
    }
  }
  Cell* free_ = nullptr;
  std::vector<Cell*> chunks_;
};

}  // namespace tenon::memory

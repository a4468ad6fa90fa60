// SPDX-License-Identifier: Apache-2.0
// Which streams touched a block of memory, kept while stream safety is on (streams/safety.h).
//
// Note [Access records]. A block's record lists the last accesses by stream, kind and range of bytes; whatever a later
// one covers is dropped. Being handed out begins a new list and counts as a write by the stream it is for: whatever that
// stream did to the memory before, and whatever the operator that asked does to it, comes before others that wait for it.
// Note [Reuse]. Memory returns to the pool of its own stream and is handed out there without waiting. So when a block
// goes back, every other stream that touched it must come before its own stream's next work, or be known from
// record_stream. The first such access leaves a mark among the block's uses (StreamUse::inferred), which sends the free
// the slow way. There, with `automatic`, record_stream is called for whoever is still unordered, at no earlier point, so
// that a join in between leaves nothing behind. With `check` the range is listed as suspect, and the next allocation of
// any of it, unless its stream has waited by then, throws RaceError. A pool with suspects serves nothing from its front.
// Internal: not for users' files. Thread safety: everything, from any thread.
#pragma once

#include <tenon/core/storage.h>
#include <tenon/memory/block.h>
#include <tenon/streams/order.h>

#include <span>
#include <string>
#include <string_view>

namespace tenon::memory {

inline constexpr int kSiteFrames = 32;
struct AccessSite {
  void* frames[kSiteFrames];
  int depth = 0;
};

struct MemoryAccess {
  detail::StreamPoint point;
  bool write;
  uint32_t site;   ///< number of its stack, 0: none was kept
  const char* op;  ///< ended by a parenthesis or the text's end; static
  int64_t begin, end;
};

struct AccessRecord {
  std::vector<MemoryAccess> list;
  bool foreign = false;  ///< another stream than the block's own is among them
  Event landed;          ///< of page-locked memory: behind the last copy to it
};

/// What an operator is about to do to one storage.
struct Touch {
  StorageImpl* storage;
  Stream stream;  ///< of a device; the default stream of the CPU stands for the host
  int64_t begin, end;
  bool write;
  std::string_view argument;  ///< for messages; may be empty
};

/// Whether stream safety knows what happens to the memory.
bool is_tracked(const StorageImpl* storage) noexcept;
/// Orders the touches after what came before, or throws RaceError, and notes them. `op`: static.
TENON_API void touch(std::span<const Touch> touches, const char* op);
/// The block was just handed out for `stream`; nobody else knows it yet.
void touch_fresh(Block* block, const Stream& stream) noexcept;
/// Host memory that a copy queued on `stream` will write to: readers on the host wait, or are told.
TENON_API void note_landing(StorageImpl* storage, const Stream& stream);

/// Memory that was given back while a stream that nobody told of may still use it. The list is under the lock of the
/// streams' order.
struct Suspects {
  struct Range {
    const char *begin, *end;
    MemoryAccess access;
    Stream stream;
  };
  std::vector<Range> list;
  bool any = false;  ///< atomic

  bool empty() const { return !__atomic_load_n(&any, __ATOMIC_ACQUIRE); }
  /// After a change of the list.
  void count() { __atomic_store_n(&any, !list.empty(), __ATOMIC_RELEASE); }
  /// The device was waited for.
  void forget(const char* begin, int64_t bytes) noexcept;
};
/// Ends a block's record.
void drop_accesses(Block* block) noexcept;

}  // namespace tenon::memory

// SPDX-License-Identifier: Apache-2.0
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/history.h>
#include <tenon/memory/snapshot.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace tenon::memory {
namespace {

SnapshotBlockState public_state(BlockState state) {
  switch (state) {
    case BlockState::in_use:
    case BlockState::direct:
      return SnapshotBlockState::in_use;
    case BlockState::pending:
      return SnapshotBlockState::pending;
    default:
      return SnapshotBlockState::free;
  }
}

}  // namespace

SnapshotAllocator describe_allocator(const AllocatorEntry& entry, const HistoryView& history) {
  CachingAllocator& allocator = *entry.allocator;
  SnapshotAllocator a;
  a.name = entry.pinned ? "pinned" : allocator.device().str();
  a.source = allocator.raw()->name();
  a.settings = allocator.settings_text();
  int64_t free = 0;
  try {
    allocator.raw()->info(free, a.total);
  } catch (const Error&) {  // CUDA in a forked child: the books are there, the device is not
  }
  if (!entry.pinned) a.tape_bytes = tape_bytes(allocator.device());
  a.virtual_memory = allocator.raw()->virtual_memory() != nullptr;
  a.stats = allocator.stats();
  const void* last = nullptr;
  for (const BlockInfo& b : allocator.blocks()) {
    if (a.segments.empty() || b.segment != last) {
      last = b.segment;
      a.segments.push_back({reinterpret_cast<uint64_t>(b.segment), b.segment_size, b.stream, b.small, {}});
    }
    SnapshotBlock block{reinterpret_cast<uint64_t>(b.ptr), b.size, b.requested, public_state(b.state), -1, -1};
    if (block.state != SnapshotBlockState::free) {
      if (const auto known = history.live.find(HistoryRecorder::key(allocator.device(), b.ptr));
          known != history.live.end()) {
        block.stack = known->second.stack;
        block.op = known->second.op;
      }
    }
    a.segments.back().blocks.push_back(block);
  }
  return a;
}

const char* name(SnapshotBlockState state) {
  constexpr const char* kNames[] = {"in use", "free", "pending"};
  return kNames[static_cast<int>(state)];
}

const char* name(AllocatorEventKind kind) {
  constexpr const char* kNames[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                    "segment_free", "segment_map",    "segment_unmap",  "out_of_memory"};
  return kNames[static_cast<int>(kind)];
}

namespace {

struct AtOutOfMemoryPath {
  std::mutex mutex;  // also: one file is written at a time
  std::string path;
};
AtOutOfMemoryPath& at_out_of_memory_path() {
  static auto* value = new AtOutOfMemoryPath;  // never destroyed: memory may run out at exit
  return *value;
}

std::string save_at_out_of_memory(CachingAllocator& allocator) {
  const std::vector<AllocatorEntry> all = existing_allocators();
  // A replay runs out of memory for show.
  if (std::none_of(all.begin(), all.end(), [&](const auto& e) { return e.allocator == &allocator; })) return {};
  AtOutOfMemoryPath& to = at_out_of_memory_path();
  std::lock_guard lock(to.mutex);
  if (to.path.empty()) return {};
  try {
    save_memory_snapshot(to.path);
    return "\nsnapshot: " + to.path;
  } catch (const std::exception& e) {  // the error that is about to be thrown matters more
    return std::string("\nsnapshot: ") + e.what();
  }
}

}  // namespace

void snapshot_on_out_of_memory(const std::string& path) {
  AtOutOfMemoryPath& to = at_out_of_memory_path();
  std::lock_guard lock(to.mutex);
  to.path = path;
  set_at_out_of_memory(path.empty() ? nullptr : &save_at_out_of_memory);
}

MemorySnapshot memory_snapshot() {
  MemorySnapshot snapshot;
  const HistoryView history = HistoryRecorder::get().view();
  const std::vector<AllocatorEntry> allocators = existing_allocators();
  for (const AllocatorEntry& entry : allocators) snapshot.allocators.push_back(describe_allocator(entry, history));
  snapshot.operators = history.operators;
  snapshot.dropped_events = history.dropped;
  snapshot.events.reserve(history.events.size());
  for (const HistoryView::Event& recorded : history.events) {
    SnapshotEvent event = recorded.event;
    event.allocator = -1;
    for (size_t i = 0; i < allocators.size(); ++i) {
      if (allocators[i].allocator->device() == recorded.device &&
          std::strcmp(allocators[i].allocator->raw()->name(), recorded.memory) == 0) {
        event.allocator = static_cast<int32_t>(i);
      }
    }
    if (event.allocator >= 0) snapshot.events.push_back(event);  // others are allocators of tests, already gone
  }
  std::unordered_map<void*, int32_t> ids;
  for (const std::vector<void*>& stack : history.stacks) {
    std::vector<int32_t>& list = snapshot.stacks.emplace_back();
    for (void* address : stack) {
      const auto [found, added] = ids.try_emplace(address, static_cast<int32_t>(snapshot.frames.size()));
      if (added) snapshot.frames.push_back(describe_frame(address));
      list.push_back(found->second);
    }
  }
  return snapshot;
}

}  // namespace tenon::memory

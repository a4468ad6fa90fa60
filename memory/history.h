// SPDX-License-Identifier: Apache-2.0
// The recorder behind memory/snapshot.h: a ring of events, the stacks they came from, and the origin of every live
// block. Locks: an allocator's lock may be held when the recorder's is taken, never the other way round.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/snapshot.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::memory {

/// Who made a block: indices as in SnapshotBlock.
struct Origin {
  int32_t stack = -1, op = -1;
};

/// What a recorder knows, copied.
struct HistoryView {
  struct Event {
    SnapshotEvent event;
    Device device;
    const char* memory;  ///< RawMemory::name()
  };
  std::vector<Event> events;
  int64_t dropped = 0;
  std::vector<std::string> operators;
  std::vector<std::vector<void*>> stacks;
  std::unordered_map<uint64_t, Origin> live;  ///< by key()
};

/// An allocator's part of the snapshot; blocks get the origins that `history` knows.
SnapshotAllocator describe_allocator(const AllocatorEntry& entry, const HistoryView& history);

class HistoryRecorder final : public AllocatorObserver {
 public:
  static HistoryRecorder& get();
  /// A live block's key: simulated devices may have the same addresses.
  static uint64_t key(Device device, const void* ptr) {
    return reinterpret_cast<uint64_t>(ptr) ^ (static_cast<uint64_t>(device.type()) << 60) ^
           (static_cast<uint64_t>(device.index()) << 56);
  }

  void turn(bool on, int64_t max_entries, bool stacks);
  HistoryView view();
  void before(AllocatorEventKind kind, int64_t bytes) override;
  void on_event(const AllocatorEvent& event) noexcept override;

 private:
  // All of it under `mutex`. A forked child starts with a new one: the old one may be in the middle of a change.
  struct State {
    std::mutex mutex;
    bool on = false;
    bool stacks = true;  ///< atomic
    size_t capacity = 0;
    int64_t recorded = 0;
    std::chrono::steady_clock::time_point start;
    std::vector<HistoryView::Event> ring;
    std::unordered_map<uint64_t, Origin> live;
    std::vector<std::string> operators;
    std::unordered_map<std::string, int32_t> operator_ids;
    std::vector<std::vector<void*>> stack_list;
    std::unordered_map<std::string, int32_t> stack_ids;  ///< by the bytes of the addresses
  };
  HistoryRecorder();
  State* state_;
};

}  // namespace tenon::memory

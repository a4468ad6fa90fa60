// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/stack_trace.h>
#include <tenon/memory/history.h>
#include <tenon/streams/op_context.h>

#include <pthread.h>

#include <algorithm>
#include <cstring>

namespace tenon::memory {
namespace {

// Made by before(), used by the events that follow it in the same thread, spent by the one it was made for.
constinit thread_local Origin current;

}  // namespace

HistoryRecorder::HistoryRecorder() : state_(new State) {
  pthread_atfork(nullptr, nullptr, [] { get().state_ = new State; });
}

HistoryRecorder& HistoryRecorder::get() {
  static auto* recorder = new HistoryRecorder;  // never destroyed: memory is freed after static objects are gone
  return *recorder;
}

void HistoryRecorder::turn(bool on, int64_t max_entries, bool stacks) {
  TENON_CHECK(!on || max_entries > 0, ValueError, "record_memory_history: max_entries: expected above 0, got ",
              max_entries);
  {
    State& s = *state_;
    std::lock_guard lock(s.mutex);
    s.on = on;
    __atomic_store_n(&s.stacks, stacks, __ATOMIC_RELAXED);
    s.capacity = static_cast<size_t>(max_entries);
    s.recorded = 0;
    s.start = std::chrono::steady_clock::now();
    s.ring = {};
    if (on) s.ring.reserve(std::min<size_t>(s.capacity, 1 << 17));
    s.live.clear();
    s.operators.clear();
    s.operator_ids.clear();
    s.stack_list.clear();
    s.stack_ids.clear();
  }
  void* warm[1];
  capture_stack(warm, 1);  // the first stack loads the unwinder
  set_allocator_observer(on ? this : nullptr);
}

void HistoryRecorder::before(AllocatorEventKind, int64_t) {
  current = {};
  const std::string op(current_operator ? current_operator : "",
                       current_operator ? std::strcspn(current_operator, "(") : 0);
  void* frames[kMaxStackFrames];
  const int depth = __atomic_load_n(&state_->stacks, __ATOMIC_RELAXED) ? capture_stack(frames, kMaxStackFrames) : 0;
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  if (!s.on) return;
  if (!op.empty()) {
    const auto [found, added] = s.operator_ids.try_emplace(op, static_cast<int32_t>(s.operators.size()));
    if (added) s.operators.push_back(op);
    current.op = found->second;
  }
  if (depth > 0) {
    const std::string bytes(reinterpret_cast<const char*>(frames), static_cast<size_t>(depth) * sizeof(void*));
    const auto [found, added] = s.stack_ids.try_emplace(bytes, static_cast<int32_t>(s.stack_list.size()));
    if (added) s.stack_list.emplace_back(frames, frames + depth);
    current.stack = found->second;
  }
}

void HistoryRecorder::on_event(const AllocatorEvent& event) noexcept {
  using Kind = AllocatorEventKind;
  try {
    Origin origin = current;
    if (event.kind == Kind::free_completed) origin = {};  // perhaps in another thread than the one that freed it
    if (event.kind == Kind::alloc || event.kind == Kind::free_requested) current = {};
    State& s = *state_;
    std::lock_guard lock(s.mutex);
    if (!s.on) return;
    HistoryView::Event entry;
    entry.device = event.device;
    entry.memory = event.memory;
    SnapshotEvent& e = entry.event;
    e.kind = event.kind;
    e.stream = event.stream;
    e.stack = origin.stack;
    e.op = origin.op;
    e.address = reinterpret_cast<uint64_t>(event.ptr);
    e.size = event.size;
    e.requested = event.requested;
    e.microseconds =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - s.start).count();
    if (s.ring.size() < s.capacity) {
      s.ring.push_back(entry);
    } else {
      s.ring[static_cast<size_t>(s.recorded) % s.capacity] = entry;
    }
    ++s.recorded;
    if (event.kind == Kind::alloc) s.live.insert_or_assign(key(event.device, event.ptr), origin);
    if (event.kind == Kind::free_completed) s.live.erase(key(event.device, event.ptr));
  } catch (const std::bad_alloc&) {  // an event is lost; the allocation it tells of is not
  }
}

HistoryView HistoryRecorder::view() {
  HistoryView view;
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  const size_t kept = s.ring.size();
  const size_t oldest = kept < s.capacity || kept == 0 ? 0 : static_cast<size_t>(s.recorded) % s.capacity;
  view.events.reserve(kept);
  for (size_t i = 0; i < kept; ++i) view.events.push_back(s.ring[(oldest + i) % kept]);
  view.dropped = s.recorded - static_cast<int64_t>(kept);
  view.operators = s.operators;
  view.stacks = s.stack_list;
  view.live = s.live;
  return view;
}

void record_memory_history(bool enabled, int64_t max_entries, bool stacks) {
  HistoryRecorder::get().turn(enabled, max_entries, stacks);
}

}  // namespace tenon::memory

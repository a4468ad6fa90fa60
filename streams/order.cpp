// SPDX-License-Identifier: Apache-2.0
#include <tenon/streams/order.h>

#include <pthread.h>

#include <algorithm>
#include <unordered_map>

namespace tenon::detail {

constinit bool order_tracked = false;

namespace {

constexpr uint32_t kMaxStreams = 4096;       // at one time
constinit uint32_t ticks[kMaxStreams] = {};  // by number; written under the lock, read without

struct Row {
  Stream stream;
  bool retired = false;
  StreamClock clock;
};
struct Mark {
  DeviceType type;
  StreamClock clock;
};
struct State {
  std::mutex mutex;
  std::vector<Row> rows;
  StreamClock done;
  std::unordered_map<void*, Mark> events;
};
State& state() {
  static State* const instance = new State;  // streams may outlive every static object
  return *instance;
}
[[maybe_unused]] const int fork_handler =
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); }, [] { state().mutex.unlock(); });

uint32_t at(const StreamClock& clock, uint32_t i) { return i < clock.size() ? clock[i] : 0; }
void raise(StreamClock& clock, uint32_t i, uint32_t tick) {
  if (i >= clock.size()) clock.resize(i + 1);
  clock[i] = std::max(clock[i], tick);
}
void raise(StreamClock& clock, const StreamClock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}
void advance(uint32_t number) { __atomic_store_n(&ticks[number], ticks[number] + 1, __ATOMIC_RELEASE); }

// The clock of what is queued on the row's stream; later work has a later tick.
void mark(State& s, uint32_t number, StreamClock& into) {
  Row& row = s.rows[number];
  raise(row.clock, number, ticks[number]);
  raise(into, row.clock);
  advance(number);
}

uint32_t find(State& s, const Stream& stream) {
  struct Recent {
    Stream stream;
    uint32_t number;
    bool known;
  };
  static thread_local Recent recent[4];
  Recent& r = recent[(static_cast<uint32_t>(stream.id()) >> 2) & 3u];
  if (r.known && r.stream == stream && s.rows[r.number].stream == stream) return r.number;
  uint32_t free = ~0u, i = 0;
  for (; i < s.rows.size(); ++i) {
    if (s.rows[i].retired) free = i;
    if (!s.rows[i].retired && s.rows[i].stream == stream) break;
  }
  if (i == s.rows.size()) {
    if (free != ~0u) {
      i = free;
      s.rows[i].retired = false;
      s.rows[i].clock.clear();
    } else {
      TENON_CHECK(i < kMaxStreams, ValueError, "stream safety: more than ", static_cast<int>(kMaxStreams),
                  " streams at one time");
      s.rows.emplace_back();
      ticks[i] = 1;
    }
    s.rows[i].stream = stream;
  }
  r = {stream, i, true};
  return i;
}

void all_done(State& s, uint32_t number) {
  raise(s.done, number, ticks[number]);
  advance(number);
}

}  // namespace

std::mutex& StreamOrder::mutex() { return state().mutex; }

void StreamOrder::turn(bool on) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (on && !order_tracked) {
    s.events.clear();
    for (uint32_t i = 0; i < s.rows.size(); ++i) all_done(s, i);
  }
  __atomic_store_n(&order_tracked, on, __ATOMIC_RELEASE);
}

uint32_t StreamOrder::number(const Lock&, const Stream& stream) { return find(state(), stream); }
uint32_t StreamOrder::tick(uint32_t stream) noexcept { return __atomic_load_n(&ticks[stream], __ATOMIC_ACQUIRE); }
bool StreamOrder::done(const Lock&, StreamPoint p) noexcept { return at(state().done, p.stream) >= p.tick; }
bool StreamOrder::passed(const Lock& lock, StreamPoint p, uint32_t by) noexcept {
  return p.stream == by || done(lock, p) || at(state().rows[by].clock, p.stream) >= p.tick;
}
Stream StreamOrder::stream_of(const Lock&, uint32_t number) { return state().rows[number].stream; }

void StreamOrder::recorded(DeviceType type, void* event, const Stream& stream) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  Mark& m = s.events[event];
  m.type = type;
  m.clock.clear();
  mark(s, find(s, stream), m.clock);
}
void StreamOrder::waits(const Stream& stream, void* event) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto found = s.events.find(event);
  if (found != s.events.end()) raise(s.rows[find(s, stream)].clock, found->second.clock);
}

StreamClock StreamOrder::ahead(const Stream& stream) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  StreamClock clock;
  mark(s, find(s, stream), clock);
  return clock;
}
StreamClock StreamOrder::ahead(Device device) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  StreamClock clock;
  for (uint32_t i = 0; i < s.rows.size(); ++i) {
    if (s.rows[i].stream.device() == device && !s.rows[i].retired) mark(s, i, clock);
  }
  return clock;
}
StreamClock StreamOrder::ahead(void* event) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto found = s.events.find(event);
  return found == s.events.end() ? StreamClock() : found->second.clock;
}
void StreamOrder::finished(const StreamClock& clock) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  raise(s.done, clock);
}

void StreamOrder::retire(const Stream& stream) noexcept {
  State& s = state();
  std::lock_guard lock(s.mutex);
  for (uint32_t i = 0; i < s.rows.size(); ++i) {
    if (s.rows[i].retired || !(s.rows[i].stream == stream)) continue;
    all_done(s, i);
    s.rows[i].retired = true;
  }
}
void StreamOrder::forget(DeviceType type) noexcept {
  State& s = state();
  std::lock_guard lock(s.mutex);
  for (uint32_t i = 0; i < s.rows.size(); ++i) {
    if (s.rows[i].stream.device().type() == type) all_done(s, i);
  }
  std::erase_if(s.events, [type](const auto& e) { return e.second.type == type; });
}

}  // namespace tenon::detail

// SPDX-License-Identifier: Apache-2.0
// The simulated device: scheduling, streams, events, copies. Faults and the public calls are in sim.cpp.
#include <tenon/streams/op_context.h>
#include <tenon/streams/sim_streams.h>
#include <tenon/streams/state.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tenon::sim {

using tenon::detail::thread_state;

namespace {

thread_local int current = 0;

// Moods of the seeded schedule: how many tasks run at a call, in 64ths of a chance for none, one, two to four, all.
struct Mood {
  uint64_t none, one, some;
};
constexpr Mood kMoods[] = {{60, 3, 1}, {32, 20, 11}, {8, 24, 28}, {48, 4, 4}};

}  // namespace

uint64_t SimStreams::draw(uint64_t below) {
  // splitmix64
  uint64_t z = random_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) % below;
}

void SimStreams::note(const VirtualStream* s, int device, const char* what, const char* name) {
  if (!options_.log) return;
  std::string line = std::to_string(clock_) + " sim:" + std::to_string(device);
  if (s) line += " stream " + std::to_string(s->number);
  const std::string_view text(name);
  line.append(" ").append(what).append(" ").append(text.substr(0, text.find('(')));
  log_.push_back(std::move(line));
}

// ---- scheduling ----

void SimStreams::push(VirtualStream& s, Task task) {
  if (s.number < 0) s.number = numbers_++;
  note(&s, s.device, "queue", task.name);
  s.queue.push_back(std::move(task));
  ++counters_.queued;
  if (!s.busy) {
    s.busy = true;
    busy_.push_back(&s);
  }
  if (options_.schedule == Schedule::eager) advance();
}

void SimStreams::execute(VirtualStream& s) {
  Task task = std::move(s.queue.front());
  s.queue.pop_front();
  if (s.queue.empty()) {
    s.busy = false;
    busy_.erase(std::find(busy_.begin(), busy_.end(), &s));
  }
  ++clock_;
  ++counters_.run;
  note(&s, s.device, "run", task.name);
  if (!task.run) {
    if (task.waits) return;
    task.mark->passed = true;
    task.mark->time = clock_;
    return;
  }
  running_ = s.running = true;
  std::exception_ptr error;
  mutex_.unlock();  // Note [Running tasks]
  {
    thread_state.in_task = true;
    const OpContext context(task.name);
    try {
      task.run();
    } catch (...) {
      error = std::current_exception();
    }
    task.run = nullptr;  // what it captured goes while nothing else is scheduled
    thread_state.in_task = false;
  }
  mutex_.lock();
  if (error && !errors_[s.device]) errors_[s.device] = error;  // the first one tells the cause
  running_ = s.running = false;
  idle_.notify_all();
}

void SimStreams::wait_idle() {
  TENON_CHECK(!thread_state.in_task, DeviceError, "sim: a kernel or a callback must not wait for a device");
  while (running_) idle_.wait(mutex_);
}

// While one lives, streams that are destroyed keep their place.
class SimStreams::Waiting {
 public:
  explicit Waiting(SimStreams& s) : streams_(s) { ++s.waiting_; }
  ~Waiting() {
    --streams_.waiting_;
    streams_.sweep();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  SimStreams& streams_;
};

void SimStreams::sweep() noexcept {
  if (waiting_ == 0) std::erase_if(gone_, [](const auto& s) { return s->queue.empty() && !s->running; });
}

// One task of a stream the seed chooses. `anyone`: also of a stream that is being starved.
bool SimStreams::step(bool anyone) {
  const std::size_t n = busy_.size();
  if (n == 0 || running_) return false;
  const std::size_t first = draw(n);
  for (std::size_t i = 0; i < n; ++i) {
    VirtualStream& s = *busy_[(first + i) % n];
    const Task& task = s.queue.front();
    if ((task.waits && !task.mark->passed) || (&s == starved_ && !anyone)) continue;
    execute(s);
    return true;
  }
  return false;
}

void SimStreams::advance() {
  if (thread_state.in_task || busy_.empty() || options_.schedule == Schedule::lazy) return;
  if (options_.schedule == Schedule::eager) {
    do wait_idle();
    while (step(true));
    return;
  }
  if (running_) return;  // another thread's task: this call goes on beside it
  if (draw(16) == 0) {
    mood_ = static_cast<int>(draw(std::size(kMoods)));
    starved_ = draw(2) == 0 ? busy_[draw(busy_.size())] : nullptr;
  }
  const Mood& mood = kMoods[mood_];
  const uint64_t chance = draw(64);
  if (chance < mood.none) return;
  uint64_t steps = chance < mood.none + mood.one ? 1 : chance < mood.none + mood.one + mood.some ? 2 + draw(3) : ~0u;
  while (steps-- > 0 && step(false)) {
  }
}

// The next task of `s`, or what it waits for. A mark is always queued before those who wait for it, so this ends.
void SimStreams::execute_for(VirtualStream& s) {
  if (options_.schedule == Schedule::seeded && draw(3) == 0 && step(true)) return;
  VirtualStream* at = &s;
  while (at->queue.front().waits && !at->queue.front().mark->passed) at = at->queue.front().mark->stream;
  execute(*at);
}

void SimStreams::reach(const std::shared_ptr<Mark>& mark) {
  const Waiting waiting(*this);
  for (wait_idle(); !mark->passed; wait_idle()) execute_for(*mark->stream);
}
void SimStreams::drain(VirtualStream& s) {
  const Waiting waiting(*this);
  for (wait_idle(); !s.queue.empty(); wait_idle()) execute_for(s);
}
void SimStreams::drain_device(int device) {
  const Waiting waiting(*this);
  for (;;) {
    wait_idle();
    const auto found = std::find_if(busy_.begin(), busy_.end(), [&](auto* s) { return s->device == device; });
    if (found == busy_.end()) return;
    execute_for(**found);
  }
}

void SimStreams::rethrow(int device) {
  if (errors_[device]) std::rethrow_exception(std::exchange(errors_[device], nullptr));
}

// ---- devices and streams ----

SimStreams::VirtualStream& SimStreams::find(int device, void* stream) {
  TENON_CHECK(device >= 0 && device < options_.devices, DeviceError, "sim: there are ", options_.devices,
              " simulated devices, got ordinal ", device);
  if (!stream) return defaults_[device];
  const auto found = streams_.find(stream);
  TENON_CHECK(found != streams_.end(), DeviceError, "sim: the stream was destroyed, or made before sim::configure");
  return *found->second;
}

int SimStreams::device_count() {
  std::lock_guard lock(mutex_);
  return options_.devices;
}
int SimStreams::current_device() {
  std::lock_guard lock(mutex_);
  return current = std::min(current, options_.devices - 1);
}
void SimStreams::set_device(int index) {
  std::lock_guard lock(mutex_);
  find(index, nullptr);
  current = index;
}

void* SimStreams::create_stream(int device, int) {
  std::lock_guard lock(mutex_);
  enter(CallKind::create_stream, device);
  auto made = std::make_unique<VirtualStream>();
  made->device = device;
  void* handle = nullptr;
  if (!free_handles_.empty()) {
    handle = free_handles_.back();
  } else {
    free_handles_.reserve(handles_made_ + 1);  // giving handles back must not throw
    handle = reinterpret_cast<void*>(64 * ++handles_made_);
    free_handles_.push_back(handle);
  }
  gone_.reserve(gone_.size() + streams_.size() + 1);  // nor destroying
  streams_[handle] = std::move(made);
  free_handles_.pop_back();
  return handle;
}

void SimStreams::destroy_stream(int, void* stream) noexcept {
  std::lock_guard lock(mutex_);
  auto found = streams_.find(stream);
  if (found != streams_.end() && !thread_state.in_task) {
    drain(*found->second);
    found = streams_.find(stream);  // the lock was dropped
  }
  if (found == streams_.end()) return;
  if (starved_ == found->second.get()) starved_ = nullptr;
  gone_.push_back(std::move(found->second));  // inside a task its work is still to be done
  streams_.erase(found);
  free_handles_.push_back(stream);
  sweep();
}

void SimStreams::synchronize_stream(int device, void* stream) {
  std::lock_guard lock(mutex_);
  enter(CallKind::synchronize, device);
  drain(find(device, stream));
  rethrow(device);
}
bool SimStreams::query_stream(int device, void* stream) {
  std::lock_guard lock(mutex_);
  enter(CallKind::query, device);
  const VirtualStream& s = find(device, stream);
  return s.queue.empty() && !s.running;
}
void SimStreams::synchronize_device(int device) {
  std::lock_guard lock(mutex_);
  enter(CallKind::synchronize, device);
  drain_device(device);
  rethrow(device);
}
void SimStreams::settle(int device) noexcept {
  std::lock_guard lock(mutex_);
  if (!thread_state.in_task) drain_device(device);
}
bool SimStreams::settle_stream(int device, void* stream) noexcept {
  std::lock_guard lock(mutex_);
  try {
    enter(CallKind::synchronize, device);
    drain(find(device, stream));
    return true;
  } catch (...) {
    return false;
  }
}
bool SimStreams::settle_device(int device) noexcept {
  std::lock_guard lock(mutex_);
  try {
    enter(CallKind::synchronize, device);
    drain_device(device);
    return true;
  } catch (...) {
    return false;
  }
}

// ---- events ----

void* SimStreams::create_event(int device, bool) {
  std::lock_guard lock(mutex_);
  enter(CallKind::create_event, device);
  return new VirtualEvent;
}
void SimStreams::destroy_event(int, void* event) noexcept { delete static_cast<VirtualEvent*>(event); }

void SimStreams::record_event(int device, void* event, void* stream) {
  std::lock_guard lock(mutex_);
  enter(CallKind::record_event, device);
  VirtualStream& s = find(device, stream);
  auto mark = std::make_shared<Mark>(Mark{&s});
  push(s, {"mark", nullptr, mark, false});
  static_cast<VirtualEvent*>(event)->mark = std::move(mark);
}
void SimStreams::wait_event(int device, void* stream, void* event) {
  std::lock_guard lock(mutex_);
  enter(CallKind::wait_event, device);
  VirtualStream& s = find(device, stream);
  const auto& mark = static_cast<VirtualEvent*>(event)->mark;
  if (mark && !mark->passed) push(s, {"wait", nullptr, mark, true});
}
bool SimStreams::query_event(int device, void* event) {
  std::lock_guard lock(mutex_);
  enter(CallKind::query, device);
  const auto& mark = static_cast<VirtualEvent*>(event)->mark;
  return !mark || mark->passed;
}
void SimStreams::synchronize_event(int device, void* event) {
  std::lock_guard lock(mutex_);
  enter(CallKind::synchronize, device);
  if (const auto mark = static_cast<VirtualEvent*>(event)->mark) reach(mark);
}
double SimStreams::elapsed_ms(int, void* start, void* end) {
  std::lock_guard lock(mutex_);
  const auto time = [](void* event) {
    const auto& mark = static_cast<VirtualEvent*>(event)->mark;
    return mark ? mark->time : 0;
  };
  return static_cast<double>(time(end) - time(start)) * 1e-3;  // a task takes a microsecond
}

// ---- work ----

void SimStreams::host_callback(int device, void* stream, Function<void()> f) {
  std::lock_guard lock(mutex_);
  enter(CallKind::callback, device);
  push(find(device, stream), {"callback", std::move(f), nullptr, false});
}
void SimStreams::launch(int device, void* stream, const char* name, Function<void()> kernel) {
  std::lock_guard lock(mutex_);
  enter(CallKind::launch, device);
  push(find(device, stream), {name, std::move(kernel), nullptr, false});
}

void SimStreams::fill(int device, void* stream, void* p, int64_t bytes, int value) noexcept {
  std::lock_guard lock(mutex_);
  try {
    push(find(device, stream),
         {"poison", [=] { std::memset(p, value, static_cast<std::size_t>(bytes)); }, nullptr, false});
  } catch (...) {  // the stream is gone, or there is no memory for the task
  }
}

SimStreams::Place SimStreams::place_of(const void* p) const {
  const char* const c = static_cast<const char*>(p);
  auto after = places_.upper_bound(c);
  if (after == places_.begin()) return Place::pageable;
  --after;
  return c < after->first + after->second.first ? after->second.second : Place::pageable;
}
void SimStreams::set_place(const void* p, int64_t bytes, Place place) {
  std::lock_guard lock(mutex_);
  if (bytes == 0) {
    places_.erase(static_cast<const char*>(p));
  } else {
    places_[static_cast<const char*>(p)] = {bytes, place};
  }
}

// As CUDA does: pageable memory is read before the call returns, and written before it returns.
void SimStreams::copy(int device, void* stream, void* to, const void* from, int64_t bytes) {
  std::lock_guard lock(mutex_);
  enter(CallKind::copy, device);
  VirtualStream& s = find(device, stream);
  const auto n = static_cast<std::size_t>(bytes);
  if (place_of(from) == Place::pageable && place_of(to) != Place::pageable) {
    std::vector<char> staged(static_cast<const char*>(from), static_cast<const char*>(from) + n);
    push(s,
         {"copy", [to, staged = std::move(staged)] { std::memcpy(to, staged.data(), staged.size()); }, nullptr, false});
    return;
  }
  push(s, {"copy", [to, from, n] { std::memcpy(to, from, n); }, nullptr, false});
  if (place_of(to) == Place::pageable && !thread_state.in_task) drain(s);
}

}  // namespace tenon::sim
